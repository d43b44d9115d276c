"""SGLang: milestones (FORMATS.md section 3), faults (6), batch lines (5), metric names. Texts come without their
prefix."""

from __future__ import annotations

import re

from eagletui.engines.arguments import read_arguments
from eagletui.engines.batch import BatchSample, finite, value_of, whole
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
    (r"(?:[\w()-]+ ){0,4}KV Cache (?:is allocated|VA upper bound)", Mark("within", "kv-cache", needs="KV Cache ")),
    (r"Mamba Cache is allocated", Mark("within", "kv-cache")),
    (r"Memory pool end", Mark("end", "kv-cache")),
    (r"Capture (?:[\w-]+ ){0,5}(?i:graph) begin", Mark("begin", "graphs")),
    (r"Capture (?:[\w-]+ ){0,5}(?i:graph) end", Mark("end", "graphs")),
    (r"Capture cuda graph (?:bs|num tokens)|Registering [0-9]+ cuda graph addresses", Mark("within", "graphs")),
    (r"Running FlashInfer autotune|Entering DeepGEMM JIT", Mark("begin", "compile")),
    (r"Try DeepGEMM JIT Compiling|DeepGEMM JIT", Mark("within", "compile")),
    (r"FlashInfer autotune completed", Mark("end", "compile")),
    (r"max_total_num_tokens=", Mark("begin", "warmup")),
    (r"Start of (?:[\w-]+ ){0,4}warmup", Mark("begin", "warmup")),
    (r"Started server process|Waiting for application startup", Mark("begin", "warmup", sure=False)),
    (r"Application startup complete|Uvicorn running on", Mark("begin", "warmup", sure=False)),
    (r"The server is fired up and ready to roll", Mark("ready")),
    # A node that is not the first: its ranks are ready, and it answers nothing but probes.
    (r"Starting dummy health check server|Dummy health check server (?:started|scheduled)", Mark("ready")),
    (r"Engine startup timings \(s\): ", Mark("timings")),
    (r"SIGTERM received|Gracefully exiting", Mark("stopping")),
    (r"slurmstepd: error: \*\*\* (?:JOB|STEP) \S+ (?:ON \S+ )?CANCELLED", Mark("stopped", sure=False)),
    (r"kill_process_tree called", Mark("gone")),
    *COMMON,
)  # fmt: skip

BARS = (
    Bars(
        re.compile(r"(?:Multi-thread loading|Loading) .*(?:shards|Runai|[Ff]astsafetensor|InstantTensor)"),
        "weights",
        "shards",
    ),
    Bars(re.compile(r"(?:\[BCG\] )?Capturing\b|Compiling num tokens"), "graphs", "graphs"),
    Bars(re.compile(r"DeepGEMM warmup"), "compile", "kernels"),
)

_HEAD = re.compile(r"(?:Prefill|Decode) batch ?(?:\((?:mixed )?(#running-req: [0-9]+)\))?(?: ?\[[0-9]+\])?[.,:]? ?")
# The shape that nearly every line of a flood has, taken in one step.
_USUAL = re.compile(
    r"Decode batch[.,] (#running-req: ([0-9]+), #token: [0-9]+, token usage: ([0-9]+\.[0-9]+), "
    r"(?:accept len: ([0-9]+\.[0-9]+), )?(?:accept rate: ([0-9]+\.[0-9]+), )?"
    r"(?:(?!accept )[^:,]{1,40}: [^,]{1,20}, ){0,4}"
    r"gen throughput \(token/s\): ([0-9]+\.[0-9]+), #queue-req: ([0-9]+)(?:, .*|\Z))"
)


_POOLS = ("full token usage", "swa token usage", "gpu token usage")


def _usage(text: str, at: int) -> float | None:
    """The share of the KV pool that is taken: of several pools (sliding windows, HiSparse) the fullest one's, as SGLang itself counts."""
    usage = finite(value_of(text, "token usage", at))
    if usage is not None or "token usage" not in text:
        return usage
    return max((told for key in _POOLS if (told := finite(value_of(text, key, at))) is not None), default=None)


def read_batch(text: str) -> BatchSample | None:
    """The sample of a `Decode batch` or `Prefill batch` line."""
    usual = _USUAL.match(text)
    if usual is not None:
        raw, running_text, usage_text, accept, rate, gen_text, queued_text = usual.groups()
        accept_len = float(accept) if accept else None
        return BatchSample(
            "decode",
            float(gen_text),
            accept_len,
            int(running_text),
            int(queued_text),
            float(usage_text),
            None,
            None,
            "",
            raw,
            float(rate) if rate else None,
        )
    head = _HEAD.match(text)
    if head is None:
        return None
    at = head.end()
    if text.find(": ", at) < 0:
        return None
    queued = whole(value_of(text, "#queue-req", at))
    running = whole(value_of(text, "#running-req", at))
    usage = _usage(text, at)
    if text[0] == "D":
        gen = finite(value_of(text, "gen throughput (token/s)", at))
        accept_len, accept_rate = (finite(value_of(text, key, at)) for key in ("accept len", "accept rate"))
        return BatchSample("decode", gen, accept_len, running, queued, usage, raw=text[at:], accept_rate=accept_rate)
    if running is None and head[1]:
        running = whole(value_of(head[1], "#running-req", 0))
    return BatchSample(
        "prefill",
        running=running,
        queued=queued,
        token_usage=usage,
        input_tok_s=finite(value_of(text, "input throughput (token/s)", at)),
        new_tokens=whole(value_of(text, "#new-token", at)),
        raw=text[at:],
    )


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
        "accept_rate": ("sglang:spec_accept_rate",),
        "running": ("sglang:num_running_reqs",),
        "queued": ("sglang:num_queue_reqs",),
        "token_usage": ("sglang:token_usage",),
    },
    metrics_counters={"gen_tokens": "sglang:generation_tokens_total", "prompt_tokens": "sglang:prompt_tokens_total"},
    deep_health_path="/health_generate",
    info_paths=("/server_info", "/get_server_info", "/model_info", "/get_model_info"),
    arguments={"tp_size": ("tp_size",), "port": ("port",), "model_path": ("model_path",)},
    ready_text=READY,
    details=(
        (re.compile(r"sglang is using (nccl)==([0-9.]+)"), "distributed", "{} {}"),
        (re.compile(r"Load weight end\..*?type=(\w+).*?mem usage=(-?[0-9.]+ GB)"), "weights", "{}, {}"),
        (re.compile(r"KV Cache is allocated\..*?#tokens: ([0-9]+)"), "kv-cache", "{} tokens"),
    ),
)
"""SGLang 0.1.24 to 0.5.23."""
