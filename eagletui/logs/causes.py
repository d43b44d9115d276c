"""Which of all that a dying server said is the cause: the earliest primary clue; echoes only where nothing better is known.

LOGS.md, Diagnosis. Pure: clues in, in the order of the log; a choice out, at any time, which further clues may sharpen.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field

from eagletui.logs.stage import Moment
from eagletui.logs.state import PhaseName, Quote

SUSPECT_S = 60.0
"""Something that the server survived is no longer the reason of a death this long after it."""
SUSPECT_LINES = 500
"""The same where lines have no time."""
UNTIMED_LINES = 16
"""The same for a line without a time that stands among lines with one."""
BESIDE_S = 60.0
"""A wrapper's own cause stands so near to it, by the log's time, whichever rank tells it."""
SURVIVED_PHASES = 2
"""A start that went on through so many further phases did not fail from what was said before them."""
KEPT_BEFORE = 64
KEPT_AFTER = 256
"""Clues that are kept from before and from after the first sign of a death: eight ranks tell ten each."""
MAX_QUOTES = 4
SIMILAR = 0.8
"""How much of the shorter name two model names must begin alike with: deepseek_v2 holds DeepseekV3ForCausalLM."""

CAUSE, WRAPPER, GENERIC, CODED_ECHO, ECHO = 4, 3, 2, 1, 0
OF_A_REQUEST = frozenset(
    (
        "python-exception",
        "hub-unreachable",
        "hub-auth",
        "model-not-found",
        "invalid-config",
        "permission-denied",
        "weights-corrupt",
    )
)
"""What an exception that a server survived says while it serves is about one request: a picture that cannot be fetched."""
STRENGTH = {"cause": CAUSE, "wrapper": WRAPPER, "echo": ECHO}


@dataclass(frozen=True, slots=True)
class Clue:
    """A line that has to do with a failure. `strength`: CAUSE, WRAPPER (often around another), GENERIC (an exception that no rule
    knows), CODED_ECHO (an exit code), ECHO. `incident`: of its traceback, 0 for none. `phases`: how many were entered before it.
    """

    code: str
    strength: int
    said: str
    quote: Quote
    when: Moment
    clock: str = ""
    rank: str = ""
    phase: PhaseName | None = None
    fatal: bool = False
    incident: int = 0
    phases: int = 0
    order: int = 0
    advice: str = ""
    more: tuple[Quote, ...] = ()
    names: tuple[str, ...] = ()
    untimed: bool = False
    """Its line has no time: `when` and `clock` are of a line before it."""
    after_line: int = 0
    """The line it comes after, where it is no line of the log itself."""

    @property
    def line(self) -> int:
        """Where it stands in the log, to tell how far apart clues are."""
        return self.after_line or self.quote.line


@dataclass(frozen=True, slots=True)
class Suspect:
    """Something that was passed over; the cause, if what it names is what then fails."""

    code: str
    name: str
    said: str
    quote: Quote
    clock: str
    rank: str


@dataclass(frozen=True, slots=True)
class Choice:
    """The clue that names the cause, and the lines that show it."""

    clue: Clue
    rank: str
    quotes: tuple[Quote, ...]


@dataclass(slots=True)
class Causes:
    """The clues of one launch."""

    death: Clue | None = None
    _before: deque[Clue] = field(default_factory=lambda: deque(maxlen=KEPT_BEFORE))
    _after: list[Clue] = field(default_factory=list)
    _suspects: dict[str, Suspect] = field(default_factory=dict)

    def add(self, clue: Clue) -> None:
        """Take a clue in; `fatal` on one means that a process is gone by it."""
        if clue.strength >= WRAPPER and not clue.fatal and self._is_repeated(clue):
            return  # 420 lines of one failed assertion are one clue
        if self.death is None and not clue.fatal:
            self._before.append(clue)
            return
        if self.death is None:
            self.death = clue
        if len(self._after) < KEPT_AFTER:
            self._after.append(clue)

    def _is_repeated(self, clue: Clue) -> bool:
        for one in (*self._before, *self._after):
            if (one.code, one.rank, one.incident) != (clue.code, clue.rank, clue.incident):
                continue
            seconds = one.when.until(clue.when)
            if (clue.line - one.line <= SUSPECT_LINES) if seconds is None else seconds <= SUSPECT_S:
                return True
        return False

    def suspect(self, one: Suspect) -> None:
        """Something that was passed over."""
        if len(self._suspects) < KEPT_AFTER:
            self._suspects.setdefault(one.name, one)

    def ended(self, clue: Clue) -> None:
        """Nothing in the log is fatal, yet it is known to be dead (an exit status, a process table)."""
        if self.death is None:
            self.death = clue
            self._after.append(clue)

    def survived(self) -> None:
        """It goes on after all: what looked like a death was none."""
        self._before.extend(self._after)
        self._after.clear()
        self.death = None

    def choose(self, *, serving: bool) -> Choice | None:
        """The cause so far, None before a death. `serving`: it was ready when it died."""
        death = self.death
        if death is None:
            return None
        clues = [*(one for one in self._before if not _is_past(one, death, serving=serving)), *self._after]
        primary = [one for one in clues if one.strength >= GENERIC]
        if not primary:
            return _told(_best_echo(clues), clues)
        if serving:
            primary = [one for one in primary if not _was_a_requests(one)] or primary
        first = primary[0]
        if first.strength < CAUSE:
            first = _inside(first, primary) or first
        if first.strength == GENERIC:
            first = _last_of_chain(first, primary)
        blamed = self._blamed(first)
        if blamed is not None:
            quotes = (blamed.quote, first.quote)
            said = blamed.said
            changed = Clue(
                blamed.code, CAUSE, said, blamed.quote, first.when, blamed.clock or first.clock, first.rank, first.phase,
                fatal=True, advice="",
            )  # fmt: skip
            return Choice(changed, first.rank, quotes)
        return _told(first, clues)

    def _blamed(self, clue: Clue) -> Suspect | None:
        if clue.code != "unsupported-architecture":
            return None
        names = [_plain_name(name) for text in clue.names for name in re.findall(r"\w+", text)]
        for suspect in self._suspects.values():
            module = _plain_name(suspect.name.rsplit(".", 1)[-1])
            if any(_are_similar(module, name) for name in names):
                return suspect
        return None


def _is_past(clue: Clue, death: Clue, *, serving: bool) -> bool:
    """Whether the server went on well after this clue."""
    if serving:
        seconds = clue.when.until(death.when)
        if seconds is None:
            return death.line - clue.line > SUSPECT_LINES
        # Without a time of its own it was printed some time after the line before it, which on an idle server is long ago.
        near = clue.untimed and death.line - clue.line <= UNTIMED_LINES
        return seconds > SUSPECT_S and not near
    return death.phases - clue.phases >= SURVIVED_PHASES


def _was_a_requests(clue: Clue) -> bool:
    """Whether a clue is an exception in serving one request, after which the server went on."""
    return bool(clue.incident) and not clue.fatal and clue.code in OF_A_REQUEST


def _inside(first: Clue, primary: Iterable[Clue]) -> Clue | None:
    """What a wrapper or a bare exception is around: a stronger clue of the same incident; for a wrapper also one beside it."""
    stronger = [one for one in primary if one.strength > first.strength]
    same = [one for one in stronger if one.incident and one.incident == first.incident]
    if same:
        return min(same, key=lambda one: (-one.strength, one.order))
    if first.strength < WRAPPER:
        return None
    beside = [one for one in stronger if (first.when.until(one.when) or 0.0) <= BESIDE_S]
    return beside[0] if beside else None


def _last_of_chain(first: Clue, primary: Iterable[Clue]) -> Clue:
    """Of exceptions that no rule knows, each raised because of the one before, the last says most; if it says anything."""
    chain = [
        one for one in primary if one.incident == first.incident and one.strength == GENERIC and ": " in one.quote.text
    ]
    return chain[-1] if first.incident and chain else first


def _best_echo(clues: list[Clue]) -> Clue:
    coded = [one for one in clues if one.strength == CODED_ECHO and one.code]
    named = [one for one in clues if one.code]
    return (coded or named or clues)[0]


def _told(clue: Clue, clues: list[Clue]) -> Choice:
    """The clue with its lines: what stands beside it in its incident, and the first notice of the death."""
    rank = clue.rank
    if not rank and clue.code:
        rank = next((one.rank for one in clues if one.code == clue.code and one.rank and one.order >= clue.order), "")
    beside = [
        one
        for one in clues
        if one is not clue
        and (
            (one.incident and one.incident == clue.incident)
            # Other ranks tell the same; one of them is enough.
            or (one.code == clue.code and one.fatal and one.strength and clue.rank in ("", one.rank))
        )
    ]
    echoes = [one for one in clues if one.strength < GENERIC and one is not clue]
    telling = [one for one in beside if one.strength != GENERIC or ": " in one.quote.text]
    quotes = [clue.quote, *clue.more, *(one.quote for one in telling), *(one.quote for one in echoes[:1])]
    unique = list(dict.fromkeys(quotes))
    return Choice(clue, rank, tuple(unique[:MAX_QUOTES]))


_SUFFIX = re.compile(r"(?:For(?:CausalLM|ConditionalGeneration|SequenceClassification)\w*|LMHeadModel\w*)\Z")


def _plain_name(name: str) -> str:
    """A class or module name as compared: `DeepseekV3ForCausalLM` is `deepseekv3`, `deepseek_v2` is `deepseekv2`."""
    return _SUFFIX.sub("", name).replace("_", "").lower()


def _are_similar(one: str, other: str) -> bool:
    shorter = min(len(one), len(other))
    if shorter < 3:
        return False
    alike = next((i for i in range(shorter) if one[i] != other[i]), shorter)
    return alike >= SIMILAR * shorter


def signal_of(exit_status: int) -> int | None:
    """The signal that an exit status tells of, in either shape (-9, 137); None for a plain one."""
    if exit_status < 0:
        return -exit_status
    return exit_status - 128 if 128 < exit_status < 128 + 65 else None


def signal_code(exit_code: int) -> str:
    """The diagnosis that an exit code alone allows, "" when it allows none. SIGBUS: a page of /dev/shm that could not be had."""
    return {9: "worker-killed", 6: "aborted", 11: "segfault", 7: "shm-exhausted"}.get(signal_of(exit_code) or 0, "")


def was_asked(exit_code: int) -> bool:
    """Whether an exit code says that somebody ended it on purpose: SIGTERM, SIGINT, SIGHUP."""
    return exit_code in (-15, 143, -2, 130, -1, 129)
