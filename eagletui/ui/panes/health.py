"""Health: what each witness says, and why the state is what it is."""

from __future__ import annotations

from eagletui.monitor.snapshot import Health, Snapshot
from eagletui.servers.model import State
from eagletui.servers.verdict import FRESH_HEALTH_S
from eagletui.ui import format as fmt
from eagletui.ui.panes.link_words import level, next_words, silent_s
from eagletui.ui.panes.pane import LEVEL_OF_STATE, Pane, is_old, is_undecided
from eagletui.ui.widgets.bars import sparkline
from eagletui.ui.widgets.frame import View
from eagletui.ui.widgets.lines import EMPTY, Line, cut, width_of, wrap

LABEL_CELLS = 9
WORD_CELLS = 9
QUIET_LOG_S = 10.0
"""A log that grew within it is called growing; servers under load print more often, idle ones do not print."""
_EXPLAIN = (State.DEGRADED, State.STALLED, State.UNKNOWN, State.STOPPING)


class HealthPane(Pane):
    """Pane 2."""

    number = "2"
    name_ = "Health"

    def parts(self, snapshot: Snapshot) -> tuple[object, ...]:
        """See Pane."""
        return (
            snapshot.health,
            snapshot.verdict,
            snapshot.link,
            snapshot.family_alive,
            snapshot.family_total,
            snapshot.fresh_since,
            is_old(snapshot, snapshot.family_at),
            snapshot.log.following,
            snapshot.log.error,
            snapshot.notes,
        )

    def view_of(self, snapshot: Snapshot, width: int, height: int) -> View:
        """Rows of label, word, detail."""
        health, log = snapshot.health, snapshot.log
        old = (
            is_old(snapshot, health.at) or (health.at is not None and self.now - health.at > FRESH_HEALTH_S),
            is_old(snapshot, snapshot.family_at),
            is_old(snapshot, None) or (not log.following and is_old(snapshot, log.grew_at)),
        )
        silent = silent_s(snapshot.link, self.now) is not None
        rows = (self._health_row(snapshot), self._family_row(snapshot), self._log_row(snapshot))
        lines = [_dimmed(row) if dim or silent else row for row, dim in zip(rows, old, strict=True)]
        lines.append(self._link_row(snapshot, width))
        up = snapshot.uptime_s
        if up is not None and not self.is_offline(snapshot):
            up += max(0.0, self.now - snapshot.at)
        known = up is not None and not is_old(snapshot, snapshot.family_at)
        lines.append(_row("uptime", fmt.duration(up), "text" if known else "dim", ""))
        lines += self._explain_rows(snapshot, width, height - len(lines))
        state = snapshot.verdict.state
        border = LEVEL_OF_STATE[state] if state in (State.DEGRADED, State.STALLED) else "border"
        return View(lines, title=(("Health", "text"),), border=border)

    def _explain_rows(self, snapshot: Snapshot, width: int, room: int) -> list[Line]:
        out: list[Line] = []
        state = snapshot.verdict.state
        said = snapshot.verdict.reason.text if state in _EXPLAIN and not is_undecided(snapshot.verdict) else ""
        if said and room > 0:
            rows = wrap(said, width, min(4, room))
            blank: list[Line] = [EMPTY] if len(rows) < room else []
            out += [*blank, *(((row, LEVEL_OF_STATE[state]),) for row in rows)]
        detail = snapshot.health.detail
        notes = [
            *(
                [detail]
                if detail and (state not in (State.STARTING, State.ABSENT) or snapshot.health.error == "forbidden")
                else []
            ),
            *snapshot.notes,
            *snapshot.inventory.notes,
        ]
        for note in dict.fromkeys(notes):
            apart: list[Line] = [EMPTY] if room - len(out) > 1 else []  # the last row is for words
            left = room - len(out) - len(apart)
            if note != said and left > 0:
                out += [*apart, *(((row, "dim"),) for row in wrap(note, width, min(3, left)))]
        return out

    def _health_row(self, snapshot: Snapshot) -> Line:
        health = snapshot.health
        word, role = _health_word(health, snapshot.verdict.state)
        if health.at is None:
            return _row(health.path, word, role, "")
        if health.error == "refused" and snapshot.verdict.state is State.STARTING:
            return _row(health.path, word, role, "opens once loaded")
        took = f"{fmt.latency(health.latency_ms)}, " if health.latency_ms is not None and health.error is None else ""
        return _row(health.path, word, role, took + fmt.age(health.at, self.now))

    def _family_row(self, snapshot: Snapshot) -> Line:
        alive, total = snapshot.family_alive, snapshot.family_total
        if alive is None or total is None:
            return _row("family", fmt.UNKNOWN, "dim", "")
        if not alive:
            return _row("family", "gone", "error", f"0 of {total}")
        word, role = ("alive", "ok") if alive == total else ("broken", "error")
        age = (
            f", {fmt.age(snapshot.family_at, self.now)}"
            if (is_old(snapshot, snapshot.family_at) or silent_s(snapshot.link, self.now)) and snapshot.family_at
            else ""
        )
        return _row("family", word, role, f"{alive} of {total}{age}")

    def _log_row(self, snapshot: Snapshot) -> Line:
        log = snapshot.log
        if log.error:
            return _row("log", "none", "warning", "see the log pane")
        if log.grew_at is None:
            return _row("log", fmt.UNKNOWN, "dim", "")
        old = fmt.age(log.grew_at, self.now)
        if snapshot.verdict.state is State.CRASHED:
            return _row("log", "ended", "error", old)
        if is_old(snapshot, None) or silent_s(snapshot.link, self.now) is not None:
            return _row("log", "grew", "text", old)  # whether it grows now is not known
        if self.now - log.grew_at <= QUIET_LOG_S:
            return _row("log", "growing", "ok", old)
        return _row("log", "quiet", "text", old)

    def _link_row(self, snapshot: Snapshot, width: int) -> Line:
        link = snapshot.link
        if link.state != "up":
            if link.lost_at is None:
                return (
                    _row("link", "…", "dim", "connecting")
                    if link.state == "connecting"
                    else _row("link", "down", "error", "")
                )
            lost = _row("link", "lost", "error", f"{fmt.duration(max(0.0, self.now - link.lost_at))} ago")
            forms = ((*lost, (" · ", "dim"), *next_words(link, self.now, short=short)) for short in (False, True))
            return next((form for form in forms if width_of(form) <= width), lost)
        if (silent := silent_s(link, self.now)) is not None:
            return _row("link", "silent", "error", f"{fmt.duration(silent)}, no answer")
        sign, role = level(link.latency_ms, link.latencies)
        if link.latency_ms is None:
            return _row("link", "up", "ok", "")
        word = fmt.latency(link.latency_ms) + (f" {sign}" if role != "ok" else "")
        room = max(0, min(14, len(link.latencies), width - LABEL_CELLS - WORD_CELLS))
        top = max((ms for ms in link.latencies if ms is not None), default=0.0) * 1.25
        return (*_row("link", word, role, ""), (sparkline(link.latencies[-room:], room, top=top), "spark"))


def _health_word(health: Health, state: State) -> tuple[str, str]:
    if health.error == "forbidden":
        return fmt.UNKNOWN, "dim"  # it is not the server's failure; the reason stands below
    if health.error is not None:
        return health.error, "warning" if state in (State.STARTING, State.STOPPING) else "error"
    if health.status is None:
        return fmt.UNKNOWN, "dim"
    if health.status == 200:
        return "200", "ok"
    return str(health.status), "warning" if state is State.STARTING else "error"


def _dimmed(line: Line) -> Line:
    return tuple((text, "dim") for text, _ in line)


def _row(label: str, word: str, role: str, detail: str) -> Line:
    return (
        (cut(label, LABEL_CELLS - 1).ljust(LABEL_CELLS), "dim"),
        (cut(word, WORD_CELLS - 1).ljust(WORD_CELLS), role),
        (detail, "dim"),
    )
