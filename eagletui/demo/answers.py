"""The named scripts, answered from the simulated node's state. Pure: `shell/scripts.py` says what each must print."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Final

from eagletui.demo import benches, examined, facts, launched, ledger, locks, services, smi
from eagletui.demo.answer import Answer, Ended, hexed, refused
from eagletui.demo.processes import CLK_TCK, UID, USERS, Proc
from eagletui.demo.shape import HOST, MACHINE_ID
from eagletui.demo.world import World
from eagletui.shell.kept import RUNTIMES

_OFFSET: Final = re.compile(rb"[-+]?[0-9]+")
_HOST: Final = re.compile(r"(?!-)[0-9A-Za-z.:-]+")
_PORT: Final = re.compile(r"[1-9][0-9]{0,4}")
_PATH: Final = re.compile(r"/[0-9A-Za-z/._~%?=&+,:@-]*")
_SECONDS: Final = re.compile(r"[1-9][0-9]{0,2}")
NOT_FOUND_PAGE: Final = (
    b'<!DOCTYPE HTML>\n<html lang="en"><head><title>Error response</title></head>'
    b"<body><h1>Error response</h1><p>Error code: 404</p></body></html>\n"
)
"""What Python's http.server says of a path that it does not have."""
HTTP_S: Final = 0.0012
"""Seconds that curl takes for an answer that waits for nothing."""


def decode_argument(line: bytes) -> bytes:
    """An argument from its line: the escapes of `printf %b` (only the ones that script.encode_argument writes)."""
    return re.sub(rb"\\0([0-7]{1,3})", lambda m: bytes((int(m[1], 8) & 0xFF,)), line)


def _text(argument: bytes) -> str:
    return argument.decode("utf-8", "surrogateescape")


def processes(world: World, args: Sequence[bytes], now: float) -> Answer:  # noqa: ARG001 - one shape for all
    """The whole table."""
    own = world.own_pid()
    table = world.processes(now, own, "processes")
    facts = (world.boot_id, CLK_TCK, f"{now - world.boot:.2f}", int(now), UID, own)
    parts = ["".join(f"{fact}\n" for fact in facts).encode(), b"\0@stat\n"]
    parts += [proc.stat(world.boot, now) for proc in table]
    parts.append(b"\0@uid\n")
    parts += [f"/proc/{p.pid}/status:Uid:\t{p.uid}\t{p.uid}\t{p.uid}\t{p.uid}\n".encode() for p in table]
    parts.append(b"\0@argv\n")
    parts += [b"/proc/%d/cmdline\0%s\0" % (p.pid, element) for p in table for element in p.elements()]
    return Answer(b"@sys\n" + b"".join(parts))


def details(world: World, args: Sequence[bytes], now: float) -> Answer:
    """What discovery needs of a few processes."""
    table = {proc.pid: proc for proc in world.processes(now)}
    lines: list[str] = []
    uids: list[int] = []
    for word in args:
        if re.fullmatch(rb"u[0-9]{1,10}", word):
            uids += [] if int(word[1:]) in uids else [int(word[1:])]
            continue
        proc = table.get(int(word)) if re.fullmatch(rb"[0-9]+", word) else None
        if proc is None:
            continue
        lines += _details_of(world, proc, now)
        if proc.uid not in uids:
            uids.append(proc.uid)
    lines += [f"listen {protocol} {local} {uid} {inode}" for protocol, local, uid, inode in world.listeners(now)]
    lines += [f"user {uid} {USERS.get(uid, '')}" for uid in uids]
    return Answer("".join(line + "\n" for line in [*lines, "done"]).encode())


def _details_of(world: World, proc: Proc, now: float) -> list[str]:
    ours = world.is_ours(proc)
    cwd = hexed(proc.cwd) if ours else ""
    lines = [f"pid {proc.pid}", f"argv {proc.cmdline.hex()}", f"cwd {cwd}"]
    if not ours:
        return [*lines, "nofd"]
    for fd in world.descriptors(proc):
        facts = f"{fd.device} {fd.inode} {fd.size} {fd.mtime} {fd.kind} y"
        lines.append(f"fd {fd.number} {hexed(fd.link)} {facts}")
    return lines + [f"sock {inode}" for inode in world.sockets(proc, now)]


def file_head(world: World, path: bytes, *offsets: bytes, start: int = 0, pid: int = 0) -> Answer:
    """The first line of a script that reads a file, or why it cannot. `offsets`: what must be numbers."""
    if not all(_OFFSET.fullmatch(offset) for offset in offsets):
        return refused("not a number", 2)
    name = _text(path)
    entry = world.entry(name)
    if entry is None and world.is_other(name):
        return refused("not a regular file", 5)
    if entry is None:
        return refused("no such file", 3)
    if not world.files.may_read(name, UID) and not name.startswith("/proc/"):
        return refused("cannot read it", 4)
    head = f"file {world.files.device(name)} {entry.inode} {entry.size} {int(entry.mtime)} {start} {pid}\n"
    return Answer(head.encode())


def _argument(args: Sequence[bytes], index: int) -> bytes:
    """As the scripts have it: a path that is not there is empty, a number 0."""
    return (args[index] if index < len(args) else b"") or (b"0" if index else b"")


def follow(world: World, args: Sequence[bytes], pid: int = 0) -> tuple[Answer, int]:
    """How `follow` begins in process `pid`: its head (or its refusal), and the offset at which the bytes begin."""
    path, word = _argument(args, 0), _argument(args, 1)
    answer = file_head(world, path, word)
    if answer.status:
        return answer, 0
    entry = world.entry(_text(path))
    size, number = entry.size if entry is not None else 0, int(word.lstrip(b"+-"))
    start = max(0, size - number if word.startswith(b"-") else number - 1)
    return file_head(world, path, word, start=start, pid=pid), start


def measure(world: World, args: Sequence[bytes], now: float) -> Answer:  # noqa: ARG001 - one shape for all
    """Which file it is. No log of this node begins with a hole."""
    return file_head(world, _argument(args, 0))


def read_range(world: World, args: Sequence[bytes], now: float) -> Answer:  # noqa: ARG001 - one shape for all
    """At most LENGTH bytes from OFFSET."""
    path, word, length = (_argument(args, n) for n in range(3))
    answer = file_head(world, path, word, length)
    file = world.file(_text(path))
    if answer.status or file is None:
        return answer
    start = at = int(word)
    parts = [file_head(world, path, start=start).stdout]
    while piece := file.read(at, start + int(length) - at):
        parts.append(piece)
        at += len(piece)
    return Answer(b"".join(parts))


def launch_offset(world: World, args: Sequence[bytes], now: float) -> Answer:  # noqa: ARG001 - one shape for all
    """Where the last launch in a log begins."""
    path, begin, limit = (_argument(args, n) for n in range(3))
    answer = file_head(world, path, begin, limit)
    file = world.file(_text(path))
    if answer.status or file is None:
        return answer
    found = file.rfind(b"server_args=", int(limit))
    if found is None:
        at = file.read(int(begin), 4 << 20).rfind(b"server_args=")
        found = None if at < 0 else int(begin) + at
    return Answer(b"" if found is None or found < int(begin) else b"%d\n" % found)


def tool(world: World, argv: Sequence[bytes], now: float) -> Answer:
    """A read-only program: nvidia-smi is the only one there is."""
    if not argv:
        return refused(": not found", 127)
    if _text(argv[0]) != "nvidia-smi":
        return refused(f"{_text(argv[0])}: not found", 127)
    readings = world.readings(now)
    printed = smi.run([_text(a) for a in argv[1:]], readings, world.holders(readings), now + world.utc_offset)
    return Answer(printed.stdout.encode(), b"", printed.status)


def run_tool(world: World, args: Sequence[bytes], now: float) -> Answer:
    """The same with a deadline, which nvidia-smi keeps."""
    return tool(world, args[1:], now)


def http_get(world: World, args: Sequence[bytes], now: float) -> Answer:
    """A GET by this node's curl: only the engine's port is open, and only once it listens."""
    host, port, path, seconds = (_text(_argument(args, index)) for index in range(4))
    plain = _HOST.fullmatch(host) and _PATH.fullmatch(path)
    if not plain or not _PORT.fullmatch(port) or not _SECONDS.fullmatch(seconds):
        return refused("not an address", 2)
    engine = world.serving(int(port), now) if host in {"127.0.0.1", "localhost"} else None
    if engine is None and world.foreign_port(int(port)):
        return Answer(NOT_FOUND_PAGE, f"curl 0 404 {HTTP_S:.6f}\n".encode())
    if engine is None:
        return Answer(b"", b"curl 7 000 0.000142\n")
    status, body, took = 200, b"", HTTP_S
    name = path.partition("?")[0]
    if name in {"/health", "/health_generate"}:
        ready = engine.http_state(now) == "ready"
        status = 200 if ready else 503
        took += engine.probe(now) if ready else 0.0
    elif name == "/metrics":
        body = engine.metrics(now)
    elif (found := engine.body(name, now)) is not None:
        body = found
    else:
        status, body = 404, b'{"detail":"Not Found"}'
    engine.answered(now, "GET", path, status, engine.load.free_port())
    return Answer(body, f"curl 0 {status} {took:.6f}\n".encode())


def kept_log(world: World, args: Sequence[bytes], now: float) -> Answer:  # noqa: ARG001 - one shape for all
    """Nobody keeps a log here: there is neither a container's runtime nor a journal."""
    kind = _text(_argument(args, 0))
    if kind not in {*RUNTIMES, "unit", "user-unit"}:
        return refused("nobody keeps such a log", 2)
    return refused(f"this login has no {kind if kind in RUNTIMES else 'journalctl'}", 127)


def kernel_log(world: World, args: Sequence[bytes], now: float) -> Answer:  # noqa: ARG001 - one shape for all
    """This node's kernel lets everybody read its messages."""
    said = "".join(f"{line}\n" for line in world.kernel_lines(now))
    return Answer(f"@uptime {now - world.boot:.2f}\n{said}@ended dmesg 0\n".encode())


def oom_count(world: World, args: Sequence[bytes], now: float) -> Answer:
    """A control group of the server's own."""
    group = f"2/user.slice/user-{UID}.slice/session-7.scope"
    whose = _text(_argument(args, 0))
    if re.fullmatch(r"[12]/.*", whose, re.DOTALL):
        there = whose == group
    elif re.fullmatch(r"[0-9]+", whose):
        there = any(proc.pid == int(whose) and world.is_ours(proc) for proc in world.processes(now))
    else:
        return refused("not a process", 2)
    told = f"cgroup {group.encode().hex()}\noom_kill {world.oom_kills(now)}\nlimit max\n"
    return Answer(told.encode() if there else b"")


ANSWERS: Final[dict[str, Callable[[World, Sequence[bytes], float], Answer]]] = {
    "processes": processes,
    "details": details,
    "read-range": read_range,
    "measure": measure,
    "launch-offset": launch_offset,
    "kept-log": kept_log,
    "run-tool": run_tool,
    "http-get": http_get,
    "kernel-log": kernel_log,
    "oom-count": oom_count,
    "lock-take": locks.lock_take,
    "lock-renew": locks.lock_renew,
    "lock-release": locks.lock_release,
    "lock-look": locks.lock_look,
    "signal": locks.signal,
    "records": ledger.records,
    "record-prune": ledger.record_prune,
    "launch": launched.launch,
    "keeper-state": launched.keeper_state,
    "launch-tmux": launched.launch_tmux,
    "ownership": examined.ownership,
    "launch-context": examined.launch_context,
    "login-environment": examined.login_environment,
    "listeners": examined.listeners,
    "waits": examined.waits,
    "preflight": facts.preflight,
    "launch-systemd": services.launch_systemd,
    "unit-start": services.unit_start,
    "unit-stop": services.unit_stop,
    "unit-state": services.unit_state,
    "container-start": services.container_start,
    "container-stop": services.container_stop,
    "container-state": services.container_state,
    "shared-memory": services.shared_memory,
    "remove-shared-memory": services.remove_shared_memory,
    "bench-find": benches.bench_find,
    "bench-start": benches.bench_start,
    "bench-state": benches.bench_state,
}
"""Scripts that run to their end, by name. `poll`, `follow` and `loop-tool` go on: the server drives them."""


GIVEN: Final[dict[str, Callable[[World, Sequence[bytes], bytes, float], Answer]]] = {
    "record-create": ledger.record_create,
    "record-update": ledger.record_update,
    "record-copy": ledger.record_copy,
    "check-flags": facts.check_flags,
}
"""Scripts that take what follows on their stdin, to its end."""


def answer(world: World, name: str, args: Sequence[bytes], now: float, data: bytes = b"") -> Answer:
    """Run a script that ends. An unknown name is a sentence and the status 127."""
    script, given = ANSWERS.get(name), GIVEN.get(name)
    if script is None and given is None:
        return refused(f"{name}: this simulated node has no such script", 127)
    world.advance(now)
    try:
        if given is not None:
            return given(world, args, data, now)
        return script(world, args, now) if script is not None else Answer()
    except Ended as ended:
        return ended.answer


class Poll:
    """The script `poll`: one request line in, its answer out. It remembers which processes it told of."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._own = world.own_pid()
        self._known: set[int] = set()

    def answer(self, line: bytes, now: float) -> bytes:
        """The answer to one line (without its newline)."""
        seq, _, rest = line.strip(b" ").partition(b" ")
        verb, _, rest = rest.strip(b" ").partition(b" ")
        self._world.advance(now)
        out = b""
        if verb == b"ping":
            out = b"%s pid %d\n" % (seq, self._own)
        elif verb == b"look":
            out = b"%s file %s\n" % (seq, self._look(rest))
        elif verb == b"family":
            table = {proc.pid: proc for proc in self._world.processes(now, self._own)}
            pids = [int(word) for word in rest.split() if re.fullmatch(rb"[0-9]{1,9}", word)]
            out = b"".join(self._stat(seq, table[pid], now) for pid in pids if pid in table)
        elif verb == b"all":
            table = {proc.pid: proc for proc in self._world.processes(now, self._own)}
            order = sorted(table, key=str)  # as the shell's glob sorts
            out = b"%s pids %s\n" % (seq, b" ".join(b"%d" % pid for pid in order))
            out += b"".join(self._stat(seq, table[pid], now) for pid in order if pid not in self._known)
            self._known = set(order)
        elif verb == b"io":
            table = {proc.pid: proc for proc in self._world.processes(now, self._own)}
            pids = [int(word) for word in rest.split() if re.fullmatch(rb"[0-9]{1,9}", word)]
            known = [(pid, self._world.read_bytes(table[pid], now)) for pid in pids if pid in table]
            out = b"".join(b"%s io %d %d %d\n" % (seq, pid, *read) for pid, read in known if read is not None)
        elif verb == b"machine":
            out = b"%s machine %s\n" % (seq, f"{self._world.boot_id} {MACHINE_ID} {HOST}".encode())
        return out + seq + b" done\n"

    def _look(self, request: bytes) -> bytes:
        pid, _, path = request.partition(b" ")
        reader = self._world.reading.get(int(pid)) if re.fullmatch(rb"[0-9]{1,9}", pid) else None
        if reader is None:
            return b"gone -"
        followed, read_to = self._world.entry(reader[0]), reader[1]
        there = self._world.entry(_text(path.removesuffix(b"/")))
        word = b"missing" if there is None else b"same" if there is followed else b"other"
        return b"%s %d" % (word, read_to)

    def _stat(self, seq: bytes, proc: Proc, now: float) -> bytes:
        return b"%s stat %s" % (seq, proc.stat(self._world.boot, now))
