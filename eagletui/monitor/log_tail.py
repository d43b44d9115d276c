"""The end of a log, read once: state of the launch, the last batch line and how old it is."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, replace

from eagletui.engines.batch import BatchSample
from eagletui.logs.events import BatchSeen
from eagletui.logs.follower import WHOLE, Follower, Part, Step, Wait
from eagletui.logs.kept_follower import KeptFollower
from eagletui.logs.reader import Reader
from eagletui.logs.records import elapsed
from eagletui.logs.state import LogState
from eagletui.nodes.base import Node
from eagletui.servers.model import LogSource
from eagletui.shell.follow import FileHead, parse_file_head, read_range
from eagletui.shell.masking import mask_text
from eagletui.shell.processes import as_text

SLACK = 1 << 16
"""Bytes that may have come since the file was measured."""
TIMEOUT_S = 10.0
KEPT_S = 3.0
"""For the last lines of a log that a container's runtime or the journal keeps."""
LAST = 4096
QUIET_S = 0.4
"""After them: as long without a line means that there are no more."""


@dataclass(frozen=True, slots=True)
class LogTail:
    """`age_s`: seconds since the log grew, None when the node's clock is not known. `tokens_age_s`: since the last line with a generation rate."""

    state: LogState
    batch: BatchSample | None = None
    age_s: float | None = None
    tokens_age_s: float | None = None
    error: str | None = None
    """Why it could not be read, a sentence."""
    last_line: str | None = None
    """The last line that says anything, masked."""
    empty: bool | None = None
    """Whether nothing was ever written into it, None where that is not known."""


def kept_by(source: LogSource) -> KeptFollower | None:
    """What follows the log that a container's runtime or the journal keeps, where output goes into no file that can be opened."""
    if source.path is not None or source.keeper is None:
        return None
    return KeptFollower(source.keeper, "Start the server with its output in a file, or name its log with --log PATH")


def followers_of(source: LogSource) -> list[Follower]:
    """What follows each file of a log, the main one first. A file is opened by the descriptor of who writes it while that is there
    (a renamed or deleted file lives on behind it), else by its name. None when no file is known."""
    found: list[Follower] = []
    for one in (source, source.also):
        if one is None or one.path is None:
            continue
        descriptor = f"/proc/{one.pid}/fd/{one.fd}" if one.pid is not None and one.fd is not None else None
        bound = (one.device, one.inode) if descriptor is not None and one.inode is not None else None
        by_name = () if descriptor is not None and one.deleted else (one.path,)
        places = by_name if descriptor is None else (descriptor, *by_name)
        found.append(Follower(*places, name=one.path, file=bound))
    return found


async def read_tail(node: Node, source: LogSource, engine: str, skew_s: float | None) -> LogTail | None:
    """Read it, of every file. `skew_s`: the node's clock minus ours. None when it cannot be read. Raises NodeError."""
    if (kept := kept_by(source)) is not None:
        return await _end_of_kept(node, kept, Reader(engine), skew_s)
    reader = Reader(engine)
    ages: list[float] = []
    last: BatchSeen | None = None
    error: str | None = None
    line: str | None = None
    for channel, follower in enumerate(followers_of(source)):
        head, rest, why = await _end_of(node, follower, reader, channel)
        error = error or why
        if head is None:
            continue
        now = time.monotonic()
        line = last_line(rest) or line
        for event in [*reader.feed(rest, now, channel), *reader.flush(now, channel)]:
            if isinstance(event, BatchSeen) and event.total.gen_tok_s is not None:
                last = event
        if skew_s is not None:
            ages.append(max(0.0, time.time() + skew_s - head.mtime))
    if not reader.bytes and not ages:
        return None if error is None else LogTail(LogState(), error=error)
    empty = not reader.bytes if error is None else None
    return replace(_told(reader, last, min(ages, default=None), error), last_line=line, empty=empty)


def last_line(raw: bytes) -> str | None:
    """Of the end of a log, masked."""
    lines = [text for one in raw[-LAST:].splitlines() if (text := as_text(one).strip())]
    return mask_text(lines[-1]) if lines else None


def _told(reader: Reader, last: BatchSeen | None, age: float | None, error: str | None) -> LogTail:
    tokens_age = None
    if last is not None and age is not None:
        behind = elapsed(last.stamp, reader.newest_stamp)
        tokens_age = None if behind is None else age + behind
    return LogTail(reader.state, last.total if last else None, age, tokens_age, error)


async def _end_of_kept(node: Node, follower: KeptFollower, reader: Reader, skew_s: float | None) -> LogTail | None:
    """A log that is kept has no end to ask for: its last lines come, and then nothing for a while."""
    last: BatchSeen | None = None
    at: float | None = None
    try:
        async with asyncio.timeout(KEPT_S), node.stream(follower.next_run().command) as stream:
            while True:
                async with asyncio.timeout(QUIET_S if reader.bytes else KEPT_S):
                    chunk = await stream.read()
                if not chunk:
                    follower.ended(stream.exit_status)
                    break
                for part in follower.took(chunk):
                    if not isinstance(part, Part):
                        continue
                    at = part.at if part.at is not None else at
                    for event in reader.feed(part.data, time.monotonic()):
                        if isinstance(event, BatchSeen) and event.total.gen_tok_s is not None:
                            last = event
    except TimeoutError:
        pass
    if not reader.bytes:
        return None if follower.error is None else LogTail(LogState(), error=follower.error)
    age = None if skew_s is None or at is None else max(0.0, time.time() + skew_s - at)
    return _told(reader, last, age, None)


async def _end_of(
    node: Node, follower: Follower, reader: Reader, channel: int
) -> tuple[FileHead | None, bytes, str | None]:
    """The head of a file and its last bytes, after its launch's begin was given to the reader; or why it cannot be read."""
    while (run := follower.next_run()).step is not Step.FOLLOW:
        done = await node.run(run.command, timeout=TIMEOUT_S)
        for one in follower.finished(done.stdout, done.exit_status):
            if isinstance(one, Wait):
                return None, b"", one.error
            if isinstance(one, Part):
                reader.feed(one.data, time.monotonic(), channel)
                reader.flush(time.monotonic(), channel)  # what follows it is not the next byte
    done = await node.run(read_range(follower.path, follower.offset, WHOLE + SLACK), timeout=TIMEOUT_S)
    return (*parse_file_head(done.stdout), None)
