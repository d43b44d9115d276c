"""Diagnosis rules: what a line says of a failure. A table (TOML) an engine, one for what no engine owns, and the user's own.

Pure. A rule names a diagnosis code of LOGS.md; `RuleBook.find` gives the first rule that a text fits, so that a table's order
is its precedence. Sources: FORMATS.md sections 6 to 8, and the programs' own texts.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, Literal, NamedTuple, get_args

Role = Literal["cause", "wrapper", "echo", "warning", "suspect"]
"""What a line is in the search for the cause.

cause: it names one · wrapper: it names one that often has another inside or beside it (an NCCL error around a full /dev/shm) ·
echo: it only tells that something died; its code holds where nothing better is known · warning: the server goes on ·
suspect: harmless, unless what it speaks of is what then fails (`{0}` is compared).
"""
Where = Literal["any", "exception"]
"""exception: only the last line of a traceback and the lines right after it; the same words in a log line may be harmless."""

STEMS = (
    "rror", "ailed", "ailure", "emory", "imeout", "imed out", "illed", "llegal", "xit", "SIG", "river", "died", "CCL", "CUDA", "Xid",
    "bort", "fault", "denied", "custom code", "rust", "not ", "No ", "n use", "losed", "eset by", "ssert", "apturing", "etract",
    "atchdog", "value", "num_tokens", "igquit", "ranspor", "ransfer", "DeepG", "preempted", "available", "ngine core",
    "EngineC", "WorkerProc", "proc ", "scheduler ", "OOM", "shm", "ADDR", "STATUS", "Address", "nvcc", "ptxas", "build",
    "compil", "CAPTURE", "Capture", "GPU", "device", "(): ", "alled", "corrupt", "smash", "quota", "oom", "waiting", "recv", "broke", "Broken",
    "bus", "Killed", "Bus ", "alloc", "ALLOC", "ending", "cgroup", "gcc", "ncoder", "loop", "warm",
)  # fmt: skip
"""What the needs of nearly all rules hold: a line without any of them is not looked at further. A need without one is added
by itself."""

BUILT_IN = ("sglang.toml", "vllm.toml", "common.toml")
SHIPPED = "built-in"
MAX_SEARCHED = 4_000
"""Characters of a text that are searched: what a line says stands near its beginning."""


@dataclass(frozen=True)
class Rule:
    """One row. `needs`: literals of which a text must hold one, so that most lines cost nothing; `match` is searched in it,
    `unless` must not be found. `fatal`: this line alone proves that the server does not live on. `say`: the summary, `{0}`,
    `{1}` … are the match's groups; empty: the code's own words. `advice`: instead of the code's.
    """

    code: str
    role: Role
    match: str
    needs: tuple[str, ...]
    unless: str = ""
    where: Where = "any"
    fatal: bool = False
    say: str = ""
    advice: str = ""
    phases: tuple[str, ...] = ()

    @cached_property
    def pattern(self) -> re.Pattern[str]:
        """`match`, compiled when a text first holds what it needs."""
        return re.compile(self.match)

    @cached_property
    def exception_to(self) -> re.Pattern[str] | None:
        """`unless`, compiled."""
        return re.compile(self.unless) if self.unless else None


SHAPED = 400
"""Characters of a line whose shape (it without its digits) is remembered; longer ones seldom come again."""
KNOWN_SHAPES = 4_096
_DIGITS = b"0123456789"


class Finding(NamedTuple):
    """The first rule that a text fits, and the groups of its match. `fatal`: a rule that it fits is. `exit` and `signal` are the
    groups of these names.
    """

    rule: Rule
    groups: tuple[str, ...]
    start: int
    fatal: bool = False
    exit: str = ""
    signal: str = ""

    @property
    def said(self) -> str:
        """The rule's summary with its groups in place, "" when it has none."""
        try:
            return self.rule.say.format(*self.groups)
        except (IndexError, KeyError, ValueError):
            return ""


class RuleError(ValueError):
    """A table of rules that cannot be used: a sentence with which rule and why."""


class RuleBook:
    """Rules in their order of precedence."""

    def __init__(self, rules: Sequence[Rule]) -> None:
        self.rules = tuple(rules)
        self._by_need: dict[str, list[int]] = {}
        for number, rule in enumerate(self.rules):
            for need in rule.needs:
                self._by_need.setdefault(need, []).append(number)
        anywhere = sorted({need for rule in self.rules if rule.where == "any" for need in rule.needs})
        stems = [stem for stem in STEMS if any(stem in need for need in anywhere)]
        self.stems = (*stems, *(need for need in anywhere if not any(stem in need for stem in stems)))
        """A line that is no exception's and that holds none of these fits no rule."""
        self._shapes: dict[bytes, tuple[str, ...]] = {}

    def may_fit(self, text: str) -> bool:
        """Whether a line that is no exception's could fit a rule at all. Most do not, and most have one of few shapes."""
        stems = self.stems
        if len(text) <= SHAPED:
            shape = text.encode("utf-8", "replace").translate(None, _DIGITS)
            known = self._shapes.get(shape)
            stems = self._learn(shape) if known is None else known
        for stem in stems:  # noqa: SIM110 - any() of a generator costs twice as much, on every line
            if stem in text:
                return True
        return False

    def _learn(self, shape: bytes) -> tuple[str, ...]:
        """The stems that a line of this shape could hold."""
        if len(self._shapes) >= KNOWN_SHAPES:
            self._shapes.clear()
        found = tuple(stem for stem in self.stems if stem.encode().translate(None, _DIGITS) in shape)
        self._shapes[shape] = found
        return found

    def find(self, text: str, *, exception: bool = False, phase: str | None = None) -> Finding | None:
        """The first rule that the text fits. `exception`: it ends a traceback, or stands right after its end."""
        numbers = {number for need, rows in self._by_need.items() if need in text for number in rows}
        first: Finding | None = None
        for number in sorted(numbers):
            rule = self.rules[number]
            if (rule.where == "exception" and not exception) or (rule.phases and phase not in rule.phases):
                continue
            if first is not None and not rule.fatal:
                continue
            found = rule.pattern.search(text, 0, MAX_SEARCHED)
            if found is None or (rule.exception_to is not None and rule.exception_to.search(text, 0, MAX_SEARCHED)):
                continue
            if first is not None:
                return first._replace(fatal=True)
            named = found.groupdict()
            groups = tuple(group or "" for group in found.groups())
            first = Finding(rule, groups, found.start(), rule.fatal, named.get("exit") or "", named.get("signal") or "")
            if rule.fatal or rule.role in ("warning", "suspect"):
                return first
        return first

    def __add__(self, other: RuleBook) -> RuleBook:
        return RuleBook((*self.rules, *other.rules))


_KEYS = {"code", "role", "match", "needs", "unless", "where", "fatal", "say", "advice", "phases"}


def _check(row: dict[str, Any], name: str) -> None:
    """Whether a row's values are of the right kinds. Raises RuleError."""
    unknown = sorted(set(row) - _KEYS)
    if unknown:
        raise RuleError(f"{name}: {unknown[0]} is no key of a rule; keys are {', '.join(sorted(_KEYS))}")
    for key in ("code", "role", "match", "unless", "where", "say", "advice"):
        if key in row and not isinstance(row[key], str):
            raise RuleError(f"{name}: {key} is no text")
    if not isinstance(row.get("fatal", False), bool):
        raise RuleError(f"{name}: fatal is neither true nor false")
    for key, allowed in (("role", get_args(Role)), ("where", get_args(Where))):
        if row.get(key, allowed[0]) not in allowed:
            raise RuleError(f"{name}: {key} {row[key]!r} is none of {', '.join(allowed)}")
    if "match" not in row:
        raise RuleError(f"{name}: match is missing, the regular expression to search for")
    if not row.get("code") and row.get("role") != "echo":
        raise RuleError(f"{name}: code is missing")


def _words(row: dict[str, Any], key: str, name: str) -> tuple[str, ...]:
    value = row.get(key, ())
    if isinstance(value, str):
        value = [value]
    if not isinstance(value, list | tuple) or not all(isinstance(one, str) and one for one in value):
        raise RuleError(f"{name}: {key} is no text, and no list of texts")
    return tuple(value)


def rule_of(row: dict[str, Any], name: str) -> Rule:
    """A row of a table. Raises RuleError with its name and what is wrong."""
    _check(row, name)
    needs = _words(row, "needs", name)
    if not needs:
        raise RuleError(f"{name}: needs is missing, a literal that every such line holds")
    for key in ("match", "unless") if name != SHIPPED else ():  # ours are compiled when a line needs them
        try:
            re.compile(row.get(key, ""))
        except re.error as error:
            raise RuleError(f"{name}: {key} is no regular expression: {error}") from None
    return Rule(
        row.get("code", ""), row.get("role", "cause"), row["match"], needs, row.get("unless", ""), row.get("where", "any"),
        row.get("fatal", False), row.get("say", ""), row.get("advice", ""), _words(row, "phases", name),
    )  # fmt: skip


def rules_of(table: dict[str, Any], name: str) -> list[Rule]:
    """The rules of a parsed TOML table, its `[[rule]]` rows. Raises RuleError."""
    rows = table.get("rule", [])
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise RuleError(f"{name}: rule is no list of tables; write [[rule]]")
    if name == SHIPPED:
        return [rule_of(row, name) for row in rows]
    return [rule_of(row, f"{name}, rule {number}") for number, row in enumerate(rows, 1)]


@lru_cache(maxsize=1)
def built_in() -> RuleBook:
    """What ships: the engines' tables, then what no engine owns."""
    import tomllib  # 15 ms that a look at a node without a server does not need
    from importlib import resources

    folder = resources.files("eagletui.engines").joinpath("rules")
    texts = [folder.joinpath(name).read_text("utf-8") for name in BUILT_IN]
    return RuleBook([rule for text in texts for rule in rules_of(tomllib.loads(text), SHIPPED)])


_users: list[Rule] = []


@lru_cache(maxsize=1)
def rule_book() -> RuleBook:
    """The rules in force: the user's own first, then what ships."""
    return RuleBook((*_users, *built_in().rules)) if _users else built_in()


def add_rules(rules: Iterable[Rule]) -> None:
    """The user's own rules, for every log that is read from now on. An empty list takes them away."""
    _users[:] = rules
    rule_book.cache_clear()
