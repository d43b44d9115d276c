"""/metrics of the simulated server: the recorded text of a real one, with its own figures in it.

What the simulation knows is put in by name; counters and histograms that it does not model grow in proportion to the
requests served, so that every counter is monotone; other gauges stay as recorded.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, NamedTuple

from eagletui.demo import shape
from eagletui.demo.load import Histogram, Totals

_LINE: Final = re.compile(r"(sglang:\w+?)(_bucket|_sum|_count)?(\{.*\})? (\S+)")
_TYPE: Final = re.compile(r"# TYPE (\S+) (\w+)")
_HTTP: Final = ("sglang:http_requests_total", "sglang:http_responses_total")


class _Sample(NamedTuple):
    """A recorded sample: its family's name, the ending of its own name, labels in braces, value, and family's type."""

    name: str
    ending: str
    labels: str
    value: float
    type: str


@dataclass(frozen=True, slots=True)
class Figures:
    """What the simulation knows. `answers` counts by (method, path, status)."""

    running: int
    tokens: int
    throughput: float
    accept_len: float
    totals: Totals
    answers: Mapping[tuple[str, str, int], int]

    def gauges(self) -> dict[str, float]:
        """Values by name, without `sglang:`, for rank 0."""
        usage = self.tokens / shape.KV_TOKENS
        return {
            "num_running_reqs": self.running,
            "num_queue_reqs": 0,
            "gen_throughput": self.throughput,
            "decode_sum_seq_lens": self.tokens,
            "token_usage": round(usage, 2),
            "full_token_usage": usage,
            "num_used_tokens": self.tokens,
            "kv_used_tokens": self.tokens,
            "kv_available_tokens": shape.KV_TOKENS - self.tokens,
            "kv_evictable_tokens": 0,
            "spec_accept_length": self.accept_len,
            "spec_accept_rate": max(0.0, (self.accept_len - 1) / 4),
        }

    def counters(self) -> dict[str, float]:
        """Values by name, without `sglang:`."""
        totals = self.totals
        return {
            "prompt_tokens_total": totals.prompt_tokens,
            "generation_tokens_total": totals.generated,
            "spec_verify_calls_total": totals.verify_calls,
            "num_requests_total": totals.requests,
            "cached_tokens_total": totals.cached_tokens,
        }


@lru_cache(maxsize=4)
def _template(text: str) -> tuple[str | _Sample, ...]:
    """Comment lines as they are, samples taken apart."""
    out: list[str | _Sample] = []
    kinds: dict[str, str] = {}
    for line in text.splitlines():
        if found := _TYPE.match(line):
            kinds[found[1]] = found[2]
        sample = _LINE.fullmatch(line)
        if sample is None:
            out.append(line)
            continue
        name, ending, labels, value = sample.groups()
        name = name if name in kinds else name + (ending or "")
        out.append(_Sample(name, ending or "", labels or "", float(value), kinds.get(name, "")))
    return tuple(out)


def render(text: str, figures: Figures) -> bytes:
    """The exposition text. `text` is the recorded one."""
    template = _template(text)
    recorded = sum(s.value for s in template if isinstance(s, _Sample) and s.name == "sglang:num_requests_total")
    share = figures.totals.requests / recorded if recorded else 0.0
    gauges, counters = figures.gauges(), figures.counters()
    histograms = {
        "sglang:time_to_first_token_seconds": figures.totals.ttft,
        "sglang:e2e_request_latency_seconds": figures.totals.e2e,
    }
    lines: list[str] = []
    done: set[str] = set()
    for part in template:
        if isinstance(part, str):
            lines.append(part)
        elif part.name in _HTTP:
            if part.name not in done:
                done.add(part.name)
                lines += _http(part.name, figures.answers)
        elif part.name in histograms:
            lines.append(_sample(part, _of_histogram(part, histograms[part.name])))
        else:
            lines.append(_sample(part, _value(part, share, gauges, counters)))
    return ("\n".join(lines) + "\n").encode()


def _sample(part: _Sample, value: float) -> str:
    name = part.name if part.name.endswith(part.ending) else part.name + part.ending
    return f"{name}{part.labels} {'NaN' if math.isnan(value) else repr(float(value))}"


def _value(part: _Sample, share: float, gauges: Mapping[str, float], counters: Mapping[str, float]) -> float:
    name = part.name.removeprefix("sglang:")
    if name in counters:
        return counters[name]
    if name in gauges and 'tp_rank="0"' in part.labels:
        return gauges[name]
    if name == "http_requests_active":
        return 1.0 if '"/metrics"' in part.labels else 0.0
    counts = part.ending != "_sum" and name != "process_cpu_seconds_total"
    if part.type in {"counter", "histogram"} and counts:
        return float(math.floor(round(part.value * share, 6)))  # rounded first: 39 × (7 / 39) must stay 7
    if part.type in {"counter", "histogram"}:
        return part.value * share
    return part.value


def _of_histogram(part: _Sample, histogram: Histogram) -> float:
    if part.ending == "_sum":
        return histogram.total
    bound = re.search(r'le="([^"]+)"', part.labels)
    if part.ending == "_count" or bound is None or bound[1] == "+Inf":
        return float(sum(histogram.counts))
    limit = float(bound[1])
    return float(sum(n for top, n in zip(histogram.bounds, histogram.counts, strict=False) if top <= limit))


def _http(name: str, answers: Mapping[tuple[str, str, int], int]) -> Iterator[str]:
    """One line an endpoint (and status, for the responses)."""
    if name == _HTTP[0]:
        asked: dict[tuple[str, str], int] = {}
        for (method, path, _), count in answers.items():
            asked[method, path] = asked.get((method, path), 0) + count
        for (method, path), count in asked.items():
            yield f'{name}{{endpoint="{path}",method="{method}"}} {float(count)}'
        return
    for (method, path, status), count in answers.items():
        yield f'{name}{{endpoint="{path}",method="{method}",status_code="{status}"}} {float(count)}'
