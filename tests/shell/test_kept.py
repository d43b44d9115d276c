"""Logs that a container's runtime or the journal keeps: their lines, by table, at every split, and by stand-ins on PATH."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eagletui.shell.kept import ENTRY, Kept, KeptDecoder, kept_log
from eagletui.shell.script import Command, Script
from eagletui.shell.scripts import KEPT_LOG
from tests.shell.sh import Reading, run, stream

CONTAINER = (
    b"2026-11-30T00:40:16.123456789Z [2026-11-30 00:40:16] server_args=1\n"
    b"2026-11-30T00:40:16.500000000Z \n"
    b"2026-11-30T00:40:17+01:00 2026-11-30T00:40:16Z said the log\n"
)


def test_the_lines_of_a_container() -> None:
    decoder = KeptDecoder("docker")
    first, second, third = decoder.decode(CONTAINER)
    assert (first.line, first.mark) == (b"[2026-11-30 00:40:16] server_args=1\n", "2026-11-30T00:40:16.123456789Z")
    assert first.at is not None
    assert (second.line, second.mark) == (b"\n", "2026-11-30T00:40:16.500000000Z")
    assert second.at == pytest.approx(first.at + 0.376544, abs=1e-5)
    assert third.line == b"2026-11-30T00:40:16Z said the log\n"
    assert third.at == pytest.approx(first.at + 0.876544 - 3600, abs=1e-5)
    assert decoder.complaint == ""


def test_a_line_longer_than_an_entry_is_one_line() -> None:
    stamp = b"2026-11-30T00:40:16.123456789Z "
    whole = b"a" * ENTRY + b"b" * ENTRY + b"c" * 10
    pieces = b"".join(stamp + whole[at : at + ENTRY] for at in range(0, len(whole), ENTRY))
    assert [kept.line for kept in KeptDecoder("docker").decode(pieces + b"\n")] == [whole + b"\n"]


def _entry(cursor: str, message: object) -> bytes:
    return (
        json.dumps({"__CURSOR": cursor, "__REALTIME_TIMESTAMP": "1700000000000000", "MESSAGE": message}).encode()
        + b"\n"
    )


def test_the_lines_of_the_journal() -> None:
    said = (
        _entry("s=1", "one") + _entry("s=2", [255, 0, 10]) + _entry("s=3", None) + b'{"no": "cursor"}\n[]\n-- Boot --\n'
    )
    decoder = KeptDecoder("unit")
    assert decoder.decode(said) == [
        Kept(b"one\n", "s=1", 1_700_000_000.0),
        Kept(b"\xff\x00\n\n", "s=2", 1_700_000_000.0),
        Kept(b"\n", "s=3", 1_700_000_000.0),
    ]
    assert decoder.complaint == '{"no": "cursor"}'


@pytest.mark.parametrize("kind", ["docker", "unit"])
def test_lines_at_every_split(kind: str) -> None:
    whole = CONTAINER if kind == "docker" else _entry("s=1", "one") + _entry("s=2", "two")
    expected = KeptDecoder(kind).decode(whole)
    for cut in range(len(whole) + 1):
        decoder = KeptDecoder(kind)
        assert decoder.decode(whole[:cut]) + decoder.decode(whole[cut:]) == expected


def test_what_a_tool_complains_of_is_kept() -> None:
    decoder = KeptDecoder("docker")
    assert decoder.decode(b"permission denied while trying to connect\nmore\n") == []
    assert decoder.complaint == "permission denied while trying to connect"
    decoder = KeptDecoder("docker")
    decoder.decode(b"Error: No such container")
    assert decoder.flush() == []
    assert decoder.complaint == "Error: No such container"


@given(
    st.sampled_from(["docker", "unit"]),
    st.lists(st.binary(max_size=60) | st.sampled_from([CONTAINER, b"{\n", b"[" * 99_000])),
)
def test_decoders_are_total(kind: str, chunks: list[bytes]) -> None:
    decoder = KeptDecoder(kind)
    for chunk in chunks:
        decoder.decode(chunk)
    assert decoder.flush() == []


TOOL = """#!/bin/sh
printf '%s\\n' "$0" "$@" >>"{folder}/argv"
echo "2026-11-30T00:40:16Z up"
sleep 60
"""


@pytest.mark.parametrize(
    ("kind", "since", "tool", "words"),
    [
        ("docker", "", "docker", ["logs", "--follow", "--timestamps", "--tail", "20000", "x; touch executed"]),
        ("podman", "T", "podman", ["logs", "--follow", "--timestamps", "--since", "T", "x; touch executed"]),
        ("unit", "", "journalctl", ["--follow", "--output=json", "--output-fields=MESSAGE", "--unit=x; touch executed", "--lines=20000"]),
        (
            "user-unit",
            "s=1",
            "journalctl",
            ["--follow", "--output=json", "--output-fields=MESSAGE", "--user-unit=x; touch executed", "--no-tail", "--after-cursor=s=1"],
        ),
    ],
)  # fmt: skip
@pytest.mark.parametrize("shell", ["dash", "bash-as-sh", "busybox"])
def test_the_tool_is_asked_and_ends_with_stdin(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, since: str, tool: str, words: list[str], shell: str
) -> None:
    programs = tmp_path / "programs"
    programs.mkdir()
    (programs / tool).write_text(TOOL.format(folder=tmp_path))
    (programs / tool).chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}{os.pathsep}{os.environ['PATH']}")
    with stream(kept_log(kind, "x; touch executed", since), tmp_path, shell) as process:
        _until(Reading(process), lambda said: b"up\n" in said)
    assert (tmp_path / "argv").read_text().splitlines()[1:] == words
    assert process.returncode == 0
    assert not (tmp_path / "executed").exists()


@pytest.mark.parametrize("shell", ["dash", "bash-as-sh", "busybox"])
def test_only_a_child_is_signalled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, shell: str) -> None:
    """The tool may have ended long before, and its number be somebody else's: here it is, by another parent."""
    programs = tmp_path / "programs"
    programs.mkdir()
    (programs / "docker").write_text("#!/bin/sh\nexec sleep 1\n")
    (programs / "docker").chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}{os.pathsep}{os.environ['PATH']}")
    with subprocess.Popen(["sleep", "60"]) as other:
        text = KEPT_LOG.text.replace('send TERM "$reader"', f"send TERM {other.pid}")
        assert text != KEPT_LOG.text
        time.sleep(0.03)  # start times count in ticks of 10 ms
        with stream(Command(Script("kept-log", text), ("docker", "x", "", "60")), tmp_path, shell) as process:
            assert process.stdout is not None
        assert process.returncode == 0
        assert other.poll() is None
        other.kill()


def _until(reader: Reading, enough: Callable[[bytes], bool]) -> None:
    said, end = b"", time.monotonic() + 10
    while not enough(said):
        assert time.monotonic() < end, said
        said += reader.more()
        time.sleep(0.02)


def test_no_tool_is_127(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    programs = tmp_path / "programs"
    programs.mkdir()
    for name in ("sh", "dd", "cat"):
        (programs / name).symlink_to(f"/bin/{name}")
    monkeypatch.setenv("PATH", str(programs))
    for kind in ("docker", "unit"):
        status, _, said = run(kept_log(kind, "x", ""), tmp_path)
        assert status == 127
        assert said.startswith(b"this login has no ")
