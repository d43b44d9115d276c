"""An engine's /metrics answer as one sample. Only the names that an engine's table wants are parsed: an answer is 80
KB, asked every second.

Source of the format: the Prometheus text format 0.0.4. NaN is no figure and gives None. Names are told with a colon or,
by some versions and every gateway in between, with an underscore (`sglang:x`, `sglang_x`); a counter with `_total` or
without.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from eagletui.engines.batch import BatchSample, finite
from eagletui.engines.spec import Engine

_LABEL = re.compile(r'([A-Za-z_]\w*)="((?:[^"\\]|\\.)*)"')
_DP_LABELS = ("dp_rank", "engine")
_MEANS = frozenset(("accept_len", "accept_rate"))
_LARGEST = frozenset(("token_usage",))


_TOTAL = "_total"


def _spelled(name: str, *, counter: bool) -> tuple[str, ...]:
    """Every spelling of a metric's name."""
    names = (name, name.removesuffix(_TOTAL)) if counter else (name,)
    return tuple(spelled for one in names for spelled in (one, one.replace(":", "_")))


class Figures(NamedTuple):
    """What an answer told: the sample of its gauges, and its counters (tokens since the server's start) for rates
    between two answers."""

    sample: BatchSample
    counters: dict[str, float]


def read_metrics(text: str, engine: Engine) -> Figures:
    """The figures of a /metrics answer; fields that it does not have are None. Sums over data ranks, never over
    tensor ranks. Total."""
    fields = {
        name: field
        for field, names in engine.metrics.items()
        for told in names
        for name in _spelled(told, counter=False)
    }
    for counter, told in engine.metrics_counters.items():
        fields.update(dict.fromkeys(_spelled(told, counter=True), counter))
    found: dict[str, dict[str, float]] = {}
    for line in text.splitlines():
        if line.startswith("#"):
            continue
        name = line[: line.find("{")] if "{" in line else line.partition(" ")[0]
        field = fields.get(name)
        if field is None:
            continue
        value, rank = _value(line[len(name) :])
        if value is None:
            continue
        ranks = found.setdefault(field, {})
        ranks[rank] = max(
            ranks.get(rank, value), value
        )  # the same figure by each tensor rank, or a part of it by priority
    gauges = {field: _whole_server(field, ranks) for field, ranks in found.items()}
    if (
        gauges.get("accept_len") == 0
    ):  # a step accepts at least one token: 0 stands for "none yet", and so does its rate
        del gauges["accept_len"]
        gauges.pop("accept_rate", None)
    sample = BatchSample(
        "metrics",
        gauges.get("gen_tok_s"),
        gauges.get("accept_len"),
        _count(gauges.get("running")),
        _count(gauges.get("queued")),
        gauges.get("token_usage"),
        gauges.get("input_tok_s"),
        accept_rate=gauges.get("accept_rate"),
    )
    return Figures(sample, {counter: gauges[counter] for counter in engine.metrics_counters if counter in gauges})


def _count(value: float | None) -> int | None:
    return None if value is None else int(value)


def _value(rest: str) -> tuple[float | None, str]:
    """The value and the data rank of `{labels} value [time]`."""
    rank = ""
    if rest.startswith("{"):
        end = rest.rfind("}")
        if end < 0:
            return None, ""
        for label in _LABEL.finditer(rest, 1, end):
            if label[1] in _DP_LABELS:
                rank = label[2]
        rest = rest[end + 1 :]
    words = rest.split()
    return (finite(words[0]) if words else None), rank


def _whole_server(field: str, ranks: dict[str, float]) -> float:
    values = list(ranks.values())
    if field in _LARGEST:
        return max(values)
    if field in _MEANS:
        return sum(values) / len(values)
    return sum(values)


def between(before: Figures, after: Figures, seconds: float) -> BatchSample:
    """The later sample with rates from counters where gauges tell none (vLLM). A counter that fell (a restart) gives
    no rate."""
    sample = after.sample
    gen, prompt = sample.gen_tok_s, sample.input_tok_s
    if gen is None:
        gen = _rate(before, after, "gen_tokens", seconds)
    if prompt is None:
        prompt = _rate(before, after, "prompt_tokens", seconds)
    length, share = sample.accept_len, sample.accept_rate
    drafts, drafted, accepted = (
        _rate(before, after, name, seconds) for name in ("drafts", "draft_tokens", "accepted_tokens")
    )
    if length is None and drafts and accepted is not None:
        length = 1 + accepted / drafts
    if share is None and drafted and accepted is not None:
        share = accepted / drafted
    return sample._replace(gen_tok_s=gen, input_tok_s=prompt, accept_len=length, accept_rate=share)


def _rate(before: Figures, after: Figures, counter: str, seconds: float) -> float | None:
    old, new = before.counters.get(counter), after.counters.get(counter)
    if old is None or new is None or new < old or seconds <= 0:
        return None
    return (new - old) / seconds
