"""From a line to a clue: what a record, or the end of a traceback, says of a failure. Pure."""

from __future__ import annotations

import re

from eagletui.engines.rulebook import Finding, RuleBook
from eagletui.logs.advice import summary_of
from eagletui.logs.causes import CODED_ECHO, ECHO, GENERIC, STRENGTH, Clue, Suspect, signal_code
from eagletui.logs.faults import Raised
from eagletui.logs.records import Record
from eagletui.logs.stage import Moment
from eagletui.logs.state import PhaseName, Quote

MAX_QUOTE = 400
"""Characters of a quoted line: around what was found in it."""
LEAD = 120
"""Of those, before what was found."""
MAX_SAID = 200

_ECHO_EXCEPTION = re.compile(
    r"(?:EOFError\s*\Z|BrokenPipeError|ConnectionResetError|KeyboardInterrupt|SystemExit|"
    r"(?:[\w.]+\.)?(?:Client(?:Connection\w*|OS|Payload)Error|ClientDisconnect\w*|EngineDeadError|AsyncEngineDeadError|BrokenProcessPool|CancelledError|ChildFailedError|RayActorError|ActorDiedError|RayTaskError|"
    r"ContextTerminated|ProcessExitedException|ProcessRaisedException|SignalException)\b)"
)
"""Exceptions that only tell that somebody else is gone."""
_TYPE = re.compile(r"\A(?:[A-Za-z_][\w.]*\.)?[A-Za-z_]\w*(?:Error|Exception|Warning): ")
_SIGNALS = {"Killed": "worker-killed", "KILL": "worker-killed", "Aborted": "aborted", "ABRT": "aborted",
            "Segmentation fault": "segfault", "segmentation fault": "segfault", "SEGV": "segfault",
            "Bus error": "shm-exhausted", "BUS": "shm-exhausted"}  # fmt: skip


def quote(record: Record, channel: int, start: int = 0) -> Quote:
    """A record as evidence; of a long one the part around `start`."""
    text = record.text
    if len(text) > MAX_QUOTE:
        at = max(0, min(start - LEAD, len(text) - MAX_QUOTE))
        text = ("… " if at else "") + text[at : at + MAX_QUOTE] + (" …" if at + MAX_QUOTE < len(text) else "")
    return Quote(record.number, text.strip(), channel)


class Witness:
    """Asks a rule book about lines."""

    def __init__(self, rules: RuleBook) -> None:
        self.rules = rules

    def find(self, record: Record, *, exception: bool, phase: PhaseName | None) -> Finding | None:
        """The rule that a record fits."""
        if not exception and not self.rules.may_fit(record.text):
            return None
        return self.rules.find(record.text, exception=exception, phase=phase)

    def clue(
        self, finding: Finding, record: Record, channel: int, when: Moment, *, raised: Raised | None, dying: bool
    ) -> Clue:
        """A cause, a wrapper or an echo. `dying`: something was fatal before."""
        rule = finding.rule
        code, strength, said = rule.code, STRENGTH[rule.role], _said(finding, record.text)
        if rule.role == "echo" and (finding.exit or finding.signal):
            told = signal_code(int(finding.exit)) if finding.exit else _SIGNALS.get(finding.signal, "")
            if finding.signal and dying:
                told = ""  # what is left was ended by the program's own clean-up
            if told:
                code, strength = told, CODED_ECHO
                said = f"{summary_of(told)}. {said}" if finding.exit and said else summary_of(told)
        return Clue(
            code=code,
            strength=strength,
            said=said,
            quote=quote(record, channel, finding.start),
            when=when,
            clock=record.time,
            rank=(raised.rank if raised is not None else "") or record.rank,
            fatal=finding.fatal or (raised is not None and raised.fatal),
            incident=raised.incident if raised is not None else 0,
            advice=rule.advice,
            names=finding.groups,
        )

    def exception(
        self,
        raised: Raised,
        record: Record,
        channel: int,
        when: Moment,
        *,
        serving: bool,
        dying: bool,
        phase: PhaseName | None,
    ) -> Clue:
        """What the last line of a traceback says."""
        finding = None
        if _ECHO_EXCEPTION.match(record.text) is None:
            finding = self.rules.find(record.text, exception=True, phase=phase)
            if finding is None or finding.rule.role in ("warning", "suspect"):
                return self._unknown(raised, record, channel, when, serving=serving)
            return self.clue(finding, record, channel, when, raised=raised, dying=dying)
        return Clue(
            "", ECHO, "", quote(record, channel), when, record.time, raised.rank or record.rank, fatal=raised.fatal,
            incident=raised.incident,
        )  # fmt: skip

    def _unknown(self, raised: Raised, record: Record, channel: int, when: Moment, *, serving: bool) -> Clue:
        said = record.text[:MAX_SAID]
        more: tuple[Quote, ...] = ()
        if raised.frame is not None:
            more = (Quote(raised.frame.number, raised.frame.text[:MAX_QUOTE], channel),)
            place = re.match(r'File "(?P<path>[^"]+)", line (?P<line>[0-9]+)', raised.frame.text)
            if place is not None:
                said += f" ({'/'.join(place['path'].rsplit('/', 2)[-2:])}:{place['line']})"
        code = "request-killed-server" if serving and raised.fatal else "python-exception"
        return Clue(
            code, GENERIC, said, quote(record, channel), when, record.time, raised.rank or record.rank, fatal=raised.fatal,
            incident=raised.incident, more=more,
        )  # fmt: skip


def _said(finding: Finding, text: str) -> str:
    """The rule's sentence. Where the line did not name what the sentence is about, the line's own words follow it."""
    said = finding.said
    if "{" not in finding.rule.say or any(finding.groups):
        return said
    message = _TYPE.sub("", text).strip()
    return f"{said.rstrip(' :()')}: {message[:MAX_SAID]}" if message else said


def suspect(finding: Finding, record: Record, channel: int) -> Suspect:
    """Something that was passed over: its first group names it."""
    code = finding.rule.code
    if any(word in record.text for word in ("gcc", "nvcc", "ninja")):
        code = "kernel-build-failed"
    name = finding.groups[0] if finding.groups else ""
    return Suspect(code, name, finding.said, quote(record, channel), record.time, record.rank)
