"""Progress bars as tqdm draws them. FORMATS.md section 4: n/N is the truth; percentage, estimate and unit are
decoration."""

from __future__ import annotations

import re
from typing import NamedTuple


class Bar(NamedTuple):
    """One drawing of a bar. `total` None when unknown. `label` is its description without what changes from step to
    step. `rate` per second as printed."""

    label: str
    done: int
    total: int | None
    elapsed_s: float | None
    rate: float | None
    postfix: str = ""


_BAR = re.compile(
    r"(?P<label>.{0,300}?):?\s*(?P<percent>[0-9]{1,3})\s*%(?:\s*Completed)?\s*\|(?:[^|\[\]]{0,400}\|)?\s*"
    r"(?P<done>[0-9]+)/(?P<total>[0-9]+) \[(?P<elapsed>[0-9:?]+)<(?P<eta>[0-9:?]+)"
    r"(?:,\s*(?P<rate>[0-9.?]+)(?P<unit>\w+/s|s/\w+))?(?P<postfix>[^\]]{0,200})\]"
)
_OPEN = re.compile(
    r"(?P<label>.{0,300}?):?\s*(?P<done>[0-9]+)it \[(?P<elapsed>[0-9:]+), *(?P<rate>[0-9.?]+)(?P<unit>it/s|s/it)\]"
)
_CHANGING = re.compile(r"\s*\([^()]*=[^()]*\)")


def seconds(clock: str) -> float | None:
    """Seconds of `mm:ss` or `h:mm:ss`; None for `?`."""
    total = 0
    for part in clock.split(":"):
        if not part.isdecimal():
            return None
        total = total * 60 + int(part)
    return float(total)


def read_bar(text: str) -> Bar | None:
    """The bar drawn in a line, None when there is none."""
    if "/" not in text or "[" not in text:
        return None
    found = _BAR.match(text) if "%" in text else None
    total: int | None = None
    postfix = ""
    if found is not None:
        total = int(found["total"])
        postfix = found["postfix"].lstrip(", ")
    else:
        found = _OPEN.match(text) if "it [" in text else None
        if found is None:
            return None
    return Bar(
        label_of(found["label"]),
        int(found["done"]),
        total,
        seconds(found["elapsed"]),
        _rate(found["rate"], found["unit"]),
        postfix,
    )


def label_of(description: str) -> str:
    """A bar's description without changing figures: `Capturing batches (bs=48 avail_mem=11.89 GB)` is `Capturing
    batches`."""
    return _CHANGING.sub("", description).strip().rstrip(":").strip()


def _rate(value: str | None, unit: str | None) -> float | None:
    try:
        rate = float(value or "")
    except ValueError:
        return None
    if unit is not None and unit.startswith("s/"):
        return 1 / rate if rate > 0 else None
    return rate
