"""The runner `bench_serving`: SGLang's own, on the node, with the Python of the server. A start of it for each repeat; its rows are read from its JSONL."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Final

from eagletui.bench.foreign import repeat_of
from eagletui.bench.load import Load
from eagletui.bench.outcome import BenchProgress, Measured, Repeat
from eagletui.bench.runner import Target
from eagletui.bench.runners.on_node import OnNode, Ran, bar_in, tools_of
from eagletui.errors import BenchError, RefusedError
from eagletui.shell.bench_run import RESULT, BenchTools

BACKENDS: Final[dict[str, str]] = {"completions": "sglang-oai", "chat": "sglang-oai-chat", "generate": "sglang"}
_VLLM: Final[dict[str, str]] = {"completions": "vllm", "chat": "vllm-chat"}
_WARMS_UP: Final = ("Starting warmup", "Starting initial single prompt test run")
_SAID: Final = 300


class BenchServingRunner:
    """See runner.Runner. `partial`: what was measured until now, for a run that is ended early."""

    name = "bench_serving"

    def __init__(self) -> None:
        self.partial: Measured | None = None

    async def run(self, load: Load, target: Target, on_progress: Callable[[BenchProgress], None]) -> Measured:
        """See runner.Runner. Raises RefusedError where it is not installed, or cannot send this load."""
        if target.node is None or target.facts.port is None:
            raise RefusedError("bench_serving runs on a node beside the server; name a node, or use the runner builtin")
        now = BenchProgress("preparing", repeats=load.repeats, asked=load.requests * load.repeats, at=time.monotonic())
        on_progress(now)
        tools = await tools_of(target.node, target.facts)
        words_for(load, target, tools, 0)  # refuses before anything is started
        on_node = OnNode(target.node, target.facts.port, target.api_key)
        repeats: list[Repeat] = []
        notes = _notes(load, tools)
        silent = 0
        for repeat in range(load.repeats):
            follow = _Follow(load, repeat, now, on_progress)
            if target.witness is not None:
                await target.witness.begin()
            ran = await on_node.run(words_for(load, target, tools, repeat), follow.text)
            measured = repeat_in(ran, repeat)
            silent += sum(row.error is None and row.ttft_ms is None for row in measured.rows)
            if target.witness is not None:
                good = sum(row.error is None for row in measured.rows)
                length = await target.witness.end(good, load.concurrency)
                measured = replace(measured, accept_len=length)
            repeats.append(measured)
            now = replace(follow.now, done=load.requests * (repeat + 1), failed=now.failed + _failed(measured), line="")
            seen = () if target.witness is None else tuple(target.witness.notes())
            self.partial = Measured(tuple(repeats), (*notes, *_silent(silent), *seen), None, tools.version)
        on_progress(replace(now, stage="ended", at=time.monotonic()))
        return self.partial or Measured(())


def words_for(load: Load, target: Target, tools: BenchTools, repeat: int) -> tuple[str, ...]:
    """The program and its arguments for one repeat. Pure. Raises RefusedError where it is not installed, or cannot send this load."""
    python, module = _checked(load, tools)
    backend = _backend(load, target)
    host = target.base_url.removeprefix("http://").rpartition(":")[0]
    words = [
        python, "-m", module, "--backend", backend,
        *(("--base-url", target.base_url) if "--base-url" in tools.options else ("--host", host, "--port", str(target.facts.port))),
        "--dataset-name", "random-ids" if "random-ids" in tools.options else "random", "--num-prompts", str(load.requests),
        "--random-input-len", str(load.input_len), "--random-output-len", str(load.output_len),
        "--random-range-ratio", f"{1.0 - load.spread:g}", "--seed", str(load.seed + repeat),
        "--output-file", RESULT, "--output-details",
    ]  # fmt: skip
    if load.rate is not None:
        words += ["--request-rate", f"{load.rate:g}"]
    if load.concurrency is not None:
        words += ["--max-concurrency", str(load.concurrency)]
    if "--warmup-requests" in tools.options:
        words += ["--warmup-requests", str(load.warmup if repeat == 0 else 0)]
    if "--temperature" in tools.options:
        words += ["--temperature", f"{load.temperature:g}"]
    if not load.ignore_eos and "--disable-ignore-eos" in tools.options:
        words.append("--disable-ignore-eos")
    if backend == "sglang" and "--tokenize-prompt" in tools.options:
        words.append("--tokenize-prompt")
    return tuple(words)


def _checked(load: Load, tools: BenchTools) -> tuple[str, str]:
    if tools.python is None or tools.module is None:
        raise RefusedError(
            "sglang's bench_serving is not installed for the server's Python or the login's on the node: install sglang there "
            "(pip install sglang), or use the runner builtin"
        )
    if "--output-details" not in tools.options or "--output-file" not in tools.options:
        raise RefusedError(
            f"bench_serving of sglang {tools.version or 'there'} keeps no single requests (--output-details): update it, or use the runner builtin"
        )
    if load.prompts is not None:
        raise RefusedError("bench_serving gets prompts of random tokens here; use the runner builtin for your own")
    if load.concurrency is not None and "--max-concurrency" not in tools.options:
        raise RefusedError("this version of bench_serving has no --max-concurrency; use the runner builtin")
    return tools.python, tools.module


def _backend(load: Load, target: Target) -> str:
    vllm = target.facts.engine == "vllm"
    backend = (_VLLM if vllm else BACKENDS).get(load.api or "completions")
    if backend is None:
        raise RefusedError("vLLM has no /generate; choose the API completions or chat")
    return backend


def repeat_in(ran: Ran, number: int) -> Repeat:
    """The repeat that a program left. Raises BenchError with what it said where it left none."""
    told = _last(ran.result)
    repeat = None if told is None else repeat_of(told, number)
    if repeat is None:
        said = " ".join(ran.log.strip().split("\n")[-3:]).strip()[-_SAID:]
        raise BenchError(
            f"bench_serving ended with status {ran.exit_status} and left no result{f': {said}' if said else ''}"
        )
    # A time of 0 is how it says that no text came: it keeps no other time of such a request.
    rows = tuple(replace(row, ttft_ms=None, e2e_ms=None, gaps_ms=()) if not row.ttft_ms else row for row in repeat.rows)
    return replace(repeat, rows=rows, began=ran.ended - repeat.duration_s, ended=ran.ended, accept_len=None)


def _last(text: str) -> Mapping[str, Any] | None:
    import json

    for line in reversed(text.splitlines()):
        try:
            told = json.loads(line)
        except ValueError:
            continue
        if isinstance(told, dict):
            return told
    return None


def _silent(count: int) -> tuple[str, ...]:
    if not count:
        return ()
    return (
        f"{count} answered requests had no text that bench_serving could time (special tokens alone): their tokens count, their times are not known",
    )


def _failed(repeat: Repeat) -> int:
    return sum(row.error is not None for row in repeat.rows)


def _notes(load: Load, tools: BenchTools) -> tuple[str, ...]:
    """What is other than it was asked for."""
    notes = []
    if load.repeats > 1:
        notes.append("bench_serving is started anew for each repeat, with the next seed")
    if "--warmup-requests" not in tools.options or load.repeats > 1:
        notes.append("bench_serving warms up as its version does, not as was asked for every repeat")
    if "--temperature" not in tools.options and load.temperature:
        notes.append(f"this version of bench_serving cannot set a temperature: it was 0, not {load.temperature:g}")
    if not load.ignore_eos and "--disable-ignore-eos" not in tools.options:
        notes.append("this version of bench_serving lets no answer end early")
    if "random-ids" not in tools.options:
        notes.append("this version takes its prompts from ShareGPT, and fetches that where the node has it not")
    return tuple(notes)


class _Follow:
    """Where a repeat stands, by what it prints."""

    def __init__(
        self, load: Load, repeat: int, before: BenchProgress, on_progress: Callable[[BenchProgress], None]
    ) -> None:
        self._load = load
        self._base = load.requests * repeat
        self._tell = on_progress
        self._tail = ""
        self._began: float | None = None
        self._bar_at: float | None = None
        self.now = replace(before, stage="preparing", repeat=repeat + 1, line="bench_serving is starting")

    def text(self, new: str) -> None:
        """More of its log."""
        at = time.monotonic()
        self._tail = (self._tail + new)[-4096:]
        line = next((one.strip() for one in reversed(self._tail.split("\n")) if one.strip()), "")
        bar = bar_in(new)
        done, rate, eta = 0, None, None
        if bar is not None and bar[1] == self._load.requests:
            self.now = replace(self.now, stage="measuring")
        elif self.now.stage == "preparing" and any(mark in self._tail for mark in _WARMS_UP):
            self.now = replace(self.now, stage="warmup")
        if self.now.stage == "measuring" and bar is not None:
            self._bar_at = self._bar_at or at
            done = min(bar[0], self._load.requests)
            spent = at - self._bar_at
            rate = done / spent if done and spent > 0 else None
            left = self._load.requests * self._load.repeats - self._base - done
            eta = left / rate if rate else None
            began = self.now.began_at if self.now.began_at is not None else at
            self.now = replace(self.now, done=self._base + done, rate=rate, eta_s=eta, began_at=began)
        self.now = replace(self.now, at=at, line=line[:200])
        self._tell(self.now)
