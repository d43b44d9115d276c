"""A stand-in nvidia-smi that keeps a record of its calls. Put as `nvidia-smi` into a folder of PATH, after a first line that names a Python.

Beside it: `calls` gets a line `begin KIND PID`, and `end KIND PID` or `overlap KIND PID` (another call of that kind was running). `hang` holds kinds
that never answer (they ignore SIGTERM, as one that waits in the driver does) and `apps` the rows of the process table. Kinds: `loop`
(--query-gpu -l), `query` (--query-gpu once), `apps` (--query-compute-apps), `other`.
"""

import fcntl
import os
import signal
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
UUID = "GPU-aaaaaaaa-0000-0000-0000-000000000000"
VALUES = {
    "index": "0",
    "uuid": UUID,
    "name": "NVIDIA H200",
    "utilization.gpu": "7",
    "memory.used": "5000",
    "memory.total": "143771",
}


def record(text: str) -> None:
    out = os.open(f"{HERE}/calls", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o666)
    os.write(out, f"{text} {os.getpid()}\n".encode())
    os.close(out)


def read(name: str) -> str:
    try:
        return (HERE / name).read_text(encoding="utf-8")
    except FileNotFoundError:
        return ""


def main(argv: list[str]) -> None:
    fields = next((word.partition("=")[2].split(",") for word in argv if word.startswith("--query-gpu=")), None)
    kind = "other" if fields is None else "loop" if "-l" in argv else "query"
    if any(word.startswith("--query-compute-apps") for word in argv):
        kind = "apps"
    record(f"begin {kind}")
    lock = os.open(f"{HERE}/lock-{kind}", os.O_RDWR | os.O_CREAT, 0o666)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)  # freed by its end, however that comes
    except BlockingIOError:
        record(f"overlap {kind}")
    if kind in read("hang").split():
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        while True:
            time.sleep(3600)
    while True:
        if kind == "apps":
            print(read("apps"), end="", flush=True)
        elif fields is not None:
            print(", ".join(VALUES.get(field, "[N/A]") for field in fields), flush=True)
        if kind != "loop":
            break
        time.sleep(1)
    record(f"end {kind}")


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except BrokenPipeError:
        os._exit(1)
