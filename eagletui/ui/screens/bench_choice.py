"""Which benchmark, and who sends it: what the server will get, and how long that takes about, before anything is sent."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import ClassVar, cast

from eagletui.bench.load import Load, RunnerName
from eagletui.monitor.snapshot import Snapshot
from eagletui.ui import format as fmt
from eagletui.ui.bench_words import RUNNER_WORDS, about_s, load_words, pace_words, thousands
from eagletui.ui.screens.sheet import Keys, Sheet, SheetView
from eagletui.ui.widgets.frame import View
from eagletui.ui.widgets.key_row import KeyHint
from eagletui.ui.widgets.lines import EMPTY, Line, Span, clean, cut, marked, width_of, wrap

NAME_CELLS = 20
REQUESTS_CELLS, TOKENS_CELLS, PACE_CELLS, ABOUT_CELLS = 12, 15, 16, 7
LABEL_CELLS = 9


class BenchChoice(Sheet[Load | None]):
    """Gives the load to send, or None. `guard`: why somebody is asked first on this node (None: nobody is); `asking`: with that question, at once.
    `rate`: tok/s of a stream as last measured."""

    BINDINGS: ClassVar[list[Keys]] = [
        ("enter", "go", "run"), ("y", "yes", "yes"), ("n,escape,q", "leave", "leave"), ("up", "walk(-1)", ""), ("down", "walk(1)", ""),
        ("left", "runner(-1)", ""), ("right,tab", "runner(1)", "who sends"),
    ]  # fmt: skip

    def __init__(
        self, presets: Sequence[Load], runners: Sequence[str], load: Load, snapshot: Snapshot, *, guard: str | None = None, asking: bool = False,
        rate: float | None = None,
    ) -> None:  # fmt: skip
        super().__init__()
        self._presets = tuple(presets) or (load,)
        self._runners = tuple(runners) or ("builtin",)
        names = [one.preset for one in self._presets]
        self._at = names.index(load.preset) if load.preset in names else 0
        self._runner: str | None = None
        """As chosen here; None: the preset's own."""
        self._snapshot = snapshot
        self._guard = guard
        self._asking = asking and guard is not None
        last = snapshot.throughput
        alone = last.gen_tok_s / last.running if last.gen_tok_s and last.running and not last.stale else None
        self._rate = rate or alone

    @property
    def load(self) -> Load:
        """What is chosen."""
        chosen = self._presets[self._at]
        return chosen if self._runner is None else replace(chosen, runner=cast("RunnerName", self._runner))

    def view(self, width: int, height: int) -> View:  # noqa: ARG002 - as every sheet
        """The presets, who sends, what comes of it."""
        server = self._snapshot.server
        model = clean((server.model or "").rstrip("/").rsplit("/", 1)[-1]) if server is not None else ""
        title: Line = (("Benchmark", "text bold"), (f"  on {clean(self._snapshot.node)}", "dim"))
        names = min(NAME_CELLS, max(6, *(width_of([(clean(one.preset), "")]) for one in self._presets)) + 2)
        rows: list[Line] = [_header(names)]
        rows += [self._row(one, at == self._at, names, width) for at, one in enumerate(self._presets)]
        rows += [EMPTY, self._runner_row(), *self._said(width), *self._question(width)]
        summary: Line = ((cut(model, max(8, width // 3)), "accent"),) if model else EMPTY
        return View(rows, title, summary, border="warning" if self._asking else "focus")

    def _row(self, load: Load, here: bool, names: int, width: int) -> Line:
        prompts = (
            "of a file" if load.prompts is not None else f"{fmt.count(load.input_len)} → {fmt.count(load.output_len)}"
        )
        times = f"{load.repeats} × {fmt.count(load.requests)}" if load.repeats > 1 else fmt.count(load.requests)
        about = about_s(load, self._rate)
        line: Line = (
            ("▸ " if here else "  ", "accent bold"), (cut(clean(load.preset), names - 1).ljust(names), "text bold" if here else "text"),
            (f"{times:>{REQUESTS_CELLS}}", "text"), (f"{prompts:>{TOKENS_CELLS}}", "text"), (f"{pace_words(load, short=True):>{PACE_CELLS}}", "dim"),
            (f"{fmt.UNKNOWN if about is None else '~' + fmt.duration(about):>{ABOUT_CELLS}}", "text"),
        )  # fmt: skip
        return marked(line, width) if here else line

    def _runner_row(self) -> Line:
        out: list[Span] = [(f"{'sent by':<{LABEL_CELLS}}", "dim")]
        for name in self._runners:
            here = name == self.load.runner
            word = clean(RUNNER_WORDS.get(name, (name, ""))[0])
            out += [
                (f"{'▸ ' if here else '  '}", "accent bold"),
                (word, "text bold" if here else "dim"),
                ("   ", "dim"),
            ]
        return tuple(out)

    def _said(self, width: int) -> list[Line]:
        load = self.load
        total = load.requests * load.repeats
        said = RUNNER_WORDS.get(load.runner, ("", ""))[1]
        out: list[Line] = (
            [((" " * LABEL_CELLS + "  ", "dim"), (row, "dim")) for row in wrap(said, width - LABEL_CELLS - 2, 2)]
            if said
            else []
        )
        out.append(EMPTY)
        sends = load_words(load)
        if load.warmup:
            sends += f" · {fmt.plural(load.warmup, 'warm-up request')} before"
        if load.prompts is None:
            sends += f" · about {thousands(total * load.input_len)} tokens in and {thousands(total * load.output_len)} out, prompts of seed {load.seed}"
        out += _labelled("sends", sends, width)
        about = about_s(load, self._rate)
        if about is None:
            takes = f"{fmt.UNKNOWN}  (how fast this server is was not seen yet)"
        elif load.rate is not None:
            takes = f"~{fmt.duration(about)}, as the rate says"
        else:
            takes = f"~{fmt.duration(about)} at {fmt.number(self._rate, 1)} tok/s a stream"
        out += _labelled("takes", takes, width)
        last = self._snapshot.throughput
        if last.running:
            verb = "is" if last.running == 1 else "are"
            others = f"{fmt.plural(last.running, 'request')} of others {verb} being answered now: what is measured is the server with them."
            out += [EMPTY, *([((row, "warning"),) for row in wrap(f"▲ {others}", width, 2)])]
        return out

    def _question(self, width: int) -> list[Line]:
        if self._guard is None:
            return []
        text = f"{self._guard} Run it all the same?" if self._asking else self._guard
        return [EMPTY, *(((row, "warning bold" if self._asking else "warning"),) for row in wrap(text, width, 3))]

    def keys(self) -> tuple[KeyHint, ...]:
        """What can be done now."""
        if self._asking:
            return (("y", "run it", "yes"), ("n", "no", "leave"), ("esc", "leave", "leave"))
        more = (("→", "who sends", "next_runner"),) if len(self._runners) > 1 else ()
        return (("enter", "run", "go"), *more, ("esc", "leave", "leave"))

    def do(self, name: str) -> None:
        """A click."""
        getattr(self, f"action_{name}")()

    def action_go(self) -> None:
        """Run it; asked first where there is a guard. Enter is no answer to that."""
        if self._asking:
            return
        if self._guard is not None:
            self._asking = True
            self.redraw()
            self.sheet.scroll_lines(1000)
            return
        self.dismiss(self.load)

    def action_yes(self) -> None:
        """To the question."""
        if self._asking:
            self.dismiss(self.load)

    def action_leave(self) -> None:
        """Nothing is sent."""
        self.dismiss(None)

    def action_walk(self, step: int) -> None:
        """Another preset."""
        if not self._asking:
            self._at = max(0, min(len(self._presets) - 1, self._at + step))
            self.redraw()

    def action_runner(self, step: int) -> None:
        """Another runner."""
        if not self._asking:
            names = list(self._runners)
            at = names.index(self.load.runner) if self.load.runner in names else 0
            self._runner = names[(at + step) % len(names)]
            self.redraw()

    def action_next_runner(self) -> None:
        """A click on its key."""
        self.action_runner(1)

    def on_sheet_view_clicked(self, event: SheetView.Clicked) -> None:
        """A preset, or a runner."""
        if self._asking:
            return
        if 1 <= event.row <= len(self._presets):
            self._at = event.row - 1
        elif event.row == len(self._presets) + 2:
            at = LABEL_CELLS
            for name in self._runners:
                size = 2 + len(RUNNER_WORDS.get(name, (name, ""))[0]) + 3
                if at <= event.column < at + size:
                    self._runner = name
                at += size
        self.redraw()


def _header(names: int) -> Line:
    head = f"  {'preset':<{names}}{'requests':>{REQUESTS_CELLS}}{'in → out':>{TOKENS_CELLS}}"
    return ((head, "faint"), (f"{'':>{PACE_CELLS}}{'about':>{ABOUT_CELLS}}", "faint"))


def _labelled(label: str, said: str, width: int) -> list[Line]:
    rows = wrap(said, width - LABEL_CELLS, 4)
    return [((f"{'' if at else label:<{LABEL_CELLS}}", "dim"), (row, "text")) for at, row in enumerate(rows)]
