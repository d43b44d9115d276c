"""When the screen is told of a change, on a clock of the test's own."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from itertools import pairwise
from typing import cast

import pytest

from eagletui.monitor.publish import AT_ONCE, EVERY_S, GAP_S, Publisher


class Clock:
    """Stands for the loop: its timers go off when `pass_s` lets the time come."""

    def __init__(self) -> None:
        self.now = 100.0
        self._timers: list[tuple[float, Callable[[], None]]] = []

    def time(self) -> float:
        return self.now

    def call_at(self, at: float, call: Callable[[], None]) -> object:
        self._timers.append((at, call))
        return object()

    def pass_s(self, seconds: float) -> None:
        until = self.now + seconds
        while due := [timer for timer in self._timers if timer[0] <= until]:
            timer = min(due, key=lambda one: one[0])
            self._timers.remove(timer)
            self.now = timer[0]
            timer[1]()
        self.now = until


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(asyncio, "get_running_loop", lambda: cast("asyncio.AbstractEventLoop", clock))
    return clock


def telling(clock: Clock) -> tuple[Publisher, list[float]]:
    told: list[float] = []
    publisher = Publisher(lambda: None)
    publisher.listener = lambda: told.append(clock.now)
    return publisher, told


def test_a_change_after_quiet_is_told_at_once_also_just_after_another(clock: Clock) -> None:
    publisher, told = telling(clock)
    publisher.mark()
    assert told == [clock.now]
    for number in range(1, AT_ONCE):
        clock.pass_s(0.02)
        publisher.mark()
        assert told[number:] == [clock.now]


def test_what_changes_together_is_told_together(clock: Clock) -> None:
    publisher, told = telling(clock)
    for _ in range(5):
        publisher.mark()
    assert len(told) == 1
    clock.pass_s(GAP_S * 1.01)
    assert len(told) == 2
    clock.pass_s(10.0)
    assert len(told) == 2


def test_many_changes_are_told_every_tenth_of_a_second(clock: Clock) -> None:
    publisher, told = telling(clock)
    began = clock.now
    for _ in range(2_000):
        publisher.mark()
        clock.pass_s(0.001)
    assert len(told) <= AT_ONCE + 2.0 / EVERY_S
    assert max(later - earlier for earlier, later in pairwise(told)) <= EVERY_S + 0.002
    late = [at for at in told if at > began + 1.0]
    assert min(later - earlier for earlier, later in pairwise(late)) >= EVERY_S - 0.002


def test_the_last_of_many_changes_is_told_and_then_nothing(clock: Clock) -> None:
    publisher, told = telling(clock)
    for _ in range(100):
        publisher.mark()
        clock.pass_s(0.003)
    last = clock.now
    clock.pass_s(5.0)
    assert told[-1] >= last - 0.003
    assert told[-1] <= last + EVERY_S
    count = len(told)
    clock.pass_s(60.0)
    assert len(told) == count
