"""What can happen to the simulated server on purpose, and what its log and its kernel say then. Pure tables.

Texts are those of SGLang 0.5, PyTorch and Linux. Times are the engine's own: seconds since its launch, at 1×.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from eagletui.demo import shape

_SITE: Final = "/opt/venv/lib/python3.12/site-packages/sglang/srt"


def _frames(*places: tuple[str, int, str, str]) -> str:
    return "".join(
        f'  File "{_SITE}/{path}", line {line}, in {name}\n    {code}\n' for path, line, name, code in places
    )


_OUT_OF_MEMORY: Final = (
    "Scheduler hit an exception: Traceback (most recent call last):\n"
    + _frames(
        ("managers/scheduler.py", 3412, "run_scheduler_process", "scheduler = Scheduler("),
        ("model_executor/model_runner.py", 1502, "init_device_graphs", "self.graph_runner = CudaGraphRunner(self)"),
        ("model_executor/cuda_graph_runner.py", 448, "__init__", "raise Exception("),
    )
    + "Exception: Capture cuda graph failed: CUDA out of memory. Tried to allocate 1.31 GiB. GPU 3 has a total capacity of 139.80 GiB of "
    "which 987.44 MiB is free. Including non-PyTorch memory, this process has 138.83 GiB memory in use.\n"
    "Possible solutions:\n"
    "1. set --mem-fraction-static to a smaller value (e.g., 0.8 or 0.7)\n"
    "2. set --cuda-graph-max-bs to a smaller value (e.g., 16)\n"
)
_SIGQUIT: Final = "SIGQUIT received. signum=None, frame=None. It usually means one child failed."


@dataclass(frozen=True, slots=True)
class Said:
    """Lines of one record: `after` seconds of the engine's time after it happened, by a rank ("" for the main process)."""

    after: float
    rank: str
    text: str


@dataclass(frozen=True, slots=True)
class Scenario:
    """`opens`: how old the launch is when the node opens. `at`: when it happens. `says`: what the log says from then on. `rank`:
    whose process is gone at once. `gone`: seconds after `at` when the rest of the family is gone, None when it lives on and hangs.
    `kernel`: what the kernel says, `{pid}` is the process of `rank`. `kills`: how many the control group counts.
    """

    name: str
    what: str
    opens: float
    at: float
    says: tuple[Said, ...] = ()
    rank: int | None = None
    gone: float | None = None
    kernel: tuple[str, ...] = ()
    kills: int = 0


SCENARIOS: Final[dict[str, Scenario]] = {
    one.name: one
    for one in (
        Scenario(
            "oom", "a GPU runs out of memory while CUDA graphs are captured", 66.0, shape.GRAPHS + 7.0,
            (Said(0.0, "TP3", _OUT_OF_MEMORY), Said(0.4, "", _SIGQUIT)), gone=2.5,
        ),
        Scenario(
            "killed", "the kernel kills a rank for memory while it serves", shape.READY + 2.0, shape.READY + 20.0,
            (
                Said(0.6, "", "Subprocess scheduler_5 (pid={pid}) crashed with exit code -9. Triggering SIGQUIT for cleanup..."),
                Said(0.7, "", _SIGQUIT),
            ),
            rank=5, gone=4.0,
            kernel=(
                "sglang::schedul invoked oom-killer: gfp_mask=0xcc0(GFP_KERNEL), order=0, oom_score_adj=0",
                (
                    "Memory cgroup out of memory: Killed process {pid} (sglang::schedul) total-vm:184320112kB, anon-rss:97812204kB, "
                    "file-rss:812kB, shmem-rss:33554432kB, UID:1001 pgtables:201944kB oom_score_adj:0"
                ),
            ),
            kills=1,
        ),
        Scenario(
            "hang", "generation stops while /health still answers", shape.READY + 2.0, shape.READY + 20.0,
        ),
    )
}  # fmt: skip
"""By name."""
