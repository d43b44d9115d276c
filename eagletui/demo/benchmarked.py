"""A benchmark of the newest of the earlier starts: what the simulated engine answers to it. Pure.

Nothing is made up: the requests go through the load of an engine as those of anybody from outside do, with its prefill, its steps and its pace; only
nobody waits for them. What HTTP and the demo's own link take of each was measured, and is added.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass, field
from typing import NamedTuple

from eagletui.demo.load import PREFILL_S, Load, Request

LINK_S = 0.006
"""What HTTP and the link of this node take of a request until its first tokens are there, measured on a machine with little to do. Real time: it goes no
faster with --speed."""


class Answered(NamedTuple):
    """A request. Seconds: `sent_s` since its repeat began, `ttft_s` and `e2e_s` since it was sent. `gaps_s`: between tokens, one a token after those of
    the first step. `steps`: how many steps gave its tokens."""

    sent_s: float
    ttft_s: float
    e2e_s: float
    gaps_s: tuple[float, ...]
    steps: int


@dataclass(slots=True)
class _Stream:
    """One that is under way: it gets the tokens of its next step at the time that the queue has."""

    request: Request
    sent: float
    left: int
    first: float | None = None
    before: float = 0.0
    gaps: list[float] = field(default_factory=list)
    steps: int = 0


def benchmarked(
    seed: int, *, repeats: int, requests: int, tokens: int, prompt: int, at_once: int, speed: float = 1.0
) -> list[list[Answered]]:
    """Each repeat's requests, in the order in which they ended. `tokens`: of each answer; `prompt`: of each prompt; `at_once`: so many run at a time."""
    load = Load(seed)
    return [_repeat(load, requests, tokens, prompt, at_once, speed) for _ in range(repeats)]


def _repeat(load: Load, requests: int, tokens: int, prompt: int, at_once: int, speed: float) -> list[Answered]:
    queue: list[tuple[float, int, _Stream]] = []
    ended: list[Answered] = []
    begun = 0

    def begin(now: float) -> None:
        nonlocal begun
        request, _ = load.begin(now, prompt, 0)
        heapq.heappush(queue, (now + LINK_S + PREFILL_S / speed, begun, _Stream(request, now, tokens)))
        begun += 1

    for _ in range(min(at_once, requests)):
        begin(0.0)
    while queue:
        now, number, stream = heapq.heappop(queue)
        got = min(stream.left, load.step_tokens())
        stream.left -= got
        stream.steps += 1
        if stream.first is None:
            stream.first = now
        else:
            stream.gaps += [(now - stream.before) / got] * got
        stream.before = now
        if stream.left:
            heapq.heappush(queue, (now + got / (load.pace() * stream.request.luck) / speed, number, stream))
            continue
        load.end(stream.request, now)
        ended.append(
            Answered(stream.sent, stream.first - stream.sent, now - stream.sent, tuple(stream.gaps), stream.steps)
        )
        if begun < requests:
            begin(now)
    return ended
