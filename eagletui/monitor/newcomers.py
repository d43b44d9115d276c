"""Whether the processes of a node changed so that discovery has to look again: our own commands come and go all the time. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from eagletui.servers.family import Identity
from eagletui.shell.poll import PollAnswer
from eagletui.shell.processes import StatRow

YOUNG_S = 180.0
"""How long who came is looked at: a script that prepares things becomes its server (`exec python …`) without a new pid."""
YOUNG = 32
"""Newcomers looked at, the latest ones."""
_SSHD = ("sshd", "dropbear")


class Newcomers:
    """Reads the poller's answers to `all`. `shell` is the pid of the shell that answers: the sshd that started it is our connection's
    alone, and starts our other commands, too. On this machine there is none, and everybody who comes is a change."""

    def __init__(self, first: PollAnswer, shell: int | None) -> None:
        self._root: int | None = None
        self._young: dict[Identity, tuple[str, float]] = {}
        rows = {row.pid: row for row in first.rows}
        answers = rows.get(shell) if shell is not None else None
        leader = rows.get(answers.session) if answers is not None else None
        parent = rows.get(leader.ppid) if leader is not None else None
        if parent is not None and parent.comm.startswith(_SSHD):
            self._root = parent.pid

    def changed(self, answer: PollAnswer, members: Collection[int], now: float) -> bool:
        """Somebody came who is not of ours, or one of these pids (the engines' processes) is gone."""
        begun = {row.pid for row in answer.rows if row.ppid == self._root}
        came = [row for row in answer.rows if row.pid not in begun and row.session not in begun]
        self._young |= {(row.pid, row.started): (row.comm, now) for row in came}
        for identity in list(self._young)[:-YOUNG]:
            del self._young[identity]
        return bool(came) or answer.pids is None or not answer.pids.issuperset(members)

    def young(self, now: float) -> list[int]:
        """Who came lately: the poller is to ask for them, which starts nothing on the node."""
        self._young = {who: seen for who, seen in self._young.items() if now - seen[1] < YOUNG_S}
        return [pid for pid, _ in self._young]

    def renamed(self, rows: Iterable[StatRow]) -> bool:
        """One of them has another name than before: it may be a server now."""
        found = False
        for row in rows:
            seen = self._young.get((row.pid, row.started))
            if seen is not None and seen[0] != row.comm:
                self._young[row.pid, row.started] = (row.comm, seen[1])
                found = True
        return found
