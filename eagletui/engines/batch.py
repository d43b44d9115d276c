"""Throughput figures of one line or one /metrics answer. A batch line is an open set of `key: value`: unknown keys
are kept, missing ones stay None."""

from __future__ import annotations

import re
from typing import Literal, NamedTuple

SampleKind = Literal["decode", "prefill", "engine", "spec", "metrics"]


class BatchSample(NamedTuple):
    """Figures of one moment.

    `gen_tok_s` and `input_tok_s` in tokens a second, `accept_len` in tokens a step, `running` and `queued` in
    requests, `token_usage` from 0 to 1. `new_tokens` only for a prefill batch. `dp_rank` is the data rank that
    printed it ("DP1"), "" when there is one. `raw` is the line's pairs as printed; `pairs` takes them apart, known
    keys and unknown ones. `accept_rate`: accepted of drafted tokens, from 0 to 1.
    """

    kind: SampleKind
    gen_tok_s: float | None = None
    accept_len: float | None = None
    running: int | None = None
    queued: int | None = None
    token_usage: float | None = None
    input_tok_s: float | None = None
    new_tokens: int | None = None
    dp_rank: str = ""
    raw: str = ""
    accept_rate: float | None = None

    @property
    def pairs(self) -> dict[str, str]:
        """Every `key: value` of the line as printed. Taken apart when asked for: a flood has 200,000 lines a second."""
        return split_pairs(self.raw)


_NUMBER = re.compile(r"(?:[\w.]+=)?(-?[0-9][0-9,]*(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?)(%?)")


def number(text: str | None) -> float | None:
    """A number as engines print it: thousands separators, a unit or `name=` beside it, a percentage (as a fraction).
    None for anything else."""
    if text is None:
        return None
    try:
        return float(text)
    except ValueError:
        found = _NUMBER.match(text)
    if found is None:
        return None
    value = float(found[1].replace(",", ""))
    return value / 100 if found[2] else value


def finite(text: str | None) -> float | None:
    """`number`, without NaN and infinities."""
    value = number(text)
    return value if value is not None and value - value == 0 else None


def whole(text: str | None) -> int | None:
    """A count, None when it is no number."""
    value = finite(text)
    return None if value is None else int(value)


def value_of(text: str, key: str, start: int) -> str | None:
    """The value of the first pair with this key from `start` on (where the first pair begins), as printed; None when
    it is not there."""
    lead = f", {key}: "
    at = text.find(lead, start)
    if at >= 0:
        at += len(lead)
    elif text.startswith(lead[2:], start):
        at = start + len(lead) - 2
    else:
        return None
    end = text.find(", ", at)
    return text[at:] if end < 0 else text[at:end]


def split_pairs(text: str) -> dict[str, str]:
    """`key: value, key: value, ` as a dict. Pieces without a colon are dropped; a second pair without a comma (`0
    #queue-req: 1`) is found."""
    pairs: dict[str, str] = {}
    for piece in text.split(", "):
        key, colon, value = piece.partition(": ")
        if not colon:
            continue
        if " #" in value:
            value, _, more = value.partition(" #")
            pairs.update(split_pairs("#" + more))
        pairs[key.strip()] = value.strip()
    return pairs
