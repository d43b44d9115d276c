"""GPUs: a row each in fixed columns, a sum, and a mark only on trouble."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from eagletui.gpus.model import Gpu, GpuErrorCode, MigInstance
from eagletui.monitor.snapshot import Snapshot
from eagletui.ui import format as fmt
from eagletui.ui.actions import BY_ID
from eagletui.ui.panes.memory import Owners, family_pids, owners
from eagletui.ui.panes.pane import Pane, is_old
from eagletui.ui.panes.trouble import MARK, heat_role, trouble_of
from eagletui.ui.widgets.bars import bar, sparkline
from eagletui.ui.widgets.frame import View
from eagletui.ui.widgets.lines import EMPTY, Line, Span, cut, fit, wrap

STALE_S = 5.0
"""The tool answers once a second; five missed answers are a silence."""
OTHERS_MIB = 512
"""Other users' memory below it is a context, not a tenant."""
SPARK_CELLS = ((60, 106), (30, 76), (15, 46))
"""(cells of the last minute, room that they need beside full bars): a cell a second where there is room."""
SPARK_MIN = 8
MARK_CELLS = 12
BAR_CELLS, BAR_MIN = 22, 6
TWO_COLUMN_MIN = 66
_SENTENCES: dict[GpuErrorCode, str] = {
    "no-tool": "No GPU tool on this node: nvidia-smi was not found.",
    "no-devices": "No GPUs on this node.",
    "driver-mismatch": "The NVIDIA driver was updated under a running kernel module; a reboot (or reloading the module) mends it.",
    "no-driver": "nvidia-smi is there, its driver is not running.",
    "no-permission": "nvidia-smi may not be run by this user.",
    "nvml-error": "nvidia-smi failed.",
    "lost": "A GPU fell off the bus.",
    "timeout": "nvidia-smi does not answer; a GPU may hang.",
    "unparsable": "nvidia-smi answered in a form that is not known.",
}


Row = tuple[Line, int]
"""A row of the table, and how many GPUs it shows."""


@dataclass(frozen=True, slots=True)
class Columns:
    """Widths of the columns that flex; 0 leaves a column out."""

    util: int
    memory: int
    spark: int
    mark: int

    @classmethod
    def of(cls, width: int) -> Columns:
        """Share a width: numbers always, bars next, then the history, then words beside marks."""
        fixed = 2 + 5 + 1 + 7 + 1 + 4 + 4 + 5  # index, util, gap, used, gap, total, °C, W
        room = width - fixed
        mark = 2 if room < 34 else MARK_CELLS if room > 58 else 8
        room -= mark
        spark = next((cells for cells, need in SPARK_CELLS if room >= need), SPARK_MIN if room >= 26 else 0)
        room -= spark + (2 if spark else 0)
        room = max(0, room)
        memory = min(BAR_CELLS, (room + 1) // 2)
        return cls(min(BAR_CELLS, room - memory), memory, spark, mark)


class GpuPane(Pane):
    """Pane 3."""

    number = "3"
    name_ = "GPUs"

    def wanted_rows(self) -> int | None:
        """Rows it would like with its border; None while the GPUs are unknown."""
        if self.snapshot is None or self.snapshot.gpus.at is None:
            return None
        gpus = self.snapshot.gpus.report.gpus
        return 2 + 2 + sum(1 + len(gpu.mig) for gpu in gpus) if gpus else 0

    def parts(self, snapshot: Snapshot) -> tuple[object, ...]:
        """See Pane."""
        return (snapshot.gpus, snapshot.link.state, snapshot.fresh_since, snapshot.inventory, snapshot.server)

    def view_of(self, snapshot: Snapshot, width: int, height: int) -> View:
        """Header, rows, sum."""
        view = snapshot.gpus
        report = view.report
        title: list[Span] = [("GPUs", "text"), *_kinds(report.gpus)]
        if not report.gpus:
            return View(_sentence(snapshot, width, height), tuple(title))
        stale = is_old(snapshot, view.at) or (view.at is not None and self.now - view.at > STALE_S)
        summary: Line = ((fmt.age(view.at, self.now), "warning"),) if stale and view.at is not None else EMPTY
        table = Table(snapshot, Columns.of(width))
        rows = table.rows(report.gpus)
        if len(rows) + 2 > height and width >= TWO_COLUMN_MIN:
            rows = _side_by_side(snapshot, width, height)
            lines = [*(line for line, _ in rows), table.sum_words()]
        else:
            if len(rows) + 2 > height:
                rows = table.rows(worst_first(report.gpus, table))
            rows = [(table.header(), 0), *rows]
            lines = [*(line for line, _ in rows), table.sum()]
        foot = self._foot(table, rows, height)
        if report.error is not None:
            foot = ((cut(_SENTENCES.get(report.error.code, report.error.text), width - 4), "warning"),)
        trouble = any(table.mark_of(gpu)[1] == "error" for gpu in report.gpus)
        return View(
            lines, tuple(title), summary, foot, border="error" if trouble and not stale else "border", stale=stale
        )

    def _foot(self, table: Table, rows: list[Row], height: int) -> Line:
        """Whose memory it is; before it, how many GPUs are out of sight."""
        first = min(self.offset_y, max(0, len(rows) + 1 - height))
        unseen = sum(gpus for at, (_, gpus) in enumerate(rows) if not first <= at < first + height)
        whose = table.whose()
        left = table.orphans()
        if left:
            whose = (*left, *(((" · ", "dim"), *whose) if whose else ()))
        if not unseen:
            return whose
        return ((f"… {unseen} more", "key"), *(((" · ", "dim"), *whose) if whose else ()))


def worst_first(gpus: tuple[Gpu, ...], table: Table) -> tuple[Gpu, ...]:
    """Those with a mark first, so that they are seen where not all are; else in their order."""
    rank = {"error": 0, "warning": 1, "others": 2}
    return tuple(sorted(gpus, key=lambda gpu: rank.get(table.mark_of(gpu)[1], 3)))


class Table:
    """Rows of one snapshot in some columns."""

    def __init__(self, snapshot: Snapshot, columns: Columns) -> None:
        self._snapshot = snapshot
        self._columns = columns
        self._history = dict(snapshot.gpus.history)
        ours = family_pids(snapshot)
        self._owners: dict[int, Owners] = {g.index: owners(g, ours, snapshot) for g in snapshot.gpus.report.gpus}

    def header(self) -> Line:
        """Units, said once."""
        c = self._columns
        line: list[Span] = [
            ("      % " + "util"[: c.util].ljust(c.util), "dim"), ("    GiB " + "memory"[: c.memory].ljust(c.memory), "dim"),
            ("  of  °C    W", "dim"),
        ]  # fmt: skip
        if c.spark:
            line.append(("  " + ("60 s" if c.spark < 9 else "last 60 s"), "dim"))
        return tuple(line)

    def rows(self, gpus: tuple[Gpu, ...]) -> list[Row]:
        """A row a GPU, and one under it for each MIG instance."""
        out: list[Row] = []
        for gpu in gpus:
            out.append((self.row(gpu), 1))
            out += [(self._mig(instance), 0) for instance in gpu.mig]
        return out

    def row(self, gpu: Gpu) -> Line:
        """One GPU."""
        c = self._columns
        index: Span = (f"{gpu.index:<2}", "text bold")
        if gpu.state != "ok":
            word = "lost: it fell off the bus" if gpu.state == "lost" else "error: the tool cannot read it"
            return (index, (f"   {MARK} ", "error"), (word, "error"))
        util = bar([((gpu.util_pct or 0) / 100, "util")], c.util) if gpu.util_pct is not None else _no_bar(c.util)
        line: list[Span] = [index, (f"{fmt.number(gpu.util_pct):>5} ", _known(gpu.util_pct)), *util]
        line += [(f"{fmt.gib(gpu.mem_used_mib):>7} ", _known(gpu.mem_used_mib)), *self._memory_bar(gpu)]
        line.append((f"{fmt.whole_gib(gpu.mem_total_mib):>4}", "dim"))
        line.append((f"{fmt.number(gpu.temp_c):>4}", heat_role(gpu.temp_c)))
        line.append((f"{fmt.number(gpu.power_w):>5}", _known(gpu.power_w)))
        if c.spark:
            line += [("  ", "text"), (self._spark(gpu.index), "spark")]
        word, role = self.mark_of(gpu)
        if word:
            line += [(f" {MARK}", role), (" " + word if c.mark > 2 else "", role)]
        return tuple(line)

    def _spark(self, index: int) -> str:
        c = self._columns
        values = self._history.get(index, ())
        at = self._snapshot.gpus.at or 0.0
        return sparkline(values, c.spark, top=100.0, anchor=int(at), per=60 // c.spark)

    def _memory_bar(self, gpu: Gpu) -> Line:
        width = self._columns.memory
        if gpu.mem_used_mib is None or not gpu.mem_total_mib:
            return _no_bar(width)
        others = min(self._owners[gpu.index].others_mib or 0, gpu.mem_used_mib)
        used = gpu.mem_used_mib / gpu.mem_total_mib
        part = others / gpu.mem_total_mib
        if others < OTHERS_MIB:
            return bar([(used, "memory")], width)
        return bar([(used - part, "memory"), (part, "others")], width)

    def _mig(self, instance: MigInstance) -> Line:
        c = self._columns
        name = cut(f"└{instance.device} {instance.profile}", 5 + c.util + 1)
        head = f"  {name}".ljust(2 + 5 + 1 + c.util)
        used, total = instance.mem_used_mib, instance.mem_total_mib
        line = bar([(used / total, "memory")], c.memory) if used is not None and total else _no_bar(c.memory)
        return (head, "dim"), (f"{fmt.gib(used):>7} ", _known(used)), *line, (f"{fmt.whole_gib(total):>4}", "dim")

    def mark_of(self, gpu: Gpu) -> tuple[str, str]:
        """(word, role) of its worst trouble, ("", "") when there is none."""
        worst = trouble_of(gpu)
        if worst[0]:
            return worst
        who = self._owners[gpu.index]
        if who.others_mib is not None and who.others_mib >= OTHERS_MIB:
            return cut(who.users[0] if who.users else "others", MARK_CELLS - 3), "others"
        return "", ""

    def whose(self) -> Line:
        """`ours 1053 · others 0 GiB` over all GPUs; nothing when the tool does not say."""
        split = [o for o in self._owners.values() if o.ours_mib is not None]
        if not split:
            return EMPTY
        ours, others = sum(o.ours_mib or 0 for o in split), sum(o.others_mib or 0 for o in split)
        return (
            ("ours ", "dim"), (fmt.whole_gib(ours), "text"), (" · others ", "dim"),
            (fmt.whole_gib(others), "others" if others >= OTHERS_MIB else "text"), (" GiB", "dim"),
        )  # fmt: skip

    def orphans(self) -> Line:
        """`o 3 without a server`: processes of an engine that no server has."""
        count = len(self._snapshot.inventory.orphans)
        return ((BY_ID["server.orphans"].key, "key"), (f" {count} without a server", "warning")) if count else EMPTY

    def _sums(self) -> tuple[float | None, int | None, int | None, float | None]:
        """Mean utilisation, memory used and total, power; None where no GPU says."""
        gpus = [g for g in self._snapshot.gpus.report.gpus if g.state == "ok"]
        utils = [g.util_pct for g in gpus if g.util_pct is not None]
        used = [g.mem_used_mib for g in gpus if g.mem_used_mib is not None]
        total = [g.mem_total_mib for g in gpus if g.mem_total_mib is not None]
        watts = [g.power_w for g in gpus if g.power_w is not None]
        mean = sum(utils) / len(utils) if utils else None
        return mean, sum(used) if used else None, sum(total) if total else None, sum(watts) if watts else None

    def sum_words(self) -> Line:
        """The sums as words, where the rows have no columns in common with them."""
        mean, used, total, watts = self._sums()
        words = f"{fmt.whole_gib(used)} of {fmt.whole_gib(total)} GiB"
        return (
            ("Σ ", "dim"),
            (f"{fmt.number(mean):>4}", _known(mean)),
            (f" %   {words}   ", "text"),
            (fmt.watts(watts), _known(watts)),
        )

    def sum(self) -> Line:
        """The sums in their columns."""
        c = self._columns
        mean, used, total, watts = self._sums()
        line: list[Span] = [
            ("Σ ", "dim"), (f"{fmt.number(mean):>5} ", _known(mean)), (" " * c.util, "text"),
            (f"{fmt.whole_gib(used):>7} ", _known(used)),
        ]  # fmt: skip
        said = f"of {fmt.whole_gib(total)}" if total is not None else ""
        room = c.memory + 4 + 4
        power = fmt.watts(watts)
        wide = room + 5 - len(power) - 1
        line.append((f"{said:<{wide}} ", "dim"))
        line.append((power, _known(watts)))
        return tuple(line)


def _side_by_side(snapshot: Snapshot, width: int, height: int) -> list[Row]:
    """Two GPUs a row when one a row does not fit: numbered downwards, or the worst in the first rows when not all can be seen."""
    half = (width - 3) // 2
    fixed = 2 + 4 + 1 + 6 + 4 + 1
    room = max(0, half - fixed - 2)
    bars = (room // 2, room - room // 2)
    helper = Table(snapshot, Columns(bars[0], bars[1], 0, 2))
    gpus = snapshot.gpus.report.gpus
    rows = (len(gpus) + 1) // 2
    if rows + 2 > height:
        worst = worst_first(gpus, helper)
        gpus = (*worst[::2], *worst[1::2])
    cells = [_short(gpu, bars, helper) for gpu in gpus]
    head = fit(
        (
            (
                "     % " + "util"[: bars[0]].ljust(bars[0]) + "   GiB " + "memory"[: bars[1]].ljust(bars[1]) + "  °C",
                "dim",
            ),
        ),
        half,
    )
    out: list[Row] = [((*head, ("   ", "text"), *head), 0)]
    for y in range(rows):
        right = fit(cells[y + rows], half) if y + rows < len(cells) else EMPTY
        out.append(((*fit(cells[y], half), ("   ", "text"), *right), 2 if right else 1))
    return out


def _short(gpu: Gpu, bars: tuple[int, int], table: Table) -> Line:
    index: Span = (f"{gpu.index:<2}", "text bold")
    if gpu.state != "ok":
        return (index, (f"  {MARK} ", "error"), (gpu.state, "error"))
    util = bar([(gpu.util_pct / 100, "util")], bars[0]) if gpu.util_pct is not None else _no_bar(bars[0])
    line: list[Span] = [index, (f"{fmt.number(gpu.util_pct):>4} ", _known(gpu.util_pct)), *util]
    line += [(f"{fmt.gib(gpu.mem_used_mib):>6} ", _known(gpu.mem_used_mib)), *table._memory_bar(gpu)]
    line.append((f"{fmt.number(gpu.temp_c):>4}", heat_role(gpu.temp_c)))
    word, role = table.mark_of(gpu)
    if word:
        line.append((f" {MARK}", role))
    return tuple(line)


def _kinds(gpus: tuple[Gpu, ...]) -> Line:
    """`8 × H200`, or the kinds with their numbers when they differ."""
    if not gpus:
        return EMPTY
    names = Counter(_short_name(gpu.name) for gpu in gpus)
    said = ", ".join(f"{n} × {name}" for name, n in names.most_common(3))
    return ("  ", "text"), (said, "dim")


def _short_name(name: str | None) -> str:
    if not name:
        return "GPU"
    for word in ("NVIDIA ", "GeForce ", "Tesla "):
        name = name.removeprefix(word)
    return cut(name, 24)


def _sentence(snapshot: Snapshot, width: int, height: int) -> list[Line]:
    view = snapshot.gpus
    if view.report.error is not None:
        said = _SENTENCES.get(view.report.error.code, "")
        lines: list[Line] = [((row, "text"),) for row in wrap(said, width, height)]
        if view.report.error.text and view.report.error.code != "no-devices":
            lines += [((row, "dim"),) for row in wrap(view.report.error.text, width, max(1, height - len(lines)))]
        return lines
    if view.at is not None:
        return [(("No GPUs on this node.", "dim"),)]
    return [(("Asking for the GPUs …" if snapshot.link.state == "up" else "Not asked yet.", "dim"),)]


def _known(value: object) -> str:
    return "dim" if value is None else "text"


def _no_bar(width: int) -> Line:
    return ((" " * width, "track"),)
