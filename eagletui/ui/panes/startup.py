"""Startup: the phases as a checklist; who the server is once it is up; what happened when it died."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from eagletui.logs.state import SHOWN_NAMES, LogState, Phase, Progress
from eagletui.monitor.snapshot import Snapshot
from eagletui.servers.model import Server, State
from eagletui.ui import format as fmt
from eagletui.ui.panes.link_words import next_words
from eagletui.ui.panes.pane import LEVEL_OF_STATE, Pane, is_undecided
from eagletui.ui.widgets.bars import bar
from eagletui.ui.widgets.frame import View
from eagletui.ui.widgets.lines import EMPTY, Line, Span, cut, spread, width_of, wrap

NAME_CELLS = 15
TIME_CELLS = 7
BAR_CELLS = 20
EVIDENCE_ROWS = 4
_TO_COME = ("distributed", "weights", "draft-weights", "kv-cache", "compile", "graphs", "warmup")
_LAUNCHING = (State.STARTING, State.STALLED, State.UNKNOWN)
Kind = Literal["link", "connecting", "none", "crash", "launch", "server"]
_WORDS: dict[Kind, str] = {"link": "Link", "crash": "Crash", "server": "Server"}


class StartupPane(Pane):
    """Pane 1."""

    number = "1"
    name_ = "Startup"

    def parts(self, snapshot: Snapshot) -> tuple[object, ...]:
        """See Pane."""
        return (
            snapshot.startup,
            snapshot.verdict,
            snapshot.server,
            snapshot.link,
            snapshot.inventory,
            snapshot.discovered,
            snapshot.log.path,
        )

    def view_of(self, snapshot: Snapshot, width: int, height: int) -> View:
        """What fits the state."""
        state = snapshot.verdict.state
        border = (
            LEVEL_OF_STATE[state]
            if state in (State.STARTING, State.STALLED, State.CRASHED, State.STOPPING)
            else "border"
        )
        kind = kind_of(snapshot)
        title: Line = ((self.word(snapshot), "text"),)
        if kind == "connecting":
            return View(_text(f"Connecting to {snapshot.node} …", "text", width, height), title)
        if kind == "link":
            return View(self._no_link(snapshot, width)[:height], title, border="error")
        if kind == "crash":
            return View(self._crash(snapshot, width, height)[:height], title, border="error")
        if kind == "launch":
            return self._checklist(snapshot, width, height, border)
        if kind == "none" or snapshot.server is None:
            return View(self._no_server(snapshot, width, height)[:height], title)
        return View(self._server(snapshot, snapshot.server, width)[:height], title, border=border)

    def word(self, snapshot: Snapshot) -> str:
        """See Pane: it is called by what it shows."""
        return _WORDS.get(kind_of(snapshot), self.name_)

    def _no_link(self, snapshot: Snapshot, width: int) -> list[Line]:
        link = snapshot.link
        lines = _text(f"No link to {snapshot.node}.", "error bold", width, 2)
        if link.error:
            lines += [EMPTY, *_text(link.error, "text", width, 5)]
        if link.lost_at is not None:
            lines += [
                EMPTY,
                (
                    ("lost ", "dim"),
                    (f"{fmt.duration(max(0.0, self.now - link.lost_at))} ago", "text"),
                    (" · ", "dim"),
                    *next_words(link, self.now, short=False),
                ),
            ]
        said = "What is shown is what was last seen; the server is not touched."
        if link.needs is None:
            said = f"It is tried again by itself; c tries at once. {said}"
        return [*lines, EMPTY, *_text(said, "dim", width, 3)]

    def _no_server(self, snapshot: Snapshot, width: int, height: int) -> list[Line]:
        servers = snapshot.inventory.servers
        if servers:
            said = f"{fmt.plural(len(servers), 'server')} on {snapshot.node}: press v to choose the one to show."
            return _text(said, "text", width, height)
        if not snapshot.discovered or is_undecided(snapshot.verdict):
            return _text(f"Looking for servers on {snapshot.node} …", "dim", width, height)
        lines = _text(f"No server on {snapshot.node}.", "text bold", width, 2)
        orphans = snapshot.inventory.orphans
        if orphans:
            said = fmt.plural(len(orphans), "process", "processes")
            lines += [
                EMPTY,
                *_text(f"{said} of an engine without its server, holding what it held:", "warning", width, 2),
            ]
            for orphan in orphans[: max(0, height - len(lines) - 2)]:
                who = f" · {orphan.user}" if orphan.user else ""
                lines.append(
                    (
                        (f"{orphan.process.pid:>8} ", "dim"),
                        (orphan.name, "text"),
                        (f"{who} · {fmt.duration(orphan.age_s)}", "dim"),
                    )
                )
        lines += [
            EMPTY,
            *_text("Start one on the node: it appears here by itself, with its log, within seconds.", "dim", width, 3),
        ]
        return lines

    def _checklist(self, snapshot: Snapshot, width: int, height: int, border: str) -> View:
        startup = snapshot.startup
        lines: list[Line] = [
            _done(p, width) if p.status == "done" else self._running_row(p, startup, width) for p in startup.phases
        ]
        if not lines:
            lines = _text("Alive; its log has not told a phase yet.", "dim", width, 2)
        stalled = snapshot.verdict.state in (State.STALLED, State.UNKNOWN)
        words = _text(snapshot.verdict.reason.text, LEVEL_OF_STATE[snapshot.verdict.state], width, 3) if stalled else []
        lines += [((f"· {SHOWN_NAMES[name]}", "faint"),) for name in expected(startup)]
        room = height - (len(words) + 1 if words else 0)
        shown = _around_running(lines, len(startup.phases), room)
        if words:
            shown += [EMPTY, *words]
        elapsed = self._elapsed(snapshot)
        foot: Line = ((fmt.duration(elapsed), "text"), (" so far", "dim")) if elapsed is not None else EMPTY
        # After a break the bar stands where it stood, until something fresh has come.
        return View(shown, title=(("Startup", "text"),), foot=foot, border=border, stale=is_undecided(snapshot.verdict))

    def _elapsed(self, snapshot: Snapshot) -> float | None:
        if snapshot.uptime_s is not None:
            return snapshot.uptime_s + max(0.0, self.now - snapshot.at)
        since = snapshot.verdict.since
        return self.now - since if since is not None else None

    def _running_row(self, phase: Phase, startup: LogState, width: int) -> Line:
        name = f"{SHOWN_NAMES.get(phase.name, phase.name):<{NAME_CELLS}}"
        head: list[Span] = [("▸ ", "warning"), (name, "text bold")]
        took = self.now - phase.began_at if phase.began_at is not None else None
        progress = startup.progress if startup.phase == phase.name else None
        if progress is not None and progress.total > 0:
            head += _progress(progress, width - 2 - NAME_CELLS - TIME_CELLS)
        elif phase.detail:
            head.append((cut(phase.detail, max(0, width - 2 - NAME_CELLS - TIME_CELLS)), "dim"))
        return spread(
            tuple(head), ((f"{fmt.duration(took):>{TIME_CELLS}}", "text" if took is not None else "dim"),), width
        )

    def _server(self, snapshot: Snapshot, server: Server, width: int) -> list[Line]:
        startup = snapshot.startup
        lines: list[Line] = []
        if startup.ready_s is not None and snapshot.verdict.state is not State.STOPPING:
            lines.append((("✓ ", "ok"), ("ready in ", "text"), (fmt.duration(startup.ready_s), "text bold")))
        elif snapshot.verdict.state is not State.READY:
            lines += _text(snapshot.verdict.reason.text, LEVEL_OF_STATE[snapshot.verdict.state], width, 3)
        lines += _times(startup.phases, width)
        if lines:
            lines.append(EMPTY)
        lines += _facts(server, width)
        return lines

    def _crash(self, snapshot: Snapshot, width: int, height: int) -> list[Line]:
        verdict = snapshot.verdict
        lines = _text(verdict.reason.text, "error bold", width, 3)
        where: list[str] = []
        if verdict.since is not None:
            at = snapshot.wall - (snapshot.at - verdict.since)
            where.append(f"{fmt.clock(at)}, {fmt.age(verdict.since, self.now)}")
        if snapshot.startup.phase is not None and snapshot.startup.phase != "serving":
            where.append(f"during {SHOWN_NAMES[snapshot.startup.phase]}")
        elif snapshot.startup.ready_s is not None:
            where.append("after it was ready")
        if where:
            lines += _text(" · ".join(where), "dim", width, 2)
        if snapshot.startup.error_text:
            rows = wrap(snapshot.startup.error_text, width - 2, EVIDENCE_ROWS)
            lines += [EMPTY, *((("▎ ", "error"), (row, "text")) for row in rows)]
        done = [p for p in snapshot.startup.phases if p.status == "done"]
        times = _times(done, width)
        if times and len(lines) + len(times) < height:
            lines += [EMPTY, *times]
        if snapshot.log.path and len(lines) + 2 <= height:
            lines += [EMPTY, (("log  ", "dim"), (cut(snapshot.log.path, width - 5), "dim"))]
        return lines


def kind_of(snapshot: Snapshot) -> Kind:
    """What the pane is about in this state."""
    state = snapshot.verdict.state
    if snapshot.link.state != "up" and (state is State.OFFLINE or snapshot.server is None):
        return "connecting" if snapshot.link.state == "connecting" and snapshot.link.lost_at is None else "link"
    if state is State.CRASHED:
        return "crash"
    if snapshot.server is None:
        return "none"
    launching = snapshot.startup.state in ("starting", "stalled") and state in _LAUNCHING
    return "launch" if state is State.STARTING or launching else "server"


def expected(startup: LogState) -> list[str]:
    """Phases that are still to come, as far as it is known: nobody lists a draft model or a compilation that there may not be."""
    seen = {phase.name for phase in startup.phases}
    order = [name for name in _TO_COME if name not in seen]
    drafts = any(
        startup.args.get(key) for key in ("speculative_algorithm", "speculative_config", "speculative_draft_model_path")
    )
    last = max((_TO_COME.index(p.name) for p in startup.phases if p.name in _TO_COME), default=-1)
    return [
        name
        for name in order
        if (name != "draft-weights" or drafts)
        and (name != "compile" or startup.engine == "vllm")
        and _TO_COME.index(name) > last
    ]


def _done(phase: Phase, width: int) -> Line:
    name = f"{SHOWN_NAMES.get(phase.name, phase.name):<{NAME_CELLS}}"
    detail = cut(phase.detail, max(0, width - 3 - NAME_CELLS - TIME_CELLS))
    took = (f"{fmt.duration(phase.seconds):>{TIME_CELLS}}", "text" if phase.seconds is not None else "dim")
    return spread((("✓ ", "ok"), (name, "text"), (detail, "dim")), (took,), width)


def _progress(progress: Progress, room: int) -> list[Span]:
    counts = f"{progress.done}/{progress.total}".rjust(2 * len(str(progress.total)) + 1)
    words: list[Span] = [(f" {counts}", "warning bold")]
    if progress.rate is not None:
        words.append((f" {progress.rate:.1f}/s" if progress.rate >= 0.1 else f" {1 / progress.rate:.0f} s each", "dim"))
    size = min(BAR_CELLS, room - width_of(words) - 1)
    if size < 4:
        return words
    return [*bar([(progress.done / progress.total, "warning")], size), *words]


def _around_running(lines: list[Line], known: int, room: int) -> list[Line]:
    """Too many rows: what is done gives way from the top, what is to come from the end."""
    if len(lines) <= room:
        return lines
    first = max(0, min(known - room + 1, len(lines) - room))
    return lines[first : first + room]


def _times(phases: Iterable[Phase], width: int) -> list[Line]:
    """`imports 0:14 · distributed 0:20 · …`, wrapped between phases."""
    rows: list[list[Span]] = []
    used = 0
    for phase in phases:
        if phase.name == "serving" or phase.seconds is None:
            continue
        name, took = SHOWN_NAMES.get(phase.name, phase.name), fmt.duration(phase.seconds)
        size = len(name) + len(took) + 1
        if not rows or used + 3 + size > width - 2:
            rows.append([("  ", "dim")])
            used = 2
        else:
            rows[-1].append((" · ", "faint"))
            used += 3
        rows[-1] += [(f"{name} ", "dim"), (took, "text")]
        used += size
    return [tuple(row) for row in rows]


def _facts(server: Server, width: int) -> list[Line]:
    out: list[Line] = []
    who = [
        server.engine,
        f"pid {server.pid}",
        *([f"port {server.port}"] if server.port else []),
        *([server.user] if server.user else []),
    ]
    for label, value in (
        ("server", " · ".join(who)),
        ("model", server.model or fmt.UNKNOWN),
        ("flags", " · ".join(server.flags)),
    ):
        if value:
            for at, row in enumerate(wrap(value, width - 8, 2)):
                out.append(
                    (
                        ("" if at else label, "dim"),
                        (" " * (8 - (0 if at else len(label))), "dim"),
                        (row.removesuffix(" ·"), "text"),
                    )
                )
    return out


def _text(said: str, role: str, width: int, rows: int) -> list[Line]:
    return [((row, role),) for row in wrap(said, width, rows)]
