"""Hand-made snapshots of launches: on their way, late, dead, stuck."""

# ruff: noqa: E501 - lines of a log are as long as they are

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from eagletui.history.estimate import Estimate
from eagletui.logs.advice import Before
from eagletui.logs.state import Diagnosis, Gap, Phase, PhaseName, Progress, Quote, Warned
from eagletui.logs.store import LineKind, LineStore, StoredLine
from eagletui.monitor.snapshot import Health, Snapshot, Verdict
from eagletui.servers.model import Reason, State
from tests.ui.scenes import DONE, HOSTILE, NOW, OOM, crashed, ready, stalled, starting

USUAL: dict[PhaseName, float] = {
    "launch": 14.0, "distributed": 14.0, "weights": 109.0, "draft-weights": 2.0, "kv-cache": 6.0, "graphs": 48.0, "warmup": 11.0,
}  # fmt: skip
ESTIMATE = Estimate(6, 192.0, 65.0, USUAL)
ARGS: dict[str, object] = {
    "model_path": "/shared/models/Kimi-K2.5-INT4", "tp_size": 8, "port": 30000, "mem_fraction_static": 0.88, "context_length": 262144,
    "speculative_algorithm": "EAGLE3", "speculative_num_steps": 2, "api_key": "sk-live-0123456789abcdef", "trust_remote_code": True,
}  # fmt: skip
RANKS = tuple((f"TP{i}", 62.0 + 3.1 * (i * 3 % 8)) for i in range(8))
SPREAD = replace(DONE[2], seconds=84.0, ranks=RANKS, detail="safetensors")


def estimated() -> Snapshot:
    base = starting()
    return replace(base, estimate=ESTIMATE, startup=replace(base.startup, args=ARGS))


def cold() -> Snapshot:
    return replace(estimated(), estimate=replace(ESTIMATE, cold=True, starts=3))


def late() -> Snapshot:
    base = estimated()
    phases = (*DONE[:2], Phase("weights", "running", began_at=NOW - 190.0))
    return replace(
        base, uptime_s=227.0, startup=replace(base.startup, phases=phases, progress=Progress(9, 64, "shards", 0.05, None, "Loading")),
        estimate=replace(ESTIMATE, usual={**USUAL, "weights": 48.0}, ready_in_s=90.0, late="weights", total_s=131.0),
    )  # fmt: skip


def nearly() -> Snapshot:
    """Late in the launch, with everything that can be told of the phases before: a spread, a gap, a draft model; the graphs run."""
    base = estimated()
    phases = (
        DONE[0], DONE[1], replace(SPREAD, gaps=(Gap(12.0, 46.0),)), DONE[3], DONE[4],
        Phase("graphs", "running", began_at=NOW - 21.0, detail="bs 1 to 160"),
    )  # fmt: skip
    return replace(
        base, uptime_s=171.0, startup=replace(base.startup, phase="graphs", phases=phases, progress=Progress(7, 23, "graphs", 0.33)),
        estimate=replace(ESTIMATE, ready_in_s=41.0),
    )  # fmt: skip


def quiet() -> Snapshot:
    base = estimated()
    phases = (
        DONE[0],
        Phase("distributed", "running", began_at=NOW - 64.0, quiet_since=NOW - 58.0, detail="TP 8, nccl 2.28.9"),
    )
    return replace(
        base, uptime_s=78.0, startup=replace(base.startup, phase="distributed", phases=phases, progress=None),
        estimate=replace(ESTIMATE, ready_in_s=None, late="distributed"),
    )  # fmt: skip


def many() -> Snapshot:
    """More rows than the pane has."""
    base = estimated()
    done = tuple(
        replace(p, gaps=(Gap(1.0, 31.0), Gap(40.0, 35.0))) for p in (DONE[0], DONE[1], SPREAD, DONE[3], DONE[4])
    )
    phases = (
        *done,
        Phase("compile", "done", 734.0, detail="DeepGEMM"),
        Phase("graphs", "running", began_at=NOW - 7500.0),
    )
    return replace(
        base, uptime_s=8171.0, startup=replace(base.startup, phase="graphs", phases=phases, progress=Progress(7, 23, "graphs", 12.5)),
        estimate=Estimate(16, 8400.0, 840.0, {**USUAL, "compile": 700.0, "graphs": 7700.0}),
    )  # fmt: skip


def unseen() -> Snapshot:
    """An estimate, and nothing printed yet."""
    base = estimated()
    return replace(
        base,
        uptime_s=4.0,
        startup=replace(base.startup, phases=(), phase=None, progress=None),
        estimate=replace(ESTIMATE, ready_in_s=188.0),
    )


def numbered(store: LineStore, first: int = 841) -> LineStore:
    """The same lines with numbers of their own, as a follower gives them."""
    out = LineStore()
    for at in range(store.first, store.end):
        line = store.line(at)
        if line is not None:
            out.append(replace(line, number=0 if line.kind is LineKind.MARKER else first + at))
    return out


EVIDENCE = (
    Quote(849, "Scheduler hit an exception: Traceback (most recent call last):"),
    Quote(852, OOM),
    Quote(853, "Received sigquit from a child process. It usually means the child failed."),
)
DIAGNOSIS = Diagnosis(
    "cuda-oom", "critical", "kv-cache", "TP3", "Out of GPU memory: 21.90 GiB were asked of GPU 3, 19.20 GiB were free",
    "--mem-fraction-static 0.88 left 19.2 GiB for graphs and draft model; 0.85 worked on 11-28 (launch 41). Try 0.85.", EVIDENCE, "14:07:31",
)  # fmt: skip
WARNINGS = (
    Warned("slow-load", 812, "Loading weights takes 1.4 s a shard; the file system gives 180 MB/s", 1),
    Warned(
        "requests-retracted",
        4_120,
        "KV cache pool is full. Retract requests. #retracted_reqs: 3, #new_tokens_gained: 1204",
        1_281,
    ),
)


BEFORE = (
    Before(None, {"mem_fraction_static": 0.85}, ready=True), Before(None, {"mem_fraction_static": 0.85}, ready=True),
    Before("cuda-oom", {"mem_fraction_static": 0.9}, ready=False), Before("request-killed-server", {}, ready=True), Before(None, {}, ready=False),
)  # fmt: skip
"""Earlier launches, oldest first."""


def card() -> Snapshot:
    base = crashed()
    startup = replace(
        base.startup,
        diagnosis=DIAGNOSIS,
        args=ARGS,
        warnings=WARNINGS[:1],
        phases=(DONE[0], DONE[1], SPREAD, DONE[3], Phase("kv-cache", "running", began_at=NOW - 140.0)),
    )
    return replace(
        base, diagnosis=DIAGNOSIS, startup=startup, log=replace(base.log, store=numbered(base.log.store), before=BEFORE)
    )


def card_oom_tp1() -> Snapshot:
    base = card()
    quotes = (Quote(852, OOM), Quote(849, EVIDENCE[0].text))
    return replace(
        base,
        diagnosis=replace(
            DIAGNOSIS, phase="weights", rank="TP1", summary="Out of GPU memory while loading weights", evidence=quotes
        ),
    )


def card_host_oom() -> Snapshot:
    found = Diagnosis(
        "host-oom", "critical", "weights", None, "The kernel killed a scheduler (pid 41826) because the machine ran out of memory",
        "8 ranks read the checkpoint at once and needed 1.1 TB of 1.0 TB. Free memory on the node, or load with --load-format sharded_state.",
        (Quote(0, "kernel: Out of memory: Killed process 41826 (sglang::schedul) total-vm:298412312kB, anon-rss:241231232kB"), Quote(853, EVIDENCE[2].text)),
        "14:07:33",
    )  # fmt: skip
    return replace(card(), diagnosis=found)


def card_long() -> Snapshot:
    """Sentences, names and quotations longer than any room."""
    found = replace(
        DIAGNOSIS,
        summary="The Triton kernel build failed in /home/a-user-with-a-long-name/.cache/flashinfer/0.2.7/90a/generated/batch_prefill_with_kv_cache_dtype_q_bf16 because nvcc is not there",
        advice="Install the CUDA toolkit that fits the driver (12.8) or set CUDA_HOME to the one in /usr/local/cuda-12.8. " * 4,
        rank="DP1 TP7", code="kernel-build-failed", phase="graphs",
        evidence=tuple(Quote(1_204_112 + i, f"ninja: error: '/very/long/path/{'x' * 120}/{i}.cu', needed by something") for i in range(7)),
    )  # fmt: skip
    return replace(card(), diagnosis=found)


def card_short() -> Snapshot:
    """Hardly anything is known."""
    found = Diagnosis(
        "died-silently",
        "critical",
        None,
        None,
        "It ended and left no reason",
        "Start it again with its output in a file.",
    )
    return replace(card(), diagnosis=found)


def gathering() -> Snapshot:
    return replace(crashed(), diagnosis=None)


def never_started() -> Snapshot:
    base = crashed()
    reason = Reason("never-started", "It ended 0.3 s after its start and wrote nothing")
    startup = replace(base.startup, phases=(), phase=None, error_text=None)
    return replace(base, verdict=replace(base.verdict, reason=reason), startup=startup)


def stalled_launch() -> Snapshot:
    """Stuck while it loads, and the cause is known."""
    base = card()
    found = Diagnosis(
        "stalled", "warning", "distributed", "TP5", "No rank moved for 5:12 in distributed: 7 of 8 ranks have met",
        "TP5 never joined. Look whether its network interface is right (NCCL_SOCKET_IFNAME), and whether another process holds the rendezvous port.",
        (Quote(842, "Init torch distributed begin."),), "14:02:19",
    )  # fmt: skip
    phases = (DONE[0], Phase("distributed", "running", began_at=NOW - 312.0, quiet_since=NOW - 312.0))
    return replace(
        base, diagnosis=found, verdict=Verdict(State.STALLED, Reason("no-progress", "no rank moved for 5:12, 7 of 8 schedulers alive"), NOW - 12.0),
        startup=replace(base.startup, state="stalled", phase="distributed", phases=phases, diagnosis=found, error_text=None), family_alive=11,
    )  # fmt: skip


def stalled_serving() -> Snapshot:
    """No diagnosis: the live witnesses alone say it, in a long sentence."""
    base = stalled()
    reason = "3 requests run and 12 wait, and no token came for 1:45, though /health answers 200: GPUs 0 to 7 are at 100 %, 12 of 12 processes alive; py-spy or a core dump of the scheduler tells where"
    deep = Health("/health_generate", None, None, NOW - 30.0, "timeout", "no answer in 20 s", (), 3)
    return replace(base, verdict=replace(base.verdict, reason=Reason("no-tokens", reason)), deep_health=deep)


def deep() -> Snapshot:
    base = ready()
    latencies = (1.1, 1.0, 1.3, 1.1, 1.2, 4.0, 1.1, 1.0, 1.1, 1.2, 1.1)
    return replace(
        base, health=replace(base.health, latencies=latencies, latency_ms=1.1, at=NOW - 1.2),
        deep_health=Health("/health_generate", 200, 1100.0, NOW - 130.0, latencies=(1100.0,), asked=2),
        startup=replace(base.startup, warnings=WARNINGS, args=ARGS, phases=(DONE[0], DONE[1], replace(SPREAD, gaps=(Gap(12.0, 46.0),)), *DONE[3:])), estimate=None,
    )  # fmt: skip


def hostile_card() -> Snapshot:
    base = card()
    found = replace(
        DIAGNOSIS,
        summary=HOSTILE,
        advice=HOSTILE * 3,
        rank=HOSTILE,
        evidence=(Quote(852, HOSTILE), Quote(849, "[2026-11-30 14:07:31 TP3] [/foo] [b]x \x1b]8;;http://x\x07")),
    )
    return replace(
        base,
        diagnosis=found,
        startup=replace(
            base.startup, args={**ARGS, "model_path": HOSTILE}, warnings=(Warned("slow-load", 3, HOSTILE),)
        ),
    )


def wide_store() -> Snapshot:
    """A log with errors here and there, for walking over them."""
    base = card()
    store = LineStore()
    for at in range(400):
        kind = LineKind.ERROR if at in (30, 31, 200) else LineKind.WARNING if at == 120 else LineKind.PLAIN
        store.append(StoredLine(f"line {at}", kind, "14:00:00", "TP0", kind.name if kind else "", number=at + 1))
    return replace(base, log=replace(base.log, store=store))


LAUNCHES: dict[str, Callable[[], Snapshot]] = {
    "estimated": estimated, "cold": cold, "late": late, "nearly": nearly, "quiet": quiet, "many": many, "unseen": unseen, "card": card,
    "card-tp1": card_oom_tp1, "card-host-oom": card_host_oom, "card-long": card_long, "card-short": card_short, "gathering": gathering,
    "never-started": never_started, "stalled-launch": stalled_launch, "stalled-serving": stalled_serving, "deep": deep, "hostile-card": hostile_card,
    "errors": wide_store,
}  # fmt: skip
"""Every scene by name."""
