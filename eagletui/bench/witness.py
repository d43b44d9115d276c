"""What is seen of a server and its node while a run is measured: accept length, and what a reader should know beside the figures.

Little is asked, since what is asked takes part: /metrics twice a repeat, the GPUs once, and the log's lines afterwards.
"""

from __future__ import annotations

import asyncio
import contextlib
import statistics
import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Protocol

import httpx

from eagletui.engines.metrics import Figures, read_metrics
from eagletui.engines.spec import load_engine
from eagletui.errors import NodeError
from eagletui.gpus.model import Gpu, GpuReport
from eagletui.launching.looking import see_gpus
from eagletui.logs.events import BatchSeen
from eagletui.logs.reader import Reader
from eagletui.nodes.base import Node
from eagletui.servers.model import Server
from eagletui.shell.follow import parse_file_head, read_range

METRICS_S: Final = 3.0
SCRAPE_APART_S: Final = 10.0
"""A server is not scraped oftener than this while it is measured: a short repeat has no scrape of its own."""
GPUS_AFTER_S: Final = 2.0
"""Into a repeat: by then its clocks are those of the load."""
MOST_LOG: Final = 4 << 20
"""Bytes of a repeat's log lines that are read."""
LOG_S: Final = 15.0


class Witness(Protocol):
    """Beside a run. Neither call raises; what cannot be seen is not told."""

    async def begin(self) -> None:
        """A repeat begins."""

    async def end(self, requests: int, at_a_time: int | None) -> float | None:
        """It ended, after so many answered requests, at most so many of ours at a time. Gives the accept length over it."""

    def notes(self) -> list[str]:
        """What was seen over all repeats, sentences."""


@dataclass(frozen=True, slots=True)
class Window:
    """What the log told in a repeat: accept lengths of its batch lines, and the most requests that ran at a time."""

    accept: tuple[float, ...] = ()
    running: int = 0


def read_window(raw: bytes, engine: str) -> Window:
    """From the bytes of a log that came while it was measured. Pure."""
    reader = Reader(engine)
    lengths: list[float] = []
    running = 0
    for event in [*reader.feed(raw, 0.0), *reader.flush(0.0)]:
        if isinstance(event, BatchSeen):
            if event.sample.accept_len is not None:
                lengths.append(event.sample.accept_len)
            running = max(running, event.total.running or 0)
    return Window(tuple(lengths), running)


def by_counters(before: Figures | None, after: Figures | None) -> float | None:
    """Tokens a step between two answers of /metrics, where it counts drafts (vLLM). Pure."""
    if before is None or after is None:
        return None
    deltas = [after.counters.get(name, 0.0) - before.counters.get(name, 0.0) for name in ("drafts", "accepted_tokens")]
    return 1 + deltas[1] / deltas[0] if "drafts" in after.counters and deltas[0] > 0 and deltas[1] >= 0 else None


def gpu_notes(reports: Iterable[GpuReport], family: frozenset[int]) -> list[str]:
    """What the GPUs tell: throttling, lost ones, and processes that are not the server's. Pure."""
    throttled: dict[int, set[str]] = {}
    others: dict[int, set[int]] = {}
    lost: set[int] = set()
    errors: set[str] = set()
    for report in reports:
        if report.error is not None and report.error.code not in {"no-tool", "no-devices"}:
            errors.add(report.error.text)
        for gpu in _measured_gpus(report, family):
            if gpu.state != "ok":
                lost.add(gpu.index)
            throttled.setdefault(gpu.index, set()).update(gpu.throttle)
            others.setdefault(gpu.index, set()).update(
                process.pid for process in gpu.processes if process.pid not in family
            )
    throttled = {index: told for index, told in throttled.items() if told}
    others = {index: told for index, told in others.items() if told}
    notes: list[str] = []
    if throttled:
        reasons = ", ".join(sorted({reason for told in throttled.values() for reason in told}))
        notes.append(f"{_gpus(throttled)} throttled while it was measured ({reasons})")
    if others:
        count = len({pid for pids in others.values() for pid in pids})
        what = "another process" if count == 1 else f"{count} other processes"
        notes.append(f"{what} used {_gpus(others)} at the same time")
    if lost:
        notes.append(f"{_gpus(lost)} did not answer well")
    if errors:
        notes.append(f"the GPUs could not be looked at: {min(errors)}")
    return notes


def _measured_gpus(report: GpuReport, family: frozenset[int]) -> Iterable[Gpu]:
    """Those that the server uses; all, where none is known to be its."""
    return [gpu for gpu in report.gpus if any(process.pid in family for process in gpu.processes)] or report.gpus


def _gpus(indices: Iterable[int]) -> str:
    told = sorted(indices)
    return f"GPU {told[0]}" if len(told) == 1 else f"GPUs {', '.join(map(str, told))}"


class NodeWitness:
    """See Witness: of a server on a node."""

    def __init__(self, node: Node, server: Server) -> None:
        self._node = node
        self._server = server
        self._engine = load_engine(server.engine)
        self._family = frozenset({server.pid, *(member.process.pid for member in server.family)})
        self._reports: list[GpuReport] = []
        self._looking: asyncio.Task[None] | None = None
        self._figures: Figures | None = None
        self._scraped_at = float("-inf")
        self._offset: int | None = None
        self._others = 0

    async def begin(self) -> None:
        """See Witness."""
        with contextlib.suppress(NodeError):
            self._figures = await self._scrape()
            self._offset = await self._log_size()
        self._looking = asyncio.create_task(self._look_at_gpus())

    async def end(self, requests: int, at_a_time: int | None) -> float | None:  # noqa: ARG002 - see Witness
        """See Witness."""
        if self._looking is not None:
            self._looking.cancel()
            await asyncio.gather(self._looking, return_exceptions=True)
        length: float | None = None
        try:
            before, after = self._figures, await self._scrape()
            length = by_counters(before, after)
            window = await self._window()
        except NodeError:
            return length
        if at_a_time is not None and window.running > at_a_time:
            self._others = max(self._others, window.running - at_a_time)
        if length is None and window.accept:
            length = statistics.fmean(window.accept)
        return length

    def notes(self) -> list[str]:
        """See Witness."""
        notes = gpu_notes(self._reports, self._family)
        if self._others:
            who = "a request" if self._others == 1 else f"{self._others} requests"
            notes.append(f"{who} of somebody else ran on the server at the same time")
        return notes

    async def _look_at_gpus(self) -> None:
        await asyncio.sleep(GPUS_AFTER_S)
        with contextlib.suppress(NodeError):
            self._reports.append(await see_gpus(self._node))

    async def _scrape(self) -> Figures | None:
        if self._server.port is None or time.monotonic() - self._scraped_at < SCRAPE_APART_S:
            return None
        self._scraped_at = time.monotonic()
        url = f"http://{_bracketed(self._server.host)}:{self._server.port}{self._engine.metrics_path}"
        transport = self._node.http_transport()
        try:
            async with httpx.AsyncClient(transport=transport, timeout=METRICS_S, trust_env=False) as client:
                answer = await client.get(url)
        except httpx.HTTPError:
            return None
        return read_metrics(answer.text, self._engine) if answer.status_code == 200 else None

    async def _log_size(self) -> int | None:
        path = self._server.log.path
        if path is None:
            return None
        head, _ = parse_file_head((await self._node.run(read_range(path, 0, 0), timeout=LOG_S)).stdout)
        return None if head is None else head.size

    async def _window(self) -> Window:
        path, offset = self._server.log.path, self._offset
        if path is None or offset is None:
            return Window()
        done = await self._node.run(read_range(path, offset, MOST_LOG), timeout=LOG_S)
        return read_window(parse_file_head(done.stdout)[1], self._server.engine)


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host
