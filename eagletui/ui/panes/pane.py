"""What all panes share: they are shown a snapshot, and draw it."""

from __future__ import annotations

from eagletui.monitor.snapshot import Snapshot, Verdict
from eagletui.servers.model import State
from eagletui.ui.widgets.frame import Frame, View

LEVEL_OF_STATE: dict[State, str] = {
    State.READY: "ok", State.STARTING: "warning", State.STOPPING: "warning", State.DEGRADED: "warning", State.UNKNOWN: "dim",
    State.STALLED: "error", State.CRASHED: "error", State.ABSENT: "dim", State.OFFLINE: "error",
}  # fmt: skip
"""State to the role of its word, and of the border of the pane that matters then."""

NOT_KNOWN_YET = {"looking": "LOOKING", "connecting": "CONNECTING"}
"""Codes of a verdict that is none yet, whatever its state is: nothing was looked at so far."""


def is_undecided(verdict: Verdict) -> bool:
    """Whether nothing is known yet, so that nothing may be claimed."""
    return verdict.reason.code in NOT_KNOWN_YET


def word_and_role(verdict: Verdict) -> tuple[str, str]:
    """The state as a word, and its colour's role."""
    if is_undecided(verdict):
        return NOT_KNOWN_YET[verdict.reason.code], "dim"
    if verdict.state is State.CRASHED and verdict.reason.code == "never-started":
        return "CRASHED · never started", "error"
    word = "NO SERVER" if verdict.state is State.ABSENT else verdict.state.name
    return word, LEVEL_OF_STATE[verdict.state]


def is_old(snapshot: Snapshot, at: float | None) -> bool:
    """Whether something seen at that time is only what was last seen: the link is down, or it was before the link came or we woke."""
    return snapshot.link.state != "up" or (at is not None and at < snapshot.fresh_since)


class Pane(Frame):
    """A frame bound to a part of the snapshot. `now` is monotonic, and the ages on screen are against it."""

    def __init__(self, *, id: str) -> None:  # noqa: A002 - the word of the interface
        super().__init__(id=id)
        self.snapshot: Snapshot | None = None
        self.now = 0.0
        self._parts: tuple[object, ...] = ()

    def show(self, snapshot: Snapshot, now: float) -> None:
        """Draw this snapshot; only what differs is repainted. Nothing is done when its parts are the same within the same second."""
        parts = (self.parts(snapshot), int(now))
        same = self.snapshot is not None and parts == self._parts
        self.snapshot = snapshot
        self.now = now
        if not same:
            self._parts = parts
            self.redraw()

    def word(self, snapshot: Snapshot) -> str:  # noqa: ARG002 - some panes are called by what they show
        """What it is called in its title, and in a tab."""
        return self.name_

    def parts(self, snapshot: Snapshot) -> tuple[object, ...]:
        """What of a snapshot this pane shows at once; the rest (ages) it shows within a second."""
        raise NotImplementedError

    def view(self, width: int, height: int) -> View:
        """The content, empty until there is a snapshot."""
        if self.snapshot is None:
            return View(title=((self.name_, "text"),))
        return self.view_of(self.snapshot, width, height)

    def view_of(self, snapshot: Snapshot, width: int, height: int) -> View:
        """The content of this snapshot."""
        raise NotImplementedError

    def is_offline(self, snapshot: Snapshot) -> bool:
        """Whether what is shown is what was last seen."""
        return snapshot.link.state != "up"
