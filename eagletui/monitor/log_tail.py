"""The end of a log, read once: state of the launch, the last batch line and how old it is."""

from __future__ import annotations

import time
from dataclasses import dataclass

from eagletui.engines.batch import BatchSample
from eagletui.logs.events import BatchSeen
from eagletui.logs.follower import WHOLE, Follower, Part, Step, Wait
from eagletui.logs.reader import Reader
from eagletui.logs.records import elapsed
from eagletui.logs.state import LogState
from eagletui.nodes.base import Node
from eagletui.servers.model import LogSource
from eagletui.shell.follow import parse_file_head, read_range

SLACK = 1 << 16
"""Bytes that may have come since the file was measured."""
TIMEOUT_S = 10.0


@dataclass(frozen=True, slots=True)
class LogTail:
    """`age_s`: seconds since the log grew, None when the node's clock is not known. `tokens_age_s`: since the last line with a generation rate."""

    state: LogState
    batch: BatchSample | None = None
    age_s: float | None = None
    tokens_age_s: float | None = None
    error: str | None = None
    """Why it could not be read, a sentence."""


def file_of(source: LogSource) -> str | None:
    """The path to open on the node: a deleted file lives on behind the descriptor of who writes it."""
    if source.deleted and source.pid is not None and source.fd is not None:
        return f"/proc/{source.pid}/fd/{source.fd}"
    return source.path


async def read_tail(node: Node, source: LogSource, engine: str, skew_s: float | None) -> LogTail | None:
    """Read it. `skew_s`: the node's clock minus ours. None when it cannot be read. Raises NodeError."""
    path = file_of(source)
    if path is None:
        return None
    reader, follower = Reader(engine), Follower(path)
    while (run := follower.next_run()).step is not Step.FOLLOW:
        done = await node.run(run.command, timeout=TIMEOUT_S)
        for one in follower.finished(done.stdout, done.exit_status):
            if isinstance(one, Wait):
                return LogTail(LogState(), error=one.error)
            if isinstance(one, Part):
                reader.feed(one.data, time.monotonic())
                reader.flush(time.monotonic())  # what follows it is not the next byte
    done = await node.run(read_range(path, follower.offset, WHOLE + SLACK), timeout=TIMEOUT_S)
    head, rest = parse_file_head(done.stdout)
    if head is None:
        return None
    now = time.monotonic()
    last: BatchSeen | None = None
    for event in [*reader.feed(rest, now), *reader.flush(now)]:
        if isinstance(event, BatchSeen) and event.total.gen_tok_s is not None:
            last = event
    age = None if skew_s is None else max(0.0, time.time() + skew_s - head.mtime)
    tokens_age = None
    if last is not None and age is not None:
        behind = elapsed(last.stamp, reader.newest_stamp)
        tokens_age = None if behind is None else age + behind
    return LogTail(reader.state, last.total if last else None, age, tokens_age)
