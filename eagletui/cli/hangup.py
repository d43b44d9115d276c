"""Leaving when the terminal is gone. Usually the kernel says so by SIGHUP; where that does not come (the terminal is nobody's controlling one, or
the signal is ignored) a screen would wait for ever in a write, and hold its link."""

from __future__ import annotations

import os
import select
import sys
import threading
import time
from collections.abc import Callable

GRACE_S = 3.0
"""For the screen to end by itself. It cannot when it is stuck in a write to what is gone."""
EXIT_STATUS = 129
"""As a shell tells the end by SIGHUP."""
READER_GONE = 141
"""As a shell tells the end by SIGPIPE."""


def leave_when_the_terminal_is_gone(leave: Callable[[], None]) -> None:
    """Watch standard input's terminal in a thread of its own; `leave` is called in it, and the process is ended when that does not help."""
    try:
        terminal = sys.stdin.fileno()
    except (OSError, ValueError):
        return
    _watch_in_thread(terminal, leave, select.POLLHUP, EXIT_STATUS)


def leave_when_nobody_reads(descriptor: int, leave: Callable[[], None]) -> None:
    """The same for what is written to: a pipe without a reader tells nothing until the next write, which may be minutes away."""
    _watch_in_thread(descriptor, leave, select.POLLHUP | select.POLLERR, READER_GONE)


def _watch_in_thread(descriptor: int, leave: Callable[[], None], signs: int, status: int) -> None:
    threading.Thread(target=_watch, args=(descriptor, leave, signs, status), name="hangup", daemon=True).start()


def _watch(descriptor: int, leave: Callable[[], None], signs: int, status: int) -> None:
    poll = select.poll()
    poll.register(descriptor, 0)  # hang-ups and errors are told in any case
    if not any(event & signs for _, event in poll.poll()):
        return  # a kind of file that cannot be watched
    leave()
    time.sleep(GRACE_S)
    os._exit(status)
