"""An exit status in words. Pure."""

from __future__ import annotations

import signal

_SAID = {
    125: "the keeper could not start it",
    126: "it cannot be run, or its folder not entered",
    127: "no such program",
}
"""What shells mean by them; see shell/keeper.py."""


def exit_words(status: int) -> str:
    """ "exit status 127 (no such program)", "ended by SIGKILL (exit status 137)"."""
    if 128 < status < 192:
        try:
            return f"ended by {signal.Signals(status - 128).name} (exit status {status})"
        except ValueError:
            return f"ended by signal {status - 128} (exit status {status})"
    said = _SAID.get(status)
    return f"exit status {status}" + (f" ({said})" if said else "")
