"""What can happen to the simulated server on purpose, and what its log and its kernel say then. Pure tables.

Texts are those of SGLang 0.5, PyTorch and Linux. Times are the engine's own: seconds since its launch, at 1×.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from eagletui.demo import shape
from eagletui.demo.processes import LENA
from eagletui.demo.settings import SIGQUIT

CURE_STATIC: Final = 0.88
"""The --mem-fraction-static that leaves the graphs their room."""

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


@dataclass(frozen=True, slots=True)
class Said:
    """Lines of one record: `after` seconds of the engine's time after it happened, by a rank ("" for the main process)."""

    after: float
    rank: str
    text: str


@dataclass(frozen=True, slots=True)
class Neighbour:
    """Somebody else's process. `gpu`, `mib`: what it holds. `waits`: it begins only when that much memory is free there. `port`: it listens there."""

    argv: tuple[str, ...]
    uid: int = LENA
    gpu: int | None = None
    mib: int = 0
    waits: bool = False
    port: int | None = None


@dataclass(frozen=True, slots=True)
class Scenario:
    """`opens`: how old the launch is when the node opens. `at`: when it happens (None: nothing does by itself). `says`: what the log says from
    then on. `rank`: whose process is gone at once. `gone`: seconds after `at` when the rest of the family is gone, None when it lives on and
    hangs. `kernel`: what the kernel says, `{pid}` is the process of `rank`. `kills`: how many the control group counts. `again`: every later
    launch meets the same, unless its flags cure it.

    `cgroup`, `elsewhere`: where its processes are, and whether that is another mount and pid namespace. `flags`: arguments that the server
    has besides. `neighbour`: what somebody else runs. `locked`: somebody else's eagletui holds the port's lock. `stuck`: the rank whose
    process is never done dying. `request_s`: how long its clients' requests take. `recorded`: eagletui launched its server, so that it can be
    launched again when it is gone. `read_only`: the file
    system that cannot be written any more from the next launch on.
    `names`: others that it is known by.
    """

    name: str
    what: str
    opens: float
    at: float | None = None
    says: tuple[Said, ...] = ()
    rank: int | None = None
    gone: float | None = None
    kernel: tuple[str, ...] = ()
    kills: int = 0
    again: bool = False
    cgroup: str | None = None
    elsewhere: bool = False
    flags: tuple[str, ...] = ()
    neighbour: Neighbour | None = None
    locked: bool = False
    stuck: int | None = None
    request_s: tuple[float, float] | None = None
    read_only: str | None = None
    recorded: bool = False
    names: tuple[str, ...] = ()

    def cured_by(self, values: Mapping[str, str]) -> bool:
        """Whether a launch with these settings does not meet it: what the engine's own advice is."""
        static = values.get("mem_fraction_static")
        return static is not None and float(static) <= CURE_STATIC


_JUST_READY: Final = shape.READY + 2.0

_ALL: Final = (
    Scenario(
        "oom", "a GPU runs out of memory while CUDA graphs are captured", 66.0, shape.GRAPHS + 7.0,
        (Said(0.0, "TP3", _OUT_OF_MEMORY), Said(0.4, "", SIGQUIT)), gone=2.5, again=True, recorded=True,
    ),
    Scenario(
        "rank-dies", "the kernel kills a rank for memory while it serves", _JUST_READY, shape.READY + 8.0,
        (
            Said(0.6, "", "Subprocess scheduler_5 (pid={pid}) crashed with exit code -9. Triggering SIGQUIT for cleanup..."),
            Said(0.7, "", SIGQUIT),
        ),
        rank=5, gone=4.0,
        kernel=(
            "sglang::schedul invoked oom-killer: gfp_mask=0xcc0(GFP_KERNEL), order=0, oom_score_adj=0",
            (
                "Memory cgroup out of memory: Killed process {pid} (sglang::schedul) total-vm:184320112kB, anon-rss:97812204kB, "
                "file-rss:812kB, shmem-rss:33554432kB, UID:1001 pgtables:201944kB oom_score_adj:0"
            ),
        ),
        kills=1, recorded=True, names=("killed",),
    ),
    Scenario(
        "stalls", "generation stops while /health still answers", _JUST_READY, shape.READY + 8.0, names=("hang",),
    ),
    Scenario(
        "kept-by-systemd", "the server is a systemd unit: restarting it is systemd's", _JUST_READY, cgroup="/system.slice/sglang.service",
    ),
    Scenario(
        "in-a-container", "the server runs in a container: its command is of use in there only", _JUST_READY,
        cgroup="/system.slice/docker-7c1f0a9e4b2d6853f1e07a94c8d2b6305e9f4a71c0d83b62e5a9170f4c8d2b63.scope", elsewhere=True,
    ),
    Scenario(
        "rank-of-two", "the server is one of two nodes' ranks: stopping it alone hangs the other", _JUST_READY,
        flags=("--tp", "16", "--nnodes", "2", "--node-rank", "0", "--dist-init-addr", "10.0.7.21:20000"),
    ),
    Scenario(
        "never-started", "every check passes, then the launch dies before its log exists", _JUST_READY,
        read_only="/data",
    ),
    Scenario(
        "port-taken", "somebody else listens on the port: the server loads everything and cannot bind", shape.HTTP_OPEN - 6.0,
        neighbour=Neighbour(("python3", "-m", "http.server", "30000", "--bind", "127.0.0.1"), port=shape.PORT), recorded=True,
    ),
    Scenario(
        "stuck-gpu", "somebody else's job takes a GPU's memory as soon as the server has left it", _JUST_READY,
        neighbour=Neighbour(("python3", "train.py", "--config", "lora-7b.yaml"), gpu=2, mib=38_912, waits=True),
    ),
    Scenario(
        "zombie", "a rank dies and is never done dying: its threads wait in the driver and keep the GPU's memory", _JUST_READY, stuck=3,
    ),
    Scenario(
        "slow-drain", "long answers are running: a stop waits for the last of them", _JUST_READY, request_s=(60.0, 110.0),
    ),
    Scenario(
        "two-users", "somebody else works here too: a job on GPU 7, and the lock of this server's port", _JUST_READY,
        neighbour=Neighbour(("python3", "finetune.py", "--device", "cuda:7"), gpu=7, mib=4_916), locked=True,
    ),
)  # fmt: skip
SCENARIOS: Final[dict[str, Scenario]] = {one.name: one for one in _ALL}
"""By name."""
ALIASES: Final[dict[str, Scenario]] = {name: one for one in _ALL for name in one.names}


def scenario_of(name: str) -> Scenario:
    """By its name or another that it is known by. Raises KeyError."""
    return SCENARIOS.get(name) or ALIASES[name]
