"""SGLang: milestones (FORMATS.md section 3), faults (6), batch lines (5), metric names. Texts come without their prefix."""

from __future__ import annotations

import re

from eagletui.engines.arguments import read_arguments
from eagletui.engines.batch import BatchSample, finite, split_pairs, whole
from eagletui.engines.spec import COMMON, Bars, Engine, Mark

READY = "The server is fired up and ready to roll!"

MILESTONES: tuple[tuple[str, Mark], ...] = (
    (r"server_args=", Mark("args")),
    (r"Init (?:torch distributed|nccl|parallel) begin", Mark("begin", "distributed")),
    (r"Init (?:torch distributed|nccl|parallel) ends?", Mark("end", "distributed")),
    (r"sglang is using nccl==|NCCL/RCCL/HCCL warmup completed", Mark("within", "distributed")),
    (r"Load weight begin", Mark("begin", "weights")),
    (r"Load weight end", Mark("end", "weights", then="kv-cache")),
    (r"Using model weights format", Mark("within", "weights", sure=False)),
    (r"(?:[\w()-]+ ){0,4}KV Cache (?:is allocated|VA upper bound)|Mamba Cache is allocated", Mark("within", "kv-cache")),
    (r"Memory pool end", Mark("end", "kv-cache")),
    (r"Capture (?:[\w-]+ ){0,5}(?i:graph) begin", Mark("begin", "graphs")),
    (r"Capture (?:[\w-]+ ){0,5}(?i:graph) end", Mark("end", "graphs")),
    (r"Capture cuda graph (?:bs|num tokens)|Registering [0-9]+ cuda graph addresses", Mark("within", "graphs")),
    (r"Running FlashInfer autotune|Entering DeepGEMM JIT", Mark("begin", "compile")),
    (r"Try DeepGEMM JIT Compiling|DeepGEMM JIT", Mark("within", "compile")),
    (r"FlashInfer autotune completed", Mark("end", "compile")),
    (r"max_total_num_tokens=", Mark("begin", "warmup")),
    (r"Start of (?:[\w-]+ ){0,4}warmup", Mark("begin", "warmup")),
    (r"Started server process|Waiting for application startup|Application startup complete|Uvicorn running on", Mark("begin", "warmup", sure=False)),
    (r"The server is fired up and ready to roll", Mark("ready")),
    (r"Engine startup timings \(s\): ", Mark("timings")),
    (r"SIGTERM received|Gracefully exiting", Mark("stopping")),
    (r"kill_process_tree called", Mark("gone")),
    (r"(?:[\w-]+ ){1,4}hit an exception", Mark("fatal")),
    (r"(?:[\w-]+ )?[Ww]atchdog timeout \((?!.*soft=True)", Mark("fatal")),
    (r"Initialization failed\. warmup error", Mark("fatal")),
    (r"(?:RuntimeError: )?Not enough memory\. Please try", Mark("fatal")),
    (r"Received sigquit from a child|SIGQUIT received", Mark("echo")),
    (r"Subprocess \S+ \(pid=[0-9]+\) crashed|Child process unexpectedly failed", Mark("echo")),
    (r"Rank [0-9]+ scheduler (?:is dead|died)|Initialization failed\. Please see", Mark("echo")),
    *COMMON,
)  # fmt: skip

BARS = (
    Bars(re.compile(r"(?:Multi-thread loading|Loading) .*(?:shards|Runai|[Ff]astsafetensor|InstantTensor)"), "weights", "shards"),
    Bars(re.compile(r"(?:\[BCG\] )?Capturing "), "graphs", "graphs"),
    Bars(re.compile(r"DeepGEMM warmup"), "compile", "kernels"),
)

_HEAD = re.compile(r"(Prefill|Decode) batch ?(?:\((mixed )?([^)]{0,100})\))?(?: ?\[[0-9]+\])?[.,:]? ?")


def read_batch(text: str) -> BatchSample | None:
    """The sample of a `Decode batch` or `Prefill batch` line."""
    head = _HEAD.match(text)
    if head is None:
        return None
    pairs = split_pairs(text[head.end() :])
    if not pairs:
        return None
    if head[3]:
        for key, value in split_pairs(head[3]).items():
            pairs.setdefault(key, value)
    take = pairs.pop
    queued = whole(take("#queue-req", None))
    running = whole(take("#running-req", None))
    usage = finite(take("token usage", None))
    if head[1] == "Decode":
        return BatchSample(
            "decode", finite(take("gen throughput (token/s)", None)), finite(take("accept len", None)), running, queued, usage, extra=pairs
        )
    return BatchSample(
        "prefill", running=running, queued=queued, token_usage=usage, input_tok_s=finite(take("input throughput (token/s)", None)),
        new_tokens=whole(take("#new-token", None)), extra=pairs,
    )  # fmt: skip


SGLANG = Engine(
    name="sglang",
    milestones=MILESTONES,
    bars=BARS,
    batch_words=("Decode batch", "Prefill batch"),
    read_batch=read_batch,
    read_args=read_arguments,
    metrics={
        "gen_tok_s": ("sglang:gen_throughput",),
        "accept_len": ("sglang:spec_accept_length", "sglang:avg_spec_accept_length"),
        "running": ("sglang:num_running_reqs",),
        "queued": ("sglang:num_queue_reqs",),
        "token_usage": ("sglang:token_usage",),
    },
    metrics_counters={"gen_tokens": "sglang:generation_tokens_total", "prompt_tokens": "sglang:prompt_tokens_total"},
    deep_health_path="/health_generate",
    info_paths=("/server_info", "/get_server_info", "/model_info", "/get_model_info"),
    arguments={"tp_size": ("tp_size",), "port": ("port",), "model_path": ("model_path",)},
    ready_text=READY,
)
"""SGLang 0.1.24 to 0.5.23."""
