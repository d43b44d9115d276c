"""The family is exactly what the design's words say: links, led groups, recorded members; same uid, not older."""

from __future__ import annotations

from eagletui.servers.family import ancestors, family_of, members_of, own_shell, to_process
from eagletui.servers.model import Process
from eagletui.shell.processes import parse_processes
from tests.servers.nodes import PaperNode, Proc


def process(
    pid: int, ppid: int = 1, pgrp: int = 1, session: int = 1, *, uid: int | None = 1000, started: int = 50
) -> Process:
    return Process(pid, ppid, pgrp, session, "S", "python", started, uid)


LAUNCHER = process(100, ppid=90, pgrp=90, session=80)


def pids(*others: Process, known: frozenset[tuple[int, int]] = frozenset(), keepers: tuple[int, ...] = ()) -> list[int]:
    return [p.pid for p in family_of(LAUNCHER, (LAUNCHER, *others), known=known, keepers=keepers)]


def test_every_descendant_belongs() -> None:
    assert pids(process(101, 100), process(102, 101), process(103, 102), process(104, 999)) == [100, 101, 102, 103]


def test_a_group_or_session_that_the_launcher_leads_belongs() -> None:
    assert pids(process(101, pgrp=100), process(102, session=100)) == [100, 101, 102]


def test_a_group_or_session_that_somebody_else_leads_does_not_belong() -> None:
    assert pids(process(101, ppid=90, pgrp=90, session=80), process(102, session=80), process(90)) == [100]


def test_a_keepers_group_belongs_only_by_record() -> None:
    assert pids(process(101, pgrp=90)) == [100]
    assert pids(process(101, pgrp=90), keepers=(90,)) == [100, 101]
    assert pids(process(101, pgrp=1, session=1), keepers=(0, 1)) == [100]


def test_a_recorded_member_belongs_by_pid_and_start_time() -> None:
    known = frozenset({(101, 60), (102, 60)})
    assert pids(process(101, started=60), process(102, started=61), known=known) == [100, 101]


def test_another_user_or_an_older_process_never_belongs() -> None:
    known = frozenset({(101, 60), (102, 49)})
    assert pids(
        process(101, 100, 100, 100, uid=0, started=60), process(102, 100, 100, 100, started=49), known=known
    ) == [100]
    assert pids(process(103, 100, uid=None)) == [100]


def test_a_child_of_another_users_child_belongs() -> None:
    assert pids(process(101, 100, uid=0), process(102, 101)) == [100, 102]


def test_a_dead_launchers_recorded_members_are_still_its_family() -> None:
    left = process(101, ppid=1, started=60)
    other = Process(100, 1, 1, 1, "S", "bash", 70, 1000)  # the launcher's pid came back
    child_of_other = process(102, ppid=100, started=80)
    family = family_of(LAUNCHER, (other, left, child_of_other), known=frozenset({(101, 60)}))
    assert [p.pid for p in family] == [101]


def test_loops_of_parents_end() -> None:
    assert pids(process(101, 102), process(102, 101)) == [100]
    assert ancestors(1, {1: 2, 2: 3, 3: 1}) == [2, 3]
    assert ancestors(5, {5: 5}) == []


def test_an_engines_own_process_that_lost_its_parent_is_marked() -> None:
    rank = Process(101, 1, 100, 100, "S", "sglang::schedul", 60, 1000, ("sglang::scheduler_TP0",))
    tee = Process(102, 1, 100, 100, "S", "tee", 60, 1000, ("tee", "x"))
    processes = (LAUNCHER, rank, tee)
    members = members_of(LAUNCHER, family_of(LAUNCHER, processes), processes)
    assert [(m.role, m.rank, m.orphan) for m in members] == [
        ("launcher", None, False),
        ("scheduler", "TP0", True),
        ("other", None, False),
    ]


def test_our_own_shell_is_known_by_its_pid() -> None:
    node = PaperNode((Proc(5, ("grep",), ppid=9999), Proc(6, ("grep",), ppid=5), Proc(7, ("bash",))))
    table = parse_processes(node._processes())
    processes = [to_process(row) for row in table.rows]
    assert own_shell(table, processes) == {9999, 5, 6}
