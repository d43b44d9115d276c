"""Watching the GPUs of a node: one survey, then one endless `nvidia-smi -l 1`, and the process table every 5 s. Never two calls of a kind at once."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import replace

from eagletui.errors import ChannelError
from eagletui.gpus.model import GpuError, GpuProcess, GpuReport, MigInstance
from eagletui.gpus.nvidia_smi import CALL_TIMEOUT_S, assemble, compute_apps_argv, read_compute_apps, timeout_report
from eagletui.gpus.sequence import Ended, Surveyed
from eagletui.gpus.smi_messages import was_ended
from eagletui.monitor.drive import GRACE_S, ask_tool, survey_gpus
from eagletui.monitor.measuring import Measuring
from eagletui.monitor.snapshot import GpuView
from eagletui.nodes.base import Node
from eagletui.shell.script import Command
from eagletui.shell.scripts import LEASE_S, LOOP_TOOL

APPS_EVERY_S = 5.0
APPS_LEAST_S = 2.0
"""Between two calls, however often the processes change: a launch that begins changes them every second."""
APPS_CALM_S = 30.0
"""While a benchmark is measured: the question takes a lock of the driver."""
RETRY_S = 60.0
"""After a message instead of rows: drivers get loaded and tools installed, but not every second."""
SILENT_S = 15.0
"""The loop answers each second, and its first answer may take as long as any call: after this it hangs."""
HISTORY = 60
"""Points of utilisation kept for each GPU: the last minute."""
_HOPELESS = frozenset({"timeout"})
"""Errors after which no second call is tried: each hung nvidia-smi waits in the driver for ever."""


class GpuWatch:
    """Keeps `view` current while run() runs. `on_change` is called after each change."""

    def __init__(self, node: Node, on_change: Callable[[], None], measuring: Measuring | None = None) -> None:
        self.view = GpuView()
        self._measuring = measuring or Measuring()
        self._node = node
        self._on_change = on_change
        self._processes: tuple[GpuProcess, ...] = ()
        self._mig: dict[str, tuple[MigInstance, ...]] = {}
        self._history: dict[int, deque[int | None]] = {}
        self._ask_apps = asyncio.Event()
        self._hung = False
        """Over reconnects too: the call that hangs is still there on the node."""
        self._apps_hung: GpuError | None = None
        """The same for the process table alone: its sentence."""
        self._busy_until = 0.0
        """A call that was under way when the link broke is on the node until then."""

    def processes_changed(self) -> None:
        """Ask for the process table now: a server came, went or changed."""
        self._ask_apps.set()

    async def run(self) -> None:
        """Watch until cancelled, or until nvidia-smi hangs (then the view says so and no further call is made). Raises NodeError."""
        while not self._hung:
            await asyncio.sleep(self._busy_until - time.monotonic())
            with self._calling():
                surveyed = await survey_gpus(self._node, processes=self._apps_hung is None)
            report = surveyed.report
            self._processes = tuple(p for gpu in report.gpus for p in gpu.processes)
            self._mig = {gpu.uuid: gpu.mig for gpu in report.gpus if gpu.uuid and gpu.mig}
            if report.error is not None and report.error.code in _HOPELESS:
                self._hung = not report.gpus
                self._apps_hung = report.error
            self._publish(report)
            if report.gpus:
                began = time.monotonic()
                if not await self._follow(surveyed):
                    return
                if time.monotonic() - began > RETRY_S:
                    continue  # its lease on the node ended, or a GPU was lost: look anew at once
            await asyncio.sleep(RETRY_S)

    async def _follow(self, surveyed: Surveyed) -> bool:
        """The loop, and the process table beside it. False when nvidia-smi hangs."""
        apps = asyncio.create_task(self._watch_apps(surveyed.only), name="gpu-processes")
        try:
            return await self._loop(surveyed)
        finally:
            apps.cancel()
            await asyncio.gather(apps, return_exceptions=True)

    @contextlib.contextmanager
    def _calling(self) -> Iterator[None]:
        """Around a call, so that one that goes on without us is not joined by a second one of its kind."""
        try:
            yield
        except BaseException:
            self._busy_until = time.monotonic() + CALL_TIMEOUT_S + GRACE_S
            raise

    async def _loop(self, surveyed: Surveyed) -> bool:
        argv, parser = surveyed.loop()
        async with self._node.stream(Command(LOOP_TOOL, (str(LEASE_S), *argv))) as stream:
            while True:
                try:
                    async with asyncio.timeout(SILENT_S):
                        chunk = await stream.read()
                except TimeoutError:
                    self._hung = True
                    self._fail(timeout_report(SILENT_S).error)
                    return False
                over = () if chunk else parser.flush(stream.exit_status, stream.stderr)
                for report in [*parser.feed(chunk), *over]:
                    self._publish(assemble(report, self._processes, self._mig))
                if not chunk:
                    return True

    async def _watch_apps(self, only: tuple[int, ...] | None) -> None:
        while self._apps_hung is None:
            await asyncio.sleep(APPS_LEAST_S)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout((APPS_CALM_S if self._measuring.on else APPS_EVERY_S) - APPS_LEAST_S):
                    await self._ask_apps.wait()
            self._ask_apps.clear()
            try:
                with self._calling():
                    reply = await ask_tool(self._node, compute_apps_argv(only), CALL_TIMEOUT_S)
            except ChannelError:
                continue  # no session was free: it is asked the next time
            if isinstance(reply, Ended) or was_ended(reply[0], silent=not (reply[1] or reply[2])):
                self._apps_hung = GpuError(
                    "timeout", f"nvidia-smi did not tell the processes within {CALL_TIMEOUT_S} s; it is not asked again"
                )
                self._fail(self._apps_hung)
                return
            exit_status, stdout, stderr = reply
            answer = read_compute_apps(stdout, stderr, exit_status)
            if answer.error is None and answer.processes != self._processes:
                self._processes = answer.processes
                self.view = replace(self.view, report=assemble(self.view.report, self._processes, self._mig))
                self._on_change()

    def _publish(self, report: GpuReport) -> None:
        report = replace(report, error=report.error or self._apps_hung)
        # An answer comes each second: those that did not come, as during a break of the link, are a gap and not the last minute.
        silent = 0 if self.view.at is None else max(0, int(time.monotonic() - self.view.at) - 1)
        for gpu in report.gpus:
            points = self._history.setdefault(gpu.index, deque(maxlen=HISTORY))
            points.extend([None] * min(silent, HISTORY))
            points.append(gpu.util_pct)
        history = tuple((index, tuple(points)) for index, points in sorted(self._history.items()))
        self.view = GpuView(report, time.monotonic(), history)
        self._on_change()

    def _fail(self, error: GpuError | None) -> None:
        """Rows stay as they were, with their age."""
        self.view = replace(self.view, report=replace(self.view.report, error=error))
        self._on_change()
