"""Who would be signalled, over drawn process tables: a server's family among namesakes, reused pids, other users, zombies, and what carries our own login.

What is right is known from how a table is drawn, and not computed from it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import TypeVar

from hypothesis import given
from hypothesis import strategies as st

from eagletui.servers.family import Identity, to_process
from eagletui.servers.model import Process
from eagletui.servers.targets import Target, members_now, targets
from eagletui.shell.processes import ask_processes, parse_processes
from tests.servers.nodes import PaperNode, Proc

US, OTHER, ROOT = 1000, 1001, 0
TITLES = (
    ("sglang::scheduler_TP0",),
    ("VLLM::EngineCore",),
    ("python3", "-m", "sglang.launch_server", "--port", "30000"),
    ("python3", "train.py"),
)
LAUNCHER, SHELL, OWN = 500, 60, 9999
BORN = 1000
T = TypeVar("T")


@dataclass
class Drawn:
    """A table, who of it is to be signalled, and what the record knows."""

    procs: dict[int, Proc] = field(default_factory=dict)
    right: set[Identity] = field(default_factory=set)
    known: set[Identity] = field(default_factory=set)
    keepers: frozenset[int] = frozenset()

    def add(self, proc: Proc, *, right: bool = False) -> Proc:
        assert proc.pid not in self.procs
        self.procs[proc.pid] = proc
        if right:
            self.right.add((proc.pid, proc.started))
        return proc


@dataclass
class Drawing:
    """Draws a table, part by part."""

    draw: st.DrawFn
    drawn: Drawn
    pids: Iterator[int]
    own_group: bool
    keeper: int | None
    alive: bool

    @property
    def group(self) -> int:
        """The number of the launcher's group and session: its own, our keeper's, or that of the person's shell."""
        return LAUNCHER if self.own_group else self.keeper or SHELL

    def one_of(self, *words: T) -> T:
        return self.draw(st.sampled_from(words))

    def title(self) -> tuple[str, ...]:
        return self.one_of(*TITLES)

    def born(self) -> int:
        return self.draw(st.integers(BORN, BORN + 500))

    def login(self) -> None:
        """What carries us: sshd, and beside it the shell of the person, whose group it leads."""
        add = self.drawn.add
        add(Proc(1, ("/sbin/init",), ppid=0, uid=ROOT, started=1))
        add(Proc(50, ("sshd: me [priv]",), 1, uid=ROOT, started=900, comm="sshd"))
        add(Proc(51, ("sshd: me@notty",), 50, uid=US, started=901, comm=self.one_of("sshd", "sshd-session")))
        add(Proc(SHELL, ("bash",), 51, pgrp=SHELL, session=SHELL, uid=US, started=902))

    def launcher(self) -> None:
        """In a group and session of its own or not, alive or long dead."""
        self.drawn.known.add((LAUNCHER, BORN))
        if self.keeper is not None:
            self.drawn.keepers = frozenset({self.keeper})
            if self.one_of(True, False):
                self.drawn.add(
                    Proc(self.keeper, ("sh",), 1, pgrp=self.keeper, session=self.keeper, uid=US, started=BORN)
                )
        if self.alive:
            ppid, state = self.keeper or SHELL, self.one_of(*"SRDT")
            found = Proc(
                LAUNCHER, self.title(), ppid, pgrp=self.group, session=self.group, uid=US, started=BORN, state=state
            )
            self.drawn.add(found, right=True)

    def members(self) -> list[int]:
        """By each of the ways: below the launcher, in its group, known from the record. Any may be renamed, and re-parented. Who may have children."""
        parents = [LAUNCHER] if self.alive else []
        for _ in range(self.draw(st.integers(0, 6))):
            pid, born = next(self.pids), self.born()
            ways = ["known", *(["below"] if parents else []), *(["group"] if self.own_group or self.keeper else [])]
            way = self.one_of(*ways)
            state, threads = self.one_of(("S", 4), ("R", 4), ("D", 4), ("Z", 1), ("Z", 7))
            ppid = self.one_of(*parents) if way == "below" else self.one_of(1, SHELL)
            number = self.group if way == "group" else self.one_of(pid, 77)
            if way == "known" or (way == "group" and not self.alive):
                self.drawn.known.add(
                    (pid, born)
                )  # the number of a group whose launcher is dead counts only with somebody known
            found = Proc(
                pid, self.title(), ppid, pgrp=number, session=number, uid=US, started=born, state=state, threads=threads
            )
            lives = (state, threads) != ("Z", 1)
            self.drawn.add(replace(found, comm=self.one_of("python", "a) S 1 (", "x")), right=lives)
            if way == "below" and lives:
                parents.append(pid)
        return parents

    def strangers(self, parents: list[int]) -> None:
        """Namesakes, other users' (below ours as well), older ones, neighbours in a group that somebody else leads, reused pids."""
        for _ in range(self.draw(st.integers(0, 10))):
            pid, born = next(self.pids), self.born()
            kind = self.one_of(
                "namesake",
                "other",
                "other-known",
                "older",
                "neighbour",
                "reused",
                *(["other-below"] if parents else []),
            )
            uid = OTHER if kind.startswith("other") else US
            ppid = self.one_of(*parents) if kind == "other-below" else self.one_of(1, SHELL)
            number = self.one_of(pid, 78)
            if kind == "neighbour":
                number = SHELL
            elif kind in {"other", "older"}:
                number = self.group
            if kind == "older":
                born = BORN - 1
            elif kind == "other-known":
                self.drawn.known.add((pid, born))
            elif kind == "reused":
                self.drawn.known.add((pid, born + 1))
            self.drawn.add(Proc(pid, self.title(), ppid, pgrp=number, session=number, uid=uid, started=born))

    def number_that_came_back(self) -> None:
        """A dead launcher's, or a dead keeper's, with a group of its own: possible only where nobody of the old group lives."""
        taken = {number for proc in self.drawn.procs.values() for number in (proc.pgrp, proc.session)}
        for number in (LAUNCHER, self.keeper):
            if number is None or number in taken or number in self.drawn.procs or self.one_of(True, False):
                continue
            add = self.drawn.add
            if self.one_of(True, False):
                add(Proc(number, self.title(), SHELL, pgrp=number, session=number, uid=US, started=BORN + 600))
            add(Proc(next(self.pids), self.title(), 1, pgrp=number, session=number, uid=US, started=BORN + 601))

    def login_through_the_server(self) -> None:
        """Our own login came in through something that the server started: none of that is signalled."""
        if not self.alive or self.one_of(True, False):
            return
        sshd = self.drawn.add(
            Proc(next(self.pids), ("sshd: me@notty",), LAUNCHER, pgrp=77, uid=US, started=BORN + 700, comm="sshd")
        )
        mine = self.drawn.add(Proc(next(self.pids), ("bash",), sshd.pid, pgrp=77, uid=US, started=BORN + 701))
        self.drawn.add(Proc(OWN, ("sh",), mine.pid, uid=US, started=BORN + 800))
        self.drawn.right.discard((LAUNCHER, BORN))


@st.composite
def tables(draw: st.DrawFn) -> Drawn:
    pids = iter(draw(st.permutations(list(range(600, 640)))))
    keeper = draw(st.sampled_from([None, 490]))
    drawing = Drawing(draw, Drawn(), pids, draw(st.booleans()), keeper, draw(st.booleans()))
    drawing.login()
    drawing.launcher()
    drawing.strangers(drawing.members())
    drawing.number_that_came_back()
    drawing.login_through_the_server()
    return drawing.drawn


def signalled(drawn: Drawn, *, own_uid: int = US, boot: str = "boot") -> set[Identity]:
    own = drawn.procs.get(OWN)
    node = PaperNode(tuple(p for pid, p in drawn.procs.items() if pid != OWN), own_uid=own_uid, own_pid=OWN)
    output = node.answer(ask_processes())
    if own is not None:  # the paper's own shell stands below pid 1; here it stands where it was drawn
        output = output.replace(b"%d (sh) S 1 " % OWN, b"%d (sh) S %d " % (OWN, own.ppid))
    table = parse_processes(output)
    processes = tuple(to_process(row) for row in table.rows)
    target = Target(
        Process(LAUNCHER, 1, LAUNCHER, LAUNCHER, "S", "python", BORN, US), boot, frozenset(drawn.known), drawn.keepers
    )
    found = targets(target, table, processes)
    assert len(found) == len(set(found))
    return set(found)


@given(tables(), st.sampled_from([ROOT, OTHER]))
def test_exactly_the_family_is_signalled(drawn: Drawn, other: int) -> None:
    """And nobody by another user, root among them, nor after a reboot."""
    assert signalled(drawn) == drawn.right
    assert signalled(drawn, own_uid=other) == set()
    assert signalled(drawn, boot="another") == set()


def test_who_is_spared_still_counts_as_left() -> None:
    """A member that is not signalled is told of, and keeps a stop from being called done."""
    launcher = Process(500, 1, 500, 500, "S", "python", 1000, US)
    sshd = Process(501, 500, 500, 500, "S", "sshd", 1001, US)
    members = members_now(Target(launcher, "boot"), (launcher, sshd), own_pid=9, own_uid=US)
    assert [process.pid for process in members.alive] == [500, 501]
    assert [process.pid for process in members.signalled] == [500]
    assert [process.pid for process in members.spared] == [501]
