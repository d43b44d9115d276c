"""What a made log must be explained as, told short; and the check of it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.logs.explained import answer
from tests.logs.matching import differences


@dataclass(frozen=True)
class Told:
    """The right answer about the last launch of the only (or the first) server.

    `code`: of the diagnosis, None for none; `at`: the phase that the diagnosis names, where it is another than `phase`;
    `rank`: part of its rank, "" for none, None where it does not matter; `shows`: what one line of the evidence holds;
    `warns`: the codes of the warnings, in their order; `more`: further keys of the launch, in the words of `matching`.
    """

    state: str
    phase: str | None
    code: str | None = None
    rank: str | None = None
    shows: str = ""
    at: str = ""
    warns: tuple[str, ...] = ()
    more: tuple[tuple[str, Any], ...] = ()


def faults(log: bytes, args: str, told: Told, folder: Path) -> list[str]:
    """Where the answer to this log differs, a sentence each."""
    found, status = answer(log, args.split(), folder)
    lines = log.split(b"\n")
    launch: dict[str, Any] = (
        found["servers"][0]["launches"][-1] if found["servers"] else {"state": "unknown", "warnings": []}
    )
    wrong = differences({"state": told.state, "phase": told.phase, **dict(told.more)}, launch)
    wrong += _about(launch.get("diagnosis"), told, lines)
    warned = [one["code"] for one in launch["warnings"] or []]
    if sorted(warned) != sorted(told.warns):
        wrong.append(f"warnings {warned}, wanted {list(told.warns)}")
    wanted = {"crashed": 13, "stalled": 12}.get(told.state, 0)
    if status != wanted:
        wrong.append(f"exit status {status}, wanted {wanted}")
    return wrong


def _about(found: dict[str, Any] | None, told: Told, lines: list[bytes]) -> list[str]:
    if found is None or told.code is None:
        return [] if found is None and told.code is None else [f"diagnosis {found}, wanted {told.code}"]
    wrong = differences({"code": told.code, "phase": told.at or told.phase}, found)
    if told.rank is not None and (told.rank not in (found["rank"] or "") or (not told.rank and found["rank"])):
        wrong.append(f"rank {found['rank']!r}, wanted {told.rank!r}")
    quotes = [quote for quote in found["evidence"] if quote["line"]]
    if told.shows and not any(told.shows in quote["text"] for quote in found["evidence"]):
        wrong.append(f"no evidence shows {told.shows!r}: {found['evidence']}")
    for quote in quotes:
        text = lines[quote["line"] - 1].decode(errors="replace") if quote["line"] <= len(lines) else ""
        if quote["text"].strip("… ") not in text and "exit code" not in quote["text"]:
            wrong.append(f"line {quote['line']} does not hold {quote['text']!r}")
    if not found["summary"] or not found["advice"]:
        wrong.append(f"no summary or no advice: {found}")
    return wrong
