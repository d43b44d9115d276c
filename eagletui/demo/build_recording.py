"""Builds `recordings/start.zst` out of a recorded start of SGLang 0.5.16 (TP 2, EAGLE-3). Run once, by hand:

    python -m eagletui.demo.build_recording FOLDER [TARGET]

FOLDER holds `server.jsonl` (chunks with times) and `http_TAG/*.body`. Words, order and the graph captures are the
recorded ones; paths, sizes and the number of ranks are those of `shape`, and the loads are stretched to its times.
"""

from __future__ import annotations

import itertools
import json
import re
import sys
from bisect import bisect_right
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from random import Random

from eagletui.demo import shape
from eagletui.nodes.recording import Header, Record, RecordingWriter

STARTED = datetime(2026, 1, 1, tzinfo=UTC).timestamp()
"""Stamps of the recording count from here; the simulated node writes its own time over them."""
RECORDED_GRAPHS = 26.138
RECORDED_DRAFT_DECODE = 40.0
RECORDED_DRAFT_EXTEND = 50.79
RECORDED_HTTP = 52.56
GRAPHS_SHIFT = shape.HTTP_OPEN - 52.609
AVAIL_SHIFT = 10.52 - 13.25
"""Difference of free memory (GiB) when the captures begin: ours minus the recorded."""
PRELUDE = ((8.949, shape.FIRST_BYTE), (10.482, 8.2), (11.956, shape.SERVER_ARGS), (12.295, 9.9))
STAMP = re.compile(r"^\[\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(?: (TP\d+))?\] ", re.MULTILINE)
PATHS = (("/srv/models/tiny-llama", shape.MODEL), ("/srv/models/tiny-eagle3", shape.DRAFT_MODEL))
ARGUMENTS = (
    ("tp_size=2", f"tp_size={shape.RANKS}"),
    ("trust_remote_code=False", "trust_remote_code=True"),
    ("model_loader_extra_config='{}'", "model_loader_extra_config='{\"enable_multithread_load\": false}'"),
    ("attention_backend='triton'", "attention_backend='fa3'"),
    ("sampling_backend='pytorch'", "sampling_backend='flashinfer'"),
    ("grammar_backend='none'", "grammar_backend='xgrammar'"),
    ("disable_custom_all_reduce=True", "disable_custom_all_reduce=False"),
)
Chunk = tuple[float, str]


def stamped(t: float, rank: str, text: str) -> str:
    """A record of SGLang's logger at t."""
    at = datetime.fromtimestamp(STARTED + t, UTC)
    return f"[{at:%Y-%m-%d %H:%M:%S}{' ' + rank if rank else ''}] {text}\n"


def renamed(text: str) -> str:
    """The recorded text with our paths and free memory."""
    for old, new in PATHS:
        text = text.replace(old, new)
    text = text.replace("world_size=2", f"world_size={shape.RANKS}")
    return re.sub(r"(avail[_ ]mem=)(\d+\.\d\d)( GB)", lambda m: f"{m[1]}{float(m[2]) + AVAIL_SHIFT:.2f}{m[3]}", text)


def pieces(text: str) -> Iterator[tuple[str, str | None, str]]:
    """Splits a chunk into ("bar", None, text) and ("line", rank or "", text without its stamp)."""
    starts = [m.start() for m in re.finditer(r"\[\d{4}-\d\d-\d\d \d\d:\d\d:\d\d", text)]
    if head := text[: starts[0] if starts else len(text)]:
        yield "bar", None, head
    for start, end in itertools.pairwise([*starts, len(text)]):
        line, newline, rest = text[start:end].partition("\n")
        found = STAMP.match(line)
        yield "line", (found[1] or "") if found else "", line[found.end() :] if found else line + newline
        if rest:
            yield "bar", None, rest


def prelude(recorded: list[Chunk]) -> Iterator[Chunk]:
    """Until the children start: warnings and the arguments."""
    times = [at for at, _ in PRELUDE]
    for at, text in recorded:
        if at > times[-1]:
            return
        t = PRELUDE[bisect_right(times, at) - 1][1]
        for kind, rank, piece in pieces(text):
            if kind == "bar":
                yield t, piece
                continue
            for old, new in ARGUMENTS:
                piece = piece.replace(old, new)  # noqa: PLW2901 - one text, changed step by step
            yield t, stamped(t, rank or "", renamed(piece))


def tqdm_time(seconds: float) -> str:
    return f"{int(seconds) // 60:02d}:{int(seconds) % 60:02d}"


def tqdm_rate(n: int, elapsed: float) -> str:
    if n == 0 or elapsed <= 0:
        return "?it/s"
    rate = n / elapsed
    return f"{rate:5.2f}it/s" if rate >= 1 else f"{1 / rate:5.2f}s/it"


def shard_bar(began: float, ends: list[float]) -> Iterator[Chunk]:
    """FORMATS B1: one state a shard, `ends` being when each was read."""
    total = len(ends)
    for n, t in enumerate([began, *ends]):
        elapsed = t - began
        left = tqdm_time(elapsed / n * (total - n)) if n else "?"
        percent = f"{100 * n // total:3d}% Completed | {n}/{total}"
        text = f"\rLoading safetensors checkpoint shards: {percent} "
        yield t, text + f"[{tqdm_time(elapsed)}<{left}, {tqdm_rate(n, elapsed)}]" + ("\n" if n == total else "")


def graph_bar(began: float, steps: list[tuple[str, float]]) -> Iterator[Chunk]:
    """A tqdm bar with a description a step: (description, when it ended). Its filled part has eighths."""
    total = len(steps)
    yield began, f"\r  0%|          | 0/{total} [00:00<?, ?it/s]"
    for n, (words, _) in enumerate([*steps, steps[-1]]):
        t = began if n == 0 else steps[n - 1][1]
        elapsed, eighths = t - began, 80 * n // total
        filled = "█" * (eighths // 8) + (" ▏▎▍▌▋▊▉"[eighths % 8] if eighths % 8 else "")
        left = tqdm_time(elapsed / n * (total - n)) if n else "?"
        figures = f"{n}/{total} [{tqdm_time(elapsed)}<{left}, {tqdm_rate(n, elapsed)}]"
        yield t, f"\r{words}: {100 * n // total:3d}%|{filled:<10}| {figures}" + ("\n" if n == total else "")


def loading(random: Random) -> Iterator[Chunk]:
    """Ranks meet, and load both models."""
    ranks = [f"TP{n}" for n in range(shape.RANKS)]
    order = random.sample(ranks, len(ranks))
    for n, rank in enumerate(order):
        yield shape.DISTRIBUTED + n * 0.11, stamped(shape.DISTRIBUTED + n * 0.11, rank, "Init torch distributed begin.")
    t = shape.DISTRIBUTED + 2.0
    yield t, stamped(t, "TP0", "sglang is using nccl==2.28.9")
    for n, rank in enumerate(sorted(order, key=lambda _: random.random())):
        t = shape.WEIGHTS - 1.4 + n * 0.09
        took = t - shape.DISTRIBUTED - order.index(rank) * 0.11
        yield t, stamped(t, rank, f"Init torch distributed ends. elapsed={took:.2f} s, mem usage=1.61 GB")
    for n, rank in enumerate(order):
        t = shape.WEIGHTS + n * 0.04
        yield t, stamped(t, rank, f"Load weight begin. avail mem={shape.AVAIL_START:.2f} GB")
    began, last = shape.WEIGHTS + 0.8, shape.DRAFT - 0.7
    pace = [random.uniform(0.75, 1.25) for _ in range(shape.SHARDS)]
    pace[21:24] = [2.3, 2.6, 2.1]  # the storage is slow for a moment
    ends = [began + (last - began) * sum(pace[: n + 1]) / sum(pace) for n in range(shape.SHARDS)]
    yield from shard_bar(began, ends)
    avail = shape.AVAIL_START - shape.WEIGHTS_GIB
    for rank in ranks:
        t = last + 0.1 if rank == "TP0" else last - random.uniform(0.2, 3.5)
        ended = f"Load weight end. elapsed={t - shape.WEIGHTS:.2f} s, type=KimiK25ForConditionalGeneration, "
        yield t, stamped(t, rank, f"{ended}avail mem={avail:.2f} GB, mem usage={shape.WEIGHTS_GIB:.2f} GB.")
    yield from draft_and_pools(ranks, random)


def draft_and_pools(ranks: list[str], random: Random) -> Iterator[Chunk]:
    """The draft's one shard, then both KV pools."""
    avail = shape.AVAIL_START - shape.WEIGHTS_GIB - 0.02
    after = avail - shape.DRAFT_GIB
    for rank in ranks:
        t = shape.DRAFT + random.uniform(0, 0.2)
        for text in (
            "SPECULATIVE_MOE_RUNNER_BACKEND is not initialized, using auto backend",
            "SPECULATIVE_MOE_A2A_BACKEND is not initialized, using none backend",
            "Init torch distributed begin.",
            "Init torch distributed ends. elapsed=0.01 s, mem usage=0.00 GB",
            f"Load weight begin. avail mem={avail:.2f} GB",
        ):
            yield t, stamped(t, rank, text)
        t = shape.KV_CACHE - (0.2 if rank == "TP0" else random.uniform(0.3, 0.6))
        took = f"Load weight end. elapsed={t - shape.DRAFT - 0.2:.2f} s, type=LlamaForCausalLMEagle3, "
        yield t, stamped(t, rank, f"{took}avail mem={after:.2f} GB, mem usage={shape.DRAFT_GIB:.2f} GB.")
        t = shape.KV_CACHE + random.uniform(0.8, 1.6)
        pool = after - shape.KV_GIB
        allocated = f"KV Cache is allocated. dtype: torch.bfloat16, #tokens: {shape.KV_TOKENS}, "
        half = shape.DRAFT_KV_GIB / 2
        for text in (
            f"{allocated}KV size: {shape.KV_GIB:.2f} GB",
            f"Memory pool end. avail mem={pool:.2f} GB",
            f"{allocated}K size: {half:.2f} GB, V size: {half:.2f} GB",
            f"Memory pool end. avail mem={pool - shape.DRAFT_KV_GIB:.2f} GB",
        ):
            yield t, stamped(t, rank, text)
    yield from shard_bar(shape.DRAFT + 0.3, [shape.KV_CACHE - 0.25])


def everyone(t: float, rank: str, text: str, random: Random) -> Iterator[Chunk]:
    """A recorded line of TP1 stands for all ranks but the first."""
    for n in [0] if rank == "TP0" else range(1, shape.RANKS):
        at = t if n <= 1 else t + random.uniform(0.0, 0.3)
        yield at, stamped(at, f"TP{n}", text)


def graphs(recorded: list[Chunk], random: Random) -> Iterator[Chunk]:
    """The recorded captures; that of draft decode, most of which was one compilation, with an even pace."""
    steps: dict[str, str] = {}
    for at, text in recorded:
        t = at + GRAPHS_SHIFT
        if not RECORDED_GRAPHS <= at < RECORDED_HTTP:
            continue
        for kind, rank, piece in pieces(text):
            if kind == "line":
                yield from everyone(t, rank or "TP0", _sized(renamed(piece)), random)
            elif RECORDED_DRAFT_DECODE < at < RECORDED_DRAFT_EXTEND:
                for found in re.finditer(r"Capturing batches \((bs=\d+) avail_mem=[\d.]+ GB\)", renamed(piece)):
                    steps.setdefault(found[1], found[0])
            else:
                yield t, renamed(piece)
    began, last = 40.142 + GRAPHS_SHIFT, 50.308 + GRAPHS_SHIFT
    pace = [3.0, *(random.uniform(0.8, 1.2) for _ in range(len(steps) - 1))]
    ends = [began + (last - began) * sum(pace[: n + 1]) / sum(pace) for n in range(len(steps))]
    yield from graph_bar(began, list(zip(steps.values(), ends, strict=True)))


def _sized(text: str) -> str:
    free = shape.AVAIL_START - shape.WEIGHTS_GIB - shape.DRAFT_GIB - shape.KV_GIB - shape.DRAFT_KV_GIB
    text = re.sub(r"max_total_num_tokens=\d+", f"max_total_num_tokens={shape.KV_TOKENS}", text)
    text = re.sub(r"context_len=\d+", f"context_len={shape.CONTEXT_LENGTH}", text)
    return re.sub(r"available_gpu_mem=[\d.]+", f"available_gpu_mem={free - shape.GRAPHS_GIB - 0.3:.2f}", text)


def opening() -> Iterator[Chunk]:
    """uvicorn, and the warm-up request that the server sends itself."""
    base = f"http://127.0.0.1:{shape.PORT}"
    prefill = (
        "Prefill batch, #new-seq: 1, #new-token: 6, #cached-token: 0, token usage: 0.00, #running-req: 0, "
        "#queue-req: 0, #pending-token: 0, cuda graph: True, input throughput (token/s): 1.37"
    )
    for before, rank, text in (
        (-0.04, "", "INFO:     Started server process [{pid}]"),
        (-0.04, "", "INFO:     Waiting for application startup."),
        (0.0, "", "INFO:     Application startup complete."),
        (0.0, "", f"INFO:     Uvicorn running on {base} (Press CTRL+C to quit)"),
        (1.02, "", 'INFO:     127.0.0.1:59918 - "GET /model_info HTTP/1.1" 200 OK'),
        (shape.READY - 0.1 - shape.HTTP_OPEN, "TP0", prefill),
        (shape.READY - 0.01 - shape.HTTP_OPEN, "", 'INFO:     127.0.0.1:59932 - "POST /generate HTTP/1.1" 200 OK'),
        (shape.READY - shape.HTTP_OPEN, "", "The server is fired up and ready to roll!"),
    ):
        t = shape.HTTP_OPEN + before
        yield t, stamped(t, rank, text)


def bodies(folder: Path) -> Iterator[Record]:
    """What the recorded server answered, for ours."""
    for tag, phase, names in (
        ("http_load1", "ready", ("metrics", "server_info", "model_info", "v1_models", "v1_loads", "get_load")),
        ("http_at503", "warm-up", ("metrics",)),
    ):
        for name in names:
            text = renamed((folder / tag / f"{name}.body").read_text())
            if name == "metrics":
                text = all_ranks(text)
            if name == "server_info":
                text = text.replace('"tp_size":2', f'"tp_size":{shape.RANKS}')
            if name == "model_info":
                text = text.replace('"llama"', '"kimi_k25"').replace("LlamaForC", "KimiK25ForConditionalGeneration_")
                text = re.sub(r"KimiK25ForConditionalGeneration_\w+", "KimiK25ForConditionalGeneration", text)
            text = text.replace("5158844", str(shape.KV_TOKENS)).replace("5.158844e+06", f"{shape.KV_TOKENS}.0")
            path = f"/{name.replace('v1_', 'v1/')}"
            yield Record(shape.READY, "http", text.encode(), {"path": path, "phase": phase})


def all_ranks(metrics: str) -> str:
    """Lines of rank 1 for the ranks 1 to 7."""
    out: list[str] = []
    run: list[str] = []
    for line in [*metrics.splitlines(keepends=True), ""]:
        if 'tp_rank="1"' in line:
            run.append(line)
            continue
        out += [one.replace('tp_rank="1"', f'tp_rank="{n}"') for n in range(1, shape.RANKS) for one in run]
        run = []
        out.append(line)
    return "".join(out)


def build(folder: Path) -> tuple[Header, list[Record]]:
    """The header and records, by time."""
    random = Random(41822)  # noqa: S311 - it only spreads times
    recorded: list[Chunk] = []
    for line in (folder / "server.jsonl").read_text().splitlines():
        row = json.loads(line)
        if "d" in row:
            recorded.append((row["t"], row["d"].encode("latin-1").decode()))
    chunks = [*prelude(recorded), *loading(random), *graphs(recorded, random), *opening()]
    chunks.sort(key=lambda chunk: chunk[0])
    records = [Record(t, "log", text.encode()) for t, text in chunks]
    header = Header("recorded", STARTED, {"engine": "sglang", "version": "0.5.16", "model": shape.MODEL})
    return header, [*records, *bodies(folder)]


def main(arguments: list[str]) -> None:
    """FOLDER [TARGET]."""
    target = Path(arguments[1]) if len(arguments) > 1 else Path(__file__).parent / "recordings" / "start.zst"
    header, records = build(Path(arguments[0]))
    with target.open("wb") as out, RecordingWriter(out, header) as writer:
        for record in records:
            writer.write(record)


if __name__ == "__main__":
    main(sys.argv[1:])
