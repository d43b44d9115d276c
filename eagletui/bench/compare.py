"""A run held against another: whether they can be compared at all, and whether the difference is more than noise. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterator

from eagletui.bench.load import Load
from eagletui.bench.outcome import Against, Conclusion, Facts, Result
from eagletui.bench.statistics import LEVEL, mean, welch
from eagletui.launching.plan import FlagChange

LENGTHS_DIFFER = 0.1
"""The share by which tokens a request may differ on average: with more the first token's time weighs otherwise in the rate."""
WHOLE = 100
"""More arguments than anybody writes: the server told all that it has."""
_SHORT = {
    "tp-size": "tp", "tensor-parallel-size": "tp", "dp-size": "dp", "pp-size": "pp", "ep-size": "ep", "model": "model-path",
}  # fmt: skip
"""Names of one argument, by the one that is shown."""
_OF_ITS_OWN = frozenset({"random-seed", "port", "host", "nccl-port", "dist-init-addr", "api-key"})
"""Arguments that a server draws or is given for itself: they tell nothing of how it works."""
_NO_DIFFERENCE = 1.0 - LEVEL


def against(result: Result, baseline: Result) -> Against:
    """`result` held against `baseline`, by the mean rate of each repeat (Welch's test, 95 %).

    `not-comparable`: what was sent or what was measured differs, named in `why`, with no difference in per cent; or there is but one repeat on a
    side, whose difference is given though nobody can tell whether it is noise.
    """
    ours, theirs = rate_of(result), rate_of(baseline)
    why = differences(result, baseline)
    if ours is None or theirs is None or theirs == 0.0 or why:
        return Against(baseline.run, theirs, None, "not-comparable", _listed(why or ("nothing was answered",)))
    delta = (ours / theirs - 1) * 100
    even = result.accept_len * theirs / ours if result.accept_len is not None and ours > 0 else None
    test = welch(result.repeat_means, baseline.repeat_means)
    if test is None:
        side = "each" if len(result.repeat_means) == len(baseline.repeat_means) else "one of them"
        told = f"one repeat of {side} tells nothing of the noise: benchmark with --repeats 3"
        return Against(baseline.run, theirs, delta, "not-comparable", told, even)
    verdict: Conclusion = "same" if test.p >= _NO_DIFFERENCE else "faster" if delta > 0 else "slower"
    repeats = f"{len(result.repeat_means)} and {len(baseline.repeat_means)} repeats"
    if verdict == "same":
        told = f"{delta:+.1f} % is within the noise of {repeats} (Welch's test, {_p(test.p)})"
    else:
        told = f"{delta:+.1f} % is more than the noise of {repeats} (Welch's test, {_p(test.p)})"
    return Against(baseline.run, theirs, delta, verdict, told, even)


def rate_of(result: Result) -> float | None:
    """`tok_s.per_request.mean`: the mean of the repeats' means; None when nothing was answered."""
    if result.repeat_means:
        return mean(result.repeat_means)
    return None if result.tok_s is None else result.tok_s.mean


def differences(result: Result, other: Result) -> tuple[str, ...]:
    """Why two runs cannot be compared, each a few words ("concurrency 8, not 1"); empty when they can."""
    found = [*terms_differ(result.load, result.facts, other.load, other.facts)]
    if result.source != other.source:
        found.append("tokens were counted by the server's usage in one and as chunks in the other")
    if _is_derived(result) != _is_derived(other):
        found.append("the rate of one was derived from sums, as the program that measured it kept no requests")
    if (result.load.input_len, result.load.output_len) == (other.load.input_len, other.load.output_len):
        found += _lengths_differ(result, other)
    return (*found, *unfitness(result, "this run"), *unfitness(other, "the baseline"))


def unfitness(result: Result, name: str) -> tuple[str, ...]:
    """Why a run can be compared with none, each a few words. `name`: what it is called in them."""
    found = []
    if not result.ok:
        found.append(f"no request of {name} was answered")
    elif result.failed:
        found.append(f"{result.failed} of {result.asked} requests of {name} failed")
    if not result.complete:
        found.append(f"{name} was ended early")
    return tuple(found)


def _is_derived(result: Result) -> bool:
    """Its requests' rates are not known one by one (see bench.foreign): their mean is another one then, by up to the square of their spread."""
    return result.tok_s is not None and result.tok_s.p50 is None


def terms_differ(load: Load, facts: Facts, other: Load, others: Facts) -> tuple[str, ...]:
    """As differences, of what is known before a run: what is sent, and to which model."""
    found = list(_loads_differ(load, other))
    model, theirs = _plain_path(facts.model), _plain_path(others.model)
    if model != theirs:
        found.append(f"model {model or 'unknown'}, not {theirs or 'unknown'}")
    return tuple(found)


def flags_differ(before: Facts, after: Facts) -> tuple[FlagChange, ...]:
    """Arguments of two servers that are not the same, by name. Where a server told all that it has, what the other one was not given is a default,
    of which nobody knows whether it differs: then only names that both have are looked at."""
    old, new = _by_name(before), _by_name(after)
    partly = (len(old) > WHOLE) != (len(new) > WHOLE)
    names = sorted((old.keys() & new.keys()) if partly else (old.keys() | new.keys()))
    return tuple(FlagChange(name, old.get(name), new.get(name)) for name in names if old.get(name) != new.get(name))


def _by_name(facts: Facts) -> dict[str, str | None]:
    plain = ((name.replace("_", "-"), value) for name, value in facts.args.items())
    return {_SHORT.get(name, name): _told(value) for name, value in plain if name not in _OF_ITS_OWN}


def _told(value: object) -> str | None:
    if value is None or isinstance(value, str):
        return value
    return json.dumps(value, default=str)


def _loads_differ(load: Load, other: Load) -> Iterator[str]:
    yield from _prompts_differ(load, other)
    if load.output_len != other.output_len:
        yield f"output-len {load.output_len}, not {other.output_len}"
    if _paces(load) != _paces(other):
        yield f"{_paces(load)}, not {_paces(other)}"
    if load.temperature != other.temperature:
        yield f"temperature {load.temperature:g}, not {other.temperature:g}"
    if load.ignore_eos != other.ignore_eos:
        yield "answers are as long as asked in one (ignore_eos), and end by themselves in the other"
    if load.api is not None and other.api is not None and load.api != other.api:
        yield f"api {load.api}, not {other.api}"
    if load.runner != other.runner:
        yield f"runner {load.runner}, not {other.runner}"


def _prompts_differ(load: Load, other: Load) -> Iterator[str]:
    if (load.prompts is None) != (other.prompts is None):
        yield "prompts of a file in one, generated ones in the other"
    elif load.prompts is not None:
        same = load.prompts_hash == other.prompts_hash if load.prompts_hash else load.prompts == other.prompts
        if not same:
            yield "prompts of another file, or the file was changed"
    else:
        if load.input_len != other.input_len:
            yield f"input-len {load.input_len}, not {other.input_len}"
        if load.spread != other.spread:
            yield f"lengths drawn from {1 - load.spread:g} of what is asked, not {1 - other.spread:g}"
        if load.seed != other.seed:
            yield f"other prompts (seed {load.seed}, not {other.seed})"


def _paces(load: Load) -> str:
    """How it is sent. More at a time than there are requests is as many as there are."""
    at_once = None if load.concurrency is None else min(load.concurrency, load.requests)
    if load.rate is None:
        return f"concurrency {at_once}"
    most = "" if at_once is None else f", at most {at_once} at a time"
    return f"{load.rate:g} requests/s{most}"


def _lengths_differ(result: Result, other: Result) -> Iterator[str]:
    """What came may differ though the same was asked."""
    for what, ours, theirs in (
        ("prompts had", _each(result.input_tokens, result.ok), _each(other.input_tokens, other.ok)),
        ("answers had", _each(result.output_tokens, result.ok), _each(other.output_tokens, other.ok)),
    ):
        if ours is not None and theirs is not None and abs(ours - theirs) > LENGTHS_DIFFER * max(ours, theirs):
            yield f"{what} {ours:.0f} tokens, not {theirs:.0f}"


def _each(tokens: int | None, requests: int) -> float | None:
    return tokens / requests if tokens is not None and requests else None


def _plain_path(model: str | None) -> str | None:
    return None if model is None else model.rstrip("/") or model


def _listed(parts: tuple[str, ...]) -> str:
    return "; ".join(parts)


def _p(value: float) -> str:
    return "p < 0.001" if value < 0.001 else f"p = {value:.3f}"
