"""A node on paper: processes, sockets and descriptors, printed as the named scripts print them, so that discovery reads
bytes."""

from __future__ import annotations

import json
from collections.abc import Collection, Generator
from dataclasses import dataclass, field, replace
from pathlib import Path

from eagletui.servers.discovery import discover
from eagletui.servers.family import Identity
from eagletui.servers.model import Inventory
from eagletui.shell.script import Command

RECORDED = Path(__file__).parent.parent / "data" / "servers"
TICKS = 100
UPTIME = 10_000.0


@dataclass(frozen=True)
class Proc:
    """One process.

    `sockets` are inodes it holds, `fds` link and type by number; `readable`: its descriptors can be seen.
    """

    pid: int
    argv: tuple[str, ...]
    ppid: int = 1
    pgrp: int | None = None
    session: int | None = None
    uid: int = 1000
    started: int = 500_000
    state: str = "S"
    threads: int = 4
    comm: str | None = None
    cwd: str = "/data"
    sockets: tuple[int, ...] = ()
    fds: dict[int, tuple[str, str]] = field(default_factory=dict)
    readable: bool = True

    @property
    def name(self) -> str:
        return (self.comm if self.comm is not None else self.argv[0].rsplit("/", 1)[-1])[:15]

    def stat(self) -> str:
        pgrp = self.pgrp if self.pgrp is not None else self.pid
        session = self.session if self.session is not None else pgrp
        head = f"{self.pid} ({self.name}) {self.state} {self.ppid} {pgrp} {session} 0 -1 0 0 0 0 0 5 5 0 0 20 0 "
        return head + f"{self.threads} 0 {self.started} " + " ".join(["0"] * 30) + "\n"


@dataclass(frozen=True)
class Listening:
    """A listening socket."""

    port: int
    inode: int
    uid: int = 1000
    address: str = "0100007F"


@dataclass
class PaperNode:
    """Answers the two scripts. `hidden` pids are gone between the two questions; `asked` keeps what was asked."""

    procs: tuple[Proc, ...]
    listening: tuple[Listening, ...] = ()
    users: dict[int, str] = field(default_factory=lambda: {0: "root", 1000: "alice", 1001: "bob"})
    own_uid: int = 1000
    own_pid: int = 9999
    hidden: frozenset[int] = frozenset()
    asked: list[Command] = field(default_factory=list)

    def answer(self, command: Command) -> bytes:
        self.asked.append(command)
        if command.script.name == "processes":
            return self._processes()
        assert command.script.name == "details"
        return self._details([str(a) for a in command.args])

    def _processes(self) -> bytes:
        own = Proc(self.own_pid, ("sh", "-c", 'eval "$(dd bs=1 count=9 2>/dev/null)"', "processes"), uid=self.own_uid)
        rows = [*self.procs, own]
        text = f"@sys\nboot\n{TICKS}\n{UPTIME}\n1700000000\n{self.own_uid}\n{self.own_pid}\n"
        text += "\0@stat\n" + "".join(p.stat() for p in rows)
        text += "\0@uid\n" + "".join(f"/proc/{p.pid}/status:Uid:\t{p.uid}\t{p.uid}\t{p.uid}\t{p.uid}\n" for p in rows)
        text += "\0@argv\n" + "".join(f"/proc/{p.pid}/cmdline\0{a}\0" for p in rows for a in p.argv if a)
        return text.encode("utf-8", "surrogateescape")

    def _details(self, words: list[str]) -> bytes:
        lines: list[str] = []
        pids = [int(word) for word in words if word.isdigit()]
        uids = [int(word[1:]) for word in words if word.startswith("u")]
        for proc in (p for pid in pids for p in self.procs if p.pid == pid and pid not in self.hidden):
            argv = "".join(f"{a}\0" for a in proc.argv)
            lines += [f"pid {proc.pid}", f"argv {argv.encode().hex()}", f"cwd {proc.cwd.encode().hex()}"]
            if proc.readable:
                for number, (link, kind) in proc.fds.items():
                    lines.append(f"fd {number} {link.encode().hex()} 64768 77 1234 1700000000 {kind} y")
                lines += [f"sock {inode}" for inode in proc.sockets]
            else:
                lines.append("nofd")
            uids += [] if proc.uid in uids else [proc.uid]
        lines += [f"listen tcp {x.address}:{x.port:04X} {x.uid} {x.inode}" for x in self.listening]
        lines += [f"user {uid} {self.users.get(uid, '')}" for uid in uids]
        return "\n".join([*lines, "done", ""]).encode()

    def discover(self, known: Collection[Identity] = frozenset(), keepers: Collection[int] = frozenset()) -> Inventory:
        """Drive discovery to its end."""
        return drive(discover(known=known, keepers=keepers), self)


def drive(asking: Generator[Command, bytes, Inventory], node: PaperNode) -> Inventory:
    """Answer every command of a generator."""
    command = next(asking)
    while True:
        try:
            command = asking.send(node.answer(command))
        except StopIteration as ended:
            inventory: Inventory = ended.value
            return inventory


LOG = {1: ("/data/x.log", "regular"), 2: ("/data/x.log", "regular")}
SPAWN = (
    "/opt/bin/python",
    "-B",
    "-c",
    "from multiprocessing.spawn import spawn_main; spawn_main()",
    "--multiprocessing-fork",
)


def sglang(
    pid: int = 100, *more: str, port: int | None = 30000, tp: int = 2, uid: int = 1000, renamed: bool = True
) -> tuple[Proc, ...]:
    """A started SGLang: launcher, resource tracker, ranks and detokenizer, as recorded."""
    flags = (*(("--port", str(port)) if port is not None else ()), "--tp", str(tp), *more)
    launcher = Proc(
        pid, ("python3", "-m", "sglang.launch_server", "--model-path", "/models/x", *flags), uid=uid, fds=LOG
    )
    launcher = replace(launcher, sockets=(pid * 10,))
    titles = [f"sglang::scheduler_TP{rank}" for rank in range(tp)] if tp > 1 else ["sglang::scheduler"]
    titles.append("sglang::detokenizer")
    tracker = ("/opt/bin/python", "-c", "from multiprocessing.resource_tracker import main;main(6)")
    children = [tracker, *((title,) if renamed else SPAWN for title in titles)]
    below = [
        Proc(pid + 1 + n, argv, pid, pgrp=pid, session=pid, uid=uid, started=500_100, fds=LOG)
        for n, argv in enumerate(children)
    ]
    return (launcher, *below)


def recorded_tree(name: str) -> tuple[Proc, ...]:
    """Processes of a recorded tree; arguments were recorded joined by spaces."""
    rows = json.loads((RECORDED / name).read_text())
    return tuple(
        Proc(
            row["pid"], tuple(row["cmdline"].split(" ")), row["ppid"], row["pgrp"], row["sid"], state=row["state"],
            threads=row["threads"], comm=row["comm"], started=500_000 + n,
        )
        for n, row in enumerate(rows)
    )  # fmt: skip


def recorded_ps(lines: list[str]) -> tuple[Proc, ...]:
    """Processes of a recorded `ps -eo pid,ppid,pgid,sid,stat,etimes,comm,args`."""
    procs = []
    for words in (line.split() for line in lines):
        if words and words[0].isdigit():
            pid, ppid, pgrp, session = (int(word) for word in words[:4])
            started = int((UPTIME - int(words[5])) * TICKS)
            procs.append(
                Proc(pid, tuple(words[7:]), ppid, pgrp, session, state=words[4][0], comm=words[6], started=started)
            )
    return tuple(procs)
