"""P8: how quickly `eagletui explain` reads a log, as a process, with and without google-re2; its memory; `grep -c .` beside it.

`python tests/bench/explain.py [MEGABYTES]`
"""

# ruff: noqa: E501 - lines of logs stand as they are printed

from __future__ import annotations

import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent.parent))

from tests.bench.table import Table

START = b"""[2026-11-30 00:00:00] server_args=ServerArgs(model_path='/m', tp_size=8, port=30000)
[2026-11-30 00:00:09 TP0] Load weight begin. avail mem=138.11 GB
[2026-11-30 00:01:19 TP0] Load weight end. elapsed=70.00 s, type=X, avail mem=41.9 GB, mem usage=96.2 GB.
[2026-11-30 00:02:29] The server is fired up and ready to roll!
"""
BATCH = b"[2026-11-30 0%d:%02d:%02d TP0] Decode batch, #running-req: 16, #token: 7560, token usage: 0.02, accept len: 2.%d0, cuda graph: True, gen throughput (token/s): %d.78, #queue-req: 0\n"
OTHER = b'[2026-11-30 0%d:%02d:%02d] INFO:     10.0.%d.9:5%04d - "POST /v1/chat/completions HTTP/1.1" 200 OK\n'
READ = "import sys; from eagletui.logs.explain import explain; f = open(sys.argv[1], 'rb'); explain(iter(lambda: f.read(1 << 18), b''), re2=False)"


def written(folder: Path, name: str, lines: list[bytes], megabytes: int) -> Path:
    """A start, and so much of these lines."""
    path, part = folder / name, b"".join(lines)
    with path.open("wb") as file:
        file.write(START)
        for _ in range(megabytes * 1_000_000 // len(part)):
            file.write(part)
    return path


def seconds(*command: str) -> float:
    """How long it takes, its start included."""
    began = time.monotonic()
    subprocess.run(command, stdout=subprocess.PIPE, check=True)  # grep stops at its first line where nobody reads it
    return time.monotonic() - began


def main() -> int:
    """Measure and print."""
    megabytes = int(sys.argv[1]) if len(sys.argv) > 1 else 200
    table = Table()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        batch = [BATCH % (1 + i // 3600, i // 60 % 60, i % 60, i % 9, 500 + i % 37) for i in range(7200)]
        other = [OTHER % (1 + i // 3600, i // 60 % 60, i % 60, i % 255, i % 9999) for i in range(7200)]
        files = {
            "batch lines": (written(folder, "batch", batch, megabytes), 40.0),
            "lines that mean nothing": (written(folder, "other", other, megabytes), 100.0),
        }
        small = written(folder, "small", other, 5)
        seconds(sys.executable, "-m", "eagletui", "explain", "--json", str(small))
        before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
        for what, (path, budget) in files.items():
            size = path.stat().st_size / 1e6
            took = seconds(sys.executable, "-m", "eagletui", "explain", "--json", str(path))
            table.at_least(f"P8 {what}", size / took, "MB/s", budget, 1)
            plain = seconds(sys.executable, "-c", READ, str(path))
            table.at_least(f"P8 {what}, without re2", size / plain, "MB/s", min(budget, 25.0), 1)
            table.told("   grep -c . of the same", f"{size / seconds('grep', '-c', '.', str(path)):.0f} MB/s")
        after = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
        table.at_most("P8 memory beyond that for 5 MB", (after - before) / 1024, "MB", 30.0, 1)
    return table.show()


if __name__ == "__main__":
    sys.exit(main())
