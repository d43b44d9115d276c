"""Hand-made plans and sequences: what a restart looks like before it, meanwhile, and when it went wrong."""

# ruff: noqa: E501 - commands are as long as they are

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from eagletui.gpus.model import GpuProcess
from eagletui.launching.plan import Check, FlagChange, Holder, Kept, Leftover, Plan, Question, Refusal, Wish
from eagletui.launching.recipe import Recipe
from eagletui.launching.steps import Offer, Progress, Status, Step, StepName
from eagletui.monitor.snapshot import Snapshot, Verdict
from eagletui.servers.model import Orphan, Reason, State
from tests.ui.fake_operator import FakeOperator
from tests.ui.launch_scenes import never_started as never_started_snapshot
from tests.ui.scenes import HOSTILE, NOW, gpu_view, make_server, no_server, process, ready, starting

SECRET = "sk-live-0123456789abcdef"
COMMAND = (
    "/opt/ev/bin/python", "-m", "sglang.launch_server", "--model-path", "/shared/models/Kimi-K2.5-INT4", "--tp", "8", "--port", "30000", "--host", "0.0.0.0",
    "--mem-fraction-static", "0.85", "--context-length", "262144", "--speculative-algorithm", "EAGLE3", "--speculative-num-steps", "3",
    "--speculative-eagle-topk", "4", "--speculative-num-draft-tokens", "5", "--speculative-draft-model-path", "/shared/models/kimi-k2.5-eagle3",
    "--trust-remote-code", "--enable-metrics", "--chunked-prefill-size", "8192", "--max-running-requests", "64", "--api-key", SECRET,
)  # fmt: skip
CHANGES = (
    FlagChange("speculative-num-steps", "2", "3"), FlagChange("mem-fraction-static", "0.88", "0.85"), FlagChange("enable-metrics", None, "on"),
    FlagChange("disable-radix-cache", "on", None),
)  # fmt: skip
RECIPE = Recipe(
    COMMAND, tuple((f"VAR{i}", "x") for i in range(31)), "/data/eagle3", "/data/eagle3/logs/k25-2step-1201-103031.log", "profile", "sglang", 30_000, "k25", "2step",
)  # fmt: skip
SERVER = make_server()
FAMILY = tuple((one.process.pid, one.process.started) for one in SERVER.family)
OWN = tuple(Holder(i, 41_823 + i, "lmsys", 134_900 + 130 * i, "sglang::scheduler_TP0", "family") for i in range(8))
PLAN = Plan(
    Wish("restart"), "gpu-node", SERVER, FAMILY, 8048.0, recipe=RECIPE, changes=CHANGES, holders=OWN, running_requests=3, locks=(30_000,), boot="b",
    leftovers=(Leftover("/dev/shm/sgl_shm_41700_0", 536_870_912, "made by pid 41700, which is gone"),),
)  # fmt: skip
PASSED = (
    Check("launch.executable", "ok", "/opt/ev/bin/python is there and runs"), Check("launch.folder", "ok", "/data/eagle3 is there"),
    Check("model.path", "ok", "/shared/models/Kimi-K2.5-INT4 is there, 64 files"), Check("log.folder", "ok", "/data/eagle3/logs can be written, 1.2 TiB free"),
    Check("shm.space", "ok", "/dev/shm has 503 GiB free"), Check("launcher.tools", "ok", "setsid is there"), Check("flags.parser", "ok", "sglang's parser takes all 14 flags"),
    Check("gpu.memory", "ok", "8 GPUs, each free enough once the old server is gone"), Check("ports.free", "ok", "30000 and the ports derived from it are ours or free"),
)  # fmt: skip
WARNED = (
    *PASSED[:5],
    Check("logout.linger", "warn", "KillUserProcesses is on, and lingering is off: a logout ends the server", "Run `loginctl enable-linger lmsys` on the node once"),
    *PASSED[5:],
)  # fmt: skip
BAD_FLAG = (
    *PASSED[:4],
    Check("flags.parser", "fail", "sglang does not know --speculative-num-step; did you mean --speculative-num-steps?", "Change the flag with R; the old server is left running"),
    Check("shm.space", "warn", "/dev/shm has 1.1 GiB free; NCCL of 8 ranks wants about 2", "Free some of it, or give the container more with --shm-size"),
    Check("gpu.memory", "unknown", "nvidia-smi did not answer within 10 s"),
    *PASSED[5:7],
)  # fmt: skip
OTHERS = (
    Holder(2, 9_001, "alice", 40_210, "python train.py --config configs/very_long_experiment_name.yaml", "others"),
    Holder(5, 77_120, None, 1_220, "", "unknown"),
)  # fmt: skip
KNOWN = (
    "model-path", "tp", "port", "mem-fraction-static", "speculative-num-steps", "speculative-accept-threshold-single", "speculative-accept-threshold-acc", "speculative-token-map",
    "speculative-attention-mode", "enable-torch-compile", "attention-backend", "disable-cuda-graph", "cuda-graph-max-bs", "kv-cache-dtype", "quantization", "schedule-policy",
)  # fmt: skip


def refused_plan() -> Plan:
    text = 'it belongs to the systemd unit sglang-k25.service, which may start it again. Use `systemctl restart sglang-k25.service`, or set launcher = "systemd" in its profile'
    return replace(
        PLAN, refusals=(Refusal("systemd-unit", text),), kept=Kept("unit", "sglang-k25.service"), leftovers=()
    )


def hopeless_plan() -> Plan:
    text = "It would not help: this very command crashed 2 times in a row with cuda-oom (out of GPU memory). --again does it all the same"
    return replace(PLAN, refusals=(Refusal("cannot-help", text, again=True),))


def asking_plan() -> Plan:
    questions = (
        Question(
            "kept-by-script",
            "It is kept by run.sh (pid 4711, for 3 d), which may start it again. Stop it all the same?",
        ),
        Question("confirm-name", "gpu-node is a production node. Type its name to restart there", typed="gpu-node"),
    )
    others = (
        "Another server of bob runs here: vllm on port 8000 (meta-llama/Llama-3.3-70B-Instruct), pid 52000. It is left alone.",
    )
    return replace(
        PLAN, questions=questions, kept=Kept("script", "run.sh", 4711, 259_200.0), others=others, holders=(*OWN, *OTHERS),
        orphans=(Orphan(process(511), "sglang::scheduler_TP3", "lmsys", 7300.0),),
        notes=("The profile's grace is 30 s; 3 requests run, the longest for 12 s.",),
    )  # fmt: skip


def long_plan() -> Plan:
    long = (
        '{"method": "eagle3", "model": "/mnt/very/long/path/'
        + "a-model-with-an-extremely-long-name-" * 6
        + '", "num_speculative_tokens": 5}'
    )
    changes = (
        FlagChange("speculative-config", long, long.replace("5}", "3}")),
        FlagChange("a-flag-with-a-name-that-is-much-longer-than-any-column-may-be", "x" * 60, None),
        *CHANGES,
    )
    server = replace(
        SERVER,
        model="/mnt/very/long/path/" + "a-model-with-an-extremely-long-name-" * 4,
        user="a-user-with-a-long-name",
    )
    recipe = replace(
        RECIPE,
        argv=(*COMMAND, "--speculative-config", long),
        log="/mnt/very/long/path/" + "logs-of-many-launches/" * 8 + "k25.log",
        cwd="/home/a-user-with-a-long-name/" + "deep/" * 20,
    )
    holders = tuple(
        Holder(i, 9_000 + i, "a-user-with-a-very-long-name", 9_000, "python " + "very-long-argument " * 9, "others")
        for i in range(8)
    )
    return replace(
        PLAN,
        node="gpu-node-with-a-long-name.cluster.internal.example.org",
        server=server,
        recipe=recipe,
        changes=changes,
        holders=holders,
    )


def hostile_plan() -> Plan:
    server = replace(SERVER, model="/models/" + HOSTILE, user=HOSTILE)
    recipe = replace(RECIPE, cwd="/" + HOSTILE, log="/tmp/" + HOSTILE, argv=(*COMMAND, "--served-model-name", HOSTILE))
    return replace(
        PLAN, node=HOSTILE, server=server, recipe=recipe, changes=(FlagChange("served-model-name", None, HOSTILE),), others=(HOSTILE,), notes=(HOSTILE,),
        holders=(Holder(0, 9, HOSTILE, 100, HOSTILE, "others"),), leftovers=(Leftover(HOSTILE, 1, HOSTILE),), kept=Kept("script", HOSTILE, 4, 1.0),
        questions=(Question("confirm-name", HOSTILE, typed="gpu-node"),),
    )  # fmt: skip


# --- sequences

TIMES = {
    StepName.PREFLIGHT: 20.0,
    StepName.IDENTIFY: 5.0,
    StepName.STOP: 30.0,
    StepName.GPUS: 60.0,
    StepName.LEFTOVERS: 30.0,
    StepName.LAUNCH: 5.0,
    StepName.VERIFY: 5.0,
}
TOLD = {
    StepName.PREFLIGHT: ("9 checks passed", 2.4), StepName.IDENTIFY: ("12 processes, kept by nobody", 0.6), StepName.STOP: ("SIGTERM, 12 of 12 gone", 3.1),
    StepName.GPUS: ("8 of 8 back to 0.5 GiB", 1.9), StepName.LEFTOVERS: ("1 file of 512 MiB removed", 0.7), StepName.LAUNCH: ("pid 51003", 0.4),
    StepName.VERIFY: ("it logs, in a session of its own", 0.5),
}  # fmt: skip


def sequence(
    at: StepName,
    took: float,
    told: str = "",
    *,
    status: Status = "running",
    lines: tuple[str, ...] = (),
    **more: object,
) -> Progress:
    """A restart that has come to a step, which has taken so many seconds."""
    steps: list[Step] = []
    began = (
        NOW
        - took
        - sum(
            TOLD[name][1] for name in StepName if name in TOLD and list(StepName).index(name) < list(StepName).index(at)
        )
    )
    for name in StepName:
        timeout = TIMES.get(name)
        if name is at:
            steps.append(Step(name, status, NOW - took, None if status == "running" else NOW, timeout, told, lines))
        elif list(StepName).index(name) < list(StepName).index(at):
            said, seconds = TOLD[name]
            steps.append(Step(name, "done", began, began + seconds, timeout, said))
            began += seconds
        else:
            steps.append(Step(name, timeout_s=timeout))
    return replace(Progress("restart", tuple(steps), port=30_000, log=RECIPE.log), **more)  # type: ignore[arg-type]


DRAINS = sequence(
    StepName.STOP, 14.0, "drains: 3 requests running, 11 of 12 alive", may_stop_now=True, now_true="The old server was told to end.",
    why_not="it was told to end, and that cannot be undone; Esc keeps what comes after it from being done: nothing is launched",
)  # fmt: skip
CHECKING = sequence(StepName.PREFLIGHT, 1.4, "flags against the engine's parser")
LAUNCHING = sequence(
    StepName.VERIFY,
    0.4,
    "pid 51003",
    may_abort=False,
    why_not="the launch was sent: whether it runs is known within seconds",
)
WATCHING = sequence(StepName.WATCH, 3.0, "", launched=(51_003, 99))
STUCK_OFFERS: tuple[Offer, ...] = ("retry", "show-holder", "restore")
STUCK = sequence(
    StepName.GPUS, 60.0, "GPU 3 is not free: 1 process holds 31.4 GiB", status="failed",
    lines=("GPU 3  31.4 GiB  pid 9001 alice  python train.py --config configs/base.yaml", "pid 41826 is in uninterruptible sleep (D), waits for nvidia_uvm"),
    ending="failed", text="GPU 3 is not free after 60 s: alice's process 9001 holds 31.4 GiB, which is not ours to end",
    now_true="The old server is stopped and gone. Nothing was launched; its record is kept.", offers=STUCK_OFFERS,
)  # fmt: skip
NEVER = sequence(
    StepName.VERIFY, 0.3, "the process ended", status="failed", ending="never-started", text="The launch died 0.3 s after it began: no such program", exit_status=127,
    now_true="The old server is stopped. No server runs; the GPUs are free.", printed=("/opt/ev/bin/pyhton: not found",), offers=("retry", "restore", "look-at-log"),
)  # fmt: skip
ABORTED = replace(
    sequence(StepName.STOP, 6.0, "12 of 12 gone", status="done"), ending="aborted", text="Stopped after the step stop, as you wished",
    now_true="The old server is stopped. Nothing was launched.", offers=("start", "restore"),
)  # fmt: skip


def stopping() -> Snapshot:
    base = ready()
    reason = Reason("asked", "it was told to end 0:14 ago, 11 of 12 processes are left")
    return replace(base, verdict=Verdict(State.STOPPING, reason, NOW - 14.0), family_alive=11)


def with_orphans() -> Snapshot:
    base = ready()
    left = (
        Orphan(process(500), "sglang::scheduler_TP0", "lmsys", 7300.0), Orphan(process(501), "sglang::scheduler_TP1", "lmsys", 7300.0),
        Orphan(process(9002, uid=1001), "VLLM::EngineCore", "alice", 190_000.0, ours=False), Orphan(process(502), "sglang::detokenizer", "lmsys", 7301.0),
    )  # fmt: skip
    held = {0: (500, 31_200), 1: (501, 31_200), 4: (9002, 70_000)}
    gpus = tuple(
        replace(one, processes=(*one.processes, GpuProcess(held[one.index][0], "python3", held[one.index][1], one.uuid or ""))) if one.index in held else one
        for one in gpu_view(base.gpus.report.gpus).report.gpus
    )  # fmt: skip
    return replace(base, inventory=replace(base.inventory, orphans=left), gpus=gpu_view(gpus))


@dataclass(frozen=True)
class Scene:
    """A picture: what is on the node, what the operator knows, and the keys that lead to it."""

    snapshot: Callable[[], Snapshot]
    operator: Callable[[], FakeOperator]
    keys: tuple[str, ...] = ()


def of(
    plan: Callable[[], Plan] | Plan, checks: tuple[Check, ...] = PASSED, **more: object
) -> Callable[[], FakeOperator]:
    """An operator whose every wish comes to this plan."""
    made = plan if callable(plan) else (lambda: plan)
    return lambda: FakeOperator(
        lambda wish: replace(made(), recipe=None, changes=()) if wish.kind == "stop" else made(), checks, known=KNOWN, variants=("1step", "2step", "no-spec"), **more,  # type: ignore[arg-type]
    )  # fmt: skip


def at(progress: Progress) -> Callable[[], FakeOperator]:
    """An operator whose sequence stands there."""

    def made() -> FakeOperator:
        operator = of(PLAN)()
        operator.stand(PLAN, progress)
        return operator

    return made


READ_ONLY = "gpu-node is only looked at (read_only = true in the configuration): nothing is stopped or started there"
RESTARTS: dict[str, Scene] = {
    "plan": Scene(ready, of(PLAN), ("r",)),
    "plan-stop": Scene(ready, of(PLAN, WARNED), ("s",)),
    "plan-command": Scene(ready, of(PLAN), ("r", "f")),
    "plan-refused": Scene(ready, of(refused_plan), ("r",)),
    "plan-hopeless": Scene(ready, of(hopeless_plan), ("r",)),
    "plan-asks": Scene(ready, of(asking_plan), ("r",)),
    "plan-typed": Scene(ready, of(asking_plan), ("r", "enter", "y", *"gpu-no")),
    "plan-failing": Scene(ready, of(PLAN, BAD_FLAG), ("r",)),
    "plan-long": Scene(ready, of(long_plan), ("r",)),
    "plan-hostile": Scene(ready, of(hostile_plan), ("r",)),
    "plan-start": Scene(no_server, of(replace(PLAN, wish=Wish("start"), server=None, family=(), since_s=None, changes=(), holders=OTHERS, running_requests=None)), ("S",)),
    "steps-preflight": Scene(ready, at(CHECKING)),
    "steps-draining": Scene(stopping, at(DRAINS)),
    "steps-launching": Scene(no_server, at(LAUNCHING)),
    "steps-watching": Scene(starting, at(replace(WATCHING, launched=FAMILY[0]))),
    "steps-stuck": Scene(no_server, at(STUCK)),
    "steps-never": Scene(never_started_snapshot, at(NEVER)),
    "steps-aborted": Scene(no_server, at(ABORTED)),
    "editor": Scene(ready, of(PLAN), ("R",)),
    "editor-completes": Scene(ready, of(PLAN), ("R", *"specul")),
    "editor-changed": Scene(ready, of(PLAN), ("R", *"num-steps=2", "enter", *"enable-torch", "enter", *"max-run", "ctrl+d", "escape")),
    "editor-value": Scene(ready, of(PLAN), ("R", *"mem-f", "enter")),
    "orphans-note": Scene(with_orphans, of(PLAN)),
    "orphans-dialog": Scene(with_orphans, of(PLAN), ("o", "a")),
    "orphans-asked": Scene(with_orphans, of(PLAN), ("o", "space", "down", "space", "e")),
    "read-only": Scene(ready, of(PLAN, read_only=READ_ONLY)),
    "read-only-keys": Scene(ready, of(PLAN, read_only=READ_ONLY), ("question_mark",)),
    "idle": Scene(ready, of(PLAN)),
    "profiles": Scene(no_server, of(PLAN, profiles=("k25", "k25-long", "llama-70b")), ("S",)),
}  # fmt: skip
"""Every scene by name."""
