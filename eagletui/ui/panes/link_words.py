"""The link in words: how good it is, since when it is gone, and what comes next. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import median

from eagletui.monitor.snapshot import Link
from eagletui.ui import format as fmt
from eagletui.ui.widgets.lines import Line, Span

SLOW_MS = 250.0
"""A key's echo is felt: beyond what a link around the world takes."""
VERY_SLOW_MS = 1000.0
"""Everything on the screen is a second old."""
JUDGED = 5
"""The level is that of the middle of the last five round trips: one late answer is no slow link."""
LATENCY_CELLS = 6
"""As wide as the widest (`999 ms`), so that nothing moves sideways with it."""
SILENT_S = 6.0
"""It is asked every 2 s: the answers of two rounds and more are missing. It may still come back: after 15 s it is lost."""
UP, SLOW, VERY_SLOW, GONE = "●", "◐", "◔", "○"


def level(latency_ms: float | None, latencies: Sequence[float | None]) -> tuple[str, str]:
    """(sign, role) of a link that is up."""
    known = [ms for ms in latencies[-JUDGED:] if ms is not None]
    middle = median(known) if known else latency_ms
    if middle is None or middle < SLOW_MS:
        return UP, "ok"
    return (SLOW, "warning") if middle < VERY_SLOW_MS else (VERY_SLOW, "error")


def silent_s(link: Link, now: float) -> float | None:
    """For how long (s) a link that is up has not answered; None while it does."""
    if link.state != "up" or link.heard_at is None or now - link.heard_at < SILENT_S:
        return None
    return now - link.heard_at


def link_words(link: Link, now: float, room: int) -> Line:
    """For the status line: the longest form that fits `room`; the shortest in any case."""
    if (silent := silent_s(link, now)) is not None:
        return ((f"{VERY_SLOW} silent {fmt.duration(silent)}", "error"),)
    if link.state == "up":
        sign, role = level(link.latency_ms, link.latencies)
        if link.latency_ms is None:
            return ((sign, role),)
        latency = f" {fmt.latency(link.latency_ms):>{LATENCY_CELLS}}"
        return (sign, role), (latency, "dim" if role == "ok" else role)
    if link.lost_at is None:
        return ((f"{GONE} connecting", "dim"),) if link.state == "connecting" else ((f"{GONE} no link", "error"),)
    lost = fmt.duration(max(0.0, now - link.lost_at))
    head: Line = ((f"{GONE} ", "error"), ("lost ", "error"), (lost, "error"))
    ago: Span = (" ago", "error")
    forms = [
        (*head, ago, (" · ", "dim"), *next_words(link, now, short=False)),
        (*head, (" · ", "dim"), *next_words(link, now, short=True)),
    ]
    return next((form for form in forms if sum(len(text) for text, _ in form) <= room), head)


def next_words(link: Link, now: float, *, short: bool) -> Line:
    """What happens next to a link that is gone: a countdown, a try under way, or the key to press."""
    if link.needs is not None:
        words = (
            ("log in" if short else "logs in again") if link.needs == "login" else ("try" if short else "tries again")
        )
        return ("c", "key bold"), (f" {words}", "dim")
    if link.state == "connecting":
        return (("trying" if short else "connecting", "dim"),)
    if link.retry_at is None:
        return (("…", "dim"),)
    left = max(0, math.ceil(link.retry_at - now))
    return ((f"try in {left:>2} s" if short else f"next try in {left:>2} s", "dim"),)
