"""Whether the processes of a node changed so that discovery has to look again: our own commands come and go all the time. Pure."""

from __future__ import annotations

from collections.abc import Collection

from eagletui.shell.poll import PollAnswer

_SSHD = ("sshd", "dropbear")


class Newcomers:
    """Reads the poller's answers to `all`. `shell` is the pid of the shell that answers: the sshd that started it is our connection's
    alone, and starts our other commands, too. On this machine there is none, and everybody who comes is a change."""

    def __init__(self, first: PollAnswer, shell: int | None) -> None:
        self._root: int | None = None
        rows = {row.pid: row for row in first.rows}
        answers = rows.get(shell) if shell is not None else None
        leader = rows.get(answers.session) if answers is not None else None
        parent = rows.get(leader.ppid) if leader is not None else None
        if parent is not None and parent.comm.startswith(_SSHD):
            self._root = parent.pid

    def changed(self, answer: PollAnswer, members: Collection[int]) -> bool:
        """Somebody came who is not of ours, or one of these pids (the engines' processes) is gone."""
        if answer.pids is None or not answer.pids.issuperset(members):
            return True
        begun = {row.pid for row in answer.rows if row.ppid == self._root}
        return any(row.pid not in begun and row.session not in begun for row in answer.rows)
