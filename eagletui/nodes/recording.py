"""The recording format `eagletui.recording/1`: what came from a node, with its times, for --record and replay.

A file is zstandard-compressed NDJSON. The first line is the header, {"schema": "eagletui.recording/1", "node": …,
"started": unix seconds, …}; each further line is one record, {"t": seconds since `started`, "ch": channel, …}. Known
channels are "log", "http", "gpus" and "processes"; a reader hands on those it does not know. Raw bytes stand in "d" as
latin-1 text, so that every byte survives. Several zstandard frames may follow each other (a recording that was
appended to), and a file may end anywhere (the recorder was killed): what is whole is read, the rest is said in `note`.

Nothing here knows the time: it is an argument.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, Self

import zstandard

from eagletui.errors import EagletuiError

SCHEMA = "eagletui.recording/1"
READ_SIZE = 1 << 16
PIECE = 1 << 10
"""Bytes decompressed at once: what stands before a damage in the same piece is lost with it."""
LINE_LIMIT = 16 << 20
"""Bytes a line may have: the largest thing recorded is one `http` body, and those are kept to a few MiB."""
COMPRESSION_LEVEL = 10
"""Logs shrink about 15 times; higher levels gain a few per cent and take many times longer."""


class RecordingError(EagletuiError):
    """A recording that cannot be read at all, as a sentence."""


@dataclass(frozen=True, slots=True)
class Header:
    """The first line. `started` is unix seconds; `extra` is every other key."""

    node: str
    started: float
    extra: dict[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Record:
    """One thing that came at `t` seconds after the start on a channel.

    `data` are its raw bytes (empty when it has none), `extra` every other key.
    """

    t: float
    ch: str
    data: bytes = b""
    extra: dict[str, object] = field(default_factory=dict)


def encode_header(header: Header) -> bytes:
    """The header's line."""
    return _line({"schema": SCHEMA, "node": header.node, "started": header.started, **header.extra})


def encode_record(record: Record) -> bytes:
    """A record's line."""
    row: dict[str, object] = {"t": round(record.t, 3), "ch": record.ch, **record.extra}
    if record.data:
        row["d"] = record.data.decode("latin-1")
    return _line(row)


def _line(row: dict[str, object]) -> bytes:
    return json.dumps(row, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"


class RecordingDecoder:
    """Compressed bytes to records, at any split.

    `header` is there once its line was read; `note` says in a sentence what was left out (None: nothing); `skipped`
    counts lines that are no records.
    """

    def __init__(self, name: str = "the recording") -> None:
        self.header: Header | None = None
        self.note: str | None = None
        self.skipped = 0
        self._name = name
        self._frame = zstandard.ZstdDecompressor().decompressobj()
        self._tail = bytearray()
        self._broken = False

    def decode(self, chunk: bytes) -> list[Record]:
        """The records that are whole with this chunk.

        Raises RecordingError when this is no recording, or one of another version.
        """
        for at in range(0, len(chunk), PIECE):
            self._inflate(chunk[at : at + PIECE])
        *lines, rest = self._tail.split(b"\n")
        self._tail = rest
        if len(rest) > LINE_LIMIT:
            self._broken = True
            self.note = (
                f"{self._name} has a line of more than {LINE_LIMIT >> 20} MiB: it and what follows was left out."
            )
            self._tail = bytearray()
        return [record for line in lines if (record := self._read(bytes(line))) is not None]

    def flush(self) -> list[Record]:
        """The end came; a last line without its newline is torn and left out.

        Raises RecordingError when no header came at all.
        """
        if self.header is None:
            raise RecordingError(f"{self._name} is not a recording: it ends before its first line.")
        if self.note is None and (self._tail or not self._frame.eof):
            self.note = f"{self._name} ends in the middle: the recorder was cut off. What is whole was read."
        if self.note is None and self.skipped:
            self.note = f"{self._name} has {self.skipped} lines that are no records; they were left out."
        self._tail = bytearray()
        return []

    def _inflate(self, piece: bytes) -> None:
        while piece and not self._broken:
            if self._frame.eof:
                self._frame = zstandard.ZstdDecompressor().decompressobj()
            try:
                self._tail += self._frame.decompress(piece)
            except zstandard.ZstdError:
                if self.header is None and not self._tail:
                    raise RecordingError(f"{self._name} is not a recording: it is not zstandard-compressed.") from None
                self._broken = True
                self.note = f"{self._name} is damaged: what comes after the damage was left out."
            piece = self._frame.unused_data

    def _read(self, line: bytes) -> Record | None:
        if not line.strip():
            return None
        try:
            row = json.loads(line)
        except (ValueError, RecursionError):
            row = None
        if self.header is None:
            self.header = self._read_header(row)
            return None
        record = _record(row)
        if record is None:
            self.skipped += 1
        return record

    def _read_header(self, row: object) -> Header:
        schema = row.get("schema") if isinstance(row, dict) else None
        if not isinstance(row, dict) or not isinstance(schema, str) or not schema.startswith("eagletui.recording/"):
            raise RecordingError(f"{self._name} is not a recording: its first line is no header of one.")
        if schema != SCHEMA:
            raise RecordingError(f"{self._name} is a recording of another version ({schema[:40]}, not {SCHEMA}).")
        started, node = row.pop("started", 0.0), row.pop("node", "")
        del row["schema"]
        return Header(node if isinstance(node, str) else "", _number(started) or 0.0, row)


def _number(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if number - number == 0 else None  # neither NaN nor infinite


def _record(row: object) -> Record | None:
    if not isinstance(row, dict):
        return None
    t, ch, data = _number(row.pop("t", None)), row.pop("ch", None), row.pop("d", "")
    if t is None or not isinstance(ch, str) or not isinstance(data, str):
        return None
    try:
        return Record(t, ch, data.encode("latin-1"), row)
    except UnicodeEncodeError:
        return None


@dataclass(frozen=True, slots=True)
class Recording:
    """A whole recording in memory, for short ones. Records are in the order of their times."""

    header: Header
    records: tuple[Record, ...]
    note: str | None = None

    def channel(self, name: str) -> Iterator[Record]:
        """The records of one channel."""
        return (record for record in self.records if record.ch == name)


def read_recording(source: BinaryIO, name: str = "the recording") -> Recording:
    """Read all of an open binary file. Raises RecordingError."""
    decoder = RecordingDecoder(name)
    records: list[Record] = []
    while chunk := source.read(READ_SIZE):
        records += decoder.decode(chunk)
    decoder.flush()
    if decoder.header is None:  # flush() raises then; this tells the type checker
        raise RecordingError(f"{name} is not a recording.")
    records.sort(key=lambda record: record.t)
    return Recording(decoder.header, tuple(records), decoder.note)


def load_recording(path: Path) -> Recording:
    """Read the file at `path`. Raises RecordingError, also when it cannot be opened."""
    try:
        with path.open("rb") as source:
            return read_recording(source, str(path))
    except OSError as error:
        raise RecordingError(f"{path} cannot be read: {error.strerror or error}.") from None


class RecordingWriter:
    """Writes a recording to an open binary file.

    `flush` makes what was written readable even if the program is killed afterwards.
    """

    def __init__(self, target: BinaryIO, header: Header) -> None:
        self._target = target
        self._deflate = zstandard.ZstdCompressor(level=COMPRESSION_LEVEL).compressobj()
        self._closed = False
        self._put(encode_header(header))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> None:
        self.close()

    def write(self, record: Record) -> None:
        """Add a record. Raises OSError from the file."""
        self._put(encode_record(record))

    def flush(self) -> None:
        """End the compressed block, so that a reader sees all records so far."""
        if not self._closed:
            self._target.write(self._deflate.flush(zstandard.COMPRESSOBJ_FLUSH_BLOCK))
            self._target.flush()

    def close(self) -> None:
        """End the frame. The file stays open: it is its owner's."""
        if not self._closed:
            self._closed = True
            self._target.write(self._deflate.flush(zstandard.COMPRESSOBJ_FLUSH_FINISH))
            self._target.flush()

    def _put(self, line: bytes) -> None:
        if self._closed:
            raise ValueError("the recording is closed")
        self._target.write(self._deflate.compress(line))


class Player:
    """Gives the records of a recording when they are due.

    `began` is the caller's time at which the recording's t = 0 is; `speed` divides its times.
    """

    def __init__(self, records: Iterable[Record], *, began: float, speed: float = 1.0) -> None:
        if not speed > 0:
            raise ValueError(f"speed must be above 0, not {speed}")
        self.began = began
        self.speed = speed
        self._left = deque(sorted(records, key=lambda record: record.t))

    @property
    def done(self) -> bool:
        """Nothing is left."""
        return not self._left

    def position(self, now: float) -> float:
        """Seconds into the recording at the caller's time `now`."""
        return (now - self.began) * self.speed

    def time_of(self, record: Record) -> float:
        """The caller's time at which a record is due."""
        return self.began + record.t / self.speed

    def next_at(self) -> float | None:
        """The caller's time at which the next record is due; None when nothing is left."""
        return self.time_of(self._left[0]) if self._left else None

    def due(self, now: float) -> list[Record]:
        """The records due by `now` that were not given before, in order. A `now` that went backwards gives nothing."""
        position = self.position(now)
        out: list[Record] = []
        while self._left and self._left[0].t <= position:
            out.append(self._left.popleft())
        return out
