"""Runs in the history: by two processes at once, found again, held against the right baseline."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from eagletui.bench.kept import KeptRuns
from eagletui.errors import HistoryError, UsageError
from eagletui.history.runs import LaunchesWanted, RequestRow, RunRecord, RunsWanted, new_id
from eagletui.history.store import History
from tests.bench_room.made import BEGAN, FACTS, LOAD, measured, run
from tests.history.made import launch


@pytest.fixture
def history(tmp_path: Path) -> History:
    return History(tmp_path / "history.db")


@pytest.fixture
def kept(history: History) -> KeptRuns:
    return KeptRuns(history)


def test_a_run_is_kept_with_its_requests(kept: KeptRuns) -> None:
    sent = [row for repeat in measured(80.0, 81.0).repeats for row in repeat.rows]
    failed = replace(sent[0], error="boom", status=None, ttft_ms=None, e2e_ms=None)
    result = run("abc234", 80.0, 81.0)
    assert kept.record(result, [*sent, failed], tags=("x",), note="mine")
    found = kept.find("ABC")
    assert (found.result, found.baseline, found.note, found.tags, found.origin) == (
        result,
        False,
        "mine",
        ("x",),
        "measured",
    )
    assert kept.rows("abc234") == tuple(replace(row, gaps_ms=()) for row in (*sent, failed))
    kept.set_baseline("abc234")
    again = run("abc234", 85.0)
    assert kept.record(again, sent[:1])  # written anew
    found = kept.find("abc234")
    assert (found.result, found.baseline, found.note, found.tags, len(kept.rows("abc234"))) == (
        again,
        True,
        "mine",
        ("x",),
        1,
    )


def test_ids_are_short_and_their_beginning_is_enough(kept: KeptRuns) -> None:
    ids = {new_id() for _ in range(500)}
    assert len(ids) == 500
    assert all(len(one) == 6 and one[0].isalpha() and not set(one) & set("ilou") for one in ids)
    for number, name in enumerate(("abc111", "abc222", "b")):
        kept.record(run(name, 80.0, began=BEGAN + number))
    assert kept.find("abc2").id == "abc222"
    assert kept.find("b").id == "b"
    with pytest.raises(UsageError, match="several runs begin with 'abc': abc222, abc111"):
        kept.find("abc")
    for name in ("zz", "", "%", "abc1111"):
        with pytest.raises(UsageError, match="there is no run"):
            kept.find(name)


def test_filters_and_order(kept: KeptRuns) -> None:
    kept.record(run("a", 80.0, began=BEGAN))
    kept.record(
        run("b", 80.0, began=BEGAN + 10, facts=replace(FACTS, node="other", model="/models/Big_X", profile="k25")),
        tags=("t",),
    )
    kept.record(run("c", 80.0, began=BEGAN + 20, facts=replace(FACTS, machine="m2", model=None, launch=None)))

    def ids(**wanted: object) -> str:
        return "".join(one.id for one in kept.listed(RunsWanted(**wanted)))  # type: ignore[arg-type]

    assert (ids(), ids(limit=2), ids(node="other"), ids(model="big_x"), ids(model="%"), ids(profile="k25")) == (
        "cba",
        "cb",
        "b",
        "b",
        "",
        "b",
    )
    assert (ids(since=BEGAN + 10), ids(tag="t"), ids(machine="m2"), ids(launch=FACTS.launch)) == ("cb", "b", "c", "ba")


def test_a_run_is_held_against_the_baseline_that_fits_it(kept: KeptRuns) -> None:
    """Of its machine alone; of several the one of its own kind, else the one that differs least."""
    assert kept.baseline_for(LOAD, FACTS) is None
    long = replace(LOAD, preset="standard", output_len=200)
    kept.record(run("quick", 90.0, 91.0, 90.5))
    kept.record(run("long", 95.0, 96.0, 95.5, load=long))
    kept.record(run("there", 50.0, 51.0, facts=replace(FACTS, machine="m2")))
    for name in ("quick", "long", "there"):
        assert kept.set_baseline(name) == ()
    wanted = {"quick": LOAD, "long": long}
    for name, load in wanted.items():
        found = kept.baseline_for(load, FACTS)
        assert found is not None
        assert found.run == name
    near = kept.baseline_for(replace(long, concurrency=4), FACTS)
    assert near is not None
    assert near.run == "long"
    kept.record(run("now", 82.0, 82.5, 82.2))
    held = kept.find("now").against
    assert held is not None
    assert (held.run, held.verdict) == ("quick", "slower")
    assert kept.find("quick").against is None
    assert kept.set_baseline("now") == ("quick",)  # one of a kind
    assert {one.id for one in kept.listed() if one.baseline} == {"now", "long", "there"}
    for name, more in (
        ("failed", {"ok": 7}),
        ("ended", {"complete": False}),
        ("empty", {"ok": 0, "tok_s": None, "repeat_means": ()}),
    ):
        kept.record(run(name, 82.0, 82.5, **more))
        with pytest.raises(UsageError, match=f"{name} cannot be a baseline: .*(failed|early|answered)"):
            kept.set_baseline(name)
    assert kept.set_baseline("now", off=True) == ()
    held = kept.find("quick").against
    assert held is not None
    assert (held.run, held.verdict) == ("long", "not-comparable")


def test_a_baseline_made_elsewhere_serves_every_machine(kept: KeptRuns) -> None:
    kept.record(run("theirs", 90.0, 91.0, facts=replace(FACTS, machine="")), origin="imported", source="s1")
    assert not kept.record(run("again", 90.0, 91.0), origin="imported", source="s1")
    kept.set_baseline("theirs")
    found = kept.baseline_for(LOAD, FACTS)
    assert found is not None
    assert found.run == "theirs"
    kept.record(run("ours", 80.0, 81.0, load=replace(LOAD, seed=3)))
    kept.set_baseline("ours")
    found = kept.baseline_for(LOAD, FACTS)
    assert found is not None
    assert found.run == "theirs"  # the other one cannot be compared


def test_notes_and_tags(kept: KeptRuns) -> None:
    kept.record(run("a", 80.0))
    assert kept.note("a", "before the driver") == "a"
    assert kept.tag("a", ("x", "y", "x")) == ("a", ("x", "y"))
    assert kept.tag("a", (), ("x", "z")) == ("a", ("y",))
    assert (kept.find("a").note, kept.find("a").tags) == ("before the driver", ("y",))
    kept.note("a", "")
    assert kept.find("a").note == ""


def test_what_another_version_wrote_hides_nothing_else(history: History, kept: KeptRuns) -> None:
    kept.record(run("a", 80.0))
    history.record_run(
        RunRecord("new", "m1 gpu-node", BEGAN, '{"schema": "eagletui.bench/2"}'),
        [RequestRow(0, 0, 0.0, None, None, None, 0, "usage", None, None)],
    )
    history.set_baseline("new")
    assert [one.id for one in kept.listed()] == ["a"]
    with pytest.raises(HistoryError, match="another version"):
        kept.find("new")


def test_launches_come_back_as_they_were_kept(history: History) -> None:
    kept = [
        launch(1, outcome="crashed", diagnosis="cuda-oom"),
        replace(launch(2, machine="m2 odd name"), profile="k25", args=(("x", 1.5),)),
    ]
    for one in kept:
        history.record(one)
    assert history.launches() == (kept[1], kept[0])
    assert history.launches(LaunchesWanted(profile="k25")) == (kept[1],)
    assert history.launches(LaunchesWanted(since=kept[1].started.timestamp(), limit=5)) == (kept[1],)
    assert (history.machine_of("gpu-node"), history.machine_of("nowhere")) == ("m2 odd name", None)


WRITER = """
import sys
from pathlib import Path
from eagletui.bench.kept import KeptRuns
from eagletui.history.store import History
from tests.bench_room.made import measured, run
me, runs = sys.argv[2], KeptRuns(History(Path(sys.argv[1])))
sent = [row for repeat in measured(80.0, 81.0).repeats for row in repeat.rows]
for number in range(25):
    mine = f"{me}{number}"
    runs.record(run("shared", 80.0 + number), sent)
    runs.record(run(mine, 80.0, 81.0), sent, source=f"s{number}")
    runs.tag("shared", (mine,))
    runs.note("shared", mine)
    runs.set_baseline("shared")
"""


def test_two_eagletuis_at_once(history: History, kept: KeptRuns) -> None:
    """They make the file together; what both write is one, nothing of either is lost, what both import is kept once."""
    root = Path(__file__).parent.parent.parent
    writers = [
        subprocess.Popen([sys.executable, "-c", WRITER, str(history.path), me], cwd=root, stderr=subprocess.PIPE)
        for me in ("x", "y")
    ]
    for writer in writers:
        _, errors = writer.communicate(timeout=100)
        assert (writer.returncode, errors) == (0, b"")
    shared = kept.find("shared")
    assert (len(shared.tags), shared.baseline, shared.note[1:]) == (50, True, "24")
    assert len(kept.rows("shared")) == 8
    imported = [one.id[1:] for one in kept.listed() if one.id != "shared"]
    assert sorted(imported, key=int) == [str(number) for number in range(25)]
