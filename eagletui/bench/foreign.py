"""Runs made elsewhere: lines that `sglang.bench_serving --output-file` appends, of all its versions, and files of `vllm bench serve --save-result`.
Pure: text in, results out.

Such a line has sums and percentiles, and with `--output-details` every request. Without them the rate of a request is derived: output tokens over the
sum of all requests' times. That is a mean, too, but another one than that of the requests' rates; `note`s say so, and it is compared with its like
alone. Lines that follow each other with the same arguments, tag and server are repeats of one run.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

from eagletui.bench.conclude import conclude
from eagletui.bench.load import Api, Load
from eagletui.bench.outcome import Facts, Measured, Repeat, Result, Row, Spread
from eagletui.bench.statistics import ci95, mean
from eagletui.shell.masking import mask_argv, mask_text, shown

PRESET = "imported"
TOOLS_SEED = 1
"""The seed of bench_serving where none is given; its lines do not tell it."""
MOST_ERROR_CHARS = 300
"""Of what a request said when it failed; the rest tells nothing more."""
_APIS: dict[str, Api] = {
    "sglang": "generate", "sglang-native": "generate", "sglang-oai": "completions", "vllm": "completions", "lmdeploy": "completions",
    "openai": "completions", "sglang-oai-chat": "chat", "vllm-chat": "chat", "lmdeploy-chat": "chat", "openai-chat": "chat",
}  # fmt: skip
_FIGURES = frozenset({"version", "status", "max-total-num-tokens", "max-req-input-len"})
"""What a server tells of itself beside its arguments."""
_LOAD_KEYS = (
    "tag", "backend", "dataset_name", "request_rate", "max_concurrency", "sharegpt_output_len", "random_input_len", "random_output_len",
    "random_range_ratio", "model_id", "num_prompts", "burstiness",
)  # fmt: skip
_OTHER_NAMES = {
    "duration": ("benchmark_duration",), "total_input_tokens": ("total_input",), "total_output_tokens": ("total_output",),
    "output_throughput": ("output_token_throughput",),
}  # fmt: skip
"""What the first versions called it."""


@dataclass(frozen=True, slots=True)
class ForeignRun:
    """A run that a file holds. `source` tells it from all others; `tag`: what whoever made it called it."""

    result: Result
    source: str
    tag: str | None = None


@dataclass(frozen=True, slots=True)
class ForeignFile:
    """What a file holds. `problems`: sentences on what could not be read of it."""

    runs: tuple[ForeignRun, ...]
    problems: tuple[str, ...] = ()


def read_foreign(text: str, changed: float, *, node: str | None = None, machine: str = "") -> ForeignFile:
    """All runs of a file, in its order. `changed`: when it was written last, seconds since the epoch, since lines do not tell when they were made.
    `node`, `machine`: where they were measured, as the user says. Their ids are "" yet."""
    lines, problems = _objects(text)
    ends = changed
    groups: list[ForeignRun] = []
    for _, group in reversed([(key, list(members)) for key, members in groupby(lines, key=_Alike)]):
        tries = [line for _, line in group]
        seconds = sum(_number(line, "duration") or 0.0 for line in tries)
        began = round(ends - seconds, 3)  # as fine as the history keeps it
        groups.append(_run(tries, Facts(node=node, machine=machine), began))
        ends = began
    return ForeignFile(tuple(reversed(groups)), problems)


def _objects(text: str) -> tuple[list[tuple[int, Mapping[str, object]]], tuple[str, ...]]:
    """Objects with their line, and complaints. A file may also be one object over many lines, or a list of them."""
    found: list[tuple[int, Mapping[str, object]]] = []
    problems: list[str] = []
    whole = _loaded(text)
    if isinstance(whole, list | dict):
        candidates = list(enumerate(whole if isinstance(whole, list) else [whole], start=1))
    else:
        candidates = [(number, _loaded(line)) for number, line in enumerate(text.splitlines(), start=1) if line.strip()]
    for number, one in candidates:
        if not isinstance(one, dict):
            problems.append(f"line {number} is no JSON object")
        elif _count(one, "completed") is None or _number(one, "duration") is None:
            problems.append(f"line {number} is no result of bench_serving (it tells no `completed` or no `duration`)")
        else:
            found.append((number, one))
    return found, tuple(problems)


def _loaded(text: str) -> object:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


class _Alike:
    """A line as a key of repeats: equal when both were sent alike to servers that are known to be alike."""

    def __init__(self, line: tuple[int, Mapping[str, object]]) -> None:
        self._number, told = line
        args = _arguments(told)
        self._known = bool(args) or bool(told.get("tag"))
        self._sent = (
            [told.get(key) for key in _LOAD_KEYS],
            {key: value for key, value in args.items() if key not in {"random-seed", "nccl-port"}},
        )

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, _Alike):
            return NotImplemented
        return self._number == other._number or (self._known and other._known and self._sent == other._sent)

    __hash__ = None  # type: ignore[assignment]


def _run(tries: Sequence[Mapping[str, object]], where: Facts, began: float) -> ForeignRun:
    first = tries[0]
    told = hashlib.sha256()
    for one in tries:
        told.update(json.dumps(one, sort_keys=True).encode())
    notes = [
        "It was made elsewhere; when is not told: it was at the latest when the file was written",
        f"The seed is not told: {TOOLS_SEED} is taken, as bench_serving does where none is given",
    ]
    if any(_number(one, "accept_length") is not None for one in tries):
        notes.append("The accept length is the server's mean since it began, not of this run alone")
    load, facts = _load(tries), _facts(first, where)
    repeats = [repeat_of(one, number) for number, one in enumerate(tries)]
    detailed = [one for one in repeats if one is not None]
    if len(detailed) == len(tries):
        result = conclude("", load, facts, Measured(tuple(detailed), tuple(notes), None, None), began)
        result = replace(result, windows=())
    else:
        result = _of_sums(tries, load, facts, began, notes)
    tag = first.get("tag")
    return ForeignRun(result, told.hexdigest(), shown(mask_text(tag)) if isinstance(tag, str) and tag else None)


def _load(tries: Sequence[Mapping[str, object]]) -> Load:
    first = tries[0]
    requests = max(_asked(one) for one in tries)
    dataset = first.get("dataset_name")
    drawn = not isinstance(dataset, str) or dataset.startswith("random") or dataset == "generated-shared-prefix"
    done = sum(_count(one, "completed") or 0 for one in tries)
    each = {
        key: sum(_count(one, key) or 0 for one in tries) // done if done else 0
        for key in ("total_input_tokens", "total_output_tokens")
    }
    rate = _number(first, "request_rate")
    endless = rate is None or rate <= 0
    most = _count(first, "max_concurrency")
    ratio = _number(first, "random_range_ratio")
    backend = first.get("backend")
    return Load(
        preset=PRESET,
        requests=requests,
        input_len=(_count(first, "random_input_len") if drawn else None) or each["total_input_tokens"],
        output_len=_count(first, "random_output_len" if drawn else "sharegpt_output_len")
        or each["total_output_tokens"],
        concurrency=(most or requests) if endless else most,
        rate=None if endless else rate,
        warmup=1,
        repeats=len(tries),
        seed=TOOLS_SEED,
        spread=1.0 - ratio if drawn and ratio is not None and 0.0 <= ratio <= 1.0 else 0.0,
        runner="bench_serving",
        api=_APIS.get(backend) if isinstance(backend, str) else None,
        prompts=None if drawn else shown(str(dataset)),
    )


def _asked(told: Mapping[str, object]) -> int:
    """How many were sent, by what tells it; else as many as were answered."""
    lengths = told.get("output_lens")
    return (
        _count(told, "num_prompts")
        or (len(lengths) if isinstance(lengths, list) else 0)
        or _count(told, "completed")
        or 0
    )


def _facts(told: Mapping[str, object], where: Facts) -> Facts:
    info = told.get("server_info")
    known: Mapping[str, object] = info if isinstance(info, dict) else {}
    backend = str(told.get("backend") or "")
    engine = "sglang" if known or backend.startswith("sglang") else "vllm" if backend.startswith("vllm") else None
    # as a benchmark of ours names it: by what requests have to give
    model = known.get("served_model_name") or known.get("model_path") or told.get("model_id") or told.get("model")
    version = known.get("version")
    return replace(
        where,
        engine=engine,
        version=shown(version) if isinstance(version, str) else None,
        model=shown(mask_text(model)) if isinstance(model, str) else None,
        args=_arguments(told),
    )


def _arguments(told: Mapping[str, object]) -> dict[str, object]:
    """What the server told of its settings, masked: plain values alone."""
    info = told.get("server_info")
    if not isinstance(info, dict):
        return {}
    found: dict[str, object] = {}
    for key, value in info.items():
        name = shown(key).replace("_", "-")
        if name in _FIGURES:
            continue
        if isinstance(value, str):
            found[name] = shown(mask_argv((f"--{name}", value))[1])
        elif isinstance(value, bool | int) or (isinstance(value, float) and math.isfinite(value)):
            found[name] = value
    return found


def repeat_of(told: Mapping[str, object], number: int) -> Repeat | None:
    """Its requests one by one; None where they are not told."""
    lists = [told.get(key) for key in ("output_lens", "ttfts", "itls")]
    duration = _number(told, "duration")
    if duration is None or not all(isinstance(one, list) for one in lists):
        return None
    outputs, firsts, gaps = ([*one] if isinstance(one, list) else [] for one in lists)
    inputs, errors = (one if isinstance(one := told.get(key), list) else [] for key in ("input_lens", "errors"))
    if not len(outputs) == len(firsts) == len(gaps):
        return None
    rows = []
    for index, (tokens, first, between) in enumerate(zip(outputs, firsts, gaps, strict=True)):
        failed = errors[index] if index < len(errors) else ""
        input_len = inputs[index] if index < len(inputs) else None
        rows.append(_row(number, index, tokens, first, between, input_len, failed))
    return Repeat(tuple(rows), duration, 0.0, 0.0, _number(told, "accept_length"))


def _row(
    repeat: int, index: int, tokens: object, first: object, between: object, input_len: object, failed: object
) -> Row:
    """Chunks of several tokens give one time for all of them: as many gaps as came."""
    times = [float(one) * 1000 for one in between if _is_number(one)] if isinstance(between, list) else []
    count = tokens if isinstance(tokens, int) and not isinstance(tokens, bool) else 0
    error = shown(mask_text(str(failed)))[:MOST_ERROR_CHARS].strip() if failed else None
    if error is None and (count <= 0 or not _is_number(first)):
        error = "no token came"
    ttft = float(str(first)) * 1000 if error is None else None
    return Row(
        repeat, index, 0.0, ttft, None if ttft is None else ttft + sum(times),
        input_len if isinstance(input_len, int) else None, count if error is None else 0,
        status=200 if error is None else None, error=error, gaps_ms=times if error is None and count > 1 else (),
    )  # fmt: skip


def _of_sums(tries: Sequence[Mapping[str, object]], load: Load, facts: Facts, began: float, notes: list[str]) -> Result:
    """A run of which only sums and percentiles are told."""
    done = [_count(one, "completed") or 0 for one in tries]
    duration = sum(_number(one, "duration") or 0.0 for one in tries)
    outputs = [_count(one, "total_output_tokens") or 0 for one in tries]
    inputs = [_count(one, "total_input_tokens") for one in tries]
    means = tuple(
        rate for one, count, tokens in zip(tries, done, outputs, strict=True) if (rate := _derived(one, count, tokens))
    )
    if means:
        notes.append(
            "The requests were not kept (bench_serving --output-details keeps them): a request's tok/s is output tokens by the sum of all times"
        )
    if not all(_count(one, "num_prompts") for one in tries):
        notes.append("How many requests were sent, and so how many failed, is not told")
    medians = [f"{name} {value:.1f} ms" for name, value in _only_medians(tries)]
    if medians:
        notes.append(f"Its version tells no means: median {', '.join(medians)}")
    accepts = [value for one in tries if (value := _number(one, "accept_length")) is not None]
    single = tries[0] if len(tries) == 1 else None
    rate = mean(means) if means else None
    return Result(
        run="", load=load, facts=facts, began=began, asked=sum(map(_asked, tries)), ok=sum(done), failures=(),
        duration_s=duration, input_tokens=None if None in inputs else sum(one for one in inputs if one is not None),
        output_tokens=sum(outputs), source="usage",
        tok_s_total=sum(outputs) / duration if sum(done) and duration > 0 else None,
        tok_s=None if rate is None else Spread(rate, None, None, None),
        ttft_ms=_spread(tries, single, done, "ttft"), tpot_ms=_spread(tries, single, done, "tpot"),
        itl_ms=_spread(tries, single, done, "itl"), e2e_ms=_spread(tries, single, done, "e2e_latency"),
        accept_len=mean(accepts) if accepts else None, repeat_means=means, ci95=ci95(means), link_overhead_ms=None,
        notes=tuple(notes),
    )  # fmt: skip


def _derived(told: Mapping[str, object], done: int, tokens: int) -> float | None:
    whole = _mean_of(told, "e2e_latency")
    return tokens / (done * whole / 1000) if whole and done and tokens else None


def _spread(
    tries: Sequence[Mapping[str, object]], single: Mapping[str, object] | None, done: Sequence[int], what: str
) -> Spread | None:
    """Percentiles of several repeats cannot be had from those of each."""
    means = [_mean_of(one, what) for one in tries]
    known = [(one, count) for one, count in zip(means, done, strict=True) if one is not None and count]
    if len(known) < len(tries):
        return None
    middle = sum(one * count for one, count in known) / sum(count for _, count in known)
    if single is None:
        return Spread(middle, None, None, None)
    p50, p90, p99 = (_number(single, f"{share}_{what}_ms") for share in ("median", "p90", "p99"))
    return Spread(middle, p50, p90, p99)


def _mean_of(told: Mapping[str, object], what: str) -> float | None:
    value = _number(told, f"mean_{what}_ms")
    return value if value is not None else _number(told, f"mean_{what}")


def _only_medians(tries: Sequence[Mapping[str, object]]) -> list[tuple[str, float]]:
    found = []
    for key, name in (("ttft", "TTFT"), ("itl", "ITL")):
        value = _number(tries[0], f"median_{key}")
        if value is not None and len(tries) == 1 and _mean_of(tries[0], key) is None:
            found.append((name, value))
    return found


def _number(told: Mapping[str, object], key: str) -> float | None:
    for name in (key, *_OTHER_NAMES.get(key, ())):
        value = told.get(name)
        if _is_number(value):
            return float(str(value))
    return None


def _count(told: Mapping[str, object], key: str) -> int | None:
    value = _number(told, key)
    return int(value) if value is not None and value >= 0 else None


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
