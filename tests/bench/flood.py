"""P4: a log that grows at full speed, followed over a real sshd, against the same bytes read and dropped."""

from __future__ import annotations

import asyncio
import re
import statistics
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import asyncssh

from tests.bench.node import Node
from tests.bench.screen import screen
from tests.bench.table import Table

MB = 1_000_000
PIECE = 1 << 16
ROUNDS = 3
NOTHING = "some text of a server that this reader knows nothing about, number {n:09d}, and what was asked of it then\n"
BATCH = (
    "[2026-12-01 02:{m:02d}:{s:02d} TP0] Decode batch, #running-req: {r}, #token: {n}, token usage: 0.{u:02d}, accept len: 2.1{d}, "
    "accept rate: 0.42, cuda graph: True, gen throughput (token/s): {g}.50, #queue-req: 0\n"
)
LAST = re.compile(rb"@flood-is-over@")
FLOODS: dict[str, tuple[float, Callable[[int], str]]] = {
    "lines that mean nothing": (0.35, lambda n: NOTHING.format(n=n)),
    "batch lines": (
        0.15,
        lambda n: BATCH.format(m=n // 60 % 60, s=n % 60, r=1 + n % 40, n=100 + n, u=n % 100, d=n % 10, g=80 + n % 900),
    ),
}


def measure(node: Node, table: Table, megabytes: int, log: Path) -> None:
    """The rows of both floods. `log` is followed by eagletui; it begins empty."""
    for name, (budget, line) in FLOODS.items():
        file = node.sshd.folder / "flood"
        _fill(file, megabytes * MB, line)
        size = file.stat().st_size
        raw = statistics.median(asyncio.run(_by_asyncssh(node, file)) for _ in range(ROUNDS))
        table.told(f"P4 {name}: asyncssh, read and dropped", f"{raw / MB:.0f} MB/s")
        by_ssh = statistics.median(_by_ssh(node, file) for _ in range(ROUNDS))
        table.told(f"P4 {name}: ssh, read and dropped", f"{by_ssh / MB:.0f} MB/s")
        seconds, grown = _by_eagletui(node, file, log)
        shown = (
            f"x asyncssh ({size / seconds / MB:.1f} MB/s of {megabytes} MB; memory +{grown / MB:.0f} MB)"
            if seconds
            else ""
        )
        table.at_least(
            f"P4 {name}: parsed, stored, shown",
            size / seconds / raw if seconds else None,
            shown or "x asyncssh",
            budget,
            digits=3,
        )
        file.unlink()


def _fill(file: Path, size: int, line: Callable[[int], str]) -> None:
    lines = [line(n) for n in range(20_000)]
    block = "".join(lines).encode()
    with file.open("wb") as out:
        while out.tell() < size:
            out.write(block[: size - out.tell()] if size - out.tell() < len(block) else block)
        out.write(b"\n@flood-is-over@ @flood-is-over@ @flood-is-over@\n")
    file.chmod(0o644)


async def _by_asyncssh(node: Node, file: Path) -> float:
    """Bytes a second from the first piece to the end."""
    async with asyncssh.connect(
        "127.0.0.1", node.sshd.port, config=None, username=node.plain_user, known_hosts=str(node.sshd.known_hosts), client_keys=[str(node.sshd.key)]
    ) as connection:  # fmt: skip
        process = await connection.create_process(f"cat {file}", encoding=None)
        read = len(await process.stdout.read(PIECE))
        began, first = time.monotonic(), read
        while piece := await process.stdout.read(PIECE):
            read += len(piece)
        return (read - first) / (time.monotonic() - began)


def _by_ssh(node: Node, file: Path) -> float:
    with subprocess.Popen(node.ssh(node.plain_user, f"cat {file}"), stdout=subprocess.PIPE, bufsize=0) as process:
        assert process.stdout is not None
        read = len(process.stdout.read(PIECE))
        began, first = time.monotonic(), read
        while piece := process.stdout.read(PIECE):
            read += len(piece)
        return (read - first) / (time.monotonic() - began)


def _memory(pid: int) -> int:
    """The most memory that a process has had, in bytes."""
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) * 1024


def _by_eagletui(node: Node, file: Path, log: Path, limit_s: float = 120.0) -> tuple[float | None, int]:
    """Seconds from the first byte written to the last line on the screen, and how much the program's memory grew."""
    log.write_bytes(b"an empty log but for this @mark@ @mark@ @mark@\n")
    with screen(node.connect("--log", str(log)), node.home) as shown:
        shown.until(re.compile(rb"@mark@"))
        shown.until(re.compile(rb"READY"))
        time.sleep(2.0)
        before, begin = _memory(shown.process.pid), shown.size
        began = time.time()
        with file.open("rb") as source, log.open("ab") as out:
            while piece := source.read(1 << 20):
                out.write(piece)
        over = shown.first(LAST, begin, limit_s)
        grown = _memory(shown.process.pid) - before
    log.write_bytes(b"")
    return (None if over is None else over - began), grown
