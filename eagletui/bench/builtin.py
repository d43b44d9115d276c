"""The built-in runner: eagletui itself sends the load, over the node's link or to an address."""

from __future__ import annotations

import asyncio
import gc
import random
import statistics
import time
from collections import deque
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Final

from eagletui.bench.client import ORDER, Client, Manner
from eagletui.bench.load import Load
from eagletui.bench.outcome import BenchProgress, Measured, Repeat, Row
from eagletui.bench.prompts import Prompt, Prompts, read_prompts
from eagletui.bench.runner import Target

LEARN_WORDS: Final = (16, 144)
"""Two texts whose tokens are counted, for prompts of a length in tokens."""
PINGS: Final = 9
LATELY: Final = 32
"""Requests by whose ends the rate is told."""
TOLD_EVERY_S: Final = 0.1
BEHIND: Final = 0.05
"""An open loop that begins this share of its requests later than LATE_S is not the load that was asked for."""
LATE_S: Final = 0.05


class BuiltinRunner:
    """See runner.Runner. `partial`: what was measured until now, for a run that is ended early."""

    name = "builtin"

    def __init__(self) -> None:
        self.partial: Measured | None = None

    async def run(self, load: Load, target: Target, on_progress: Callable[[BenchProgress], None]) -> Measured:
        """See runner.Runner."""
        own: tuple[Prompt, ...] = ()
        if load.prompts is not None:
            own, _ = await asyncio.to_thread(read_prompts, Path(load.prompts), load.output_len)
        transport = target.transport(load.concurrency or 0)
        manner = Manner(load.api or ORDER[0], load.api is not None, target.facts.engine, target.facts.model)
        client = Client(transport, target.base_url, manner, target.api_key)
        one = _Running(self, load, target, client, Prompts(load, own), on_progress)
        try:
            return await one.whole(learns=not own)
        finally:
            await client.aclose()


class _Running:
    """One run."""

    def __init__(
        self, runner: BuiltinRunner, load: Load, target: Target, client: Client, prompts: Prompts, on_progress: Callable[[BenchProgress], None]
    ) -> None:  # fmt: skip
        self._runner = runner
        self._load = load
        self._target = target
        self._client = client
        self._prompts = prompts
        self._tell = on_progress
        self._rows: list[Row] = []
        self._repeats: list[Repeat] = []
        self._late = 0
        self._told_at = float("-inf")
        self._ends: deque[float] = deque(maxlen=LATELY)
        self._rates: list[float] = []
        self._failed = 0
        self._now = BenchProgress("preparing", repeats=load.repeats, asked=load.requests * load.repeats)

    async def whole(self, *, learns: bool) -> Measured:
        load = self._load
        overhead = await self._link_overhead()
        if load.warmup:
            self._show(replace(self._now, stage="warmup"), force=True)
            await self._warm_up(learns=learns)
        self._show(replace(self._now, stage="measuring", began_at=time.monotonic()), force=True)
        gc.collect()
        gc.freeze()  # what is there already is not looked through while times are taken
        try:
            for repeat in range(load.repeats):
                self._show(replace(self._now, repeat=repeat + 1), force=True)
                await self._repeat(repeat)
                self._runner.partial = self._measured(overhead)
        finally:
            gc.unfreeze()
        self._show(replace(self._now, stage="ended", open=0), force=True)
        return self._measured(overhead)

    def _measured(self, overhead: float | None) -> Measured:
        return Measured(tuple(self._repeats), tuple(self._notes()), overhead, api=self._client.manner.api)

    async def _link_overhead(self) -> float | None:
        """The median round trip of the link, which every first token comes later by. None where there is no link."""
        node = self._target.node
        if node is None or node.latency_ms is None:
            return None
        took = [await node.ping() for _ in range(PINGS)]
        return statistics.median(took)

    async def _warm_up(self, *, learns: bool) -> None:
        """Requests that are not counted: connections are opened, the server's caches and graphs are warm, and how this server is asked is found out."""
        first = await self._ask(-1, 0, asyncio.get_running_loop().time())
        if learns and not self._client.manner.as_ids and first.error is None:
            await self._learn()
        rest = range(1, self._load.warmup)
        limit = asyncio.Semaphore(self._load.concurrency or len(rest) or 1)

        async def one(index: int) -> None:
            async with limit:
                await self._ask(-1, index, asyncio.get_running_loop().time())

        await asyncio.gather(*map(one, rest))

    async def _learn(self) -> None:
        """How many tokens a word of ours takes here."""
        counted: list[tuple[int, int]] = []
        for words in LEARN_WORDS:
            text = self._prompts.words(words)
            row = await self._client.ask(
                self._load, lambda _as_ids, text=text: Prompt(1, text=text), -1, 0, 0.0  # type: ignore[misc]
            )  # fmt: skip
            if row.input_tokens is None:
                return
            counted.append((words, row.input_tokens))
        self._prompts.learn(counted[0], counted[1])

    async def _repeat(self, repeat: int) -> None:
        load = self._load
        loop = asyncio.get_running_loop()
        rows: list[Row] = []
        witness = self._target.witness
        if witness is not None:
            await witness.begin()
        began, wall = loop.time(), time.time()
        try:
            if load.rate is not None:
                await self._open_loop(repeat, load.rate, began, rows)
            else:
                await self._closed_loop(repeat, began, rows)
        finally:
            if rows:
                ended = max(row.sent_s + (row.e2e_ms or 0.0) / 1000 for row in rows)
                length = _own_accept(self._client)
                self._repeats.append(
                    Repeat(tuple(sorted(rows, key=lambda row: row.index)), ended, wall, time.time(), length)
                )
                self._runner.partial = self._measured(None)
        if witness is not None:
            good = sum(row.error is None for row in rows)
            length = await witness.end(good, load.concurrency)
            if self._repeats[-1].accept_len is None:
                self._repeats[-1] = replace(self._repeats[-1], accept_len=length)
        lost = next((row for row in rows if row.status is None), None)
        if lost is not None and self._target.node is not None:
            await self._target.node.ping()  # raises where it was the link, and not the server

    async def _closed_loop(self, repeat: int, began: float, rows: list[Row]) -> None:
        """So many at a time, the next as soon as one ended."""
        left = iter(range(self._load.requests))

        async def one_after_another() -> None:
            for index in left:
                rows.append(await self._counted(repeat, index, began))  # noqa: PERF401 - what was answered counts when it is cancelled

        async with asyncio.TaskGroup() as tasks:
            for _ in range(min(self._load.concurrency or 1, self._load.requests)):
                tasks.create_task(one_after_another())

    async def _open_loop(self, repeat: int, rate: float, began: float, rows: list[Row]) -> None:
        """A Poisson process: what is asked does not wait for what was answered."""
        loop = asyncio.get_running_loop()
        drawn = random.Random(f"{self._load.seed}/{repeat}/arrivals")  # noqa: S311 - a load, no secret
        limit = asyncio.Semaphore(self._load.concurrency or self._load.requests)

        async def one(index: int, due: float) -> None:
            async with limit:
                self._late += loop.time() - due > LATE_S
                rows.append(await self._counted(repeat, index, began))

        due = began
        async with asyncio.TaskGroup() as tasks:
            for index in range(self._load.requests):
                await asyncio.sleep(max(0.0, due - loop.time()))
                tasks.create_task(one(index, due))
                due += drawn.expovariate(rate)

    async def _ask(self, repeat: int, index: int, began: float) -> Row:
        def prompt_of(as_ids: bool) -> Prompt:
            return self._prompts.prompt(repeat, index, as_ids=as_ids)

        return await self._client.ask(self._load, prompt_of, repeat, index, began)

    async def _counted(self, repeat: int, index: int, began: float) -> Row:
        self._now = replace(self._now, open=self._now.open + 1)
        row = await self._ask(repeat, index, began)
        self._ends.append(asyncio.get_running_loop().time())
        self._failed += row.error is not None
        if row.tok_s is not None:
            self._rates.append(row.tok_s)
        now = self._now
        self._show(replace(now, done=now.done + 1, open=now.open - 1, failed=self._failed))
        return row

    def _show(self, now: BenchProgress, *, force: bool = False) -> None:
        self._now = now
        at = time.monotonic()
        if not force and at - self._told_at < TOLD_EVERY_S:
            return
        self._told_at = at
        ends = self._ends
        rate = (len(ends) - 1) / (ends[-1] - ends[0]) if len(ends) > 1 and ends[-1] > ends[0] else None
        spent = 0.0 if now.began_at is None else at - now.began_at
        eta = spent * (now.asked - now.done) / now.done if now.done and now.stage == "measuring" else None
        mean = sum(self._rates) / len(self._rates) if self._rates else None
        self._tell(replace(now, at=at, rate=rate, eta_s=eta, tok_s=mean))

    def _notes(self) -> list[str]:
        """What the reader should know of how it was asked."""
        load, manner = self._load, self._client.manner
        notes = [*manner.notes, *([] if self._target.witness is None else self._target.witness.notes())]
        asked = sum(row.output_tokens for repeat in self._repeats for row in repeat.rows if row.error is None)
        good = [row for repeat in self._repeats for row in repeat.rows if row.error is None]
        prompts = sum(row.input_tokens or 0 for row in good)
        if prompts and self._client.cached_tokens * 20 > prompts:
            share = min(100, round(100 * self._client.cached_tokens / prompts))
            notes.append(f"{share} % of the prompts' tokens came from the server's cache")
        wanted = load.output_len * len(good)
        if good and not load.spread and load.prompts is None and abs(asked - wanted) * 50 > wanted:
            notes.append(f"answers had {asked / len(good):.0f} tokens on average, not {load.output_len} as asked")
        inputs = [row.input_tokens for row in good if row.input_tokens is not None]
        if inputs and not load.spread and load.prompts is None:
            mean = sum(inputs) / len(inputs)
            if abs(mean - load.input_len) > max(8.0, 0.05 * load.input_len):
                notes.append(f"prompts had {mean:.0f} tokens on average, not {load.input_len} as asked")
        if self._late > BEHIND * load.requests * max(1, len(self._repeats)):
            notes.append(f"{self._late} requests began later than they should: the rate was not what was asked for")
        return notes


def _own_accept(client: Client) -> float | None:
    """Tokens a step of this repeat, as `/generate` tells them with each answer."""
    tokens, steps = client.accepted
    client.accepted[:] = [0, 0]
    return tokens / steps if steps else None
