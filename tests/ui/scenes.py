"""Hand-made snapshots: each scene is a situation that the screen must show well."""

# ruff: noqa: E501 - lines of a log are as long as they are

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

from eagletui.gpus.model import Gpu, GpuError, GpuProcess, GpuReport, MigInstance
from eagletui.logs.state import LogState, Phase, Progress
from eagletui.logs.store import LineKind, LineStore, StoredLine
from eagletui.monitor.series import Series
from eagletui.monitor.snapshot import GpuView, Health, Link, LogView, Snapshot, Throughput, Verdict
from eagletui.servers.model import Inventory, LogSource, Member, Orphan, Process, Reason, Server, State

NOW = 10_000.0
WALL = 1_796_083_165.0
HOSTILE = "[/foo][bold red]x\x1b[31m\u202eevil\x07[TP0]"
LATENCIES = (11.0, 10.8, 11.2, 14.0, 11.1, 10.9, 11.0, 18.0, 11.3, 11.0, 10.7, 11.0)


class FakeSource:
    """A source that shows what it is given."""

    def __init__(self, snapshot: Snapshot) -> None:
        self.now = snapshot
        self.revision = snapshot.revision
        self.on_change: Callable[[], None] | None = None
        self.selected: list[str] = []
        self.probes = 0
        self.connects = 0
        self.runs = 0
        self.closed = 0
        self.asked = 0

    def snapshot(self) -> Snapshot:
        self.asked += 1
        return self.now

    async def run(self) -> None:
        self.runs += 1

    async def aclose(self) -> None:
        self.closed += 1

    def select_server(self, id: str) -> None:  # noqa: A002 - the word of the interface
        self.selected.append(id)

    def probe_now(self) -> None:
        self.probes += 1

    def connect_now(self) -> None:
        self.connects += 1

    def change(self, snapshot: Snapshot) -> None:
        self.now = replace(snapshot, revision=self.now.revision + 1)
        self.revision += 1
        if self.on_change is not None:
            self.on_change()


def process(pid: int, ppid: int = 1, uid: int = 1000) -> Process:
    return Process(pid, ppid, 41_822, 41_822, "S", "python3", 10_000 + pid, uid=uid)


def make_server(
    name: str = "/shared/models/Kimi-K2.5-INT4",
    port: int = 30_000,
    pid: int = 41_822,
    engine: str = "sglang",
    members: int = 8,
) -> Server:
    family = tuple(Member(process(pid + 1 + i, pid), "scheduler", f"TP{i}") for i in range(members))
    return Server(
        f"{pid}:1", engine, process(pid), (Member(process(pid), "launcher"), *family), "lmsys", port, name, ("python3", "-m", "sglang"),
        "/data", LogSource("/data/eagle3/k25_2step_1129-140539.log"), listening=True, tp=8, flags=("TP 8", "EAGLE3 steps 2 topk 4 draft 5"),
        age_s=8048.0,
    )  # fmt: skip


def inventory(*servers: Server) -> Inventory:
    others = Process(9001, 1, 9001, 9001, "S", "python3", 77, uid=1001)
    processes = (*tuple(m.process for s in servers for m in s.family), others)
    return Inventory(servers=servers, processes=processes, users=((1000, "lmsys"), (1001, "alice")))


def gpu(index: int, util: int = 91, used: float = 132.0, temp: int | None = None, *, pid: int | None = None) -> Gpu:
    mib = round((used + 0.13 * ((index * 7) % 4)) * 1024)
    temp = 60 + index % 8 if temp is None else temp
    power = 640.0 + 7 * index if util > 50 else 118.0 + index
    uuid = f"GPU-{index}"
    processes = (GpuProcess(pid, "python3", mib - 600, uuid),) if pid is not None else ()
    return Gpu(
        index, uuid, "NVIDIA H200", "ok", util, mib, 143_771, temp, power, 700.0, processes=processes, ecc_uncorrected=0
    )


def gpu_view(gpus: tuple[Gpu, ...], *, busy: bool = True) -> GpuView:
    history = tuple(
        (
            g.index,
            tuple(
                None
                if g.util_pct is None
                else max(0, min(100, g.util_pct + round(5 * math.sin(i / 3 + g.index))) if busy else 0)
                for i in range(60)
            ),
        )
        for g in gpus
    )
    return GpuView(GpuReport(gpus), NOW - 0.4, history)


def busy_gpus(n: int = 8) -> GpuView:
    return gpu_view(tuple(gpu(i, 90 + (i * 3) % 5, pid=41_823 + i) for i in range(n)))


DECODE = "Decode batch, #running-req: 1, #token: {n}, token usage: 0.02, accept len: {a:.2f}, accept rate: 0.42, cuda graph: True, gen throughput (token/s): {t:.2f}, #queue-req: 0"


def serving_store(n: int = 400) -> LineStore:
    store = LineStore()
    for i in range(n):
        at = f"16:{10 + i // 60 % 50:02}:{i % 60:02}"
        store.append(
            StoredLine(DECODE.format(n=2381 + i * 85, a=2.05 + i % 7 / 50, t=81.2 + i % 11 / 9), time=at, rank="TP0")
        )
        if i % 97 == 40:
            store.append(
                StoredLine("KV cache pool is nearly full, retracting requests", LineKind.WARNING, at, "TP0", "WARNING")
            )
        if i % 9 == 5:
            store.append(StoredLine("", LineKind.PROBE, count=3 + i % 12))
            store.append(StoredLine('INFO:     127.0.0.1:49016 - "POST /v1/completions HTTP/1.1" 200 OK', time=at))
    return store


def starting_store() -> LineStore:
    store = LineStore()
    for line in (
        StoredLine("server_args=ServerArgs(model_path='/shared/models/Kimi-K2.5-INT4', tp_size=8, speculative_algorithm='EAGLE3', speculative_num_steps=2, speculative_eagle_topk=4, speculative_num_draft_tokens=5, mem_fraction_static=0.88)", time="14:05:39"),
        StoredLine("Init torch distributed begin.", time="14:05:53", rank="TP0"),
        StoredLine("Init torch distributed ends. elapsed=20.1 s, mem usage=1.61 GB", time="14:06:13", rank="TP0"),
        StoredLine("attention backend not given, using fa3 for the draft worker", LineKind.WARNING, "14:06:13", "TP3", "WARNING"),
        StoredLine("Load weight begin. avail mem=138.11 GB", time="14:06:14", rank="TP0"),
        StoredLine("", LineKind.PROBE, count=31),
        StoredLine("Loading safetensors checkpoint shards:  77% Completed | 49/64 [01:27<00:11,  1.31it/s]", LineKind.PROGRESS, rank="TP0"),
    ):  # fmt: skip
        store.append(line)
    return store


def crashed_store() -> LineStore:
    store = starting_store()
    for line in (
        StoredLine("Memory pool end. avail mem=19.20 GB", time="14:07:30", rank="TP0"),
        StoredLine(
            "Scheduler hit an exception: Traceback (most recent call last):", LineKind.ERROR, "14:07:31", "TP3", "ERROR"
        ),
        StoredLine('  File "/opt/sglang/srt/managers/scheduler.py", line 3118, in run_scheduler_process'),
        StoredLine("    scheduler = Scheduler("),
        StoredLine(OOM, LineKind.ERROR),
        StoredLine("Received sigquit from a child process. It usually means the child failed.", time="14:07:33"),
        StoredLine("log ended", LineKind.MARKER),
    ):
        store.append(line)
    return store


OOM = (
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 21.90 GiB. GPU 3 has a total capacity of 140.40 GiB of which 19.20 GiB"
    " is free. Process 41826 has 121.2 GiB memory in use."
)
DONE = (
    Phase("launch", "done", 14.2), Phase("distributed", "done", 20.1, detail="TP 8, nccl 2.28.9"), Phase("weights", "done", 109.0),
    Phase("draft-weights", "done", 2.1), Phase("kv-cache", "done", 6.0), Phase("graphs", "done", 30.4), Phase("warmup", "done", 11.0),
)  # fmt: skip


def throughput_series(minutes: float = 25.0) -> dict[str, Series]:
    series = Series()
    at = NOW - minutes * 60
    while at <= NOW:
        value = 84 + 2.2 * math.sin(at / 140) + 0.8 * math.sin(at / 7)
        if 560 < NOW - at < 600:
            value -= 7
        series.append(at, value)
        at += 2.0
    return {"gen_tok_s": series}


def ready() -> Snapshot:
    server = make_server()
    return Snapshot(
        "gpu-node", 1, NOW, WALL, Link("up", 11.0, LATENCIES, at=NOW), inventory(server), server,
        Verdict(State.READY, Reason("serving", "/health answers and tokens flow"), NOW - 7000),
        LogView(serving_store(), server.log.path, NOW - 0.2, following=True),
        LogState("ready", "serving", DONE, ready_s=192.0, engine="sglang"),
        Health(status=200, latency_ms=1100.0, at=NOW - 4.0, asked=90),
        Throughput(82.2, 2.11, 1, 0, 0.02, NOW - 0.2, source="log", accept_rate=0.42), busy_gpus(), throughput_series(),
        family_alive=12, family_total=12, uptime_s=8048.0, discovered=True,
    )  # fmt: skip


def starting() -> Snapshot:
    base = ready()
    phases = (DONE[0], DONE[1], Phase("weights", "running", began_at=NOW - 87.0))
    mid = tuple(
        gpu(
            i,
            3 if i == 0 else 12 if i == 4 else 97 + i % 2,
            98.2 if i != 4 else 81.2,
            40 if i in (0, 4) else None,
            pid=41_823 + i,
        )
        for i in range(8)
    )
    return replace(
        base, verdict=Verdict(State.STARTING, Reason("loading", "loading weights"), NOW - 127.0), uptime_s=127.0,
        startup=LogState("starting", "weights", phases, Progress(49, 64, "shards", 1.31, 11.0, "Loading safetensors checkpoint shards"), args={"speculative_algorithm": "EAGLE3"}),
        health=Health(error="refused", detail="Nobody listens on port 30000 yet.", at=NOW - 0.6, asked=44),
        throughput=Throughput(), series={}, gpus=gpu_view(mid), log=LogView(starting_store(), base.log.path, NOW - 0.4, following=True),
    )  # fmt: skip


def crashed() -> Snapshot:
    base = starting()
    idle = tuple(gpu(i, 0, 0.5, 40 + i) for i in range(8))
    return replace(
        base, verdict=Verdict(State.CRASHED, Reason("died", "out of GPU memory while allocating the KV cache, rank TP3"), NOW - 132.0),
        startup=LogState("crashed", "kv-cache", (*DONE[:4], Phase("kv-cache", "running", began_at=NOW - 140.0)), error_text=OOM),
        health=Health(error="refused", detail="Nobody listens on port 30000.", at=NOW - 0.3, asked=90),
        family_alive=0, family_total=12, gpus=gpu_view(idle, busy=False), log=LogView(crashed_store(), base.log.path, NOW - 130.0, following=True),
        uptime_s=None,
    )  # fmt: skip


def offline() -> Snapshot:
    base = ready()
    error = "gpu-node does not answer on port 22 (timed out after 10 s). Is the VPN up?"
    return replace(
        base, link=Link("down", None, LATENCIES, error, NOW - 42.0), verdict=Verdict(State.OFFLINE, Reason("no-link", error), NOW - 42.0),
        throughput=replace(base.throughput, at=NOW - 42.0), gpus=replace(base.gpus, at=NOW - 42.0), log=replace(base.log, grew_at=NOW - 42.0),
        health=replace(base.health, at=NOW - 45.0), at=NOW - 42.0,
    )  # fmt: skip


def reconnecting() -> Snapshot:
    """The next try comes in three seconds; the chart ends where the link did."""
    base = offline()
    error = "the link to gpu-node is lost: connection reset by peer"
    series = throughput_series()
    series["gen_tok_s"] = _until(series["gen_tok_s"], NOW - 42.0)
    series["gen_tok_s"].gap_began(NOW - 42.0)
    return replace(
        base, link=replace(base.link, error=error, lost_at=NOW - 42.0, retry_at=NOW + 2.4), series=series,
        verdict=Verdict(State.OFFLINE, Reason("no-link", error), NOW - 42.0), family_at=NOW - 42.0,
    )  # fmt: skip


def trying() -> Snapshot:
    base = reconnecting()
    return replace(base, link=replace(base.link, state="connecting", retry_at=None))


def needs_person() -> Snapshot:
    base = reconnecting()
    error = "the link to gpu-node is lost: connection reset by peer; the login needs you: press c to log in again"
    return replace(
        base, link=replace(base.link, error=error, retry_at=None, needs="login"), verdict=replace(base.verdict, reason=Reason("no-link", error)),
    )  # fmt: skip


def reconnected() -> Snapshot:
    """The link is back since half a second: nothing fresh has come."""
    base = reconnecting()
    base.series["gen_tok_s"].gap_ended(NOW - 0.5)
    return replace(
        base, link=Link("up", 340.0, (*LATENCIES, None, None, None, 330.0, 350.0, 340.0), at=NOW - 0.5), fresh_since=NOW - 0.5,
        verdict=Verdict(State.UNKNOWN, Reason("looking", "asking the server again, after a break")), at=NOW,
        throughput=replace(base.throughput, stale=True), log=replace(base.log, following=False), notes=("this machine slept 12:30",),
    )  # fmt: skip


def _until(series: Series, end: float) -> Series:
    out = Series()
    for at, value in zip(*series.window(0, end), strict=True):
        out.append(at, value)
    return out


def connecting() -> Snapshot:
    base = ready()
    return replace(
        base, link=Link("connecting"), inventory=Inventory(), server=None, verdict=Verdict(State.OFFLINE, Reason("connecting", "connecting")),
        log=LogView(LineStore()), startup=LogState(), health=Health(), throughput=Throughput(), gpus=GpuView(), series={},
        family_alive=None, family_total=None, uptime_s=None, discovered=False,
    )  # fmt: skip


def no_server() -> Snapshot:
    idle = tuple(gpu(i, 0, 0.5, 36 + i) for i in range(8))
    return replace(
        connecting(), link=Link("up", 11.0, LATENCIES, at=NOW), inventory=inventory(), discovered=True,
        verdict=Verdict(State.ABSENT, Reason("absent", "no server on gpu-node")), gpus=gpu_view(idle, busy=False),
    )  # fmt: skip


def orphans() -> Snapshot:
    base = no_server()
    left = tuple(Orphan(process(500 + i), f"sglang::scheduler_TP{i}", "lmsys", 7300.0) for i in range(3))
    return replace(base, inventory=replace(base.inventory, orphans=left))


def stalled() -> Snapshot:
    base = ready()
    return replace(
        base, verdict=Verdict(State.STALLED, Reason("no-tokens", "3 requests wait and no token came for 45 s, though /health answers 200"), NOW - 45.0),
        throughput=Throughput(82.2, 2.11, 3, 0, 0.02, NOW - 45.0, stale=True, source="log"), log=replace(base.log, grew_at=NOW - 45.0),
    )  # fmt: skip


def with_gpus(n: int) -> Snapshot:
    return replace(ready(), gpus=busy_gpus(n))


def no_gpu() -> Snapshot:
    return replace(ready(), gpus=GpuView(GpuReport((), GpuError("no-tool", "sh: nvidia-smi: not found")), NOW - 1.0))


def trouble() -> Snapshot:
    row = [gpu(i, 90 + i % 4, pid=41_823 + i) for i in range(8)]
    row[1] = replace(
        row[1], processes=(*row[1].processes, GpuProcess(9001, "python3", 40_000, "GPU-1")), mem_used_mib=142_000
    )
    row[1] = replace(
        row[1],
        processes=(GpuProcess(41_824, "python3", 100_000, "GPU-1"), GpuProcess(9001, "python3", 40_000, "GPU-1")),
    )
    row[3] = replace(row[3], throttle=("sw-power-cap", "hw-thermal-slowdown"), temp_c=91)
    row[5] = replace(row[5], temp_c=84)
    row[6] = replace(row[6], ecc_uncorrected=2)
    row[7] = Gpu(7, "GPU-7", "NVIDIA H200", "lost")
    base = ready()
    reason = Reason("gpu-trouble", "GPU 7 fell off the bus; tokens still flow")
    return replace(
        base,
        gpus=gpu_view(tuple(row)),
        verdict=Verdict(State.DEGRADED, reason, NOW - 30.0),
        notes=("GPU 3 is slowed down by heat.",),
    )


def mig() -> Snapshot:
    parent = replace(
        gpu(0, pid=None),
        util_pct=None,
        mig_enabled=True,
        mig=tuple(MigInstance(i, "1g.18gb", f"MIG-{i}", 1200 * i, 18_000) for i in range(3)),
    )
    return replace(ready(), gpus=gpu_view((parent, gpu(1, pid=41_823))))


def several() -> Snapshot:
    base = ready()
    servers = (
        make_server(),
        make_server("meta-llama/Llama-3.3-70B-Instruct", 30_001, 52_000, "vllm"),
        make_server(HOSTILE, 30_002, 53_000),
    )
    verdicts = (
        (servers[0].id, base.verdict), (servers[1].id, Verdict(State.CRASHED, Reason("died", "died"))),
        (servers[2].id, Verdict(State.STARTING, Reason("loading", "loading"))),
    )  # fmt: skip
    return replace(base, inventory=inventory(*servers), server=None, verdicts=verdicts, undecided=True)


def hostile() -> Snapshot:
    base = starting()
    server = make_server("/models/" + HOSTILE)
    server = replace(server, user=HOSTILE, flags=(HOSTILE, "TP 8"), engine="sglang")
    store = LineStore()
    store.append(StoredLine(HOSTILE, LineKind.ERROR, "14:00:00", "TP0", "ERROR"))
    store.append(StoredLine("日本語のログ行 " * 20, time="14:00:01", rank="TP0"))
    bad = replace(gpu(0), name=HOSTILE)
    return replace(
        base, node=HOSTILE, server=server, inventory=inventory(server), log=LogView(store, "/tmp/" + HOSTILE, NOW, following=True),
        gpus=gpu_view((bad, gpu(1))), verdict=Verdict(State.CRASHED, Reason("died", HOSTILE), NOW - 1), notes=(HOSTILE,),
        startup=LogState("crashed", "weights", (Phase("launch", "done", 3.0, detail=HOSTILE),), error_text=HOSTILE),
        health=Health(error="refused", detail=HOSTILE, at=NOW), link=Link("up", 11.0, LATENCIES, at=NOW),
    )  # fmt: skip


def long_names() -> Snapshot:
    base = ready()
    server = replace(
        make_server("/mnt/very/long/path/" + "a-model-with-an-extremely-long-name-" * 4), user="a-user-with-a-long-name",
        flags=tuple(f"option-{i} value" for i in range(20)),
    )  # fmt: skip
    return replace(base, node="gpu-node-with-a-long-name.cluster.internal.example.org", server=server)


SCENES: dict[str, Callable[[], Snapshot]] = {
    "starting": starting, "ready": ready, "crashed": crashed, "offline": offline, "connecting": connecting, "reconnecting": reconnecting, "trying": trying,
    "needs-person": needs_person, "reconnected": reconnected, "no-server": no_server,
    "orphans": orphans, "stalled": stalled, "gpus-1": lambda: with_gpus(1), "gpus-2": lambda: with_gpus(2), "gpus-16": lambda: with_gpus(16),
    "no-gpu": no_gpu, "trouble": trouble, "mig": mig, "several": several, "hostile": hostile, "long": long_names,
}  # fmt: skip
"""Every scene by name."""
