"""Logs of SGLang written short: `@12 TP0| text` stands for a record 12 seconds after the log's begin, other lines as they are."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

BEGIN = datetime(2025, 9, 1, 10, 0, 0, tzinfo=UTC)
_SHORT = re.compile(r"@(?P<seconds>[0-9.]+)(?P<ranks>(?: [A-Z_]+[0-9]+)*)\| ?")

ARGS = "server_args=ServerArgs(model_path='/models/Qwen3-8B', tp_size={tp}, dp_size={dp}, port=30000, mem_fraction_static=0.88)"


def log(text: str, begin: datetime = BEGIN) -> bytes:
    """The bytes of a log. A first empty line is dropped, and so is the indentation of the whole."""

    def stamp(found: re.Match[str]) -> str:
        moment = begin + timedelta(seconds=float(found["seconds"]))
        return f"[{moment:%Y-%m-%d %H:%M:%S}{found['ranks']}] "

    lines = text.removeprefix("\n").split("\n")
    return "\n".join(_SHORT.sub(stamp, line, count=1) for line in lines).encode()


def each(ranks: int, line: str) -> str:
    """A line of every tensor rank: `{r}` is its number."""
    return "\n".join(line.replace("{r}", str(rank)) for rank in range(ranks))


def begun(tp: int = 1, dp: int = 1) -> str:
    """A launch up to the begin of its weights, 10 s after its arguments."""
    r = "TP{r}"
    return "\n".join(
        [
            "@0| " + ARGS.format(tp=tp, dp=dp),
            each(tp, f"@8 {r}| Init torch distributed begin."),
            each(tp, f"@9 {r}| Init torch distributed ends. mem usage=1.12 GB"),
            each(tp, f"@10 {r}| Load weight begin. avail mem=78.40 GB"),
        ]
    )


def loaded(tp: int = 1, dp: int = 1) -> str:
    """A launch up to the end of its memory pool, at 32 s."""
    r = "TP{r}"
    return "\n".join(
        [
            begun(tp, dp),
            "Loading safetensors checkpoint shards:   0% Completed | 0/4 [00:00<?, ?it/s]",
            "Loading safetensors checkpoint shards: 100% Completed | 4/4 [00:18<00:00,  4.61s/it]",
            "",
            each(tp, f"@30 {r}| Load weight end. type=Qwen3ForCausalLM, dtype=torch.bfloat16, avail mem=62.91 GB, mem usage=15.30 GB."),
            each(tp, f"@32 {r}| KV Cache is allocated. #tokens: 350000, K size: 24.03 GB, V size: 24.03 GB"),
            each(tp, f"@32 {r}| Memory pool end. avail mem=13.72 GB"),
        ]
    )  # fmt: skip


def captured(tp: int = 1, dp: int = 1) -> str:
    """A launch up to the end of its graphs, at 48 s."""
    r = "TP{r}"
    return "\n".join(
        [
            loaded(tp, dp),
            each(tp, f"@33 {r}| Capture cuda graph begin. This can take up to several minutes. avail mem=13.30 GB"),
            "@33 TP0| Capture cuda graph bs [1, 2, 4, 8]",
            "Capturing batches (bs=1 avail_mem=12.90 GB): 100%|##########| 4/4 [00:14<00:00,  3.61s/it]",
            each(tp, f"@48 {r}| Capture cuda graph end. Time elapsed: 14.81 s. mem usage=0.44 GB. avail mem=12.86 GB."),
        ]
    )


def served(tp: int = 1, dp: int = 1) -> str:
    """A launch up to its ready line, at 55 s."""
    return "\n".join(
        [
            captured(tp, dp),
            "@49 TP0| max_total_num_tokens=350000, chunked_prefill_size=8192, context_len=40960, available_gpu_mem=12.86 GB",
            "@50| INFO:     Started server process [4711]",
            "@50| INFO:     Waiting for application startup.",
            "@50| INFO:     Application startup complete.",
            "@50| INFO:     Uvicorn running on http://0.0.0.0:30000 (Press CTRL+C to quit)",
            '@51| INFO:     127.0.0.1:40410 - "GET /get_model_info HTTP/1.1" 200 OK',
            "@51 TP0| Prefill batch. #new-seq: 1, #new-token: 6, #cached-token: 0, token usage: 0.00, #running-req: 0, #queue-req: 0, ",
            '@55| INFO:     127.0.0.1:40412 - "POST /generate HTTP/1.1" 200 OK',
            "@55| The server is fired up and ready to roll!",
        ]
    )


def decode(at: float, running: int = 1, tok_s: float = 80.0, queued: int = 0, rank: str = "TP0") -> str:
    """A decode line."""
    return (
        f"@{at} {rank}| Decode batch. #running-req: {running}, #token: 900, token usage: 0.01, cuda graph: True, "
        f"gen throughput (token/s): {tok_s:.2f}, #queue-req: {queued}, "
    )


def prefill(at: float, running: int = 0, queued: int = 0, new: int = 128, rank: str = "TP0") -> str:
    """A prefill line."""
    return (
        f"@{at} {rank}| Prefill batch. #new-seq: 1, #new-token: {new}, #cached-token: 0, token usage: 0.01, "
        f"#running-req: {running}, #queue-req: {queued}, "
    )


def raised(at: float, rank: str, error: str, where: str = "__init__", who: str = "Scheduler") -> str:
    """How a scheduler tells of its exception; an empty line ends it."""
    return f"""@{at} {rank}| {who} hit an exception: Traceback (most recent call last):
  File "/sgl-workspace/sglang/python/sglang/srt/managers/scheduler.py", line 2311, in run_scheduler_process
    scheduler = Scheduler(server_args, port_args, gpu_id, tp_rank, pp_rank, dp_rank)
  File "/sgl-workspace/sglang/python/sglang/srt/model_executor/model_runner.py", line 241, in {where}
    self.work(server_args)
{error}
"""


def sigquit(at: float) -> str:
    """What the launcher says when a child told it of its end."""
    return f"@{at}| Received sigquit from a child process. It usually means the child failed."
