"""What the lines of a log say of failures: tracebacks are followed, rules are asked, and clues go to the launch that they are of."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace

from eagletui.engines.rulebook import RuleBook, rule_book
from eagletui.engines.spec import load_engine
from eagletui.logs.causes import ECHO, GENERIC, OF_A_REQUEST, Clue
from eagletui.logs.events import Event
from eagletui.logs.faults import HEAD, MAX_OPEN, Raised, Tracebacks
from eagletui.logs.launch import Launch
from eagletui.logs.records import Record
from eagletui.logs.server_log import ServerLog
from eagletui.logs.stage import Moment
from eagletui.logs.witness import Witness, quote, suspect

_ENGINE_PATH = re.compile(r"/(sglang|vllm)/")


_SOON = range(1, 17)
"""Lines between the notice of a death and its traceback: other writers' lines stand between."""


class FaultReader:
    """Follows the failures of every server of a log. `launched` gives the launch of a server, and begins one where there is none,
    or where it is told that a process begins.
    """

    def __init__(self, rules: RuleBook | None, launched: Callable[[ServerLog, Moment, bool], Launch]) -> None:
        self._rules = rules
        self._launched = launched
        self._tracebacks = Tracebacks()
        self._asked: Witness | None = None
        self._announced: dict[str, int] = {}
        """In which line each writer said last that it dies: the traceback right after tells why ("EngineCore failed to start.")."""
        self.channel = 0
        self.clock = ""

    @property
    def listening(self) -> bool:
        """Whether lines that say nothing by themselves matter just now: a traceback is open."""
        return self._tracebacks.open

    def clear(self) -> None:
        """A new launch."""
        self._tracebacks.clear()
        self._announced.clear()

    @property
    def _witness(self) -> Witness:
        # Compiling the tables takes a moment that nobody has before a first line is there.
        if self._asked is None:
            self._asked = Witness(self._rules if self._rules is not None else rule_book())
        return self._asked

    def read(self, server: ServerLog, record: Record, when: Moment, events: list[Event]) -> bool:
        """What a line says of a failure; whether it is to be shown as an error."""
        text = record.text
        writer = record.source + record.process
        self.clock = record.time or self.clock
        if text.endswith(HEAD):
            fatal = "hit an exception" in text or record.number - self._announced.get(writer, record.number) in _SOON
            self._tracebacks.begin(writer, record.rank, fatal=fatal)
            self._ruled(server, record, when, events, None)
            return True
        raised: Raised | None = None
        if record.time and not record.origin:
            self._tracebacks.record_began(writer)  # SGLang prints the lines of a traceback bare
        elif self._tracebacks.open:
            ended = self._tracebacks.follow(writer, text, record.number)
            if ended is not None:
                self._exception(server, ended, record, when, events)
                return True
            if self._tracebacks.interrupted and server.launch is not None:
                events += server.launch.stop(done=True)
                self._tracebacks.interrupted = False
            raised = self._tracebacks.after(writer, text)
            frame = self._tracebacks.newest_first(text, record.number)
            if frame is not None and server.launch is not None:
                shown = record._replace(text=frame.text)
                server.launch.clue(Clue("", ECHO, "", quote(shown, self.channel), when, incident=self._tracebacks.dump))
            if server.engine is None and text.startswith("  File "):
                found = _ENGINE_PATH.search(text)
                server.engine = load_engine(found[1]) if found is not None else None
        elif "Current thread 0x" in text:
            self._tracebacks.newest_first(text, record.number)
        return self._ruled(server, record, when, events, raised)

    def _ruled(
        self, server: ServerLog, record: Record, when: Moment, events: list[Event], raised: Raised | None
    ) -> bool:
        """Apply the rule that a line fits. `raised`: the exception that it still belongs to the message of."""
        launch = server.launch
        phase = launch.current if launch is not None else "launch"
        finding = self._witness.find(record, exception=raised is not None, phase=phase)
        if finding is None:
            return False
        rule = finding.rule
        if rule.role == "suspect":
            if launch is not None:
                launch.suspect(suspect(finding, record, self.channel))
            return False
        if rule.role == "warning":
            if launch is not None and (launch.served or rule.code != "request-error"):
                launch.warn(rule.code, quote(record, self.channel, finding.start), when)
            return False
        dying = launch is not None and launch.crashed
        clue = self._witness.clue(finding, record, self.channel, when, raised=raised, dying=dying)
        if rule.code == "hidden-error":
            if launch is not None:
                launch.hide(clue)
            return True
        if rule.code == "bad-flag" and launch is not None and launch.args:
            self._launched(server, when, True)  # arguments are refused first of all, so this is another process
        writer = record.source + record.process
        if clue.fatal and (len(self._announced) < MAX_OPEN or writer in self._announced):
            self._announced[writer] = record.number
        self._note(server, clue, when, events)
        return clue.fatal or rule.role == "cause"

    def _exception(self, server: ServerLog, raised: Raised, record: Record, when: Moment, events: list[Event]) -> None:
        launch = server.launch
        serving = launch is not None and launch.served
        clue = self._witness.exception(
            raised, record, self.channel, when, serving=serving, dying=launch is not None and launch.crashed,
            phase=launch.current if launch is not None else "launch",
        )  # fmt: skip
        if (
            launch is not None
            and serving
            and not raised.fatal
            and clue.strength >= GENERIC
            and clue.code in OF_A_REQUEST
        ):
            launch.warn("request-error", clue.quote, when)
        self._note(server, clue, when, events)

    def _note(self, server: ServerLog, clue: Clue, when: Moment, events: list[Event]) -> None:
        """Give a clue to the launch that it is of. A line without a time was printed after the last one that has one."""
        launch = server.launch
        clue = clue if clue.clock else replace(clue, clock=self.clock, untimed=True)
        if launch is None:
            if not clue.fatal:
                server.early.append(clue)
                return
            launch = self._launched(server, when, False)
        events += launch.clue(clue)
