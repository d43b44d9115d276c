"""The pace of a bar, as it is seen to move, and when it can be trusted. Pure: the clock is an argument.

What a bar prints of its own rate and rest is not asked: the first seconds count what was there before, units flip, and
with several loader threads the bar jumps, so that the rest it prints is hours or nothing.
"""

from __future__ import annotations

from collections import deque

from eagletui.logs.state import PhaseName, Progress

MOVES = 4
"""So many moves at least, …"""
WATCHED_S = 5.0
"""… over so many seconds."""
KEPT = 64
"""Moves that are kept: the pace is of the last ones, and a bar has at most some hundred."""
JUMP = 8
"""A move over more than this part of the whole is a jump: such a bar tells nothing of its rest."""
PAUSE = 5.0
"""A pause of so many times the usual one: it no longer goes at its pace."""


class Pace:
    """The moves of the present bar."""

    def __init__(self) -> None:
        self._bar: tuple[PhaseName | None, str, int] | None = None
        self._moves: deque[tuple[float, int]] = deque(maxlen=KEPT)

    def see(self, phase: PhaseName | None, progress: Progress | None, now: float) -> None:
        """The bar as it is now; another one, or one that begins anew, has a pace of its own."""
        if progress is None:
            self._bar = None
            self._moves.clear()
            return
        bar = (phase, progress.label, progress.total)
        if bar != self._bar or (self._moves and progress.done < self._moves[-1][1]):
            self._bar = bar
            self._moves.clear()
        if not self._moves or progress.done > self._moves[-1][1]:
            self._moves.append((now, progress.done))

    def left_s(self, now: float) -> tuple[float, float] | None:
        """Seconds that the bar still needs at its pace, and the share of it that is done (0 to 1). None while its pace is not to
        be trusted, and when it is full: that ends nothing."""
        if self._bar is None or len(self._moves) <= MOVES:
            return None
        total = self._bar[2]
        (first, begun), (last, done) = self._moves[0], self._moves[-1]
        if done >= total or last - first < WATCHED_S:
            return None
        steps = [later[1] - earlier[1] for earlier, later in zip(self._moves, list(self._moves)[1:], strict=False)]
        pauses = [later[0] - earlier[0] for earlier, later in zip(self._moves, list(self._moves)[1:], strict=False)]
        usual = (last - first) / len(pauses)
        if max(steps) > max(1, total / JUMP) or max(*pauses, now - last) > PAUSE * usual:
            return None
        rate = (done - begun) / (last - first)
        return max(0.0, (total - done) / rate - (now - last)), done / total
