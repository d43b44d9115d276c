"""What the simulated node's server is: its command, its sizes, and when its start reaches which stage.

The recording under `recordings/` was built with these numbers, and the world lives by them, so that log, memory and
processes tell the same story.
"""

from __future__ import annotations

from typing import Final

HOST: Final = "gpu-node"
MACHINE_ID: Final = "5b0c1f6e2d9a4c7f8e3b6a1d4f7c2e90"
LAUNCHER_PID: Final = 41_822
"""Of the launch that the node opens on."""
MODEL: Final = "/shared/kimi-k2.5-int4"
DRAFT_MODEL: Final = "/shared/kimi-k2.5-eagle3"
PORT: Final = 30000
RANKS: Final = 8
SHARDS: Final = 64
COMMAND: Final = (
    "python3", "-m", "sglang.launch_server",
    "--model-path", MODEL,
    "--tp", str(RANKS),
    "--trust-remote-code",
    "--host", "127.0.0.1",
    "--port", str(PORT),
    "--enable-metrics",
    "--speculative-algorithm", "EAGLE3",
    "--speculative-draft-model-path", DRAFT_MODEL,
    "--speculative-num-steps", "2",
    "--speculative-eagle-topk", "4",
    "--speculative-num-draft-tokens", "5",
    "--model-loader-extra-config", '{"enable_multithread_load": false}',
)  # fmt: skip
"""The launcher's argv. The loader is single-threaded, hence the bar "Loading safetensors checkpoint shards"."""

# Seconds from the launch, at 1×.
FIRST_BYTE: Final = 7.0
SERVER_ARGS: Final = 9.5
CHILDREN: Final = 11.0
"""The children are there, still called `python3 -c … spawn_main(…)`; they take their titles with the first line."""
DISTRIBUTED: Final = 18.6
WEIGHTS: Final = 28.2
DRAFT: Final = 70.6
KV_CACHE: Final = 72.6
GRAPHS: Final = 74.9
COMPILE_WORKERS: Final = 88.6
"""Draft decode graphs are compiled: their worker pool is there from now on."""
HTTP_OPEN: Final = 101.37
READY: Final = 110.0

# Memory of one GPU in GiB as torch counts it (a device of 143771 MiB, of which the driver keeps about 0.6 GiB).
AVAIL_START: Final = 138.11
WEIGHTS_GIB: Final = 96.20
FROM_DISK: Final = 0.012
"""The share of its weights that a rank reads from the disk: the rest is in the page cache since the start before."""
DRAFT_GIB: Final = 0.61
KV_GIB: Final = 28.80
DRAFT_KV_GIB: Final = 1.68
GRAPHS_GIB: Final = 2.55
KV_TOKENS: Final = 440_064
"""28.80 GiB of 61 layers × 576 × 2 bytes."""
MAX_RUNNING: Final = 48
CONTEXT_LENGTH: Final = 262_144
