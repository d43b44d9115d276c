"""A bench that does what the tests say, and results made by hand: the campaign of one server's flags against a baseline."""

# ruff: noqa: E501 - made values are as wide as they are

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import replace

from eagletui.bench.load import Load
from eagletui.bench.outcome import Against, BenchProgress, Conclusion, Facts, Failure, Result, Spread
from eagletui.errors import BenchError

QUICK = Load("quick", 8, 256, 128)
STANDARD = Load("standard", 64, 1024, 512, concurrency=4, warmup=4)
OPEN = Load("open-loop", 200, 2048, 256, concurrency=64, rate=2.5, spread=0.5)
PRESETS = (QUICK, STANDARD, OPEN)
RUNNERS = ("builtin", "bench_serving", "aiperf")
ARGS: Mapping[str, object] = {
    "model-path": "/shared/models/Kimi-K2.5-INT4", "tp": "8", "speculative-algorithm": "EAGLE3", "speculative-num-steps": "2",
    "speculative-eagle-topk": "4", "mem-fraction-static": "0.88",
}  # fmt: skip
MEASURING = BenchProgress("measuring", 2, 3, 14, 24, 0, 1, 82.3, 0.9, 18.4, 9_970.0, 10_000.0)


def spread(mean: float, tail: float = 1.2) -> Spread:
    return Spread(mean, mean * 0.99, mean * (1 + (tail - 1) / 2), mean * tail)


def result(
    run: str, mean: float, *, began: float, half: float | None = 0.4, load: Load = QUICK, args: Mapping[str, object] = ARGS, verdict: Conclusion | None = None,
    base: float = 90.0, accept: float | None = 2.11, why: str = "", failures: tuple[Failure, ...] = (), notes: tuple[str, ...] = (), variant: str | None = None,
    launch: str | None = None, complete: bool = True,
) -> Result:  # fmt: skip
    asked = load.requests * load.repeats
    bad = sum(one.count for one in failures)
    delta = (mean / base - 1) * 100
    against = None
    if verdict is not None:
        against = Against(
            "base", base, None if verdict == "not-comparable" else delta, verdict, why or "Welch's test, p < 0.001", 2.4
        )
    facts = Facts(
        "sglang",
        "0.5.23",
        "/shared/models/Kimi-K2.5-INT4",
        args,
        "gpu-node",
        "m host",
        "41822:1",
        30_000,
        launch,
        "k25",
        variant,
    )
    tokens = load.output_len * (asked - bad)
    return Result(
        run, load, facts, began, asked, asked - bad, failures, tokens / mean, load.input_len * asked, tokens, "usage", mean * 0.97, spread(mean, 1.01), spread(45.0),
        spread(1000 / mean), spread(1000 / mean * 2, 3.0), spread(128_000 / mean), accept, (mean - 0.2, mean, mean + 0.2) if half else (mean,),
        None if half is None else (mean - half, mean + half), 1.8, notes, against, complete=complete, windows=((began, began + 12.0), (began + 12.0, began + 24.0)),
    )  # fmt: skip


class FakeBenchRun:
    """A run that stands where the test puts it."""

    def __init__(self, load: Load, run: str, owner: FakeBench, progress: BenchProgress) -> None:
        self.load, self.run = load, run
        self._owner, self._progress = owner, progress
        self._ended: asyncio.Future[Result] = asyncio.get_running_loop().create_future()
        self.aborts = 0

    @property
    def progress(self) -> BenchProgress:
        return self._progress

    def becomes(self, progress: BenchProgress) -> None:
        """It goes on."""
        self._progress = progress
        if self._owner.on_change is not None:
            self._owner.on_change()

    def ends(self, outcome: Result | BenchError) -> None:
        """It is over."""
        if isinstance(outcome, BenchError):
            self._ended.set_exception(outcome)
        else:
            self._ended.set_result(outcome)

    def abort(self) -> None:
        self.aborts += 1

    async def wait(self) -> Result:
        return await asyncio.shield(self._ended)


class FakeBench:
    """A `bench.runner.Bench`."""

    def __init__(self, progress: BenchProgress = MEASURING) -> None:
        self.on_change: Callable[[], None] | None = None
        self.current: FakeBenchRun | None = None
        self.begun: list[Load] = []
        self.closed = 0
        self._progress = progress

    def presets(self) -> tuple[Load, ...]:
        return PRESETS

    def runners(self) -> tuple[str, ...]:
        return RUNNERS

    def begin(self, load: Load) -> FakeBenchRun:
        self.begun.append(load)
        asked = load.requests * load.repeats
        self.current = FakeBenchRun(load, f"r{len(self.begun)}", self, replace(self._progress, asked=asked))
        return self.current

    async def aclose(self) -> None:
        self.closed += 1
