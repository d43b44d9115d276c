"""The record as JSON: it comes back as it was, masks everything, and any bytes are read without a complaint."""

from __future__ import annotations

import json
from dataclasses import fields

from hypothesis import given, settings
from hypothesis import strategies as st

from eagletui.servers.record import FORMAT, NAME, Record, encode_record, masked_environment, parse_record
from eagletui.shell.masking import MASK

words = st.text(st.characters(codec="utf-8"), max_size=12)
identities = st.tuples(st.integers(2, 2**31), st.integers(0, 2**63))
optional = st.none() | words
records = st.builds(
    Record,
    id=st.from_regex(r"[0-9A-Za-z][0-9A-Za-z-]{0,20}", fullmatch=True),
    kind=st.sampled_from(("start", "stop", "restart")),
    created=words, who=words, launcher=words.filter(bool), engine=optional, port=st.none() | st.integers(0, 65535),
    profile=optional, variant=optional, command=st.lists(words, max_size=5).map(tuple),
    environment=st.lists(st.tuples(words, words), max_size=4).map(tuple), cwd=optional, log=optional, boot=optional,
    keeper=st.none() | identities, process=st.none() | identities, family=st.lists(identities, max_size=4).map(tuple), step=optional,
    outcome=st.sampled_from(("running", "done", "failed", "aborted")), text=words, previous=optional, exit_status=st.none() | st.integers(0, 255),
    asked_to_stop=st.booleans(), ready_s=st.none() | st.floats(0, 1e6), diagnosis=optional,
    floor_mib=st.lists(st.tuples(words, st.integers(0, 2**30)), max_size=3).map(tuple), handle=optional,
    grace_s=st.none() | st.floats(0, 1e6), keep_leftovers=st.booleans(), stop_sent=st.none() | st.booleans(),
)  # fmt: skip


@settings(max_examples=60, deadline=None)
@given(records)
def test_a_record_comes_back(record: Record) -> None:
    """What was masked once stays as it is: so compared are records that were written before."""
    raw = encode_record(record)
    back = parse_record(raw)
    assert back is not None
    assert encode_record(back) == raw
    for field in fields(Record):
        if field.name not in {
            "command",
            "environment",
            "text",
            "diagnosis",
            "variant",
            "profile",
            "handle",
            "who",
            "cwd",
            "log",
        }:
            assert getattr(back, field.name) == getattr(record, field.name), field.name
    assert len(back.command) == len(record.command)
    assert len(back.environment) == len(record.environment)


def test_nothing_secret_is_in_it() -> None:
    secret = "hf_abcdefghijABCDEFGHIJ0123456789"
    record = Record(
        "1-a", "start", "2026-12-01T10:00:00Z", "me@c",
        command=("python", "-m", "sglang.launch_server", "--api-key", "opensesame", "--tp", "8", f"--hf-token={secret}"),
        environment=(("HF_TOKEN", "opensesame"), ("PATH", "/bin"), ("X", secret), ("DB", "http://me:opensesame@host/")),
        text=f"it said {secret}", diagnosis="Authorization: Bearer opensesame123", log="/logs/a\udcff.log",
    )  # fmt: skip
    raw = encode_record(record)
    assert secret.encode() not in raw
    assert b"opensesame" not in raw
    back = parse_record(raw)
    assert back is not None
    assert back.command[:4] == record.command[:4]
    assert back.command[4] == MASK
    assert dict(back.environment)["PATH"] == "/bin"
    assert dict(back.environment)["HF_TOKEN"] == MASK
    assert back.log == record.log  # bytes that are no text: it has to be found again
    assert masked_environment((("API_KEY", ""),)) == (("API_KEY", ""),)


@settings(deadline=None)
@given(st.binary(max_size=200) | st.lists(st.integers() | words).map(lambda it: json.dumps(it).encode()))
def test_any_bytes_are_read(raw: bytes) -> None:
    assert parse_record(raw) is None


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | words,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(words, inner, max_size=3),
    max_leaves=8,
)


@settings(max_examples=60, deadline=None)
@given(st.dictionaries(st.sampled_from([field.name for field in fields(Record)]), json_values))
def test_values_of_other_types_are_absent(data: dict[str, object]) -> None:
    record = parse_record(json.dumps({**data, "schema": f"{NAME}/{FORMAT}", "id": "1-a"}).encode())
    assert record is not None
    raw = encode_record(record)  # it would fail for a value of another type
    again = parse_record(raw)
    assert again is not None
    assert encode_record(again) == raw


def test_a_newer_one_is_shown_as_far_as_it_is_understood() -> None:
    record = Record("1-a", "restart", "2026-12-01T10:00:00Z", "me@client", port=30000)
    data = json.loads(encode_record(record)) | {"schema": f"{NAME}/{FORMAT + 1}", "kind": "migrate", "colour": "red"}
    newer = parse_record(json.dumps(data).encode())
    assert newer is not None
    assert newer.newer
    assert (newer.id, newer.port, newer.kind) == ("1-a", 30000, "start")
    assert parse_record(json.dumps(data | {"schema": "something/1"}).encode()) is None
    assert parse_record(json.dumps(data | {"id": ""}).encode()) is None
    assert parse_record(b"[" * 100_000) is None
    assert parse_record(b"1" * 100_000) is None
