"""`history`, `launches`, `compare`, `baseline`, `note`, `tag`, `import`: what a person types, over a file of their own."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from eagletui.bench.kept import KeptRuns
from eagletui.cli.main import main
from eagletui.errors import UsageError
from eagletui.history.store import History, default_path
from tests.bench_room.made import BEGAN, FACTS, measured, run
from tests.cli.command import run as run_command
from tests.history.made import launch

RECORDED = Path(__file__).parent.parent / "data" / "bench" / "sglang-0.5.16-eagle3.jsonl"
Say = Callable[..., str]


@pytest.fixture
def say(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Say:
    """Carries a command out, and gives what it printed on stdout. Raises what ends it."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))

    def command(*argv: str) -> str:
        done = CliRunner().invoke(main, argv, standalone_mode=False)
        if done.exception is not None:
            raise done.exception
        return done.stdout

    return command


@pytest.fixture
def kept(say: Say) -> KeptRuns:
    """A launch and two runs: of it, and one that was quicker with three steps."""
    history = History(default_path())
    history.record(replace(launch(1), profile="k25"))
    history.record(launch(2, outcome="crashed", diagnosis="cuda-oom"))
    runs = KeptRuns(history)
    fast = replace(FACTS, args={"tp": "8", "speculative-num-steps": "3"}, launch=None, variant="steps3\x1b[31m")
    for name, rates, facts in (("aaa111", (82.1, 82.9, 81.7), FACTS), ("bbb222", (90.2, 89.8, 90.5), fast)):
        rows = [row for repeat in measured(*rates).repeats for row in repeat.rows]
        runs.record(run(name, *rates, facts=facts, began=BEGAN + len(rates) * (name == "bbb222")), rows)
    return runs


def loaded(text: str) -> Any:
    return json.loads(text)


def test_history_in_a_table_in_json_and_as_csv(say: Say, kept: KeptRuns) -> None:
    kept.set_baseline("aaa111")
    head, first, second = say("history").splitlines()
    assert head.split()[:3] == ["run", "when", "model"]
    assert first.split()[0] == "bbb222"
    assert "\x1b" not in first
    assert first.split()[-3:] == ["2.10", "+9.6", "faster"]
    assert (second.split()[0], second.split()[-1]) == ("aaa111*", "baseline")
    told = loaded(say("history", "--json"))
    assert told["schema"] == "eagletui.history/1"
    assert [(one["run"], one["launch"], one["is_baseline"]) for one in told["runs"]] == [
        ("bbb222", None, False),
        ("aaa111", "m1 gpu-node boot 101 1", True),
    ]
    assert (told["runs"][0]["baseline"]["verdict"], told["runs"][1]["baseline"]) == ("faster", None)
    assert [(one["outcome"], one["diagnosis"], one["profile"]) for one in told["launches"]] == [
        ("crashed", "cuda-oom", None),
        ("ready", None, "k25"),
    ]
    assert told["launches"][1]["id"] == told["runs"][1]["launch"]
    assert told["launches"][1]["phases"][:2] == [
        {"name": "launch", "seconds": 10.0, "rank": None},
        {"name": "weights", "seconds": 40.0, "rank": None},
    ]
    lines = list(csv.DictReader(io.StringIO(say("history", "--csv"))))
    assert [(one["run"], one["verdict"], one["launch"]) for one in lines] == [
        ("bbb222", "faster", ""),
        ("aaa111", "", "m1 gpu-node boot 101 1"),
    ]
    assert float(lines[1]["tok_s"]) == pytest.approx(82.2333, abs=0.001)


def test_filters(say: Say, kept: KeptRuns) -> None:
    kept.tag("aaa111", ("t",))

    def ids(*argv: str) -> list[str]:
        return [one["run"] for one in loaded(say("history", "--json", *argv))["runs"]]

    assert ids("--tag", "t") == ids("--limit", "1", "--since", "2026-11-01", "--tag", "t") == ["aaa111"]
    assert ids("--model", "X") == ids("--node", "gpu-node", "--since", "10000w") == ["bbb222", "aaa111"]
    assert ids("--profile", "k25") == ids("--node", "other") == ids("--since", "2100-01-01") == []
    assert "No run is like that" in say("history", "--tag", "none")
    for wrong in (("--since", "soon"), ("--json", "--csv")):
        with pytest.raises(UsageError, match=r"no time|give one"):
            say("history", *wrong)


def test_launches(say: Say, kept: KeptRuns) -> None:
    _, crashed, ready = say("launches").splitlines()
    assert ("cuda-oom" in crashed, "ready" in ready, "0:50" in ready) == (True, True, True)
    assert ready.split()[-2:] == ["1", "–"]
    told = loaded(say("launches", "--json", "--profile", "k25"))
    assert ([one["profile"] for one in told["launches"]], [one["run"] for one in told["runs"]]) == (["k25"], ["aaa111"])


def test_compare(say: Say, kept: KeptRuns) -> None:
    told = loaded(say("compare", "aaa", "bbb", "--json"))
    assert (told["schema"], told["a"]["run"], told["b"]["run"], told["verdict"]) == (
        "eagletui.compare/1",
        "aaa111",
        "bbb222",
        "faster",
    )
    assert told["flags"] == [{"flag": "speculative-num-steps", "a": "2", "b": "3"}]
    by_name = {one["name"]: one for one in told["metrics"]}
    assert (by_name["tok_s"]["verdict"], by_name["e2e_mean"]["verdict"], by_name["ttft_mean"]["verdict"]) == (
        "faster",
        "faster",
        "same",
    )
    text = say("compare", "aaa111", "bbb222")
    (flag,) = (row for row in text.splitlines() if row.startswith("--speculative-num-steps"))
    assert flag.split()[1:] == ["2", "3"]
    assert "B is faster than A by 9.6 %" in text
    assert "A and B: a note" in text
    assert "B is not comparable with A" not in text
    with pytest.raises(UsageError, match="there is no run 'zzz'"):
        say("compare", "aaa", "zzz")


def test_baseline_notes_and_tags(say: Say, kept: KeptRuns) -> None:
    assert "There is no baseline" in say("baseline")
    assert say("baseline", "aaa") == "aaa111 (82.2 tok/s) is the baseline of runs like it\n"
    assert "instead of aaa111" in say("baseline", "bbb")
    assert say("baseline").splitlines()[1].startswith("bbb222*")
    assert say("baseline", "bbb", "--clear") == "bbb222 is no baseline any more\n"
    assert say("note", "aaa", "after  the", "driver [b]") == "aaa111: after the driver [b]\n"
    assert say("tag", "aaa", "#x", "y") == "aaa111: #x #y\n"
    assert "#x #y after the driver [b]" in say("history")
    assert say("tag", "aaa", "x", "y", "--clear") == "aaa111: no tags\n"
    assert say("note", "aaa", "") == "aaa111 has no note any more\n"
    for wrong in (
        ("tag", "aaa", "two words"),
        ("tag", "aaa", "x" * 41),
        ("note", "aaa", "x" * 1001),
        ("baseline", "--clear"),
    ):
        with pytest.raises(UsageError):
            say(*wrong)


def test_import(say: Say, tmp_path: Path) -> None:
    assert "No run is kept yet" in say("history")
    rows = say("import", str(RECORDED)).splitlines()
    assert [row.split()[3:5] for row in rows[1:]] == [["tiny-llama", "–"]] * 2
    assert say("import", str(RECORDED)) == ""  # they are kept already
    told = loaded(say("history", "--json"))
    assert [(one["origin"], one["runner"]) for one in told["runs"]] == [("imported", "bench_serving")] * 2
    other = tmp_path / "other.jsonl"
    other.write_text("not json\n")
    for name in (str(other), str(tmp_path), str(tmp_path / "none")):
        with pytest.raises(UsageError):
            say("import", name)


def test_a_history_that_cannot_be_read_is_a_sentence_and_2(tmp_path: Path) -> None:
    path = tmp_path / ".local" / "share" / "eagletui" / "history.db"
    path.parent.mkdir(parents=True)
    path.write_bytes(b"x" * 8192)
    done = run_command(tmp_path, "history")
    assert (done.returncode, done.stdout) == (2, "")
    assert str(path) in done.stderr
    assert "Traceback" not in done.stderr


def test_the_demos_history_is_its_own(say: Say) -> None:
    """Six starts and a run that is the baseline, and nothing of it in the user's file."""
    told = loaded(say("history", "--node", "demo", "--json"))
    assert len(told["launches"]) == 6
    (base,) = told["runs"]
    assert (base["is_baseline"], base["launch"]) == (True, told["launches"][0]["id"])
    assert base["tok_s"]["per_request"]["mean"] == pytest.approx(80.0, rel=0.03)
    assert base["accept_len"] == pytest.approx(2.11, rel=0.03)
    assert not default_path().exists()
