"""vLLM: milestones, throughput lines and metric names. FORMATS.md section 8; recorded with 0.32, older words from
V0."""

from __future__ import annotations

import re

from eagletui.engines.arguments import read_arguments
from eagletui.engines.batch import BatchSample, finite, value_of, whole
from eagletui.engines.spec import COMMON, Bars, Engine, Mark

READY = "Application startup complete."

MILESTONES: tuple[tuple[str, Mark], ...] = (
    (r"vLLM API server version", Mark("launch")),
    (r"non-default args: |args: Namespace\(", Mark("args")),
    (r"Initializing an? (?:V1 )?LLM engine", Mark("begin", "launch")),
    (r"world_size=[0-9]+ rank=[0-9]+", Mark("begin", "distributed")),
    (r"rank [0-9]+ in world size [0-9]+", Mark("end", "distributed")),
    (r"vLLM is using nccl==|Found nccl from library", Mark("within", "distributed")),
    (r"Starting to load model", Mark("begin", "weights")),
    (r"Using model weights format|Loading model from scratch", Mark("within", "weights", sure=False)),
    (r"Loading drafter model", Mark("begin", "draft-weights")),
    (r"Loading weights took|Loading model weights took", Mark("end", "weights")),
    (r"Model loading took", Mark("within", "weights")),
    (r"Using cache directory: .{0,400}torch_compile_cache|Dynamo bytecode transform time", Mark("within", "compile")),
    (r"Compiling a graph|Start compiling", Mark("within", "compile")),
    (r"Directly load (?:AOT compilation|the compiled graph)|Cache the graph", Mark("within", "compile")),
    (r"torch\.compile (?:takes|took)", Mark("end", "compile")),
    (r"Available KV cache memory|# \w+ blocks: |Maximum concurrency for", Mark("within", "kv-cache")),
    (r"\w+ KV cache size: ", Mark("within", "kv-cache", needs="KV cache size: ")),
    (r"Capturing (?:the model for )?(?:CUDA|cuda) ?graphs|Profiling CUDA graph", Mark("begin", "graphs")),
    (r"Graph capturing finished", Mark("end", "graphs")),
    (r"init engine \(profile", Mark("begin", "warmup")),
    (r"Starting vLLM (?:API )?server|Available routes are", Mark("begin", "warmup")),
    (r"Started server process|Waiting for application startup|Uvicorn running on", Mark("begin", "warmup", sure=False)),
    (r"Application startup complete", Mark("ready", sure=False)),
    (
        r"\[shutdown\] (?:API server: shutdown triggered|EngineCore: trigger received signal)|Shutdown initiated \(timeout=",
        Mark("stopping"),
    ),
    *COMMON,
)  # fmt: skip

BARS = (
    Bars(
        re.compile(r"(?:Multi-thread loading|Loading) .*(?:shards|Runai|[Ff]astsafetensor|InstantTensor)"),
        "weights",
        "shards",
    ),
    Bars(re.compile(r"Capturing\b"), "graphs", "graphs"),
    Bars(re.compile(r"DeepGEMM warmup"), "compile", "kernels"),
)

_HEAD = re.compile(
    r"(?:Engine ([0-9]+): |[0-9]+ Engines Aggregated: )?(?:(Avg prompt throughput: )|SpecDecoding metrics: |Speculative metrics: )"
)


def read_batch(text: str) -> BatchSample | None:
    """The sample of an `Engine 000: Avg prompt throughput: …` or a `SpecDecoding metrics: …` line.

    V0 calls the second `Speculative metrics`, and tells its rate as a fraction; V1 in percent, nan without a draft.
    """
    head = _HEAD.match(text)
    if head is None:
        return None
    rank = f"DP{int(head[1])}" if head[1] else ""
    if head[2] is None:
        at = head.end()
        length = finite(value_of(text, "Mean acceptance length", at))
        rate = value_of(text, "Avg Draft acceptance rate", at) or value_of(text, "Draft acceptance rate", at)
        return BatchSample("spec", accept_len=length, dp_rank=rank, raw=text[at:], accept_rate=finite(rate))
    at = head.start(2)
    usage = finite(value_of(text, "GPU KV cache usage", at))
    if usage is None:
        usage = finite(value_of(text, "CPU KV cache usage", at))
    waiting = value_of(text, "Waiting", at) or value_of(text, "Pending", at)
    return BatchSample(
        "engine",
        finite(value_of(text, "Avg generation throughput", at)),
        None,
        whole(value_of(text, "Running", at)),
        whole(waiting),
        usage,
        finite(value_of(text, "Avg prompt throughput", at)),
        None,
        rank,
        text[at:],
    )


VLLM = Engine(
    name="vllm",
    milestones=MILESTONES,
    bars=BARS,
    batch_words=("Engine ", "Avg prompt throughput", "SpecDecoding metrics", "Speculative metrics", *"123456789"),
    read_batch=read_batch,
    read_args=read_arguments,
    metrics={
        "gen_tok_s": ("vllm:avg_generation_throughput_toks_per_s",),
        "input_tok_s": ("vllm:avg_prompt_throughput_toks_per_s",),
        "accept_rate": ("vllm:spec_decode_draft_acceptance_rate",),
        "running": ("vllm:num_requests_running",),
        "queued": ("vllm:num_requests_waiting",),
        "token_usage": ("vllm:kv_cache_usage_perc", "vllm:gpu_cache_usage_perc"),
    },
    metrics_counters={
        "gen_tokens": "vllm:generation_tokens_total",
        "prompt_tokens": "vllm:prompt_tokens_total",
        "drafts": "vllm:spec_decode_num_drafts_total",
        "draft_tokens": "vllm:spec_decode_num_draft_tokens_total",
        "accepted_tokens": "vllm:spec_decode_num_accepted_tokens_total",
    },
    info_paths=("/v1/models", "/version", "/load"),
    arguments={"tp_size": ("tensor_parallel_size",), "port": ("port",), "model_path": ("model", "model_tag")},
    ready_text=READY,
    details=(
        (re.compile(r"vLLM is using (nccl)==([0-9.]+)"), "distributed", "{} {}"),
        (re.compile(r"Model loading took ([0-9.]+ Gi?B)"), "weights", "{}"),
        (re.compile(r"KV cache size: ([0-9,]+) tokens"), "kv-cache", "{} tokens"),
    ),
)
"""vLLM 0.6 to 0.32."""
