"""The scripts of the locks, the fence of every script that changes something, and the one that signals. Pure; `shell/lock.py` and `shell/signals.py`
say what each must print.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from eagletui.demo import processes
from eagletui.demo.answer import Answer, Ended, hexed, lines, raw, refused, word
from eagletui.demo.life import KILL, TERM
from eagletui.demo.processes import UID, USERS, Proc
from eagletui.demo.world import World

_PORT: Final = re.compile(r"0|[1-9][0-9]{0,4}")
_TOKEN: Final = re.compile(r"[0-9A-Za-z]{1,62}")
_SECONDS: Final = re.compile(r"0|[1-9][0-9]{0,5}")
_COUNT: Final = re.compile(r"0|[1-9][0-9]{0,12}")
WORD_BYTES: Final = 160
FENCED: Final = 9
LOCKED: Final = 7
NOT_WRITTEN: Final = 6


def place(port: str) -> str:
    """The lock's directory."""
    return f"/tmp/eagletui-lock-{port}"  # noqa: S108 - a simulated path


def uptime(world: World, now: float) -> int:
    """Whole seconds since the boot."""
    return int(now - world.boot)


def make(world: World, port: str, uid: int, parts: dict[str, str], now: float) -> None:
    """A lock with these files. Raises FileError."""
    world.files.make_directory(place(port), uid, now)
    for name, text in parts.items():
        world.files.write(
            f"{place(port)}/{name}",
            text.encode("utf-8", "surrogateescape"),
            uid,
            now,
            0o600 if name == "token" else 0o644,
        )


def _read(world: World, port: str, name: str) -> bytes:
    entry = world.files.get(f"{place(port)}/{name}")
    return entry.data if entry is not None and entry.kind == "file" else b""


def _word(world: World, port: str, name: str) -> str:
    return hexed(_read(world, port, name)[:WORD_BYTES].removesuffix(b"\n")) or "-"


def _number(world: World, port: str, name: str) -> str:
    first = _read(world, port, name).partition(b"\n")[0].split()
    text = first[0].decode("latin-1") if first else ""
    return text if _COUNT.fullmatch(text) else "-"


def _since(world: World, port: str, name: str, now: float) -> str:
    value = _number(world, port, name)
    return str(uptime(world, now) - int(value)) if value != "-" and int(value) <= uptime(world, now) else "-"


def _first_line(world: World, port: str, name: str) -> str:
    return _read(world, port, name).partition(b"\n")[0].decode("utf-8", "surrogateescape").strip()


@dataclass(frozen=True, slots=True)
class _Judged:
    """What lies where a port's lock is. `seen`: its token."""

    port: str
    state: str
    seen: str = ""
    idle: str = "-"
    this_boot: bool = False


def _judge(world: World, port: str, lease_s: int, now: float, ended: str = "") -> _Judged:
    entry = world.files.get(place(port))
    if entry is None:
        return _Judged(port, "free")
    if entry.kind != "directory":
        return _Judged(port, "planted")
    idle = _since(world, port, "lease", now)
    same = _first_line(world, port, "boot") == world.boot_id
    if entry.uid != UID:
        return _Judged(port, "foreign", "", idle, same)
    seen = _first_line(world, port, "token")
    if not seen:
        return _Judged(port, "planted" if world.files.names(place(port)) else "free", "", idle, same)
    if not same:
        return _Judged(port, "boot", seen)
    stale = (idle != "-" and int(idle) > lease_s) or (
        ended != "" and _read(world, port, "client").partition(b"\n")[0] == raw(ended)
    )
    return _Judged(port, "stale" if stale else "held", seen, idle, same)


def _tell(world: World, begin: str, judged: _Judged, now: float) -> str:
    port = judged.port
    entry = world.files.get(place(port))
    uid = entry.uid if entry is not None else 0
    told = f"{begin} {port} {judged.state} {uid} {hexed(USERS.get(uid, 'UNKNOWN'))}"
    if judged.state == "planted":
        return f"{told} - - - - -"
    age = _since(world, port, "since", now) if judged.this_boot else "-"
    words = (_word(world, port, "owner"), _word(world, port, "client"), age, judged.idle, _word(world, port, "step"))
    return f"{told} {' '.join(words)}"


def ports_of(args: Sequence[bytes]) -> list[str]:
    """The first argument. Raises Ended."""
    ports = word(args, 0).split(",")
    if not all(_PORT.fullmatch(port) for port in ports):
        raise Ended(refused("not a port", 2))
    return ports


def _token(args: Sequence[bytes]) -> str:
    if not _TOKEN.fullmatch(word(args, 1)):
        raise Ended(refused("not a token", 2))
    return word(args, 1)


def _lease(text: str) -> int:
    if not _SECONDS.fullmatch(text):
        raise Ended(refused("not a number of seconds", 2))
    return int(text)


def fence(world: World, args: Sequence[bytes], now: float) -> None:
    """What a script that changes something does first: the lease is renewed. Raises Ended: the lock is not, or no more, of this token."""
    ports, token = ports_of(args), _token(args)
    for port in ports:
        entry = world.files.get(place(port))
        ours = entry is not None and entry.kind == "directory" and entry.uid == UID
        if not ours or _first_line(world, port, "token") != token:
            who = (_word(world, port, "owner"), _word(world, port, "client"), _since(world, port, "since", now))
            raise Ended(lines([f"fenced {' '.join(who)} {_word(world, port, 'step')} {port}"], FENCED))
    for port in ports:
        world.files.write(f"{place(port)}/lease", f"{uptime(world, now):<12}\n".encode(), UID, now)


def _away(world: World, port: str) -> None:
    for path in (*(f"{place(port)}/{name}" for name in world.files.names(place(port))), place(port)):
        world.files.remove(path, UID)


def lock_take(world: World, args: Sequence[bytes], now: float) -> Answer:
    """All ports or none."""
    ports, token, lease = ports_of(args), _token(args), _lease(word(args, 5))
    told: list[str] = []
    mine: list[str] = []
    for port in ports:
        judged = _judge(world, port, lease, now, word(args, 6))
        if judged.seen == token:
            told.append(f"taken {port}")
            continue
        if judged.state not in {"free", "stale", "boot"}:
            held = [_judge(world, one, lease, now, word(args, 6)) for one in ports]
            shown = [
                one for one in held
                if one.port == port or one.state in {"foreign", "planted"} or (one.state == "held" and one.seen != token)
            ]  # fmt: skip
            answer = lines([_tell(world, "holder", one, now) for one in shown], LOCKED)
            for one in mine:
                _away(world, one)
            return answer
        told.append(f"taken {port}" if judged.state == "free" else _tell(world, "overtook", judged, now))
        if world.files.get(place(port)) is not None:
            _away(world, port)
        up = uptime(world, now)
        make(
            world, port, UID,
            {
                "owner": f"{word(args, 2)}\n", "client": f"{word(args, 3)}\n", "step": f"{word(args, 4)}\n", "since": f"{up}\n",
                "lease": f"{up:<12}\n", "boot": f"{world.boot_id}\n", "token": f"{token}\n",
            },
            now,
        )  # fmt: skip
        mine.append(port)
    return lines([*told, "done"])


def lock_renew(world: World, args: Sequence[bytes], now: float) -> Answer:
    """The lease, and the step where one is given."""
    fence(world, args, now)
    for port in ports_of(args) if word(args, 2) else ():
        world.files.write(f"{place(port)}/step", args[2] + b"\n", UID, now)
    return lines(["done"])


def lock_release(world: World, args: Sequence[bytes], now: float) -> Answer:
    """Give them back."""
    fence(world, args, now)
    for port in ports_of(args):
        _away(world, port)
    return lines(["done"])


def lock_look(world: World, args: Sequence[bytes], now: float) -> Answer:
    """Who holds them."""
    ports, lease = ports_of(args), _lease(word(args, 1))
    found = [_judge(world, port, lease, now) for port in ports]
    told = [f"free {one.port}" if one.state == "free" else _tell(world, "holder", one, now) for one in found]
    return lines([*told, "done"])


# Signals

_PID: Final = re.compile(r"[1-9][0-9]{0,6}")
_TICKS: Final = re.compile(r"0|[1-9][0-9]{0,18}")
_NUMBERS: Final = {"TERM": TERM, "KILL": KILL}


def _fate(world: World, table: dict[int, Proc], own: set[int], pid: str, started: str) -> str:
    if not _PID.fullmatch(pid) or pid == "1" or not _TICKS.fullmatch(started):
        return "refused"
    proc = table.get(int(pid))
    if int(pid) in own:
        return "ancestor"
    if proc is None or (proc.uid == UID and world.ticks(proc) == int(started) and proc.is_gone):
        return "gone"
    if proc.uid != UID:
        return "foreign"
    if world.ticks(proc) != int(started):
        return "other"
    return "refused" if proc.comm == "sshd" else "sent"


def signal(world: World, args: Sequence[bytes], now: float) -> Answer:
    """A line for each pair."""
    fence(world, args, now)
    name, boot = word(args, 2), word(args, 3)
    if name not in _NUMBERS:
        return refused("not TERM and not KILL", 2)
    if not re.fullmatch(r"[0-9a-f-]+", boot):
        return refused("not a boot id", 2)
    shell = world.own_pid()
    told: list[str] = []
    for n in range(4, len(args)):
        pid, colon, started = word(args, n).partition(":")
        if not re.fullmatch(r"[0-9]{1,10}", pid) or not colon:
            told.append("refused -")
            continue
        table = {proc.pid: proc for proc in world.processes(now, shell, "signal")}
        own = {1, shell, *(proc.pid for proc in processes.login(shell, "signal", now, now)), *processes.SSHD}
        fate = "other" if boot != world.boot_id else _fate(world, table, own, pid, started)
        if fate == "sent":
            world.signal(now, int(pid), _NUMBERS[name])
        told.append(f"{fate} {pid}")
    return lines([*told, "done"])
