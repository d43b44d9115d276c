"""`python -m sglang.launch_server` that can be told to misbehave, for tests of stop, launch and restart. Standard library alone (any python3 runs it).

Put `tests/stand_in/unruly` on PYTHONPATH. It prints lines as SGLang 0.5.16 does, starts a child a rank and a detokenizer (with their titles; `sleep`
is what runs), makes /dev/shm/sgl_shm_PID, opens its port, and answers /health (503, then 200), /health_generate, /metrics, /server_info.
On SIGTERM it drains as SGLang does, ends its children, removes its shared memory and exits with 0; SIGINT ends it as well.

How it misbehaves is told by words, in the environment (UNRULY) and in the file `unruly` of its working directory (which changes the next launch of
the same recipe), apart by spaces:
    dies-at-once         prints a traceback and exits with 3 before its first line of log
    dies-loading         a rank dies while weights load; the launcher prints what SGLang prints, and exits with 1
    dies=SECONDS         exits with 1 so long after it was ready
    ignores-term         launcher and children ignore SIGTERM
    children-ignore-term the children alone
    leaves-orphans       the launcher exits on SIGTERM and leaves its children
    leaves-shm           its shared memory stays when it is gone
    drains=SECONDS       after SIGTERM it goes on for so long, saying how many requests still run
    forks-late           a further child is started when SIGTERM comes
    never-ready          /health stays at 503, the log at the first shards
    slow=SECONDS         so long from the start to ready (default 0.4)
    no-port              it never opens its port
"""

from __future__ import annotations

import contextlib
import http.server
import json
import os
import pathlib
import signal
import subprocess
import sys
import threading
import time
from datetime import datetime
from typing import Any

from sglang.srt.server_args import ServerArgs, prepare_server_args  # type: ignore[import-not-found]

SHARDS = 8


def words() -> dict[str, str]:
    text = os.environ.get("UNRULY", "")
    with contextlib.suppress(OSError):
        text += " " + pathlib.Path("unruly").read_text()
    return {name: value for name, _, value in (word.partition("=") for word in text.split())}


UNRULY = words()


def say(text: str, rank: str = "") -> None:
    stamp = datetime.now().strftime("%Y-%m-%d %H:%M:%S")  # noqa: DTZ005 - logs print local time without a zone
    sys.stderr.write(f"[{stamp}{' ' + rank if rank else ''}] {text}\n")
    sys.stderr.flush()


class Server:
    """The family and its shared memory."""

    def __init__(self, args: ServerArgs) -> None:
        self.args = args
        self.ready = False
        self.told_to_end = threading.Event()
        self.shm = pathlib.Path(f"/dev/shm/sgl_shm_{os.getpid()}")
        self.ranks = [f"TP{i}" for i in range(args.tp_size)]
        self.children: list[subprocess.Popen[bytes]] = []

    def spawn(self, title: str) -> subprocess.Popen[bytes]:
        ignores = {"ignores-term", "children-ignore-term"} & set(UNRULY)
        before = signal.signal(signal.SIGTERM, signal.SIG_IGN) if ignores else None
        try:
            child = subprocess.Popen([title, "3600"], executable="/bin/sleep", stdin=subprocess.DEVNULL)
        finally:
            if ignores:
                signal.signal(signal.SIGTERM, before)
        self.children.append(child)
        return child

    def start(self) -> None:
        self.shm.write_bytes(b"\0" * 65536)
        for title in (*(f"sglang::scheduler_{rank}" for rank in self.ranks), "sglang::detokenizer"):
            self.spawn(title)

    def end(self, status: int) -> None:
        """The whole family ends, as far as it is not told otherwise. Returns never."""
        if "leaves-orphans" not in UNRULY:
            for child in self.children:
                child.kill()
            for child in self.children:
                child.wait()
        if "leaves-shm" not in UNRULY:
            self.shm.unlink(missing_ok=True)
        sys.stderr.flush()
        os._exit(status)

    def load(self) -> None:
        pace = float(UNRULY.get("slow") or 0.4) / (SHARDS + 2)
        for rank in self.ranks:
            say("Init torch distributed begin.", rank)
            say("Init torch distributed ends. elapsed=0.12 s, mem usage=0.97 GB", rank)
            say("Load weight begin. avail mem=138.31 GB", rank)
        for done in range(SHARDS + 1):
            text = f"Loading safetensors checkpoint shards: {100 * done // SHARDS:3}% Completed | {done}/{SHARDS} [00:00<00:00, 20.00it/s]"
            sys.stderr.write(f"\r{text}")
            sys.stderr.flush()
            if done == 3 and "dies-loading" in UNRULY:
                self.die_loading()
            while done == 3 and "never-ready" in UNRULY:
                self.pause(3600)
            self.pause(pace)
        sys.stderr.write("\n")
        for rank in self.ranks:
            say("Load weight end. elapsed=0.54 s, type=LlamaForCausalLM, avail mem=136.82 GB, mem usage=1.49 GB.", rank)
            say(
                "KV Cache is allocated. dtype: torch.bfloat16, #tokens: 5158844, K size: 59.04 GB, V size: 59.04 GB",
                rank,
            )
            say("Memory pool end. avail mem=18.43 GB", rank)
        say(
            "max_total_num_tokens=5158844, chunked_prefill_size=8192, max_running_requests=48, context_len=8192, available_gpu_mem=10.70 GB",
            self.ranks[0],
        )

    def pause(self, seconds: float) -> None:
        if self.told_to_end.wait(seconds):
            self.drain()

    def drain(self) -> None:
        if "forks-late" in UNRULY:
            self.spawn("sglang::scheduler_late")
        if "leaves-orphans" not in UNRULY:
            seconds = float(UNRULY.get("drains") or 0.0)
            say("Gracefully exiting...")
            until = time.monotonic() + seconds
            while time.monotonic() < until:
                say("Gracefully exiting... Remaining number of requests 3. Remaining requests remaining_rids=[].")
                time.sleep(min(1.0, seconds))
        self.end(0)

    def die_loading(self) -> None:
        sys.stderr.write("\n")
        say(
            "Scheduler hit an exception: Traceback (most recent call last):\n"
            '  File "/opt/sglang/srt/managers/scheduler.py", line 3043, in run_scheduler_process\n'
            "    scheduler = Scheduler(server_args, port_args)\n"
            "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 139.81 GiB of which 1.25 GiB is free.\n",
            self.ranks[0],
        )
        self.children[0].kill()
        say("Received sigquit from a child process. It usually means the child failed.")
        self.end(1)


def answers(server: Server) -> type[http.server.BaseHTTPRequestHandler]:
    class Answers(http.server.BaseHTTPRequestHandler):
        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002, ARG002 - the base's signature
            host, port = self.client_address[:2]
            say(f'INFO:     {host}:{port} - "{self.requestline}" {args[1]} OK')

        def do_GET(self) -> None:
            if self.path.startswith("/metrics"):
                self.reply(200, b"sglang:num_running_reqs 0.0\nsglang:num_queue_reqs 0.0\nsglang:gen_throughput 0.0\n")
            elif self.path.startswith("/health"):
                self.reply(200 if server.ready else 503, b"")
            elif self.path.startswith(("/server_info", "/get_server_info")):
                self.reply(200, json.dumps(vars(server.args)).encode())
            else:
                self.reply(404, b"")

        def reply(self, status: int, body: bytes) -> None:
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    return Answers


def main() -> None:
    if "dies-at-once" in UNRULY:
        sys.stderr.write("Traceback (most recent call last):\nModuleNotFoundError: No module named 'sgl_kernel'\n")
        sys.exit(3)
    args = prepare_server_args(sys.argv[1:])
    server = Server(args)
    if "ignores-term" in UNRULY:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    else:
        signal.signal(signal.SIGTERM, lambda *_: server.told_to_end.set())
    say(
        f"server_args=ServerArgs(model_path={args.model_path!r}, tp_size={args.tp_size}, port={args.port}, api_key={args.api_key!r})"
    )
    server.start()
    try:
        serve(server)
    except KeyboardInterrupt:
        server.end(130)


def serve(server: Server) -> None:
    server.load()
    if "no-port" not in UNRULY:
        try:
            listening = http.server.ThreadingHTTPServer((server.args.host, server.args.port), answers(server))
        except OSError as error:
            say(
                f"[Errno {error.errno}] error while attempting to bind on address ('{server.args.host}', {server.args.port}): address already in use"
            )
            server.end(1)
            raise
        threading.Thread(target=listening.serve_forever, daemon=True).start()
        say(f"INFO:     Uvicorn running on http://{server.args.host}:{server.args.port} (Press CTRL+C to quit)")
    server.ready = True
    say("The server is fired up and ready to roll!")
    if "dies" in UNRULY:
        server.pause(float(UNRULY["dies"] or 0.0))
        say(
            "Scheduler hit an exception: Traceback (most recent call last):\nRuntimeError: CUDA error: an illegal memory access was encountered\n",
            server.ranks[0],
        )
        server.end(1)
    while True:
        server.pause(3600)


if __name__ == "__main__":
    main()
