"""The file of launches: what it keeps, and every way in which it can be unusable."""

from __future__ import annotations

import json
import os
import resource
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from eagletui.errors import HistoryError
from eagletui.history import store
from eagletui.history.launches import Identity
from eagletui.history.schema import APPLICATION_ID, MIGRATIONS
from eagletui.history.store import History, default_path
from eagletui.logs.advice import Before
from tests.history.made import KIND, launch

ME = Identity("m1 gpu-node", "boot", 1, 999)


@pytest.fixture
def history(tmp_path: Path) -> History:
    return History(tmp_path / "share" / "eagletui" / "history.db")


def rows(history: History, query: str = "SELECT * FROM launches") -> list[sqlite3.Row]:
    with closing(sqlite3.connect(history.path)) as connection:
        connection.row_factory = sqlite3.Row
        return connection.execute(query).fetchall()


def test_it_lies_where_the_user_keeps_such_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    if sys.platform.startswith("linux"):
        assert default_path() == tmp_path / "eagletui" / "history.db"


def test_a_launch_is_kept_with_its_phases(history: History) -> None:
    history.record(replace(launch(), read=5, size=10, cold=True))
    (row,) = rows(history)
    assert (row["engine"], row["model"], row["tp"], row["outcome"], row["ready_s"]) == (
        "sglang",
        "/models/x",
        8,
        "ready",
        50.0,
    )
    assert (row["weights_read"], row["weights_size"], row["cold"], row["origin"]) == (5, 10, 1, "watched")
    assert row["started"] == "2026-11-01T01:00:00.000+00:00"
    phases = [tuple(row) for row in rows(history, "SELECT position, name, seconds, ranks FROM phases")]
    assert phases[0] == (0, "launch", 10.0, None)
    assert json.loads(phases[1][3]) == {"TP0": 40.0, "TP1": 1.0}


def test_who_made_a_launch_stays_told_when_it_is_watched(history: History) -> None:
    made = replace(launch(outcome="unknown"), origin="eagletui", profile="k25", variant="steps2")
    for first, second in ((made, launch()), (launch(2), replace(made, identity=launch(2).identity))):
        history.record(first)
        history.record(second)
    assert [(row["outcome"], row["origin"], row["profile"], row["variant"]) for row in rows(history)] == [
        ("ready", "eagletui", "k25", "steps2")
    ] * 2
    history.record(launch(3, outcome="crashed", diagnosis="cuda-oom"))
    told = history.latest("m1 gpu-node")
    assert [(one.outcome, one.diagnosis, one.profile) for one in told] == [
        ("crashed", "cuda-oom", None),
        ("ready", None, "k25"),
        ("ready", None, "k25"),
    ]
    assert told[0].command == launch().command
    assert history.latest("another") == ()


def test_it_is_private_and_stays_one_file(history: History) -> None:
    history.path.parent.mkdir(parents=True, mode=0o755)
    history.path.touch(0o644)
    history.record(launch())
    assert history.path.stat().st_mode & 0o777 == 0o600
    assert history.path.parent.stat().st_mode & 0o777 == 0o700
    with closing(sqlite3.connect(history.path)) as connection:
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)


def test_the_same_launch_seen_again_is_one(history: History) -> None:
    history.record(launch())
    history.record(replace(launch(), lead_s=None, cold=True, ended="stopped", node="root@gpu-node"))
    (row,) = rows(history)
    assert (row["cold"], row["ended"], row["lead_s"], row["outcome"]) == (1, "stopped", 4.0, "ready")
    assert len(rows(history, "SELECT * FROM phases")) == 2


def test_who_saw_more_of_a_launch_is_right(history: History) -> None:
    for outcome in ("unknown", "crashed", "ready", "crashed", "stopped"):
        history.record(launch(outcome=outcome))
    (row,) = rows(history)
    assert (row["outcome"], row["ready_s"]) == ("ready", 50.0)


def test_a_cause_that_is_found_later_is_added(history: History) -> None:
    history.record(launch(outcome="crashed"))
    history.record(launch(outcome="crashed", diagnosis="cuda-oom"))
    assert [row["diagnosis"] for row in rows(history)] == ["cuda-oom"]


# lookups


def test_the_newest_of_the_same_fingerprint_come_first(history: History) -> None:
    for number in range(1, 25):
        history.record(launch(number, weights=float(number)))
    history.record(launch(30, kind=replace(KIND, fingerprint="f2"), weights=300.0))
    found = history.earlier(KIND, ME)
    assert [one.phases["weights"] for one in found] == [float(n) for n in range(24, 4, -1)]
    assert (found[0].ready_s, found[0].lead_s, list(found[0].phases)) == (34.0, 4.0, ["launch", "weights"])


def test_else_those_of_the_same_engine_model_and_tp(history: History) -> None:
    other = replace(KIND, fingerprint="other")
    history.record(launch(1))
    assert [one.ready_s for one in history.earlier(other, ME)] == [50.0]
    for changed in ({"engine": "vllm"}, {"model": "/models/y"}, {"tp": 4}, {"tp": None}):
        assert history.earlier(replace(other, **changed), ME) == ()


def test_those_of_the_same_profile_come_before_all_others(history: History) -> None:
    other = replace(KIND, fingerprint="other")
    history.record(
        replace(launch(1, weights=1.0, kind=other), profile="tiny", variant="fast", record="20261201-a", who="me@here")
    )
    history.record(launch(2, weights=2.0))
    history.record(
        replace(launch(3, weights=3.0, kind=replace(KIND, model="/models/y", fingerprint="f3")), profile="tiny")
    )
    assert [one.ready_s for one in history.earlier(KIND, ME)] == [12.0]
    assert [one.ready_s for one in history.earlier(KIND, ME, "tiny")] == [11.0]
    assert [one.ready_s for one in history.earlier(KIND, ME, "unknown")] == [12.0]
    history.record(replace(launch(4, weights=4.0), profile="tiny"))
    assert [one.ready_s for one in history.earlier(KIND, ME, "tiny")] == [14.0]
    first = rows(history)[0]
    assert (first["profile"], first["variant"], first["record"], first["who"]) == (
        "tiny",
        "fast",
        "20261201-a",
        "me@here",
    )


def test_who_launched_it_may_not_know_its_tp_and_who_watches_it_does(history: History) -> None:
    history.record(
        replace(launch(outcome="unknown", kind=replace(KIND, tp=None, model=None)), origin="eagletui", profile="tiny")
    )
    history.record(launch())
    (row,) = rows(history)
    assert (row["tp"], row["model"], row["origin"], row["profile"], row["outcome"]) == (
        8,
        "/models/x",
        "eagletui",
        "tiny",
        "ready",
    )
    assert len(history.earlier(replace(KIND, fingerprint="other"), ME, "tiny")) == 1


def test_launches_of_unknown_tp_are_alike(history: History) -> None:
    kind = replace(KIND, tp=None, model=None)
    history.record(launch(1, kind=kind))
    assert len(history.earlier(replace(kind, fingerprint="other"), ME)) == 1


def test_never_of_another_node_never_itself_never_one_that_failed(history: History) -> None:
    history.record(launch(1, machine="m2 gpu-node"))
    history.record(launch(2, outcome="crashed"))
    itself = launch(3)
    history.record(itself)
    assert history.earlier(KIND, itself.identity) == ()
    assert len(history.earlier(KIND, ME)) == 1


def test_how_launches_with_the_same_fingerprint_ended(history: History) -> None:
    history.record(
        replace(launch(1, outcome="crashed", diagnosis="kv-cache-too-small"), args=(("mem_fraction_static", 0.7),))
    )
    history.record(launch(2))
    history.record(launch(3, outcome="stopped"))
    history.record(launch(4, outcome="crashed", diagnosis="cuda-oom", kind=replace(KIND, fingerprint="f2")))
    assert history.before(KIND, ME) == (
        Before("kv-cache-too-small", {"mem_fraction_static": 0.7}, ready=False),
        Before(None, {}, ready=True),
    )
    assert history.before(KIND, launch(1).identity) == (Before(None, {}, ready=True),)


# several at once

WRITER = """
import sys
from pathlib import Path
from dataclasses import replace
from eagletui.history.store import History
from eagletui.logs.advice import Before
from tests.history.made import launch
history = History(Path(sys.argv[1]))
for number in range(40):
    history.record(launch(number))
    history.record(launch(1000 * int(sys.argv[2]) + number))
    assert history.earlier(launch().kind, launch(9999).identity)
"""


def test_two_that_write_at_once(history: History) -> None:
    """They make the file together, see forty launches both, and forty each for itself."""
    root = Path(__file__).parent.parent.parent
    writers = [
        subprocess.Popen([sys.executable, "-c", WRITER, str(history.path), str(n)], cwd=root, stderr=subprocess.PIPE)
        for n in (1, 2, 3)
    ]
    for writer in writers:
        _, errors = writer.communicate(timeout=60)
        assert (writer.returncode, errors) == (0, b"")
    assert rows(history, "SELECT count(*) FROM launches")[0][0] == 40 * 4
    assert rows(history, "SELECT count(*) FROM phases")[0][0] == 40 * 4 * 2


def test_a_file_that_another_program_holds(history: History, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "BUSY_S", 0.05)
    monkeypatch.setattr(store, "RETRY_S", 0.01)
    history.record(launch(1))
    with closing(sqlite3.connect(history.path, isolation_level=None)) as holder:
        holder.execute("BEGIN IMMEDIATE")
        with pytest.raises(HistoryError, match="another program holds") as caught:
            history.record(launch(2))
        assert caught.value.passing
        assert len(history.earlier(KIND, ME)) == 1  # who writes does not stop who reads
        holder.execute("ROLLBACK")
    history.record(launch(2))
    assert len(rows(history)) == 2


# versions


def of_version(path: Path, version: int) -> None:
    """A file as an eagletui of that version left it, with a launch in it."""
    path.parent.mkdir(parents=True)
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        for statements in MIGRATIONS[:version]:
            for statement in statements:
                connection.execute(statement)
        connection.execute(
            "INSERT INTO launches (key, machine, node, engine, model, tp, fingerprint, flags, command, started, outcome, ready_s, origin) "
            "VALUES ('k', 'm1 gpu-node', 'gpu-node', 'sglang', '/models/x', 8, 'f1', '{}', '[]', '2026-10-01', 'ready', 77.0, 'watched')"
        )
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        connection.execute(f"PRAGMA user_version = {version}")


@pytest.mark.parametrize("version", range(1, len(MIGRATIONS) + 1))
def test_a_file_of_an_older_version_is_brought_up(history: History, version: int) -> None:
    of_version(history.path, version)
    history.record(launch(1))
    assert [one.ready_s for one in history.earlier(KIND, ME)] == [50.0, 77.0]
    assert rows(history, "PRAGMA user_version")[0][0] == len(MIGRATIONS)


def test_an_empty_file_becomes_one_of_ours(history: History) -> None:
    history.path.parent.mkdir(parents=True)
    history.path.touch()
    history.record(launch(1))
    assert rows(history, "PRAGMA user_version")[0][0] == len(MIGRATIONS)
    assert rows(history, "PRAGMA application_id")[0][0] == APPLICATION_ID


def test_a_later_version_brings_what_is_there_along(history: History, monkeypatch: pytest.MonkeyPatch) -> None:
    history.record(launch(1))
    later = (*MIGRATIONS, ("ALTER TABLE launches ADD COLUMN later TEXT", "UPDATE launches SET later = 'k25'"))
    monkeypatch.setattr(store, "MIGRATIONS", later)
    history.record(launch(2))
    assert [(row["later"], row["outcome"]) for row in rows(history)] == [("k25", "ready"), (None, "ready")]
    assert rows(history, "PRAGMA user_version")[0][0] == len(later)


def test_a_migration_that_fails_changes_nothing(history: History, monkeypatch: pytest.MonkeyPatch) -> None:
    history.record(launch(1))
    broken = (*MIGRATIONS, ("ALTER TABLE launches ADD COLUMN later TEXT", "UPDATE nowhere SET x = 1"))
    monkeypatch.setattr(store, "MIGRATIONS", broken)
    with pytest.raises(HistoryError, match="nowhere"):
        history.record(launch(2))
    monkeypatch.undo()
    history.record(launch(2))
    assert "later" not in rows(history)[0].keys()  # noqa: SIM118 - a Row is no mapping


def test_a_file_of_a_newer_version_is_left_as_it_is(history: History) -> None:
    history.record(launch(1))
    with closing(sqlite3.connect(history.path)) as connection:
        connection.execute("PRAGMA user_version = 99")
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    before = history.path.read_bytes()
    with pytest.raises(HistoryError, match="newer eagletui") as caught:
        history.record(launch(2))
    assert str(history.path) in str(caught.value)
    assert not caught.value.passing
    with pytest.raises(HistoryError, match="newer eagletui"):
        history.earlier(KIND, ME)
    assert history.path.read_bytes() == before


def test_the_file_of_another_program_is_left_as_it_is(history: History) -> None:
    history.path.parent.mkdir(parents=True)
    with closing(sqlite3.connect(history.path)) as connection:
        connection.execute("CREATE TABLE theirs (x)")
    before = history.path.read_bytes()
    with pytest.raises(HistoryError, match="another program"):
        history.record(launch())
    assert history.path.read_bytes() == before


# what cannot be used


@pytest.mark.parametrize(
    "content",
    [b"this is no database, but a long enough text of somebody's" * 200, b"SQLite format 3\0" + b"\xff" * 5000],
)
def test_a_damaged_file(history: History, content: bytes) -> None:
    history.path.parent.mkdir(parents=True)
    history.path.write_bytes(content)
    with pytest.raises(HistoryError, match="move it away") as caught:
        history.record(launch())
    assert not caught.value.passing
    assert history.path.read_bytes() == content


def test_a_file_damaged_in_its_midst(history: History) -> None:
    for number in range(200):
        history.record(launch(number))
    raw = bytearray(history.path.read_bytes())
    raw[4096:] = b"\xa5" * (len(raw) - 4096)
    history.path.write_bytes(raw)
    with pytest.raises(HistoryError, match="damaged"):
        history.earlier(KIND, ME)


@pytest.fixture
def read_only_folder() -> Iterator[Path]:
    """A folder that this test may not write to: as root it becomes nobody for its time."""
    folder = Path(tempfile.mkdtemp(prefix="eagletui-"))
    folder.chmod(0o555)
    root = os.geteuid() == 0
    if root:
        os.seteuid(65534)
    yield folder
    if root:
        os.seteuid(0)
    folder.chmod(0o755)
    shutil.rmtree(folder)


def test_a_folder_that_cannot_be_written(read_only_folder: Path) -> None:
    for path in (read_only_folder / "history.db", read_only_folder / "eagletui" / "history.db"):
        with pytest.raises(HistoryError, match="Permission denied"):
            History(path).record(launch())


def test_a_file_that_is_a_folder(history: History) -> None:
    history.path.mkdir(parents=True)
    with pytest.raises(HistoryError, match="cannot be opened"):
        history.record(launch())


def record_many(history: History) -> None:
    for number in range(2, 100):
        history.record(launch(number))


def test_a_full_disk(history: History) -> None:
    """A limit on the size of files is to SQLite what a full disk is: its write fails half way."""
    history.record(launch(1))
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, hard))
    try:
        with pytest.raises(HistoryError, match="The history cannot be used"):
            record_many(history)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    history.record(launch(100))
    assert len(history.earlier(KIND, ME)) >= 2


def test_what_comes_first_is_done_once(tmp_path: Path) -> None:
    history = History(tmp_path / "history.db", first=lambda one: one.record(launch(7)))
    assert len(history.earlier(KIND, ME)) == 1
    assert len(history.earlier(KIND, ME)) == 1
