"""Counting a family between two discoveries: who of the known members lives. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from eagletui.engines.shapes import title_of
from eagletui.servers.family import Identity
from eagletui.servers.model import Member, Server
from eagletui.shell.poll import PollAnswer

_CORE = frozenset({"launcher", "scheduler", "detokenizer"})
"""Roles that have to live; others (compile workers, trackers) come and go."""


@dataclass(slots=True)
class FamilyCount:
    """The members ever seen of one launch, by identity, and which are gone."""

    members: dict[Identity, Member] = field(default_factory=dict)
    gone: dict[int, Member] = field(default_factory=dict)
    launcher_alive: bool = True
    renamed: bool = False
    """Since it was set to False a member took another name: its role may be another one, too."""
    helpers_gone: dict[int, Member] = field(default_factory=dict)
    """Members with a title of the engine's that left since this was emptied, without which answers still come."""
    left: int = 0
    """Members that went while the server was being stopped, beside those in `gone`."""
    alive: int = 0
    total: int = 0

    def found(self, server: Server) -> None:
        """Discovery listed the family anew: newcomers join, children that renamed themselves get their role."""
        for member in server.family:
            self.members[member.process.pid, member.process.started] = member

    @property
    def pids(self) -> list[int]:
        """Whom to ask for: everyone who is not known to be gone."""
        return [pid for pid, _ in self.members if pid not in self.gone]

    def polled(self, answer: PollAnswer, launcher: Identity, *, stopping: bool = False) -> bool:
        """Take an answer to `family`. True when somebody left. `stopping`: then whoever goes stays in the total, which tells how far the stop is;
        a server that goes on all the same is counted anew."""
        living = {(row.pid, row.started) for row in answer.rows if not (row.state in "ZX" and row.threads <= 1)}
        names = {(row.pid, row.started): row.comm for row in answer.rows}
        left = False
        for identity, member in list(self.members.items()):
            if identity in living or identity[0] in answer.torn or identity[0] in self.gone:
                name = names.get(identity, member.process.comm)
                if name != member.process.comm:
                    self.members[identity] = replace(member, process=replace(member.process, comm=name))
                    self.renamed = True
                continue
            left = True
            if member.role in _CORE:
                self.gone[identity[0]] = member
            else:
                del self.members[identity]
                self.left += stopping
                if title_of(member.process.argv, member.process.comm) is not None:
                    self.helpers_gone[identity[0]] = member
        self.launcher_alive = launcher[0] not in self.gone
        if not stopping and self.launcher_alive:
            self.left = 0
        self.alive = len(self.members) - len(self.gone)
        self.total = len(self.members) + self.left
        return left
