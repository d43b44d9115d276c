"""Health: what each witness says, and why the state is what it is."""

from __future__ import annotations

from eagletui.engines.spec import ENGINES, load_engine
from eagletui.monitor.snapshot import Health, Snapshot
from eagletui.servers.model import State
from eagletui.servers.verdict import FRESH_HEALTH_S
from eagletui.ui import format as fmt
from eagletui.ui.panes.card import has_card
from eagletui.ui.panes.link_words import level, next_words, silent_s
from eagletui.ui.panes.pane import LEVEL_OF_STATE, Pane, is_old, is_undecided
from eagletui.ui.widgets.bars import sparkline
from eagletui.ui.widgets.frame import View
from eagletui.ui.widgets.lines import EMPTY, Line, cut, width_of, wrap

LABEL_CELLS = 9
LONG_LABEL_CELLS = 17
LONG_FROM = 60
"""A pane this wide has room for `/health_generate`; a narrower one calls it `generate`, below `/health`."""
DEEP_PATH, DEEP_NAME = "/health_generate", "generate"
WORD_CELLS = 9
LATENCY_CELLS = 7
AGE_CELLS = 10
SPARK_CELLS = 14
MIN_SPARK_CELLS = 5
REASON_ROWS = 6
QUIET_LOG_S = 10.0
"""A log that grew within it is called growing; servers under load print more often, idle ones do not print."""
_EXPLAIN = (State.DEGRADED, State.STALLED, State.UNKNOWN, State.STOPPING)


class HealthPane(Pane):
    """Pane 2."""

    number = "2"
    name_ = "Health"
    _label_cells = LABEL_CELLS

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
            snapshot.deep_health,
        )

    def view_of(self, snapshot: Snapshot, width: int, height: int) -> View:
        """Rows of label, word, detail."""
        health, deep, log = snapshot.health, snapshot.deep_health, snapshot.log
        self._label_cells = LONG_LABEL_CELLS if width >= LONG_FROM else LABEL_CELLS
        aged = health.at is not None and self.now - health.at > FRESH_HEALTH_S
        rows = [
            (self._health_row(snapshot, width), is_old(snapshot, health.at) or aged),
            (self._family_row(snapshot), is_old(snapshot, snapshot.family_at)),
            (self._log_row(snapshot), is_old(snapshot, None) or (not log.following and is_old(snapshot, log.grew_at))),
        ]
        if _has_deep_health(snapshot):
            rows.insert(1, (self._deep_row(snapshot), deep is not None and is_old(snapshot, deep.at)))
        silent = silent_s(snapshot.link, self.now) is not None
        lines = [_dimmed(row) if dim or silent else row for row, dim in rows]
        said = self._said(snapshot, width)
        fine = snapshot.family_total is not None and snapshot.family_alive == snapshot.family_total
        if said and fine and len(lines) + len(said) > height:
            del lines[-2]  # the family; that it is whole is the least of news
        words = self._explain_rows(snapshot, said, width, height - len(lines))
        # What the status line tells, too, gives way to reasons and notes.
        spare = height - len(lines) - len(words)
        if spare >= 1 or not is_calm(snapshot, self.now):
            lines.append(self._link_row(snapshot, width))
        if spare >= 2 or not words:
            lines.append(self._uptime_row(snapshot))
        lines += self._explain_rows(snapshot, said, width, height - len(lines))
        state = snapshot.verdict.state
        tells = state in (State.DEGRADED, State.STALLED) and not has_card(snapshot)
        border = LEVEL_OF_STATE[state] if tells else "border"
        return View(lines, title=(("Health", "text"),), border=border)

    def _said(self, snapshot: Snapshot, width: int) -> list[str]:
        """Why it is in a state that needs a reason, as rows."""
        if snapshot.verdict.state not in _EXPLAIN or is_undecided(snapshot.verdict) or has_card(snapshot):
            return []
        return wrap(snapshot.verdict.reason.text, width, REASON_ROWS)

    def _uptime_row(self, snapshot: Snapshot) -> Line:
        up = snapshot.uptime_s if self.is_offline(snapshot) else snapshot.up_s(self.now)
        known = up is not None and not is_old(snapshot, snapshot.family_at)
        return self._row("uptime", fmt.duration(up), "text" if known else "dim", "")

    def _explain_rows(self, snapshot: Snapshot, said: list[str], width: int, room: int) -> list[Line]:
        out: list[Line] = []
        state = snapshot.verdict.state
        if said and room > 0:
            if len(said) > room:
                said = wrap(snapshot.verdict.reason.text, width, room)
            blank: list[Line] = [EMPTY] if len(said) < room else []
            out += [*blank, *(((row, LEVEL_OF_STATE[state]),) for row in said)]
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
            if note != snapshot.verdict.reason.text and left > 0:
                out += [*apart, *(((row, "dim"),) for row in wrap(note, width, min(3, left)))]
        return out

    def _health_row(self, snapshot: Snapshot, width: int) -> Line:
        health = snapshot.health
        word, role = _health_word(health, snapshot.verdict.state)
        if health.at is None:
            return self._row(health.path, word, role, "")
        if health.error == "refused" and snapshot.verdict.state is State.STARTING:
            return self._row(health.path, word, role, "opens once loaded")
        age = fmt.age(health.at, self.now)
        if health.latency_ms is None or health.error is not None:
            return self._row(health.path, word, role, age)
        # The age of what is asked every second or two goes first where there is no room: it is told again when it counts.
        room = width - self._label_cells - WORD_CELLS - LATENCY_CELLS
        with_age = room - AGE_CELLS >= MIN_SPARK_CELLS
        fresh = self.now - health.at <= FRESH_HEALTH_S and not is_old(snapshot, health.at)
        if not health.latencies or room < MIN_SPARK_CELLS or not (with_age or fresh):
            return self._row(health.path, word, role, f"{fmt.latency(health.latency_ms)}, {age}")
        cells = min(SPARK_CELLS, room - AGE_CELLS if with_age else room)
        known = health.latencies[-cells:]
        spark = sparkline(known, len(known), top=max(known) * 1.25).ljust(cells)
        latency = fmt.latency(health.latency_ms).ljust(LATENCY_CELLS)
        return (
            *self._row(health.path, word, role, latency), (spark, "spark"), (f" {age}" if with_age else "", "dim"),
        )  # fmt: skip

    def _deep_row(self, snapshot: Snapshot) -> Line:
        deep = snapshot.deep_health
        label = DEEP_PATH if self._label_cells >= LONG_LABEL_CELLS else DEEP_NAME
        if deep is None or deep.at is None:
            return self._row(label, fmt.UNKNOWN, "dim", "not asked")
        word, role = _health_word(deep, snapshot.verdict.state)
        took = f"{fmt.latency(deep.latency_ms)}, " if deep.latency_ms is not None and deep.error is None else ""
        return self._row(label, word, role, took + fmt.age(deep.at, self.now))

    def _family_row(self, snapshot: Snapshot) -> Line:
        alive, total = snapshot.family_alive, snapshot.family_total
        if alive is None or total is None:
            return self._row("family", fmt.UNKNOWN, "dim", "")
        if not alive:
            return self._row("family", "gone", "error", f"0 of {total}")
        word, role = ("alive", "ok") if alive == total else ("broken", "error")
        if snapshot.verdict.state is State.STOPPING:
            word, role = "ending", "warning"  # it was asked to
        age = (
            f", {fmt.age(snapshot.family_at, self.now)}"
            if (is_old(snapshot, snapshot.family_at) or silent_s(snapshot.link, self.now)) and snapshot.family_at
            else ""
        )
        return self._row("family", word, role, f"{alive} of {total}{age}")

    def _log_row(self, snapshot: Snapshot) -> Line:
        log = snapshot.log
        if log.error:
            return self._row("log", "none", "warning", "see the log pane")
        if log.grew_at is None:
            return self._row("log", fmt.UNKNOWN, "dim", "")
        old = fmt.age(log.grew_at, self.now)
        if snapshot.verdict.state is State.CRASHED:
            return self._row("log", "ended", "error", old)
        if is_old(snapshot, None) or silent_s(snapshot.link, self.now) is not None:
            return self._row("log", "grew", "text", old)  # whether it grows now is not known
        if self.now - log.grew_at <= QUIET_LOG_S:
            return self._row("log", "growing", "ok", old)
        return self._row("log", "quiet", "text", old)

    def _link_row(self, snapshot: Snapshot, width: int) -> Line:
        link = snapshot.link
        if link.state != "up":
            if link.lost_at is None:
                return (
                    self._row("link", "…", "dim", "connecting")
                    if link.state == "connecting"
                    else self._row("link", "down", "error", "")
                )
            lost = self._row("link", "lost", "error", f"{fmt.duration(max(0.0, self.now - link.lost_at))} ago")
            forms = ((*lost, (" · ", "dim"), *next_words(link, self.now, short=short)) for short in (False, True))
            return next((form for form in forms if width_of(form) <= width), lost)
        if (silent := silent_s(link, self.now)) is not None:
            return self._row("link", "silent", "error", f"{fmt.duration(silent)}, no answer")
        sign, role = level(link.latency_ms, link.latencies)
        if link.latency_ms is None:
            return self._row("link", "up", "ok", "")
        word = fmt.latency(link.latency_ms) + (f" {sign}" if role != "ok" else "")
        room = max(0, min(14, len(link.latencies), width - self._label_cells - WORD_CELLS))
        top = max((ms for ms in link.latencies if ms is not None), default=0.0) * 1.25
        return (*self._row("link", word, role, ""), (sparkline(link.latencies[-room:], room, top=top), "spark"))

    def _row(self, label: str, word: str, role: str, detail: str) -> Line:
        return (
            (cut(label, self._label_cells - 1).ljust(self._label_cells), "dim"),
            (cut(word, WORD_CELLS - 1).ljust(WORD_CELLS), role),
            (detail, "dim"),
        )


def is_calm(snapshot: Snapshot, now: float) -> bool:
    """Whether the link is up and answers as it does usually."""
    link = snapshot.link
    return link.state == "up" and silent_s(link, now) is None and level(link.latency_ms, link.latencies)[1] == "ok"


def _has_deep_health(snapshot: Snapshot) -> bool:
    """Whether the engine can be asked for a token by a GET."""
    server = snapshot.server
    if server is None:
        return snapshot.deep_health is not None
    return server.engine in ENGINES and load_engine(server.engine).deep_health_path is not None


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
