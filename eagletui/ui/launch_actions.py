"""The keys that stop and start servers: each opens a plan first, and what was decided there is given to the operator. It signals nothing itself.

What a dialog is made of is imported when it is opened: the first paint does not wait for it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

from textual.app import App
from textual.notifications import SeverityLevel
from textual.screen import Screen

from eagletui.errors import EagletuiError
from eagletui.launching.steps import StepName
from eagletui.ui import format as fmt
from eagletui.ui.actions import BY_ID, Action
from eagletui.ui.panes.steps import KIND_WORDS, SHOWN_NAMES, Doing, failed, offered, said, ticks

if TYPE_CHECKING:
    from eagletui.launching.operator import Operator, Run
    from eagletui.launching.plan import Plan, Wish
    from eagletui.launching.steps import Ending, Offer
    from eagletui.monitor.snapshot import Snapshot
    from eagletui.servers.model import Orphan
    from eagletui.servers.record import Kind, Record
    from eagletui.ui.screens.plan import Decision

Result = TypeVar("Result")
_NOTHING_DONE = (None, StepName.PREFLIGHT, StepName.IDENTIFY)
"""Who left at these left the old server as it was."""
AGAIN_S = 4.0
"""Seconds in which a second press of a key means it."""


class LaunchActions(App[None]):
    """What the app can do to servers. `operator` None: it is not there yet, or this source has none."""

    operator: Operator | None = None
    _noticed: tuple[Run | None, Ending] = (None, "running")
    _dropped: Run | None = None
    """The run whose card was closed."""
    _dropped_record: str | None = None
    _pressed: tuple[str, float] = ("", 0.0)

    # --- what the app gives

    def say(self, text: str, *, severity: SeverityLevel = "information") -> None:
        """A notice."""
        raise NotImplementedError

    def moment(self) -> float:
        """The monotonic time that snapshots are against."""
        raise NotImplementedError

    def seen(self) -> Snapshot:
        """The snapshot now."""
        raise NotImplementedError

    def open_dialog(self, dialog: Screen[Result], callback: Callable[[Result | None], None] | None = None) -> bool:
        """Push a dialog."""
        raise NotImplementedError

    def repaint(self) -> None:
        """Show what is true now."""
        raise NotImplementedError

    def use_operator(self, operator: Operator) -> None:
        """The operator has come (on the app's thread)."""
        self.operator = operator
        operator.on_change = self._operated
        self.repaint()

    # --- where it stands

    @property
    def running(self) -> Run | None:
        """The sequence that runs."""
        current = self.operator.current if self.operator is not None else None
        return current if current is not None and current.progress.ending == "running" else None

    @property
    def busy(self) -> Run | None:
        """A sequence whose steps still run. One that only watches its server start is in nobody's way."""
        running = self.running
        return running if running is not None and ticks(running.progress) else None

    @property
    def doing(self) -> Doing | None:
        """What the first pane shows of a sequence: while it runs, and afterwards its failure until that was closed."""
        current = self.operator.current if self.operator is not None else None
        if current is None or current is self._dropped:
            return None
        return Doing(current.progress, current.plan)

    @property
    def left_over(self) -> Record | None:
        """What an earlier eagletui left at a step; nothing while we do something ourselves, or once it was closed."""
        if self.operator is None or self.operator.current is not None:
            return None
        record = self.seen().unfinished
        if record is None or record.id == self._dropped_record or record.step in _NOTHING_DONE:
            return None
        return record

    def why_not_launching(self, action: Action) -> str | None:
        """Why an action that concerns launches cannot be done now; None where it can."""
        operator, snapshot = self.operator, self.seen()
        if action.needs == "orphans":
            if snapshot.inventory.orphans:
                return operator.read_only if operator is not None and action.changes else None
            return "No engine process is without a server here."
        if operator is None:
            soon = snapshot.link.state == "connecting"
            return f"{snapshot.node} is not ready for that yet." if soon else "Nothing is started or stopped from here."
        if action.changes and operator.read_only is not None:
            return operator.read_only
        running = self.running
        missing = {
            "server-to-stop": (snapshot.server is None, f"There is no server to stop on {snapshot.node}."),
            "drain": (running is None or not running.progress.may_stop_now, "Nothing drains now."),
            "unfinished": (self.left_over is None and not self._offers("go-on"), "Nothing was left at a step."),
        }
        lacks, said_ = missing.get(action.needs, (False, ""))
        return said_ if lacks else None

    def _offers(self, offer: Offer) -> bool:
        doing = self.doing
        return doing is not None and failed(doing.progress) and offer in doing.progress.offers

    def launch_keys(self) -> tuple[Action, ...]:
        """Those that matter now, for the footer; none that cannot be done."""
        if self.operator is None or self.operator.read_only is not None:
            return ()
        busy, doing = self.busy, self.doing
        if busy is not None:
            may_stop = busy.progress.may_stop_now
            return (BY_ID["server.stop-now"],) if may_stop else ()
        if doing is not None and failed(doing.progress):
            offers = [
                action for action, _ in offered(doing.progress, able=self.able_ids()) if not action.startswith("pane.")
            ]
            return tuple(BY_ID[one] for one in offers)
        if self.left_over is not None:
            return (BY_ID["server.go-on"], BY_ID["server.start"])
        names = (
            ("server.restart", "server.restart-changed", "server.stop")
            if self.seen().server is not None
            else ("server.start", "server.back")
        )
        return tuple(BY_ID[name] for name in names)

    def able_ids(self) -> tuple[str, ...]:
        """Actions that can be done now, of those that a card may offer."""
        return tuple(
            one.id for one in BY_ID.values() if one.group in ("Server", "Panes") and self.why_not_launching(one) is None
        )  # fmt: skip

    def _operated(self) -> None:
        """Something of the sequence changed; how it ended is said once."""
        current = self.operator.current if self.operator is not None else None
        if current is not None:
            now = (current, current.progress.ending)
            if now != self._noticed and now[1] != "running" and current is not self._dropped:
                self._tell_end(current)
            self._noticed = now
        self.repaint()

    def _tell_end(self, run: Run) -> None:
        progress = run.progress
        word = KIND_WORDS[progress.kind]
        if progress.ending == "done":
            after = (
                f"ready in {fmt.duration(progress.ready_s)}"
                if progress.ready_s is not None
                else said(progress.text or progress.now_true)
            )
            self.say(f"{word} done: {after}")
        else:
            self.say(f"{word}: {said(progress.text or progress.ending)}", severity="error")

    # --- opening a plan

    def _begin_of(self, action_id: str) -> bool:
        """Whether something may be begun; says why not."""
        why_not = self.why_not_launching(BY_ID[action_id])
        if why_not is not None:
            self.say(why_not)
            return False
        busy = self.busy
        if busy is None:
            return True
        step = busy.progress.step
        where = f" ({SHOWN_NAMES[step.name]})" if step is not None else ""
        self.say(f"A {busy.progress.kind} is under way already{where}; one at a time.")
        return False

    def _wish(self, kind: Kind) -> Wish:
        from eagletui.launching.plan import Wish

        server = self.seen().server
        return Wish(
            kind, server=server.id if server is not None else None, port=server.port if server is not None else None
        )

    def _retried(self, kind: Kind, offer: Offer) -> Wish | None:
        """What was wanted before it failed, where the card offers that."""
        doing = self.doing
        if doing is None or not self._offers(offer):
            return None
        wish = doing.plan.wish
        return wish if wish.kind == kind else replace(wish, kind=kind) if offer == "start" else None

    def _open_plan(self, wish: Wish, *, edited: bool = False) -> None:
        if self.operator is None:
            return
        from eagletui.ui.screens.plan import PlanScreen

        snapshot = self.seen()

        def decided(decision: Decision | None) -> None:
            if decision is None:
                if edited:
                    self._open_editor(wish)  # what was typed is not lost
                return
            if decision.go:
                self._go(decision)
            else:
                self._open_editor(decision.plan.wish, decision.plan)

        self.open_dialog(PlanScreen(self.operator, wish, snapshot.node, snapshot.wall), decided)

    def _open_editor(self, wish: Wish, plan: Plan | None = None) -> None:
        if self.operator is None:
            return
        from eagletui.ui.screens.variant import VariantScreen

        def edited(changed: Wish | None) -> None:
            if changed is not None:
                self._open_plan(changed, edited=True)

        self.open_dialog(VariantScreen(self.operator, wish, self.seen().node, plan), edited)

    def _go(self, decision: Decision) -> None:
        """Confirmed."""
        if self.operator is None or not self._begin_of("server.restart"):
            return
        self.run_worker(self._beginning(self.operator, decision.plan), name="begin", exit_on_error=False)

    async def _beginning(self, operator: Operator, plan: Plan) -> None:
        watching = self.running
        if watching is not None:  # its server is what is stopped now
            self._dropped = watching
            watching.abort()
            await watching.wait()
        operator.begin(plan)
        self.run_action_later("pane.startup")
        self._operated()

    def run_action_later(self, action_id: str) -> None:
        """Do an action by its id."""
        self.call_later(self.run_action, BY_ID[action_id].method)

    # --- actions

    def action_server_restart(self) -> None:
        """The plan of a restart."""
        if self._begin_of("server.restart"):
            self._open_plan(self._retried("restart", "retry") or self._wish("restart"))

    def action_server_restart_changed(self) -> None:
        """The editor of its flags."""
        if self._begin_of("server.restart-changed"):
            self._open_editor(self._retried("restart", "retry") or self._wish("restart"))

    def action_server_stop(self) -> None:
        """The plan of a stop."""
        if self._begin_of("server.stop"):
            self._open_plan(self._retried("stop", "retry") or self._wish("stop"))

    def action_server_start(self) -> None:
        """Which profile, then its plan."""
        if not self._begin_of("server.start") or self.operator is None:
            return
        from eagletui.launching.plan import Wish
        from eagletui.ui.screens.profiles import LAST, ProfileChooser

        wish = self._retried("start", "start") or self._retried("start", "retry")
        if wish is not None:
            self._open_plan(wish)
            return
        profiles = self.operator.profiles()
        if len(profiles) < 2:
            self._open_plan(Wish("start", profile=profiles[0] if profiles else None))
            return

        def chosen(name: str | None) -> None:
            if name is not None:
                self._open_plan(Wish("start", profile=None if name == LAST else name))

        self.open_dialog(ProfileChooser(profiles, self.seen().node, with_last=self.seen().record is not None), chosen)

    def action_server_back(self) -> None:
        """The plan of the last launch that worked."""
        if self._begin_of("server.back"):
            self._open_plan(replace(self._wish("restart"), back=True))

    def action_server_stop_now(self) -> None:
        """No more draining."""
        why_not = self.why_not_launching(BY_ID["server.stop-now"])
        if why_not is not None or self.running is None:
            self.say(why_not or "Nothing drains now.")
        elif self.running.stop_now():
            self.say("The rest is told to end now.")

    def action_server_go_on(self) -> None:
        """Where an earlier eagletui left it, or this one failed."""
        if not self._begin_of("server.go-on") or self.operator is None:
            return
        record, operator = self.left_over or self._record_of_failure(), self.operator
        if record is None:
            self.say("There is nothing to go on with any more.", severity="warning")
            return
        from eagletui.ui.screens.confirm import ConfirmScreen, going_on

        def decided(go: bool | None) -> None:
            if go and operator.resume(record) is None:
                self.say("There is nothing to go on with any more.", severity="warning")
            self._operated()

        title = f"Go on with a {record.kind} on {self.seen().node}"
        self.open_dialog(ConfirmScreen(title, going_on(record), "go on", operator.confirm_name), decided)

    def _record_of_failure(self) -> Record | None:
        """The record on the node of the sequence that failed."""
        current = self.operator.current if self.operator is not None else None
        return current.record if current is not None and self._offers("go-on") else None

    def action_server_orphans(self) -> None:
        """The list of processes without a server."""
        why_not = self.why_not_launching(BY_ID["server.orphans"])
        if why_not is not None:
            self.say(why_not)
            return
        from eagletui.ui.screens.orphans import OrphanScreen

        operator = self.operator
        fixed = "Nothing can be ended from here." if operator is None else operator.read_only
        self.open_dialog(OrphanScreen(self.seen(), fixed), self._end_orphans)

    def _end_orphans(self, chosen: tuple[Orphan, ...] | None) -> None:
        operator = self.operator
        if not chosen or operator is None or operator.read_only is not None:
            return
        orphans = chosen

        def decided(go: bool | None) -> None:
            if go:
                self.run_worker(self._ending(operator, orphans), name="orphans", exit_on_error=False)

        if operator.confirm_name is None:  # the list has asked already
            decided(go=True)
            return
        from eagletui.ui.screens.confirm import ConfirmScreen

        pids = ", ".join(str(one.process.pid) for one in orphans)
        told = f"End exactly {fmt.plural(len(orphans), 'process', 'processes')} (pid {pids}). It cannot be undone."
        title = f"Processes without a server on {self.seen().node}"
        self.open_dialog(ConfirmScreen(title, (told,), "end them", operator.confirm_name), decided)

    async def _ending(self, operator: Operator, chosen: tuple[Orphan, ...]) -> None:
        self.say(f"Ending {fmt.plural(len(chosen), 'process', 'processes')} …")
        try:
            told = await operator.end_orphans(chosen)
        except EagletuiError as error:
            self.say(said(str(error)), severity="error")
        else:
            self.say(said(told))

    def abort_or_close(self) -> bool:
        """Esc on the main screen: abort where that is safe, close the card of a failure. False where it has nothing to do here."""
        running, doing, left = self.running, self.doing, self.left_over
        if running is not None:
            step = running.progress.step
            if step is not None and step.name in (StepName.WATCH, StepName.READY):
                return False  # the launch is done; who watches less loses nothing
            self._abort(running)
            return True
        if doing is not None and failed(doing.progress) and self.operator is not None:
            self._dropped = self.operator.current
            self.repaint()
            return True
        if left is not None:
            self._dropped_record = left.id
            self.repaint()
            return True
        return False

    def _abort(self, run: Run) -> None:
        progress = run.progress
        if not progress.may_abort:
            self.say(f"It cannot be aborted now: {said(progress.why_not)}.", severity="warning")
            return
        if progress.why_not and not self.twice("abort"):  # not without its price: a reflex is no answer
            self.say(f"Esc again aborts: {said(progress.why_not)}.", severity="warning")
            return
        if run.abort():
            self.say("Aborting: nothing further is begun.")
        else:
            self.say(f"It cannot be aborted now: {said(run.progress.why_not)}.", severity="warning")

    def twice(self, what: str) -> bool:
        """Whether it was asked for a moment ago as well."""
        before, at = self._pressed
        now = self.moment()
        self._pressed = (what, now)
        return before == what and now - at <= AGAIN_S

    def may_quit(self) -> bool:
        """While the steps run, only at the second press."""
        run = self.running
        if run is None or not ticks(run.progress) or self.twice("quit"):
            return True
        step = run.progress.step
        where = f" at {SHOWN_NAMES[step.name]}" if step is not None else ""
        self.say(
            f"A {run.progress.kind} is{where}: q again leaves it there, and the next eagletui offers to go on.",
            severity="warning",
        )
        return False
