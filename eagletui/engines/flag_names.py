"""Names of the engines' flags: which are one flag, which take several values, which none. Pure tables.

They follow SGLang 0.5 and vLLM 0.1x as their parsers have them. A name that is in no table is still changed as the command shows it: the tables only
settle what a command line cannot tell (where a value ends and vLLM's model begins), and what is offered for completion.
"""

from __future__ import annotations

import re

from eagletui.engines.shapes import Engine, is_switch

_GROUPS: dict[Engine, tuple[tuple[str, ...], ...]] = {
    "sglang": (
        ("model-path", "model"),
        ("tp-size", "tensor-parallel-size", "tp"),
        ("pp-size", "pipeline-parallel-size", "pp"),
        ("dp-size", "data-parallel-size", "dp"),
        ("ep-size", "expert-parallel-size", "ep"),
        ("dcp-size", "decode-context-parallel-size"),
        ("attn-dp-size", "attention-data-parallel-size"),
        ("attn-cp-size", "attention-context-parallel-size"),
        ("moe-dp-size", "moe-data-parallel-size"),
        ("dist-init-addr", "nccl-init-addr"),
        ("speculative-algorithm", "speculative-algo"),
        ("speculative-draft-model-path", "speculative-draft-model"),
        ("enable-hierarchical-cache", "enable-hicache"),
        ("mem-fraction-static", "mem-fraction"),
        ("cuda-graph-prefill-max-context", "context-bucket"),
        ("hisparse-config", "hierarchical-sparse-attention-extra-config"),
    ),
    "vllm": (
        ("tensor-parallel-size", "tp", "tensor-parallel"),
        ("pipeline-parallel-size", "pp", "pipeline-parallel"),
        ("data-parallel-size", "dp", "data-parallel"),
        ("data-parallel-size-local", "dpl"),
        ("data-parallel-rank", "dpn"),
        ("data-parallel-start-rank", "dpr"),
        ("data-parallel-address", "dpa"),
        ("data-parallel-rpc-port", "dpp"),
        ("data-parallel-backend", "dpb"),
        ("data-parallel-hybrid-lb", "dph"),
        ("decode-context-parallel-size", "dcp"),
        ("prefill-context-parallel-size", "pcp"),
        ("api-server-count", "asc"),
        ("enable-expert-parallel", "ep"),
        ("nnodes", "n"),
        ("node-rank", "r"),
        ("quantization", "q"),
        ("speculative-config", "sc"),
        ("compilation-config", "cc"),
        ("attention-config", "ac"),
        ("optimization-level", "O"),
    ),
}
_SAME: dict[Engine, dict[str, str]] = {
    engine: {name: group[0] for group in groups for name in group} for engine, groups in _GROUPS.items()
}

_SEVERAL: dict[Engine, frozenset[str]] = {
    "sglang": frozenset({
        "allowed-media-domains", "bucket-e2e-request-latency", "bucket-inter-token-latency",
        "bucket-time-to-first-token",
        "cuda-graph-bs", "cuda-graph-bs-decode", "cuda-graph-bs-prefill", "custom-weight-loader",
        "debug-tensor-dump-layers",
        "encoder-register-urls", "encoder-urls", "flashinfer-autotune-skip-ops", "gc-threshold",
        "generation-tokens-buckets",
        "log-requests-target", "lora-paths", "lora-target-modules", "numa-node", "piecewise-cuda-graph-tokens",
        "prefill-delayer-forward-passes-buckets", "prefill-delayer-wait-seconds-buckets", "prompt-tokens-buckets",
        "return-aux-hidden-state-layer-ids", "tokenizer-metrics-allowed-custom-labels",
        "uvicorn-access-log-exclude-prefixes",
    }),
    "vllm": frozenset({
        "allowed-media-domains", "api-key", "collect-detailed-traces", "cuda-graph-sizes", "cudagraph-capture-sizes",
        "ignore-patterns", "logits-processors", "lora-modules", "lora-target-modules", "prompt-adapters",
        "served-model-name",
    }),
}  # fmt: skip
"""Flags that take as many values as follow them."""
_APPENDED: dict[Engine, frozenset[str]] = {"sglang": frozenset(), "vllm": frozenset({"middleware"})}
"""Flags that are repeated, one value each time; of every other one the last counts."""
_INSIDE = re.compile(r"-(?:enable|disable)-")
"""What makes a name a switch's wherever it stands."""
_VALUED = frozenset({
    "log-level-http", "log-requests-level", "log-requests-format", "log-requests-target", "return-hidden-states-mode",
    "return-aux-hidden-state-layer-ids", "log-error-stack-level", "no-proxy",
})  # fmt: skip
"""Flags that look like switches and take a value."""
_SWITCHES: dict[Engine, frozenset[str]] = {
    "sglang": frozenset({
        "is-embedding", "quantize-and-serve", "sleep-on-idle", "show-time-cost", "encoder-only", "language-only",
        "prefill-only-disable-kv-cache", "incremental-streaming-output", "speculative-adaptive", "export-metrics-to-file",
        "delete-ckpt-after-loading", "weight-loader-disable-mmap", "debug-cuda-graph", "mm-enable-dp-encoder",
        "speculative-use-rejection-sampling", "triton-attention-reduce-in-fp32", "pre-warm-nccl", "help", "grpc-mode", "smg-grpc-mode",
        "abort-on-priority-when-disabled", "schedule-low-priority-values-first", "dcp-replicate-q-proj", "strip-thinking-cache", "dllm-fdfo",
        "stream-response-default-include-usage", "experts-shared-outer-loras", "lora-use-virtual-experts", "lora-strict-loading",
        "language-model-only", "weight-loader-prefetch-checkpoints", "weight-loader-drop-cache-after-load", "ple-offload-embedding",
        "checkpoint-engine-wait-weights-before-ready", "speculative-use-block-verification",
        "remote-instance-weight-loader-start-seed-via-transfer-engine", "speculative-dspark-align-verify-tokens-to-graph-tier",
    }),
    "vllm": frozenset({
        "headless", "help", "async-scheduling", "calculate-kv-scales", "enable-expert-parallel", "enforce-eager",
        "data-parallel-hybrid-lb", "data-parallel-external-lb", "exclude-tools-when-tool-choice-none",
        "interleave-mm-strings", "language-model-only", "fully-sharded-loras", "kv-cache-metrics", "cudagraph-metrics",
        "version",
    }),
}  # fmt: skip
"""Switches whose name does not say so."""

USUAL: dict[Engine, tuple[str, ...]] = {
    "sglang": (
        "attention-backend", "chunked-prefill-size", "context-length", "cuda-graph-bs", "cuda-graph-max-bs",
        "disable-cuda-graph", "disable-overlap-schedule", "disable-radix-cache", "dp-size", "dtype", "enable-dp-attention",
        "enable-metrics", "enable-mixed-chunk", "enable-torch-compile", "ep-size", "host", "kv-cache-dtype", "log-level",
        "max-prefill-tokens", "max-running-requests", "max-total-tokens", "mem-fraction-static", "model-path",
        "moe-runner-backend", "page-size", "port", "pp-size", "quantization", "reasoning-parser", "sampling-backend",
        "schedule-conservativeness", "schedule-policy", "served-model-name", "skip-server-warmup",
        "speculative-algorithm",
        "speculative-draft-model-path", "speculative-eagle-topk", "speculative-num-draft-tokens",
        "speculative-num-steps",
        "tool-call-parser", "tp-size", "trust-remote-code", "watchdog-timeout",
    ),
    "vllm": (
        "async-scheduling", "block-size", "compilation-config", "cudagraph-capture-sizes", "data-parallel-size", "dtype",
        "enable-auto-tool-choice", "enable-chunked-prefill", "enable-expert-parallel", "enable-prefix-caching",
        "enforce-eager",
        "gpu-memory-utilization", "host", "kv-cache-dtype", "max-model-len", "max-num-batched-tokens", "max-num-seqs",
        "model", "no-enable-chunked-prefill", "no-enable-prefix-caching", "pipeline-parallel-size", "port",
        "quantization",
        "reasoning-parser", "served-model-name", "speculative-config", "speculative-config.method",
        "speculative-config.model", "speculative-config.num_speculative_tokens", "swap-space", "tensor-parallel-size",
        "tool-call-parser", "trust-remote-code",
    ),
}  # fmt: skip
"""What people change, for completion."""


def one_name(engine: Engine | None, name: str) -> str:
    """The name that stands for a flag and its aliases (no hyphens before it). What follows vLLM's first dot is a path of keys in JSON: its
    hyphens count as underscores, a `+` at its end (a list's further element) does not count."""
    head, dot, path = name.partition(".")
    head = head.replace("_", "-")
    if engine is not None:
        head = _SAME[engine].get(head, head)
    return head + dot + path.replace("-", "_").removesuffix("+") if dot else head


def names_of(engine: Engine | None, name: str) -> tuple[str, ...]:
    """All names of a flag that its engine knows, the one that stands for it first; only the given one where it has no aliases."""
    key = one_name(engine, name)
    same = _SAME[engine] if engine is not None else {}
    return tuple(one for one, first in same.items() if first == key) or (key,)


def takes_several(engine: Engine | None, key: str) -> bool:
    """Whether every word that follows is a value of it."""
    return engine is not None and key in _SEVERAL[engine]


def is_appended(engine: Engine | None, key: str) -> bool:
    """Whether it is repeated, one value each time."""
    return engine is not None and key in _APPENDED[engine]


def takes_none(engine: Engine | None, key: str) -> bool:
    """Whether it is a switch."""
    if key in _VALUED or "." in key:
        return False
    return is_switch(key) or _INSIDE.search(key) is not None or (engine is not None and key in _SWITCHES[engine])
