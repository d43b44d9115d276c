"""What `start`, `stop` and `restart` say of their steps: one line a step, and how it ended. Pure; text of the node is made plain."""

from __future__ import annotations

from collections.abc import Iterator

from eagletui.cli.wait_text import cut, safe
from eagletui.launching.steps import Progress, Step
from eagletui.ui.format import duration, seconds

NAME_CELLS = 12
SHORT_S = 10.0
"""Below it the tenths of a second tell something."""
LINES = 12
"""Lines of a step's details that are told; the rest is counted."""
_SIGNS = {"done": "✓", "failed": "✗", "skipped": "–", "running": "…", "pending": " "}
_COLOURS = {"done": "32", "failed": "31", "skipped": "90"}
HEADS = {
    "done": "DONE", "refused": "REFUSED", "failed": "FAILED", "never-started": "CRASHED · never started", "crashed": "CRASHED", "stalled": "STALLED",
    "aborted": "ABORTED", "timed-out": "TIMED OUT", "no-link": "NO LINK", "overtaken": "OVERTAKEN", "running": "UNFINISHED",
}  # fmt: skip
OFFERS = {
    "retry": "try it again",
    "show-holder": "see who holds the GPU: `eagletui connect NODE`",
    "restore": "launch again what became ready last: `eagletui start NODE --back`",
    "start": "launch what was going to be launched: `eagletui start NODE`",
    "go-on": "go on where it stands: run the same command again",
    "end-orphans": "end the processes that are left, one by one, on the screen: `eagletui connect NODE`",
    "look-at-log": "read its log: `eagletui explain LOG`",
}
"""What an offer means on the command line."""
SIMULATED = "demo"
ITS_OWN = "this simulated node ends with the command; on the screen it stays: `eagletui connect demo`"


def elapsed(step: Step, now: float) -> float | None:
    """Seconds that the step took, or takes until now."""
    if step.began is None:
        return None
    return max(0.0, (step.ended if step.ended is not None else now) - step.began)


def step_line(step: Step, now: float, *, colour: bool) -> str:
    """A step that is over."""
    sign = _SIGNS[step.status]
    if colour and step.status in _COLOURS:
        sign = f"\x1b[{_COLOURS[step.status]}m{sign}\x1b[0m"
    took = elapsed(step, now)
    return (
        f"{sign} {step.name.value:<{NAME_CELLS}} {'' if took is None else seconds(took):>7}  {safe(step.text)}".rstrip()
    )


def running_line(step: Step, now: float, width: int) -> str:
    """The step that runs, with its time and its limit."""
    took = elapsed(step, now)
    limit = "" if step.timeout_s is None else f" of {step.timeout_s:g} s"
    parts = [f"  {step.name.value:<{NAME_CELLS}} {'' if took is None else seconds(took):>7}{limit}", safe(step.text)]
    return cut("  ".join(part for part in parts if part), width)


def details(step: Step) -> Iterator[str]:
    """Its lines: members, holders, checks."""
    for line in step.lines[:LINES]:
        yield f"    {safe(line)}"
    if len(step.lines) > LINES:
        yield f"    … {len(step.lines) - LINES} more"


def end_lines(progress: Progress, node: str, *, colour: bool) -> Iterator[str]:
    """How it ended, what is true on the node now, and what may be done."""
    good = progress.ending == "done"
    head = HEADS[progress.ending]
    if colour:
        head = f"\x1b[1;{'32' if good else '31'}m{head}\x1b[0m"
    ready_s = progress.ready_s
    took = "" if ready_s is None else f" after {seconds(ready_s) if ready_s < SHORT_S else duration(ready_s)}"
    yield f"{head}{took}: {safe(progress.text)}" if progress.text else f"{head}{took}"
    if progress.now_true:
        yield f"  now: {safe(progress.now_true)}"
    if progress.exit_status is not None:
        yield f"  exit status {progress.exit_status}"
    yield from (f"  │ {safe(line)}" for line in progress.printed)
    if node == SIMULATED and progress.offers:
        yield f"  {ITS_OWN}"
        return
    for offer in progress.offers:
        said = OFFERS[offer].replace("NODE", safe(node))
        if "LOG" in said:
            if progress.log is None:
                continue
            said = said.replace("LOG", safe(progress.log))
        yield f"  you may {said}"
