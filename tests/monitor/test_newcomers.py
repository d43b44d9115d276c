"""Our own commands on a node are no reason to look for servers, everybody else's are."""

from __future__ import annotations

from eagletui.monitor.newcomers import YOUNG, YOUNG_S, Newcomers
from eagletui.shell.poll import PollAnswer
from eagletui.shell.processes import StatRow

SSHD, TIMEOUT, SHELL, SERVER = 100, 110, 111, 500


def row(pid: int, ppid: int, session: int, comm: str = "sh") -> StatRow:
    return StatRow(pid, comm, "S", ppid, session, session, 0, 1, pid)


def answer(*new: StatRow, pids: tuple[int, ...] = (1, SSHD, TIMEOUT, SHELL, SERVER)) -> PollAnswer:
    return PollAnswer(1, new, frozenset(pids) | {one.pid for one in new})


def newcomers(parent: str = "sshd-session") -> Newcomers:
    first = answer(row(1, 0, 1), row(SSHD, 90, 90, parent), row(TIMEOUT, SSHD, TIMEOUT), row(SHELL, TIMEOUT, TIMEOUT))
    return Newcomers(first, SHELL)


def test_our_own_commands_change_nothing() -> None:
    ours = (row(200, SSHD, 200), row(201, 200, 200), row(202, 201, 200))
    assert not newcomers().changed(answer(*ours), {SERVER}, 0.0)


def test_somebody_else_is_a_change() -> None:
    assert newcomers().changed(answer(row(300, 1, 300)), {SERVER}, 0.0)
    assert newcomers().changed(answer(row(200, SSHD, 200), row(300, 299, 299)), {SERVER}, 0.0)


def test_a_member_that_is_gone_is_a_change_and_others_are_not() -> None:
    assert newcomers().changed(answer(pids=(1, SSHD, TIMEOUT, SHELL)), {SERVER}, 0.0)
    assert not newcomers().changed(answer(pids=(1, SERVER)), {SERVER}, 0.0)


def test_without_knowing_who_we_are_everybody_is_a_change() -> None:
    for shell in (None, 999):
        assert Newcomers(answer(), shell).changed(answer(row(200, SSHD, 200)), {SERVER}, 0.0)
    assert newcomers("python3").changed(answer(row(200, SSHD, 200)), {SERVER}, 0.0), (
        "on this machine it may be a server"
    )
    orphan = Newcomers(answer(row(SHELL, 1, SHELL)), SHELL)
    assert orphan.changed(answer(row(200, 1, 200)), {SERVER}, 0.0), "whoever init adopted is not of ours"


def test_who_came_is_looked_at_for_a_while_since_it_may_become_another_program() -> None:
    some = newcomers()
    assert some.changed(answer(row(300, 1, 300, "bash"), row(200, SSHD, 200)), {SERVER}, 10.0)
    assert some.young(11.0) == [300]
    assert not some.renamed([row(300, 1, 300, "bash"), row(1, 0, 1, "init")])
    assert some.renamed([row(300, 1, 300, "python3")])
    assert not some.renamed([row(300, 1, 300, "python3")])
    assert some.young(10.0 + YOUNG_S) == []
    some.changed(answer(*(row(n, 1, n) for n in range(1_000, 1_100))), {SERVER}, 0.0)
    assert some.young(0.0) == list(range(1_100 - YOUNG, 1_100))
