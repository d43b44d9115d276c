"""The recording format: what is written comes back, whatever is cut off or unknown."""

from __future__ import annotations

import io
import json
import random
from pathlib import Path

import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from eagletui.nodes.recording import (
    LINE_LIMIT,
    Header,
    Player,
    Record,
    Recording,
    RecordingDecoder,
    RecordingError,
    RecordingWriter,
    load_recording,
    read_recording,
)

HEADER = Header("gpu-node", 1795999202.5, {"engine": "sglang"})
RECORDS = [
    Record(0.0, "log", bytes(range(256))),
    Record(1.25, "http", b"", {"path": "/health", "status": 503}),
    Record(2.0, "from-the-future", b"x", {"deep": {"er": [1, None]}}),
    Record(3.5, "log", "━ 12%\r".encode()),
]


def written(records: list[Record] = RECORDS, header: Header = HEADER) -> bytes:
    target = io.BytesIO()
    with RecordingWriter(target, header) as writer:
        for record in records:
            writer.write(record)
    return target.getvalue()


def compressed(*lines: object) -> bytes:
    text = b"".join((row if isinstance(row, bytes) else json.dumps(row).encode()) + b"\n" for row in lines)
    return zstandard.compress(text)


HEAD_ROW = {"schema": "eagletui.recording/1", "node": "n", "started": 5}


def read_or_none(data: bytes, name: str) -> Recording | None:
    """The recording, or None where it is none (any other exception fails the test)."""
    try:
        return read_recording(io.BytesIO(data), name)
    except RecordingError:
        return None


def test_what_is_written_comes_back() -> None:
    recording = read_recording(io.BytesIO(written()))
    assert recording.header == HEADER
    assert list(recording.records) == RECORDS
    assert recording.note is None
    assert [r.t for r in recording.channel("log")] == [0.0, 3.5]


def test_the_bytes_are_compressed_lines_of_json_with_the_schema_first() -> None:
    text = zstandard.ZstdDecompressor().decompressobj().decompress(written())
    first, second, *_ = text.splitlines()
    assert json.loads(first)["schema"] == "eagletui.recording/1"
    assert json.loads(second) == {"t": 0.0, "ch": "log", "d": bytes(range(256)).decode("latin-1")}


def test_every_split_gives_the_same() -> None:
    data = written()
    for cut in range(len(data) + 1):
        decoder = RecordingDecoder()
        records = decoder.decode(data[:cut]) + decoder.decode(data[cut:]) + decoder.flush()
        assert records == RECORDS
        assert decoder.note is None


def test_a_file_cut_off_anywhere_gives_its_whole_records_and_a_sentence() -> None:
    target = io.BytesIO()
    writer = RecordingWriter(target, HEADER)
    writer.flush()
    for record in RECORDS:
        writer.write(record)
        writer.flush()
    data = target.getvalue()  # never closed: the recorder was killed
    counts = []
    for end in range(len(data) + 1):
        recording = read_or_none(data[:end], "run.zst")
        if recording is None:
            continue
        assert list(recording.records) == RECORDS[: len(recording.records)]
        assert recording.note == "run.zst ends in the middle: the recorder was cut off. What is whole was read."
        counts.append(len(recording.records))
    assert counts == sorted(counts)
    assert counts[-1] == len(RECORDS)


def test_frames_that_follow_each_other_are_one_recording() -> None:
    more = zstandard.compress(b'{"t":9,"ch":"log","d":"more"}\n')
    recording = read_recording(io.BytesIO(written() + more))
    assert recording.records[-1] == Record(9.0, "log", b"more")
    assert recording.note is None


def test_damage_in_the_middle_keeps_what_came_before() -> None:
    noise = random.Random(1)  # incompressible, so that the file has many pieces
    records = [Record(float(n), "log", noise.randbytes(2000)) for n in range(50)]
    target = io.BytesIO()
    writer = RecordingWriter(target, HEADER)
    for record in records:
        writer.write(record)
        writer.flush()
    data = bytearray(target.getvalue())
    middle = len(data) // 2
    data[middle : middle + 400] = b"\xff" * 400
    recording = read_recording(io.BytesIO(data), "run.zst")
    assert 20 <= len(recording.records) <= 26
    assert list(recording.records) == records[: len(recording.records)]
    assert recording.note == "run.zst is damaged: what comes after the damage was left out."


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"", "ends before its first line"),
        (b"plain text, no zstd", "not zstandard-compressed"),
        (compressed({"hello": 1}), "no header"),
        (compressed([1]), "no header"),
        (compressed(b"not json"), "no header"),
        (compressed({"schema": "eagletui.recording/9"}), "another version (eagletui.recording/9"),
        (compressed({"schema": "eagletui.status/1"}), "no header"),
    ],
)
def test_what_is_no_recording_is_a_sentence(data: bytes, says: str) -> None:
    with pytest.raises(RecordingError) as caught:
        read_recording(io.BytesIO(data), "some/file")
    assert says in str(caught.value)
    assert "some/file" in str(caught.value)
    assert caught.value.exit_status == 2


def test_lines_that_are_no_records_are_skipped_and_counted() -> None:
    rows: list[object] = [
        {"t": True, "ch": "log"},
        {"t": 1},
        {"t": 1, "ch": 5},
        {"t": "1", "ch": "log"},
        {"t": 1, "ch": "log", "d": 7},
        {"t": 1, "ch": "log", "d": "\u2501"},
        b'{"t":1e999,"ch":"log"}',
        b'{"t":NaN,"ch":"log"}',
        b"\xff\xfe",
        b"[" * 100_000,
        7,
        {"t": 2, "ch": "log", "d": "kept"},
    ]
    recording = read_recording(io.BytesIO(compressed(HEAD_ROW, *rows)), "f")
    assert list(recording.records) == [Record(2.0, "log", b"kept")]
    assert recording.note == "f has 11 lines that are no records; they were left out."


def test_a_line_without_end_does_not_fill_the_memory() -> None:
    head = json.dumps(HEAD_ROW).encode() + b"\n" + b'{"t":1,"ch":"log","d":"ok"}\n'
    data = zstandard.compress(head + b"x" * (LINE_LIMIT + 10))
    recording = read_recording(io.BytesIO(data), "f")
    assert [r.data for r in recording.records] == [b"ok"]
    assert recording.note is not None
    assert "16 MiB" in recording.note


def test_records_out_of_order_are_sorted() -> None:
    recording = read_recording(
        io.BytesIO(compressed(HEAD_ROW, {"t": 2, "ch": "b"}, {"t": 1, "ch": "a"}, {"t": 2, "ch": "c"}))
    )
    assert [r.ch for r in recording.records] == ["a", "b", "c"]


def test_a_missing_file_is_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(RecordingError, match=r"nothing\.zst cannot be read: No such file"):
        load_recording(tmp_path / "nothing.zst")
    (tmp_path / "there.zst").write_bytes(written())
    assert load_recording(tmp_path / "there.zst").header == HEADER


def test_a_closed_writer_refuses() -> None:
    target = io.BytesIO()
    writer = RecordingWriter(target, HEADER)
    writer.close()
    size = len(target.getvalue())
    writer.close()
    writer.flush()
    assert len(target.getvalue()) == size
    with pytest.raises(ValueError, match="closed"):
        writer.write(RECORDS[0])


def test_the_player_gives_each_record_once_when_it_is_due() -> None:
    player = Player(RECORDS, began=100.0, speed=2.0)
    assert player.next_at() == 100.0
    assert player.due(99.9) == []
    assert player.due(100.0) == RECORDS[:1]
    assert player.next_at() == 100.625
    assert player.due(101.0) == RECORDS[1:3]
    assert player.due(50.0) == []
    before = player.done
    assert player.position(101.75) == 3.5
    assert player.due(101.75) == RECORDS[3:]
    assert (before, player.done) == (False, True)
    assert player.next_at() is None
    assert player.due(1e9) == []


@pytest.mark.parametrize("speed", [0.0, -1.0, float("nan")])
def test_a_speed_that_is_none_is_refused(speed: float) -> None:
    with pytest.raises(ValueError, match="above 0"):
        Player(RECORDS, began=0.0, speed=speed)


@settings(max_examples=50, deadline=None)
@given(st.binary(max_size=400))
def test_any_bytes_give_records_or_a_sentence(data: bytes) -> None:
    for source in (data, zstandard.compress(data), zstandard.compress(json.dumps(HEAD_ROW).encode() + b"\n" + data)):
        recording = read_or_none(source, "f")
        if recording is not None:
            assert all(isinstance(record, Record) for record in recording.records)


@settings(max_examples=50, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 10**6), st.text(min_size=1, max_size=5), st.binary(max_size=50)), max_size=8))
def test_any_records_come_back(rows: list[tuple[int, str, bytes]]) -> None:
    records = sorted((Record(t / 1000, ch, d) for t, ch, d in rows), key=lambda r: r.t)
    clean = [r for r in records if r.ch.encode("utf-8", "ignore").decode() == r.ch]
    assert list(read_recording(io.BytesIO(written(clean))).records) == clean
