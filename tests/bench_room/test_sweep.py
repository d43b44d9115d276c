"""A sweep: its cells and their order, how it is carried out, gone on with, and told."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eagletui.bench.load import Load
from eagletui.bench.outcome import Against, BenchProgress, Conclusion, Facts, Failure, Result, Spread
from eagletui.bench.sweep.cells import BASELINE, Cell, Order, Tried, combinations, identity_of, in_order, named
from eagletui.bench.sweep.drive import EndedError, Sweep, Terms, base_values, would_be
from eagletui.bench.sweep.report import columns, lines_of, markdown, summary, table
from eagletui.bench.sweep.state import CellState, SweepError, SweepState, SweepStore
from eagletui.engines.command_line import Value
from eagletui.errors import BenchError, LinkLostError
from eagletui.launching.plan import Check, Plan, Question, Refusal, Wish
from eagletui.launching.steps import Progress
from tests.ui.fake_operator import FakeOperator, FakeRun

LOAD = Load("quick", 4, 8, 16, repeats=3)
COMMAND = ("python", "-m", "sglang.launch_server", "--tp", "8", "--steps", "3", "--api-key", "secret")


def result(tok_s: float, run: str = "r1") -> Result:
    means = (tok_s - 1, tok_s, tok_s + 1)
    spread = Spread(tok_s, tok_s, tok_s, tok_s)
    return Result(
        run, LOAD, Facts("sglang", model="m"), 1.0, 12, 12, (), 3.0, 96, 192, "usage", 64.0, spread, spread, spread, spread, spread, 2.1,
        means, (tok_s - 2.5, tok_s + 2.5), None, ("clocks were not read",),
    )  # fmt: skip


def by_means(one: Result, other: Result) -> Against:
    """A stand-in for the real comparison: what it is given is what counts here."""
    mine, theirs = (sum(each.repeat_means) / len(each.repeat_means) for each in (one, other))
    verdict: Conclusion = "same" if abs(mine - theirs) < 2 else "faster" if mine > theirs else "slower"
    return Against(other.run, theirs, 100 * (mine - theirs) / theirs, verdict, "")


def test_every_combination_is_a_cell_and_the_last_flag_changes_fastest() -> None:
    found = combinations([("a", ("1", "2")), ("b", (True, False))])
    assert [one.changes for one in found] == [
        (("a", "1"), ("b", True)),
        (("a", "1"), ("b", False)),
        (("a", "2"), ("b", True)),
        (("a", "2"), ("b", False)),
    ]
    assert combinations([]) == ()


def row(order: Order, rounds: int = 1, seed: int = 0, tried: int = 3) -> list[str]:
    cells = in_order([Tried(changes=(("a", str(n)),)) for n in range(tried)], Tried(), order, rounds, seed)
    assert [one.turn for one in cells] == list(range(len(cells)))
    return [one.name for one in cells]


def test_the_baseline_comes_first_in_each_round_and_around_every_cell_when_interleaved() -> None:
    assert row("given", 2) == [BASELINE, "a=0", "a=1", "a=2"] * 2
    assert row("interleaved") == [BASELINE, "a=0", BASELINE, "a=1", BASELINE, "a=2", BASELINE]
    assert row("random", seed=1) != row("given")
    assert row("random", seed=1) == row("random", seed=1), "its order is gone on with after an interruption"


@given(st.sampled_from(("given", "random", "interleaved")), st.integers(1, 3), st.integers(0, 99), st.integers(1, 6))
@settings(max_examples=40, deadline=None)
def test_whatever_the_order_each_cell_has_its_turn_in_each_round(
    order: Order, rounds: int, seed: int, tried: int
) -> None:
    names = row(order, rounds, seed, tried)
    assert names[0] == BASELINE
    assert all(names.count(f"a={n}") == rounds for n in range(tried))


@pytest.mark.parametrize(
    ("tried", "name"),
    [
        (Tried(), "as it is"),
        (Tried("tp4", (("steps", "2"), ("graphs", False), ("compile", True), ("bs", ("1", "2")))), "tp4 steps=2 no graphs compile bs=1 2"),
        (Tried(changes=(("api-key", "sk-abcdef0123456789"),)), "api-key=***"),
        (Tried(name="mine", changes=(("a", "1"),)), "mine"),
    ],
)  # fmt: skip
def test_what_a_cell_is_called(tried: Tried, name: str) -> None:
    assert named(tried) == name


def test_the_same_file_on_the_same_server_is_the_same_sweep() -> None:
    one = identity_of("gpu", None, "[flags]")
    assert one == identity_of("gpu", None, "[flags]")
    assert (
        len(
            {
                one,
                identity_of("gpu", 30000, "[flags]"),
                identity_of("gpu2", None, "[flags]"),
                identity_of("gpu", None, "[flags]\n"),
            }
        )
        == 4
    )


def cells(*changes: tuple[tuple[str, Value], ...]) -> tuple[CellState, ...]:
    tried = [Tried(changes=one) for one in changes]
    return tuple(CellState(one) for one in in_order(tried, Tried(), "given", 1, 0))


def test_without_a_profile_each_cell_undoes_what_the_one_before_changed() -> None:
    """A restart begins with what runs, which is the cell before."""
    tried = cells((("steps", "5"),), (("new", True),), (("tp", None),))
    base = base_values(COMMAND, tried)
    assert base == (("steps", "3"), ("new", None), ("tp", "8"))
    command: tuple[str, ...] = COMMAND
    for one, wanted in zip(
        tried,
        (
            {"--tp": "8", "--steps": "3"},
            {"--tp": "8", "--steps": "5"},
            {"--tp": "8", "--steps": "3", "--new": ""},
            {"--steps": "3"},
        ),
        strict=True,
    ):
        command = would_be(command, one.cell, base)
        words = " ".join(command)
        for flag in ("--tp", "--steps", "--new"):
            assert (flag in command) == (flag in wanted), words
            assert flag not in wanted or f"{flag} {wanted[flag]}".strip() in words


class Node(FakeOperator):
    """`ends`: how the launch of each cell ends, in turn."""

    def __init__(self, *ends: str | Plan, checks: tuple[Check, ...] = ()) -> None:
        super().__init__(self._planned, checks)
        self._ends = list(ends)

    def _planned(self, wish: Wish) -> Plan:
        return self._ends.pop(0) if isinstance(self._ends[0], Plan) else Plan(wish, "n", None)  # type: ignore[return-value]

    def begin(self, plan: Plan) -> FakeRun:
        self.begun.append(plan)
        end = self._ends.pop(0)
        return super().stand(plan, Progress("restart", (), end, f"it {end}", ready_s=42.0 if end == "done" else None))  # type: ignore[arg-type]


def state_of(tried: tuple[CellState, ...]) -> SweepState:
    return SweepState("s1", "gpu", "night.toml", None, LOAD, tried)


def sweep(folder: Path, node: Node, state: SweepState, measure: Callable[[Cell], Result]) -> Sweep:
    async def measured(cell: Cell, progress: Progress, news: Callable[[BenchProgress], None]) -> Result:
        assert progress.ending == "done"
        news(BenchProgress("measuring"))
        return measure(cell)

    return Sweep(state, SweepStore(folder), node, measured, Terms(None, frozenset({"stop"})), lambda: None)


async def test_a_cell_that_fails_is_written_down_and_the_next_has_its_turn(tmp_path: Path) -> None:
    tried = cells(*((("a", str(n)),) for n in range(7)))
    refused = Plan(Wish("restart"), "gpu", None, refusals=(Refusal("cannot-help", "it crashed the same way twice"),))
    asks = Plan(
        Wish("restart"),
        "gpu",
        None,
        questions=(
            Question("stop", "x"),
            Question("others", "another user's job runs"),
        ),
    )
    node = Node("done", "crashed", "done", refused, asks, "stalled", "never-started", "done")

    def measure(cell: Cell) -> Result:
        if cell.name == "a=6":
            return replace(result(0), tok_s=None, ok=0, failures=(Failure(500, "out of memory", 12),))
        if cell.name == "a=1":
            raise BenchError("no API answers")
        return result(80)

    ended = await sweep(tmp_path, node, state_of(tried), measure).run()
    assert [(one.cell.name, one.outcome, one.failure) for one in ended.cells] == [
        (BASELINE, "measured", None),
        ("a=0", "failed", "crashed"),
        ("a=1", "failed", "requests"),
        ("a=2", "failed", "refused"),
        ("a=3", "failed", "asks"),
        ("a=4", "failed", "stalled"),
        ("a=5", "failed", "never-started"),
        ("a=6", "failed", "requests"),
    ]
    assert "another user's job runs" in ended.cells[4].text
    assert "out of memory" in ended.cells[7].text
    assert (ended.over, ended.pid, ended.failed) == (True, None, 7)
    assert len(node.begun) == 6, "what was refused or would ask is not begun"


async def test_preflight_that_fails_launches_nothing(tmp_path: Path) -> None:
    node = Node("done", checks=(Check("launch.flags", "fail", "--stepz is no flag"),))
    ended = await sweep(tmp_path, node, state_of(cells()), lambda _cell: result(80)).run()
    assert (ended.cells[0].failure, ended.cells[0].text, node.begun) == ("preflight", "--stepz is no flag", [])


@pytest.mark.parametrize("ending", ["failed", "overtaken", "no-link", "aborted"])
async def test_what_is_no_cells_fault_ends_it_and_it_is_gone_on_with_at_that_cell(tmp_path: Path, ending: str) -> None:
    store = SweepStore(tmp_path)
    tried = cells((("a", "1"),), (("a", "2"),))
    with pytest.raises(EndedError):
        await sweep(tmp_path, Node("done", ending), state_of(tried), lambda _cell: result(80)).run()
    left = store.read("s1")
    assert left is not None
    assert (left.at, left.pid, left.over, left.failed) == (1, None, False, 0)
    assert ending in left.why
    second = Node("done", "done")
    ended = await sweep(tmp_path, second, left, lambda _cell: result(80)).run()
    assert [one.outcome for one in ended.cells] == ["measured"] * 3
    assert [dict(plan.wish.changes)["a"] for plan in second.begun] == ["1", "2"], "the first was not launched again"


async def test_a_link_that_breaks_while_measuring_is_no_cells_fault(tmp_path: Path) -> None:
    def breaks(_cell: Cell) -> Result:
        raise LinkLostError("the link broke")

    with pytest.raises(LinkLostError):
        await sweep(tmp_path, Node("done"), state_of(cells()), breaks).run()
    left = SweepStore(tmp_path).read("s1")
    assert left is not None
    assert (left.at, left.why) == (0, "the link broke")


async def test_an_interrupted_one_is_kept_as_it_stood(tmp_path: Path) -> None:
    async def forever(_cell: Cell, _progress: Progress, _news: Callable[[BenchProgress], None]) -> Result:
        await asyncio.sleep(60)
        raise AssertionError

    store = SweepStore(tmp_path)
    one = Sweep(state_of(cells()), store, Node("done"), forever, Terms(None, frozenset()), lambda: None)
    task = asyncio.create_task(one.run())
    while one.state.doing != "measuring":
        await asyncio.sleep(0.01)
    assert [found.id for found in store.under_way("gpu")] == [], "nobody holds it by its lock"
    with store.alone("s1"):
        assert [found.doing for found in store.under_way("gpu")] == ["measuring"]
        assert store.under_way("another") == ()
        with pytest.raises(SweepError, match="another eagletui"), store.alone("s1"):
            pass
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    left = store.read("s1")
    assert left is not None
    assert (left.at, left.pid, left.doing, left.why) == (0, None, "", "It was interrupted.")


def test_what_is_kept_comes_back_whole_and_is_for_this_user_alone(tmp_path: Path) -> None:
    store = SweepStore(tmp_path / "sweeps")
    first, second = cells((("a", ("1", "2")),))
    state = replace(
        state_of((replace(first, outcome="measured", result=result(80)), second)), base=(("a", None), ("b", True))
    )
    store.write(state)
    assert store.read("s1") == state
    assert [path.stat().st_mode & 0o777 for path in (tmp_path / "sweeps").iterdir()] == [0o600]
    assert store.read("none") is None


def test_a_file_that_cannot_be_read_is_said_and_kept(tmp_path: Path) -> None:
    store = SweepStore(tmp_path)
    (tmp_path / "s1.json").write_text("{")
    with pytest.raises(SweepError, match="--fresh"):
        store.read("s1")
    store.set_aside("s1")
    assert store.read("s1") is None
    assert [path.read_text() for path in tmp_path.iterdir()] == ["{"]
    store.write(replace(state_of(()), format=99))
    with pytest.raises(SweepError, match="another eagletui"):
        store.read("s1")
    if os.getuid() != 0:
        (tmp_path / "s1.json").chmod(0)
        with pytest.raises(SweepError, match="cannot be read"):
            store.read("s1")


def test_how_long_it_takes_is_told_once_a_cell_was_measured() -> None:
    tried = cells((("a", "1"),), (("a", "2"),))
    state = state_of(tried)
    assert state.left_s(1000.0) is None
    state = state.put(0, replace(tried[0], outcome="failed", began=0.0, ended=5.0))
    assert state.left_s(1000.0) is None, "what failed tells nothing of what works"
    state = state.put(0, replace(tried[0], outcome="measured", began=0.0, ended=100.0))
    state = state.put(1, replace(tried[1], outcome="running", began=110.0))
    assert state.left_s(150.0) == pytest.approx(60 + 100)
    assert state.left_s(900.0) == pytest.approx(100), "one that takes longer promises nothing"


def told() -> SweepState:
    names = in_order([Tried(changes=(("a", "1"),)), Tried(name="x|y `z`")], Tried(), "interleaved", 1, 0)
    speeds = (80.0, 90.0, 90.0, 0.0, 100.0)
    states = [
        CellState(one, "measured", result(speed, f"r{one.turn}"), ready_s=61.0)
        for one, speed in zip(names, speeds, strict=True)
    ]
    states[3] = CellState(names[3], "failed", None, "crashed", "CUDA out of memory | 80 GB", "oom")
    return state_of(tuple(states))


def test_a_cell_is_held_against_the_baselines_on_both_sides() -> None:
    lines = lines_of(told(), by_means)
    assert [None if line.against is None else line.against.tok_s for line in lines] == [None, 85.0, None, None, None]
    assert columns(lines[1]) == ("a=1", "1:01", "90.0", "2.5", "90 ms", "2.10", "+5.9 %", "faster")
    assert columns(lines[3]) == ("x|y `z`", "–", "–", "–", "–", "–", "–", "crashed · oom")
    assert summary(told(), lines) == "4 of 5 cells measured, 1 failed. Fastest: a=1, +5.9 % against the baseline."


def test_the_table_keeps_its_numbers_at_any_width() -> None:
    lines = lines_of(told(), by_means)
    for width in (60, 80, 120):
        rows = table(lines, width)
        assert len(rows) == 6
        assert "+5.9 %" in rows[2]
        assert rows[2].endswith("faster")


def test_the_markdown_has_no_markup_but_its_own() -> None:
    state = told()
    text = markdown(state, lines_of(state, by_means), "2026-12-01 14:00")
    assert "| x\\|y \\`z\\` |" in text
    assert "- **x\\|y \\`z\\`**: CUDA out of memory \\| 80 GB" in text
    assert "3 × 4 requests, 8 tokens in, 16 out, 1 at a time" in text
    assert "- clocks were not read" in text
    rows = [line for line in text.splitlines() if line.startswith("|")]
    assert {line.replace("\\|", "").count("|") for line in rows} == {9}
