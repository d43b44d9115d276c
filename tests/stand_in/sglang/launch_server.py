"""`python -m sglang.launch_server`, as far as a monitor can tell: it loads shards, captures graphs, opens its port, answers, and prints batch lines.

Lines are those of SGLang 0.5.16. PACE_S in the environment is the time between two shards. It runs until it is signalled.

With LINES_PER_S in the environment it writes numbered lines at that rate once it is ready, and nothing else: no batch line, no access log, and no
thread or process after the start (what is counted on the node is then not its own). 0 is a silent log. SIGUSR1 ends the lines with `line end`.

SIGUSR2 makes it hang as a server does whose scheduler hangs, and go on at the next one: /health says 200, /metrics stands, requests run, and no token comes.
"""

from __future__ import annotations

import argparse
import http.server
import os
import random
import signal
import subprocess
import sys
import threading
import time
from datetime import datetime

PACE_S = float(os.environ.get("PACE_S", "0.05"))
SHARDS = 16
LINES_PER_S = float(os.environ["LINES_PER_S"]) if "LINES_PER_S" in os.environ else None


def say(text: str, rank: str = "") -> None:
    stamp = datetime.now().strftime("%Y-%m-%d %H:%M:%S")  # noqa: DTZ005 - logs print local time without a zone
    sys.stderr.write(f"[{stamp}{' ' + rank if rank else ''}] {text}\n")
    sys.stderr.flush()


class Answers(http.server.BaseHTTPRequestHandler):
    ready = False
    hung = False
    tokens = 0

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002, ARG002 - the base's signature
        if LINES_PER_S is not None:
            return
        host, port = self.client_address[:2]
        say(f'INFO:     {host}:{port} - "{self.requestline}" {args[1]} OK')

    def do_GET(self) -> None:
        if self.path.startswith("/metrics"):
            told = f"sglang:num_running_reqs 1.0\nsglang:num_queue_reqs 0.0\nsglang:gen_throughput 81.5\nsglang:token_usage 0.{Answers.tokens:06}\n"
            self.reply(200, told.encode())
        elif self.path.startswith("/health_generate") and Answers.hung:
            self.reply(503, b"")
        elif self.path.startswith("/health"):
            self.reply(200 if Answers.ready else 503, b"")
        else:
            self.reply(404, b"")

    def reply(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--model-path", required=True)
    parser.add_argument("--port", type=int, default=30000)
    parser.add_argument("--tp", type=int, default=2)
    parser.add_argument("--api-key", default=None)
    options = parser.parse_args()
    say(
        f"server_args=ServerArgs(model_path={options.model_path!r}, tp_size={options.tp}, port={options.port}, api_key={options.api_key!r})"
    )
    ranks = [f"TP{i}" for i in range(options.tp)]
    titles = [*(f"sglang::scheduler_{rank}" for rank in ranks), "sglang::detokenizer"]
    children = [
        subprocess.Popen([title, "3600"], executable="/bin/sleep", stdin=subprocess.DEVNULL) for title in titles
    ]
    try:
        serve(options.port, ranks)
    finally:
        for child in children:
            child.kill()
            child.wait()


def serve(port: int, ranks: list[str]) -> None:
    for rank in ranks:
        say("Init torch distributed begin.", rank)
        say("Init torch distributed ends. elapsed=0.12 s, mem usage=0.97 GB", rank)
        say("Load weight begin. avail mem=138.31 GB", rank)
    for done in range(SHARDS + 1):
        percent = 100 * done // SHARDS
        sys.stderr.write(
            f"\rLoading safetensors checkpoint shards: {percent:3}% Completed | {done}/{SHARDS} [00:00<00:00, 20.00it/s]"
        )
        sys.stderr.flush()
        time.sleep(PACE_S)
    sys.stderr.write("\n")
    for rank in ranks:
        say("Load weight end. elapsed=0.54 s, type=LlamaForCausalLM, avail mem=136.82 GB, mem usage=1.49 GB.", rank)
        say("KV Cache is allocated. dtype: torch.bfloat16, #tokens: 5158844, K size: 59.04 GB, V size: 59.04 GB", rank)
        say("Memory pool end. avail mem=18.43 GB", rank)
    say(
        "max_total_num_tokens=5158844, chunked_prefill_size=8192, max_running_requests=48, context_len=8192, available_gpu_mem=10.70 GB",
        ranks[0],
    )
    kind = http.server.ThreadingHTTPServer if LINES_PER_S is None else http.server.HTTPServer
    server = kind(("127.0.0.1", port), Answers)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    say(f"INFO:     Uvicorn running on http://127.0.0.1:{port} (Press CTRL+C to quit)")
    time.sleep(10 * PACE_S)
    Answers.ready = True
    say("The server is fired up and ready to roll!")
    if LINES_PER_S is not None:
        write_numbered(LINES_PER_S)
    signal.signal(signal.SIGUSR2, lambda *_: setattr(Answers, "hung", not Answers.hung))
    for step in range(100_000):
        while Answers.hung:
            time.sleep(0.05)
        Answers.tokens = step
        speed = 80 + step % 5
        say(
            f"Decode batch, #running-req: 1, #token: {100 + step}, token usage: 0.01, accept len: 2.1{step % 10}, accept rate: 0.42, cuda graph: True, "
            f"gen throughput (token/s): {speed}.50, #queue-req: 0",
            ranks[0],
        )
        time.sleep(0.5)


def write_numbered(rate: float) -> None:
    """Numbered lines of many lengths, with letters of several bytes, some of them written in two halves. Returns never."""
    ended: list[int] = []
    signal.signal(signal.SIGUSR1, lambda *_: ended.append(1))
    seeded = random.Random(0)
    began, number = time.monotonic(), 0
    while not ended:
        due = int((time.monotonic() - began) * rate)
        for at in range(number, due):
            line = f"line {at:09d} {'aé✓𝄞'[at % 4] * seeded.choice((1, 8, 40, 300))}.\n".encode()
            half = len(line) // 2 if at % 97 == 0 else 0
            if half:
                os.write(2, line[:half])
                time.sleep(0.002)
            os.write(2, line[half:])
        number = due
        time.sleep(0.005 if rate else 0.1)
    os.write(2, b"line end\nline after the end\n")
    while True:
        signal.pause()


if __name__ == "__main__":
    main()
