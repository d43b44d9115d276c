"""Where `start`, `stop` and `restart` tell their steps: events on stdout, or lines on stderr with one that is redrawn on a terminal."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Protocol

from eagletui.cli import sequence_text as text
from eagletui.cli.wait_output import STDERR, JsonOutput, LiveOutput, Output, PlainOutput, output_for, write_all
from eagletui.launching.steps import Progress, Step, StepName
from eagletui.monitor.waiting import Ended

MOVES_EVERY_S = 5.0
"""Without a terminal a running step is told anew this often at most."""
EVENTS_EVERY_S = 1.0


class StepOutput(Protocol):
    """Is told what happens. Every method may raise what write_all does (NobodyReads, OSError)."""

    watching: Output
    """Where the watch over the new server tells its part."""
    colour: bool

    def say(self, lines: Iterable[str]) -> None:
        """Sentences for a person: the plan, a question's reason."""

    def show(self, progress: Progress) -> None:
        """How it stands."""

    def end(self, progress: Progress, watched: Ended | None, node: str, exit_status: int) -> None:
        """Nothing follows. `exit_status`: of the command."""

    def refused(self, exit_status: int, code: str, sentence: str) -> None:
        """Nothing was begun. Nothing follows."""


def step_output_for(*, as_json: bool) -> StepOutput:
    """What fits where we are."""
    out = output_for(as_json=as_json)
    match out:
        case JsonOutput():
            return JsonSteps(out)
        case LiveOutput():
            return LiveSteps(out)
        case PlainOutput():
            return PlainSteps(out)
    raise TypeError(type(out).__name__)


class _Told:
    """Which steps were told as they are."""

    def __init__(self, every_s: float) -> None:
        self._every_s = every_s
        self._statuses: dict[str, str] = {}
        self._texts: dict[str, tuple[str, float]] = {}

    def news(self, progress: Progress, now: float) -> list[Step]:
        """Those that have another status, or (at most so often) another text."""
        return [step for step in progress.steps if self._is_news(step, now)]

    def _is_news(self, step: Step, now: float) -> bool:
        if step.status == "pending" or (step.status == "skipped" and step.began is None and not step.text):
            return False
        said, at = self._texts.get(step.name, ("", float("-inf")))
        same = self._statuses.get(step.name) == step.status
        if same and (step.status != "running" or said == step.text or now - at < self._every_s):
            return False
        self._statuses[step.name], self._texts[step.name] = step.status, (step.text, now)
        return True


class JsonSteps:
    """Events, each written at once. A person's sentences go to stderr."""

    colour = False

    def __init__(self, out: JsonOutput) -> None:
        self.watching: Output = out
        self._out = out
        self._told = _Told(EVENTS_EVERY_S)

    def say(self, lines: Iterable[str]) -> None:
        """See StepOutput."""
        _to_stderr(lines)

    def show(self, progress: Progress) -> None:
        """See StepOutput."""
        from eagletui.cli.sequence_events import step_event

        now = time.monotonic()
        for step in self._told.news(progress, now):
            self._out.write(step_event(step, now).model_dump_json(by_alias=True))

    def end(self, progress: Progress, watched: Ended | None, node: str, exit_status: int) -> None:
        """See StepOutput."""
        from eagletui.cli.sequence_events import result_event

        self.show(progress)
        self._out.write(result_event(progress, watched, exit_status).model_dump_json(by_alias=True))
        if exit_status:
            _to_stderr(text.end_lines(progress, node, colour=False))

    def refused(self, exit_status: int, code: str, sentence: str) -> None:
        """See StepOutput."""
        from eagletui.cli.sequence_events import refused_event

        self._out.write(refused_event(exit_status, code, sentence).model_dump_json(by_alias=True))
        _to_stderr((f"eagletui: {sentence}",))


class PlainSteps:
    """Lines with the time of day."""

    colour = False

    def __init__(self, out: PlainOutput) -> None:
        self.watching: Output = out
        self._out = out
        self._told = _Told(MOVES_EVERY_S)

    def say(self, lines: Iterable[str]) -> None:
        """See StepOutput."""
        _to_stderr(lines)

    def show(self, progress: Progress) -> None:
        """See StepOutput."""
        now = time.monotonic()
        for step in self._told.news(progress, now):
            if step.status != "running" or step.text:
                self._out.say(text.step_line(step, now, colour=False))
            if step.status == "failed":
                for line in text.details(step):
                    self._out.say(line)

    def end(self, progress: Progress, watched: Ended | None, node: str, exit_status: int) -> None:  # noqa: ARG002 - the watch told its end
        """See StepOutput."""
        self.show(progress)
        for line in text.end_lines(progress, node, colour=False):
            self._out.say(line)

    def refused(self, exit_status: int, code: str, sentence: str) -> None:  # noqa: ARG002 - see StepOutput
        """See StepOutput."""
        _to_stderr((f"eagletui: {sentence}",))


class LiveSteps:
    """Lines, and below them the step that runs, redrawn."""

    def __init__(self, out: LiveOutput) -> None:
        self.watching: Output = out
        self.colour = out.colour
        self._out = out
        self._told: set[str] = set()

    def say(self, lines: Iterable[str]) -> None:
        """See StepOutput."""
        self._out.draw(list(lines), "")

    def show(self, progress: Progress) -> None:
        """See StepOutput."""
        now = time.monotonic()
        lines: list[str] = []
        for step in progress.steps:
            over = step.status in {"done", "failed"} or (step.status == "skipped" and bool(step.text))
            if over and step.name not in self._told:
                self._told.add(step.name)
                lines.append(text.step_line(step, now, colour=self.colour))
                if step.status == "failed":
                    lines += text.details(step)
        running = next((step for step in progress.steps if step.status == "running"), None)
        if running is not None and running.name is StepName.WATCH:  # the watch has a line of its own
            if lines:
                self._out.draw(lines, "")
            return
        self._out.draw(lines, "" if running is None else text.running_line(running, now, self._out.room()))

    def end(self, progress: Progress, watched: Ended | None, node: str, exit_status: int) -> None:  # noqa: ARG002 - the watch told its end
        """See StepOutput."""
        self.show(progress)
        self._out.draw(list(text.end_lines(progress, node, colour=self.colour)), "")

    def refused(self, exit_status: int, code: str, sentence: str) -> None:  # noqa: ARG002 - see StepOutput
        """See StepOutput."""
        self._out.draw([f"eagletui: {sentence}"], "")


def _to_stderr(lines: Iterable[str]) -> None:
    write_all(STDERR, "".join(f"{line}\n" for line in lines).encode("utf-8", "replace"))
