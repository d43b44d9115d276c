"""What a run sends: how many requests, how long, how many at a time. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Api = Literal["completions", "chat", "generate"]
"""`/v1/completions`, `/v1/chat/completions`, and SGLang's own `/generate`."""
RunnerName = Literal["builtin", "bench_serving", "aiperf"]
"""Who sends: eagletui itself over the link, or a program on the node beside the server."""


@dataclass(frozen=True, slots=True)
class Load:
    """The load of a run. Each repeat sends `requests`, after `warmup` more that are not counted (before the first repeat only).

    `concurrency`: closed loop, so many at a time. `rate`: open loop, so many begin a second, as a Poisson process; then `concurrency`, where
    given, is the most that are open at a time. One of the two is always given. `input_len` and `output_len` are tokens asked for; `spread` (0 to 1):
    lengths are drawn evenly from (1 - spread) of that up to it. `prompts`: a JSONL file of the user's own instead of generated ones (its content's
    SHA-256 follows in `prompts_hash`, for comparing). `api` None: the first of completions, chat that the server has. `ignore_eos`: answers are
    as long as asked where the engine can.
    """

    preset: str
    requests: int
    input_len: int
    output_len: int
    concurrency: int | None = 1
    rate: float | None = None
    warmup: int = 1
    repeats: int = 3
    seed: int = 0
    spread: float = 0.0
    runner: RunnerName = "builtin"
    api: Api | None = None
    ignore_eos: bool = True
    temperature: float = 0.0
    prompts: str | None = None
    prompts_hash: str | None = None
