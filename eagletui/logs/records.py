"""From lines to records: outer prefixes (compose, Kubernetes, Ray, vLLM's process) come off first, then the record's
own. FORMATS.md 1, 2 and 8.

Nothing here raises: a line that fits no prefix is a record with its text as it stands.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from datetime import date
from functools import lru_cache
from typing import NamedTuple

from eagletui.logs.decoder import RawLine

DAY = 86_400
NO_RANKS: frozenset[str] = frozenset()
LEVELS = {
    "DEBUG": "DEBUG",
    "TRACE": "DEBUG",
    "INFO": "INFO",
    "WARNING": "WARNING",
    "WARN": "WARNING",
    "ERROR": "ERROR",
    "CRITICAL": "ERROR",
    "FATAL": "ERROR",
}


class Record(NamedTuple):
    """A line taken apart.

    `time` is the clock as shown ("14:05:39"), empty when the line has none. `stamp` counts seconds without a zone:
    since 1970 where the line has a date, since a leap year's begin where it has month and day, since midnight where
    it has neither (see `elapsed`); None without a time. `source` is what outer prefixes say of the writer
    ("sglang-1", "RolloutRayActor pid=3549160"), the key of a server in a shared file. `process` is vLLM's process
    name ("EngineCore_DP0"), `origin` the place in the code ("core.py:93"). `length` counts the whole line's
    characters.
    """

    text: str
    time: str = ""
    stamp: float | None = None
    ranks: frozenset[str] = NO_RANKS
    level: str = ""
    source: str = ""
    process: str = ""
    origin: str = ""
    length: int = 0
    number: int = 0

    @property
    def rank(self) -> str:
        """The one rank to show: the tensor rank, with the data rank before it where there is one ("DP1 TP0"); "" for
        a main process."""
        return _shown_rank(self.ranks)


@lru_cache(maxsize=1024)
def _shown_rank(ranks: frozenset[str]) -> str:
    order = {"DP": 0, "PP": 1, "TP": 2}
    named = sorted((order[kind], rank) for rank in ranks if (kind := rank.rstrip("0123456789")) in order)
    if named:
        return " ".join(rank for _, rank in named if not (rank == "PP0" and len(named) > 1))
    return " ".join(sorted(ranks))


def elapsed(begin: float | None, end: float | None) -> float | None:
    """Seconds between two stamps of one log; over midnight or New Year where they have no date or no year. None when
    they do not compare."""
    if begin is None or end is None:
        return None
    seconds = end - begin
    if (begin < DAY) != (end < DAY):
        return None
    if seconds < 0:
        # Several writers: a line may come a little after a later one. A long way back is midnight, or New Year.
        round_s = DAY if begin < DAY else 366 * DAY if begin < _YEARLESS_END else None
        if round_s is not None and seconds < -round_s / 2:
            return seconds + round_s
        return 0.0 if seconds > -DAY else None
    return seconds


def is_later(known: float | None, stamp: float) -> bool:
    """Whether a stamp is after the newest one known so far."""
    if known is None:
        return True
    return stamp > known or (elapsed(known, stamp) or 0.0) > 0


_YEARLESS_END = (date(1973, 1, 1).toordinal() - date(1970, 1, 1).toordinal()) * DAY


@lru_cache(maxsize=64)
def _days(text: str) -> int | None:
    """Seconds at the begin of a date "2026-11-30" or "11-30"."""
    try:
        parts = [int(p) for p in text.split("-")]
        day = date(*parts) if len(parts) == 3 else date(1972, *parts)
    except (ValueError, TypeError):
        return None
    return (day.toordinal() - date(1970, 1, 1).toordinal()) * DAY


@lru_cache(maxsize=256)
def _stamp(day: str, clock: str) -> float | None:
    """Seconds of "HH:MM:SS[.mmm]" on a date (maybe empty)."""
    base = _days(day) if day else 0
    if base is None:
        return None
    hours, minutes, seconds = clock.split(":")
    return base + int(hours) * 3600 + int(minutes) * 60 + float(seconds.replace(",", "."))


@lru_cache(maxsize=1024)
def _ranks(text: str) -> frozenset[str]:
    """ " TP0 EP0" or "Worker_TP0_EP0" as a set: versions differ in order and kinds."""
    return frozenset(kind + number for kind, number in _RANK.findall(text))


_RANK = re.compile(r"(?:(?<=[ _\[])|\A)((?:ATTN_|MOE_)?[A-Z]{2,3}|GPU|rank|worker)([0-9]+)(?![0-9A-Za-z])")

_DAY = r"[0-9]{4}-[0-9]{2}-[0-9]{2}"
_CLOCK = r"[0-9]{2}:[0-9]{2}:[0-9]{2}"
_ISO = _DAY + "T[0-9:.]+"
_ZONE = "(?:Z|[+-][0-9]{2}:?[0-9]{2})"
_WRITER = r"(?P<source>[\w.-]+ [\w.@-]+\[[0-9]+\]): "

_SYSTEM = r"[\w.-]+ (?:kernel|systemd(?:\[[0-9]+\])?|systemd-oomd\[[0-9]+\]|earlyoom\[[0-9]+\]|dockerd\[[0-9]+\]|containerd\[[0-9]+\]): "
"""They speak of the server that spoke last, and are none."""

_OWN_TIME = re.compile(
    rf"\[(?:(?P<day>{_DAY}|[0-9]{{2}}-[0-9]{{2}}) )?(?P<clock>{_CLOCK}(?:[.,][0-9]{{1,6}})?)"
    r"(?P<ranks>(?: [A-Z][\w.]{0,60}){0,12})\] ?"  # ranks, and words that forks put among them
)
_LEVEL_WORDS = ("INFO:", "WARNING:", "ERROR:", "DEBUG:", "CRITICAL:", "TRACE:")
_UVICORN = re.compile(r"(DEBUG|INFO|WARNING|ERROR|CRITICAL|TRACE): +(?=\S)")
_VLLM = re.compile(
    r"(?P<level>DEBUG|INFO|WARNING|ERROR|CRITICAL) (?P<day>[0-9]{2}-[0-9]{2}) (?P<clock>[0-9]{2}:[0-9]{2}:[0-9]{2}) "
    r"(?:\[(?P<new>[\w./-]+:[0-9]+)\]|(?P<old>[\w./-]+:[0-9]+)\])(?: |\Z)"
)
_DATED = re.compile(
    rf"(?P<day>{_DAY})[ T](?P<clock>{_CLOCK})(?:[.,][0-9]{{1,9}})?{_ZONE}?"
    r"(?: - (?P<name>[\w.]+) - (?P<level>[A-Z]+) - "
    r"| (?P<level2>DEBUG|INFO|WARNING|ERROR|CRITICAL) (?:[0-9]+ )?\[(?P<where>[^\]]{1,120})\] )"
)
_ENGINES = ("sglang", "vllm", "uvicorn", "root", "__main__")
_GPU_ID = re.compile(r"\[gpu_id=([0-9]+)\] ")
_TORCH_RANK = re.compile(r"\[rank([0-9]+)\]: ?(?=(\[[EWIF][0-9 ]))?")

_ACTOR = re.compile(r"\((?P<name>[\w:.\-]+) (?:rank=(?P<rank>[0-9]+) )?(?P<rest>pid=[0-9]+(?:, ip=[\w.:]+)?)\)(?: |\Z)")
_RAYS_OWN = re.compile(r"\((?:raylet|autoscaler|gcs_server|pid=[0-9]+)(?:[ ,][^()]{0,60})?\) ")
"""What Ray itself says, or an actor before it has a name: of nobody in particular."""
_OUTER: tuple[tuple[re.Pattern[str], str], ...] = (
    (re.compile(r"\[pod/(?P<source>[\w./-]+)\] "), "kubectl logs --prefix"),
    (re.compile(r"(?P<source>[A-Za-z][\w.-]*?[-_][0-9]+) +\| ?"), "docker compose"),
    (re.compile(r"(?P<source>[a-z][\w.-]*) {2,}\| ?"), "docker compose with container_name"),
    (re.compile(r"(?P<source>[A-Za-z][\w.-]*) (?=exited with code [0-9]+\s*\Z)"), "docker compose's own word"),
    (re.compile(r"[0-9]+\|(?P<source>[\w.-]+) +\| ?"), "pm2"),
    (re.compile(r"\[(?P<source>[A-Za-z][\w.-]*)\] +\| ?"), "podman compose"),
    (re.compile(rf" *(?:\| )?\[{_ISO}Z\] "), "buildkite"),
    (re.compile(rf"(?:DEFAULT|DEBUG|INFO|NOTICE|WARNING|ERROR|CRITICAL) {_ISO}Z "), "cloud export"),
    (re.compile(rf"{_ISO}{_ZONE} (?:stdout|stderr) [FP] "), "Kubernetes node file"),
    (re.compile(rf"(?:{_ISO}{_ZONE}|[A-Z][a-z]{{2}} [ 0-9][0-9] {_CLOCK}) {_SYSTEM}"), "journald, of the machine"),
    (re.compile(rf"{_ISO}{_ZONE} {_WRITER}"), "journald, iso"),
    (re.compile(rf"[A-Z][a-z]{{2}} [ 0-9][0-9] {_CLOCK} {_WRITER}"), "journald, syslog"),
    (re.compile(rf"{_ISO}{_ZONE} "), "kubectl logs --timestamps"),
    (
        re.compile(rf"{_DAY}T[0-9:,]+ \[[A-Z]+ *\] (?P<source>W-[0-9]+-[\w.-]+?)-std(?:out|err) MODEL_LOG - "),
        "torchserve",
    ),
)
_DOCKER = '{"log":'
_TYPED = "^C"
"""A terminal shows Ctrl+C where it was pressed."""
MAX_OUTER = 8
"""Nested outer prefixes looked for in one line (Ray Serve with vLLM has four)."""

_VLLM_PROCESSES = re.compile(
    r"(?:APIServer|ApiServer|EngineCore|Engine|Worker|VllmWorker|DPCoordinator|RayWorker(?:Proc|Wrapper|Vllm))[\w-]*\Z"
)


def _outer(text: str) -> tuple[str, str, str]:
    """The text without its outer prefixes, the source, and vLLM's process name."""
    sources: list[str] = []
    process = ""
    for _ in range(MAX_OUTER):
        text = text.removeprefix(_TYPED)
        if text.startswith(_DOCKER):
            text = _docker(text)
        if text.startswith("("):
            found = _ACTOR.match(text)
            if found is None:
                found = _RAYS_OWN.match(text)
                if found is None:
                    break
            elif _VLLM_PROCESSES.match(found["name"]):
                process = _process(found, process)
            else:
                sources.append(f"{found['name']} {found['rest']}")
            text = text[found.end() :]
            continue
        for pattern, _ in _OUTER:
            found = pattern.match(text)
            if found is not None:
                break
        else:
            break
        if "source" in pattern.groupindex:
            sources.append(found["source"])
        text = text[found.end() :]
    return text, " ".join(sources), process


def _docker(text: str) -> str:
    """A line of Docker's own files, `{"log": "…", "stream": …}`; as it stands when it is cut or broken."""
    try:
        said = json.loads(text)["log"]
    except (ValueError, TypeError, KeyError, RecursionError):
        return text
    return said.rstrip("\r\n") if isinstance(said, str) else text


def _process(found: re.Match[str], outer: str) -> str:
    """The name of a process of vLLM's. Names that do not tell one worker from another get what does."""
    name, pid = found["name"], found["rest"].partition(",")[0].removeprefix("pid=")
    if found["rank"]:
        return f"{name} rank{found['rank']}"
    if name.startswith("Ray"):
        return f"{name} worker{pid}"
    return outer if name == "Worker" and outer.endswith(f" worker{pid}") else name


def read_record(line: RawLine) -> Record:
    """The record of a line. Total: what fits nothing is its own text."""
    text = line.text
    # Nearly every line of SGLang begins with its own stamp, and many share it.
    if text[:1] == "[":
        prefix = text[: text.find("] ") + 2]
        known = _seen.get(prefix)
        if known is not None:
            return _after(known, text, "", "", line)
    own = _OWN_TIME.match(text)
    if own is not None:
        return _sglang(own, text, "", "", line)
    source = process = ""
    if text[:1] not in ("\r", "\t", ""):
        text, source, process = _outer(text)
        if source or process or text is not line.text:
            own = _OWN_TIME.match(text)
            if own is not None:
                return _sglang(own, text, source, process, line)
    for parse in _OTHERS:
        record = parse(text, source, process, line)
        if record is not None:
            return record
    level, text = _level(text)
    return Record(
        text, level=level, ranks=_ranks(process), source=source, process=process, length=line.length, number=line.number
    )


def _level(text: str) -> tuple[str, str]:
    if not text.startswith(_LEVEL_WORDS):
        return "", text
    found = _UVICORN.match(text)
    return (LEVELS[found[1]], text[found.end() :]) if found else ("", text)


class _Prefix(NamedTuple):
    size: int
    time: str
    stamp: float | None
    ranks: frozenset[str]


_seen: dict[str, _Prefix] = {}
_SEEN_LIMIT = 4_096


def _sglang(own: re.Match[str], text: str, source: str, process: str, line: RawLine) -> Record:
    day, clock, ranks = own.group("day", "clock", "ranks")
    prefix = _Prefix(own.end(), clock[:8], _stamp(day or "", clock), _ranks(ranks) if ranks else NO_RANKS)
    if text.startswith("] ", own.end() - 2):
        if len(_seen) >= _SEEN_LIMIT:
            _seen.clear()
        _seen[own[0]] = prefix
    return _after(prefix, text, source, process, line)


def _after(prefix: _Prefix, text: str, source: str, process: str, line: RawLine) -> Record:
    """The record after a known prefix."""
    text = text[prefix.size :]
    level, text = _level(text)
    ranks = prefix.ranks or (_ranks(process) if process else NO_RANKS)
    return Record(text, prefix.time, prefix.stamp, ranks, level, source, process, "", line.length, line.number)


def _vllm(text: str, source: str, process: str, line: RawLine) -> Record | None:
    found = _VLLM.match(text)
    if found is None:
        return None
    return Record(
        text=text[found.end() :],
        time=found["clock"],
        stamp=_stamp(found["day"], found["clock"]),
        ranks=_ranks(process),
        level=LEVELS[found["level"]],
        source=source,
        process=process,
        origin=found["new"] or found["old"],
        length=line.length,
        number=line.number,
    )


def _dated(text: str, source: str, process: str, line: RawLine) -> Record | None:
    """A user's own logging configuration (S8), or a wrapper's logger (P7)."""
    found = _DATED.match(text)
    if found is None:
        return None
    where = found["where"] or ""
    return Record(
        text=text[found.end() :],
        time=found["clock"],
        # A wrapper's clock may be of another zone than the engine's: nothing is measured by it.
        stamp=None
        if found["name"] and not found["name"].startswith(_ENGINES)
        else _stamp(found["day"], found["clock"]),
        ranks=_ranks(" " + where) or _ranks(process),
        level=LEVELS.get(found["level"] or found["level2"], ""),
        source=source,
        process=process,
        origin=where.split()[-1] if where.split() else found["name"] or "",
        length=line.length,
        number=line.number,
    )


def _gpu_id(text: str, source: str, process: str, line: RawLine) -> Record | None:
    """SGLang before 0.2, and torch's own `[rank2]: `; what c10d writes (`[rank2]:[E909 …`) keeps it in its text."""
    found = _GPU_ID.match(text) or _TORCH_RANK.match(text)
    if found is None:
        return None
    rank = ("GPU" if found.re is _GPU_ID else "rank") + found[1]
    whole = found.re is _TORCH_RANK and found[2] is not None
    return Record(
        text if whole else text[found.end() :],
        ranks=frozenset((rank,)),
        source=source,
        process=process,
        length=line.length,
        number=line.number,
    )


_OTHERS: tuple[Callable[[str, str, str, RawLine], Record | None], ...] = (_vllm, _dated, _gpu_id)

stamp_of, ranks_of = _stamp, _ranks
