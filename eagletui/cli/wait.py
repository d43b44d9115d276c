"""`wait`: follows a startup until the server is ready, or it is certain that it will not be; the exit status tells which."""

from __future__ import annotations

import asyncio
import re
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from eagletui.cli.hangup import READER_GONE, leave_when_nobody_reads, leave_when_the_terminal_is_gone
from eagletui.cli.options import node_options, open_chosen
from eagletui.errors import EagletuiError, NodeError

if TYPE_CHECKING:
    from eagletui.cli.wait_output import Output
    from eagletui.history.store import History
    from eagletui.monitor.waiting import Ended, Limits
    from eagletui.nodes.base import Node

TICK_S = 0.25
"""Without news it is looked this often: what has to stand for a while is measured, and the seconds of the bar go on."""
QUIET_S = 1.0
"""A login that takes longer is announced: an empty terminal looks like a hang."""
CLOSING_S = 5.0
"""For the link to close. What is left on the node ends with it, or by its lease."""
INTERRUPTED = {signal.SIGINT: 130, signal.SIGTERM: 143, signal.SIGHUP: 129}
"""Exit statuses as a shell tells the end by a signal."""
_TIME = re.compile(r"(?:(\d+(?:\.\d+)?)h)?(?:(\d+(?:\.\d+)?)m)?(?:(\d+(?:\.\d+)?)s?)?")

_EPILOG = """Exit status: 0 ready, 12 stalled, 13 crashed, 14 no server and no launch under way, 15 timed out, 20 no link,
11 when it cannot be judged at all (neither HTTP nor the log can be read), 2 usage; 130 ctrl+c, 143 SIGTERM, 129 the terminal is
gone, 141 nobody reads the output.

DEGRADED counts as ready while the server answers or tokens flow; the result names the state. UNKNOWN goes on waiting. With
several servers all have to be ready, and the first failure ends it; --port picks one. A launch that was begun a moment
before may need seconds to appear: no server is told after 6 s.

A crash is told when its cause was gathered, at most 10 s after the death. Without --timeout it waits as long as the start
moves; a start that stands still is a stall.

Progress goes to stderr: a bar on a terminal, plain lines elsewhere. --json prints events to stdout, one object a line: state,
phase, progress (once a second at most), log (the first lines that tell of an error or a warning, 20 at most), and last result."""


def timespan(_context: click.Context, _parameter: click.Parameter, value: str | None) -> float | None:
    """Seconds of `90`, `90s`, `5m`, `1h30m`. Raises BadParameter."""
    if value is None:
        return None
    found = _TIME.fullmatch(value.strip())
    hours, minutes, seconds = found.groups() if found is not None else (None, None, None)
    total = float(hours or 0) * 3600 + float(minutes or 0) * 60 + float(seconds or 0)
    if total <= 0:
        raise click.BadParameter(f"{value!r} is no time; say 90, 90s, 5m or 1h30m")
    return total


@click.command(
    help="Wait until the server on NODE (demo, local, or anything ssh accepts) is ready, or certainly will not be.",
    epilog=_EPILOG,
)
@node_options
@click.option(
    "--timeout",
    "timeout_s",
    callback=timespan,
    default=None,
    metavar="T",
    help="Give up after so long: 90, 90s, 5m, 1h30m. Default: never.",
)
@click.option(
    "--json",
    "as_json",
    is_flag=True,
    help="Print events (eagletui.event/1), one JSON object a line; the last is `result`.",
)
def wait(
    node: str, port: int | None, log_path: str | None, ssh_config: Path | None, speed: float | None,
    scenario: str | None, timeout_s: float | None, as_json: bool,
) -> int:  # fmt: skip
    """Wait and tell."""
    from eagletui.cli.keeping import history_of
    from eagletui.cli.wait_output import NobodyReads, output_for

    out = output_for(as_json=as_json)
    prompter = None
    if sys.stdin.isatty():
        from eagletui.cli.prompter import TerminalPrompter

        prompter = TerminalPrompter()
    chosen = open_chosen(node, ssh_config, speed, prompter, scenario=scenario)
    history = history_of(node, speed)
    try:
        return asyncio.run(_wait(chosen, out, history, port=port, log_path=log_path, timeout_s=timeout_s))
    except NobodyReads as gone:
        return gone.exit_status


async def _wait(
    node: Node, out: Output, history: History, *, port: int | None, log_path: str | None, timeout_s: float | None
) -> int:
    from eagletui.monitor.waiting import Limits

    try:
        return await wait_for(node, out, Limits(timeout_s=timeout_s), port=port, log_path=log_path, history=history)
    finally:
        with suppress(TimeoutError):
            async with asyncio.timeout(CLOSING_S):
                await node.aclose()


async def wait_for(
    node: Node,
    out: Output,
    limits: Limits,
    *,
    port: int | None = None,
    log_path: str | None = None,
    history: History | None = None,
    hears_signals: bool = True,
) -> int:
    """Connect and wait; gives the exit status. `history`: see NodeMonitor. Without `hears_signals` whoever called hears them, and cancels.
    Raises NobodyReads."""
    from eagletui.monitor.happenings import Teller
    from eagletui.monitor.monitor import NodeMonitor
    from eagletui.monitor.waiting import Waiting

    began = time.monotonic()
    unable = await _connect(node, out, limits.timeout_s)
    if unable is not None:
        out.end(unable, time.monotonic() - began, None)
        return unable.exit
    if node.asked_person:
        began = time.monotonic()  # what a person took to answer is not the server's time
    failed: list[EagletuiError] = []
    monitor = NodeMonitor(node, port=port, log_path=log_path, on_failure=failed.append, history=history)
    waiting = Waiting(limits, began=began, port=port, teller=Teller(out.settled_s))
    news = asyncio.Event()
    monitor.on_change = news.set
    running = asyncio.create_task(monitor.run())
    try:
        with told_to_end(news.set, out.descriptor) if hears_signals else nullcontext(list[int]()) as told:
            while True:
                snapshot = monitor.snapshot()
                look = waiting.interrupted(snapshot, told[0]) if told else waiting.look(snapshot)
                ended = _no_link(failed[0]) if failed else look.ended
                out.show(look.happenings, snapshot)
                if ended is not None:
                    out.end(ended, time.monotonic() - began, waiting.teller.estimate)
                    return ended.exit
                if look.select is not None:
                    monitor.select_server(look.select)
                if running.done():
                    running.result()
                with suppress(TimeoutError):
                    async with asyncio.timeout(TICK_S):
                        await news.wait()
                news.clear()
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        with suppress(TimeoutError):
            async with asyncio.timeout(CLOSING_S):
                await monitor.aclose()


async def _connect(node: Node, out: Output, timeout_s: float | None) -> Ended | None:
    """The login; how it ended when there is no link."""
    from eagletui.monitor.waiting import TIMED_OUT

    later = asyncio.get_running_loop().call_later(QUIET_S, out.connecting, node.name)
    try:
        async with asyncio.timeout(timeout_s):
            await node.connect()
    except NodeError as error:
        return _no_link(error)
    except TimeoutError:
        return replace(_no_link(f"there is no link to {node.name} yet"), exit=TIMED_OUT)
    finally:
        later.cancel()
    return None


def _no_link(error: EagletuiError | str) -> Ended:
    from eagletui.monitor.waiting import OFFLINE, Ended
    from eagletui.servers.model import Reason, State

    status = error.exit_status if isinstance(error, EagletuiError) else OFFLINE
    return Ended(status, State.OFFLINE, Reason("no-link", str(error)))


@contextmanager
def told_to_end(news: Callable[[], None], descriptor: int) -> Iterator[list[int]]:
    """Exit statuses of what told us to end: a signal, or that nobody reads what we write, or the terminal is gone. `news` is called after each."""
    told: list[int] = []
    loop = asyncio.get_running_loop()

    def end(status: int) -> None:
        told.append(status)
        news()

    def end_from_thread(status: int) -> None:
        with suppress(RuntimeError):  # it is over already
            loop.call_soon_threadsafe(end, status)

    heard = [number for number in INTERRUPTED if signal.getsignal(number) is not signal.SIG_IGN]  # nohup, a job of sh
    for number in heard:
        loop.add_signal_handler(number, end, INTERRUPTED[number])
    if sys.stdin is not None and sys.stdin.isatty():
        leave_when_the_terminal_is_gone(lambda: end_from_thread(INTERRUPTED[signal.SIGHUP]))
    leave_when_nobody_reads(descriptor, lambda: end_from_thread(READER_GONE))
    try:
        yield told
    finally:
        for number in heard:
            loop.remove_signal_handler(number)
