"""Preflight's checks as tables: facts in, a check out."""

from __future__ import annotations

import dataclasses

import pytest

from eagletui.engines.derived_ports import derived_ports
from eagletui.gpus.model import Gpu, GpuError, GpuProcess, GpuReport
from eagletui.launching.checks.asked import Asked, asked_of
from eagletui.launching.checks.flags import check_flags, check_json, nearest
from eagletui.launching.checks.gpus import check_count, check_driver, check_memory, checks_of_gpus
from eagletui.launching.checks.model import checks_of_models, hub_folder
from eagletui.launching.checks.ports import check_derived, check_port
from eagletui.launching.checks.program import check_cwd, check_program
from eagletui.launching.checks.session import check_container, check_logout, check_need, check_unit, logind_kills
from eagletui.launching.checks.storage import check_log, check_record, check_shm, check_space, check_tmp
from eagletui.launching.launchers.base import Need
from eagletui.launching.plan import Holder
from eagletui.launching.recipe import Recipe
from eagletui.shell.details import Details, Listener, ProcessDetails
from eagletui.shell.flag_check import FlagAnswer, Parsed, Scanned
from eagletui.shell.preflight import NodeFacts, PathFact, Program, Weights

GIB = 1 << 30
FOLDER = PathFact("d", True, True, True, 5, "d", True, True, 100 * GIB, 200 * GIB, 1000)
ABSENT = dataclasses.replace(FOLDER, kind="-", read=False, write=False, enter=False)
FILE = PathFact("f", True, True, False, 5, "f", True, False)
LOCKED = dataclasses.replace(ABSENT, near_write=False, near_enter=False)
RECIPE = Recipe((), (), "/work", "/logs/a.log", "profile")


def asked(*argv: str) -> Asked:
    return asked_of(dataclasses.replace(RECIPE, argv=argv))


def sglang(*flags: str) -> Asked:
    return asked("python", "-m", "sglang.launch_server", *flags)


@pytest.mark.parametrize(
    ("argv", "expected"),
    [
        ((), (None, None, None)),
        (("vllm", "serve", "org/m"), ("vllm", "vllm", 1)),
        (("vllm", "serve", "org/m", "-tp", "4", "-dp=2"), ("vllm", "vllm", 8)),
        (("vllm", "serve", "org/m", "-dp=4", "--data-parallel-size-local", "2"), ("vllm", "vllm", 2)),
        (("/v/bin/python", "-m", "sglang.launch_server", "--tp", "8"), ("sglang", "/v/bin/python", 8)),
        (("taskset", "-c", "0-3", "python3", "-m", "sglang.launch_server", "--tp-size=2", "--pp", "2"), ("sglang", "python3", 4)),
        (("python", "-m", "sglang.launch_server", "--tp", "8", "--dp", "8", "--enable-dp-attention"), ("sglang", "python", 8)),
        (("python", "-m", "sglang.launch_server", "--tp", "16", "--nnodes", "2"), ("sglang", "python", 8)),
        (("python", "-m", "sglang.launch_server", "--device", "cpu", "--tp", "2"), ("sglang", "python", 0)),
        (("python", "-m", "sglang.launch_server", "--tp", "$(x)"), ("sglang", "python", None)),
        (("python", "-m", "sglang.launch_server", "--config", "c.yaml"), ("sglang", "python", None)),
        (("uv", "run", "vllm", "serve", "org/m"), ("vllm", None, 1)),
        (("./run.sh", "--tp", "8"), (None, None, None)),
        (("bash", "-c", "vllm serve x"), (None, None, None)),
    ],
)  # fmt: skip
def test_what_a_command_asks_for(argv: tuple[str, ...], expected: tuple[str | None, str | None, int | None]) -> None:
    found = asked(*argv)
    assert (found.engine, found.program, found.gpus) == expected


@pytest.mark.parametrize(
    ("program", "interpreter", "result", "words"),
    [
        (None, None, "unknown", "did not say"),
        (Program("found", "/v/bin/x"), None, "ok", "/v/bin/x"),
        (Program("absent", "serve"), None, "fail", "in no folder of the launch's PATH (/v/bin)"),
        (Program("absent", "/work/./serve"), None, "fail", "/work/./serve does not exist"),
        (Program("denied", "/v/bin/x"), None, "fail", "may not be executed"),
        (Program("noexec", "/v/bin/x"), None, "fail", "noexec"),
        (Program("directory", "/v/bin/x"), None, "fail", "folder"),
        (Program("found", "/v/bin/x"), Program("absent", "/gone/python"), "fail", "a script for /gone/python, which does not exist"),
        (Program("found", "/v/bin/x"), Program("denied", "/gone/python"), "fail", "cannot be executed"),
        (Program("found", "/v/bin/x"), Program("found", "/v/bin/python"), "ok", "can be run"),
    ],
)  # fmt: skip
def test_the_program(program: Program | None, interpreter: Program | None, result: str, words: str) -> None:
    wanted = "./serve" if program is not None and "/./" in program.path else "serve"
    check = check_program(program, interpreter, wanted, "/v/bin")
    assert (check.id, check.result) == ("launch.executable", result)
    assert words in check.text
    assert (check.todo is not None) == (result == "fail")


@pytest.mark.parametrize(
    ("fact", "result"), [(FOLDER, "ok"), (None, "unknown"), (ABSENT, "fail"), (FILE, "fail"), (LOCKED, "fail")]
)
def test_the_working_directory(fact: PathFact | None, result: str) -> None:
    assert check_cwd(fact, "/work").result == result


@pytest.mark.parametrize(
    ("log", "folder", "result"),
    [
        (ABSENT, FOLDER, "ok"),
        (ABSENT, ABSENT, "ok"),
        (FILE, FOLDER, "fail"),
        (dataclasses.replace(ABSENT, kind="l"), FOLDER, "fail"),
        (ABSENT, dataclasses.replace(FOLDER, write=False), "fail"),
        (ABSENT, dataclasses.replace(ABSENT, near_write=False), "fail"),
        (ABSENT, dataclasses.replace(ABSENT, near_kind="f"), "fail"),
        (ABSENT, LOCKED, "fail"),
        (ABSENT, FILE, "fail"),
        (None, None, "unknown"),
    ],
)
def test_the_log(log: PathFact | None, folder: PathFact | None, result: str) -> None:
    check = check_log(log, folder, "/logs/a.log")
    assert check.result == result
    assert (check.todo is not None) == (result == "fail")


@pytest.mark.parametrize(
    ("free", "inodes", "result"),
    [(100 * GIB, 5, "ok"), (GIB - 1, 5, "warn"), (1 << 20, 5, "fail"), (100 * GIB, 0, "fail"), (None, 5, "unknown"), (2 * GIB, None, "ok")],
)  # fmt: skip
def test_room(free: int | None, inodes: int | None, result: str) -> None:
    fact = dataclasses.replace(FOLDER, free=free, inodes=inodes)
    assert check_space("launch.log-space", fact, "the log", GIB).result == result


@pytest.mark.parametrize(
    ("size", "free", "ranks", "result"),
    [
        (500 * GIB, 400 * GIB, 8, "ok"),
        (64 << 20, 64 << 20, 8, "fail"),
        (64 << 20, 64 << 20, None, "warn"),
        (64 << 20, 64 << 20, 1, "warn"),
        (500 * GIB, GIB - 1, 8, "warn"),
    ],
)
def test_shared_memory(size: int, free: int, ranks: int | None, result: str) -> None:
    assert check_shm(dataclasses.replace(FOLDER, size=size, free=free), ranks).result == result


def test_shared_memory_that_is_not_there_and_other_places() -> None:
    assert [check_shm(fact, 8).result for fact in (None, ABSENT)] == ["unknown", "fail"]
    assert [check_record(fact).result for fact in (FOLDER, ABSENT, LOCKED, None)] == ["ok", "ok", "fail", "unknown"]
    assert check_record(dataclasses.replace(FOLDER, free=0)).result == "fail"
    assert [check_tmp(fact, "/tmp").result for fact in (FOLDER, ABSENT, None)] == ["ok", "fail", "unknown"]


WHOLE = Weights(3, 0, 0, 3, 3, 5 * GIB)


@pytest.mark.parametrize(
    ("word", "facts", "env", "result", "words"),
    [
        ("/m", {"model-0": FOLDER, "config-0": FILE}, {}, "ok", "is there"),
        ("/m", {"model-0": FOLDER, "config-0": ABSENT}, {}, "warn", "no config.json"),
        ("/m", {"model-0": dataclasses.replace(FOLDER, read=False)}, {}, "fail", "may not read"),
        ("/m", {"model-0": ABSENT}, {}, "fail", "does not exist"),
        ("/m", {"model-0": LOCKED}, {}, "fail", "may not look into"),
        ("/m", {"model-0": dataclasses.replace(ABSENT, kind="l")}, {}, "fail", "link to nothing"),
        ("~/m", {"model-0": ABSENT}, {}, "fail", "no engine expands"),
        ("/m.gguf", {"model-0": FILE}, {}, "ok", "is there"),
        ("org/m", {"model-0": ABSENT, "hub": FOLDER}, {}, "warn", "downloads it"),
        ("org/m", {"model-0": ABSENT, "hub": FOLDER}, {"HF_HUB_OFFLINE": "1"}, "fail", "download nothing"),
        ("org/m", {"model-0": FOLDER, "config-0": FILE}, {}, "ok", "/work/org/m"),
        ("org/m", {"model-0": ABSENT}, {"SGLANG_USE_MODELSCOPE": "true"}, "unknown", "ModelScope"),
        ("s3://b/m", {}, {}, "unknown", "fetched by the engine"),
        ("/m", {}, {}, "unknown", "did not say"),
    ],
)  # fmt: skip
def test_the_model(word: str, facts: dict[str, PathFact], env: dict[str, str], result: str, words: str) -> None:
    node = NodeFacts(paths=tuple(facts.items()), weights=((0, WHOLE),))
    (check,) = checks_of_models(sglang("--model-path", word), node, env)
    assert (check.id, check.result) == ("launch.model", result)
    assert words in check.text


@pytest.mark.parametrize(
    ("weights", "words"),
    [
        (Weights(0, 0, 0, 0, 0, None), "no weights of a known kind"),
        (Weights(3, 1, 0, 3, 3, 9999), "1 weight file(s) that are empty"),
        (Weights(2, 0, 0, 2, 3, 9999), "2 of 3"),
        (Weights(3, 0, 2, 3, 3, 9999), "2 weight file(s) that this login may not read"),
        (Weights(1, 0, 0, 0, 0, 134), "git lfs pull"),
    ],
)
def test_weights_that_are_not_whole(weights: Weights, words: str) -> None:
    node = NodeFacts(paths=(("model-0", FOLDER), ("config-0", FILE)), weights=((0, weights),))
    (check,) = checks_of_models(sglang("--model-path", "/m"), node, {})
    assert check.result == ("fail" if weights.count else "warn")
    assert words in check.text
    (dummy,) = checks_of_models(sglang("--model-path", "/m", "--load-format", "dummy"), node, {})
    assert dummy.result == "ok"


def test_every_model_that_is_named_is_looked_at() -> None:
    both = sglang("--model", "/m", "--speculative-draft-model-path", "d/e", "--tokenizer-path", "/t")
    assert [(model.what, model.path, model.hub) for model in both.models] == [
        ("model", "/m", ""), ("draft model", "/work/d/e", "models--d--e"), ("tokenizer", "/t", ""),
    ]  # fmt: skip
    draft = asked("vllm", "serve", "/m", "--speculative-config", '{"model": "/d", "num_speculative_tokens": 3}')
    assert [model.word for model in draft.models] == ["/m", "/d"]
    node = NodeFacts(paths=(("hub", FOLDER), ("model-1", ABSENT)), snapshots=((1, 2),))
    assert checks_of_models(both, node, {})[1].text == "The draft model d/e was downloaded to this node before."
    assert checks_of_models(asked("./run.sh"), node, {})[0].result == "unknown"
    assert hub_folder({"HF_HOME": "/data/hf/", "HOME": "/root"}) == "/data/hf/hub"
    assert hub_folder({}) == ""


SESSION = "0::/user.slice/user-1000.slice/session-5.scope\n"
KILLS = (("/etc/systemd/logind.conf", "KillUserProcesses=yes"),)


@pytest.mark.parametrize(
    ("settings", "user", "kills"),
    [
        ((), "eve", False),
        (KILLS, "eve", True),
        (KILLS, "root", False),
        ((("/etc/systemd/logind.conf", "#KillUserProcesses=yes"),), "eve", False),
        ((*KILLS, ("/etc/systemd/logind.conf.d/10-x.conf", "KillUserProcesses=no")), "eve", False),
        ((*KILLS, ("/etc/systemd/logind.conf.d/10-x.conf", "KillOnlyUsers=bob ann")), "eve", False),
        ((*KILLS, ("/etc/systemd/logind.conf.d/10-x.conf", "KillExcludeUsers=eve")), "eve", False),
        ((("/usr/lib/systemd/logind.conf", "KillUserProcesses=yes"), ("/etc/systemd/logind.conf", "KillUserProcesses=no")), "eve", False),
        (
            (("/usr/lib/systemd/logind.conf.d/a.conf", "KillUserProcesses=yes"), ("/etc/systemd/logind.conf.d/a.conf", "KillExcludeUsers=")),
            "eve", False,
        ),
        ((("/run/systemd/logind.conf.d/a.conf", " KillUserProcesses = 1 "),), "eve", True),
    ],
)  # fmt: skip
def test_what_logind_kills(settings: tuple[tuple[str, str], ...], user: str, kills: bool) -> None:
    assert logind_kills(settings, user)[0] is kills


@pytest.mark.parametrize(
    ("launcher", "change", "result"),
    [
        ("setsid", {}, "fail"),
        ("tmux", {"linger": True}, "fail"),
        ("setsid", {"logind_runs": False}, "ok"),
        ("setsid", {"cgroup": "0::/user.slice/user-1000.slice/user@1000.service/app.slice\n"}, "ok"),
        ("setsid", {"user": "root"}, "ok"),
        ("setsid", {"logind": ()}, "ok"),
        ("systemd", {}, "fail"),
        ("systemd", {"linger": True}, "ok"),
        ("systemd", {"uid": 0}, "ok"),
        ("docker", {}, "ok"),
    ],
)
def test_what_outlives_a_login(launcher: str, change: dict[str, object], result: str) -> None:
    facts = NodeFacts(uid=1000, user="eve", cgroup=SESSION, logind=KILLS, logind_runs=True, complete=True)
    assert check_logout(dataclasses.replace(facts, **change), launcher).result == result  # type: ignore[arg-type]


def test_what_a_launcher_needs_and_starts() -> None:
    need = Need("launcher.tmux", ("tmux", "od"), "Install tmux.")
    facts = NodeFacts(tools=frozenset({"od"}), complete=True)
    check = check_need(need, facts)
    assert (check.id, check.result, check.todo) == ("launcher.tmux", "fail", "Install tmux.")
    assert "finds no tmux on the node" in check.text
    assert check_need(need, NodeFacts()).result == "unknown"
    assert check_need(need, NodeFacts(tools=frozenset({"od", "tmux"}))).result == "ok"
    told = {
        "ok": (0, "running"),
        "fail": (1, "Error response from daemon: No such container: sgl"),
        "unknown": None,
    }
    for result, handle in told.items():
        assert check_container(NodeFacts(handle=handle), "docker", "sgl").result == result
    assert "info" in (check_container(NodeFacts(handle=(124, "")), "docker", "sgl").todo or "")
    assert (
        "may this login"
        in (check_container(NodeFacts(handle=(1, "permission denied")), "docker", "sgl").todo or "").lower()
    )
    assert check_container(facts, "docker", None).result == "fail"
    units = [
        check_unit(NodeFacts(handle=(0, f"LoadState={state}")), "a.service").result for state in ("loaded", "not-found")
    ]
    assert units == ["ok", "fail"]


def gpu(index: int, used: int = 4, *processes: GpuProcess, state: str = "ok") -> Gpu:
    return Gpu(index, f"GPU-{index}0ab", "H200", state, mem_used_mib=used, mem_total_mib=143_000, processes=processes)  # type: ignore[arg-type]


def process(pid: int, mem: int | None) -> GpuProcess:
    return GpuProcess(pid, "/usr/bin/python3", mem, "GPU")


EIGHT = GpuReport(tuple(gpu(n) for n in range(8)))


@pytest.mark.parametrize(
    ("flags", "env", "result", "words"),
    [
        (("--tp", "8"), {}, "ok", "8 of 8 GPUs: 0, 1, 2, 3, 4, 5, 6, 7."),
        (("--tp", "16"), {}, "fail", "needs 16 GPUs, and this node gives 8"),
        (("--tp", "2"), {"CUDA_VISIBLE_DEVICES": "5,GPU-30"}, "ok", "2 of 8 GPUs: 5, 3."),
        (("--tp", "2"), {"CUDA_VISIBLE_DEVICES": "5,9,1"}, "fail", "gives 1: it has 9, which is no GPU"),
        (("--tp", "2"), {"CUDA_VISIBLE_DEVICES": ""}, "fail", "gives 0"),
        (("--tp", "2"), {"CUDA_VISIBLE_DEVICES": "1,1"}, "fail", "twice"),
        (("--tp", "2", "--base-gpu-id", "4", "--gpu-id-step", "2"), {}, "ok", "2 of 8 GPUs: 4, 6."),
        (("--tp", "2", "--base-gpu-id", "7"), {}, "fail", "needs 2"),
        (("--tp", "2"), {"CUDA_VISIBLE_DEVICES": "MIG-1"}, "unknown", "MIG"),
        (("--tp", "2"), {"HIP_VISIBLE_DEVICES": "0"}, "unknown", "cannot be told"),
        (("--device", "cpu"), {}, "ok", "needs no GPU"),
    ],
)  # fmt: skip
def test_the_number_of_gpus(flags: tuple[str, ...], env: dict[str, str], result: str, words: str) -> None:
    check = check_count(sglang(*flags), EIGHT, env)
    assert check.result == result
    assert words in check.text


def test_lost_gpus_and_a_driver_that_fails() -> None:
    sick = GpuReport((*EIGHT.gpus[:3], gpu(3, state="lost")))
    assert check_count(sglang("--tp", "4"), sick, {}).result == "fail"
    assert check_count(sglang("--tp", "2"), sick, {}).result == "warn"
    broken = GpuReport((), GpuError("driver-mismatch", "Driver/library version mismatch"))
    (driver,) = checks_of_gpus(sglang("--tp", "4"), broken, {}, ())
    assert (driver.id, driver.result) == ("gpu.driver", "fail")
    assert check_driver(broken, 0).result == "warn"
    assert check_driver(GpuReport((), GpuError("no-tool", "")), 8).result == "unknown"
    mixed = GpuReport((gpu(0), dataclasses.replace(gpu(1), name="A10")))
    assert check_count(sglang(), mixed, {"CUDA_VISIBLE_DEVICES": "1"}).result == "warn"
    assert check_count(sglang(), mixed, {"CUDA_VISIBLE_DEVICES": "1", "CUDA_DEVICE_ORDER": "PCI_BUS_ID"}).result == "ok"


OURS = {10, 11}


@pytest.mark.parametrize(
    ("command", "second", "result"),
    [
        (sglang("--tp", "2"), gpu(1, 130_000, process(11, 129_900)), "ok"),
        (sglang("--tp", "2"), gpu(1, 131_500, process(11, 129_900), process(77, 1_000)), "warn"),
        (sglang("--tp", "2"), gpu(1, 60_000, process(77, 60_000)), "fail"),  # out of balance
        (sglang("--tp", "1", "--base-gpu-id", "1"), gpu(1, 60_000, process(77, 60_000)), "warn"),
        (sglang("--tp", "1", "--base-gpu-id", "1", "--mem-fraction-static", "0.4"), gpu(1, 60_000, process(77, 60_000)), "fail"),
        (sglang("--tp", "1"), gpu(1, 60_000, process(77, 60_000)), "ok"),  # it is on the other GPU
        (asked("vllm", "serve", "m", "-tp", "2"), gpu(1, 60_000, process(77, 60_000)), "fail"),
        (asked("vllm", "serve", "m", "-tp", "2", "--gpu-memory-utilization", "0.5"), gpu(1, 60_000, process(77, 60_000)), "warn"),
        (sglang("--tp", "2"), gpu(1, 90_000, process(11, 60_000)), "fail"),  # somebody unseen holds the rest
        (sglang("--tp", "2"), gpu(1, 60_300, process(11, 60_000)), "ok"),
    ],
)  # fmt: skip
def test_memory_of_exactly_the_new_launchs_gpus(command: Asked, second: Gpu, result: str) -> None:
    report = GpuReport((gpu(0, 130_000, process(10, 129_800)), second))
    holders = (Holder(1, 77, "ann", 60_000, "python3", "others"),)
    check = check_memory(command, report, {}, OURS, holders)
    assert check.result == result
    if result in {"warn", "fail"}:
        assert "(pid 77, ann)" in check.text or "cannot see" in check.text
        assert "GPU 0" not in check.text


def test_four_more_gpus_and_a_table_that_shows_nobody() -> None:
    held = GpuReport(
        (
            *(gpu(n, 130_000, process(10, 129_000)) for n in range(4)),
            *EIGHT.gpus[4:7],
            gpu(7, 20_000, process(77, 20_000)),
        )
    )
    assert check_memory(sglang("--tp", "4"), held, {}, OURS).result == "ok"
    assert "GPU 7: 19.5 GiB, python3 (pid 77)" in check_memory(sglang("--tp", "8"), held, {}, OURS).text
    blind = GpuReport((gpu(0, 130_000), gpu(1, 130_000)))
    assert check_memory(sglang("--tp", "2"), blind, {}, OURS).result == "unknown"
    assert check_memory(sglang("--tp", "2"), blind, {}, ()).result == "fail"


def listening(port: int, inode: int, uid: int = 1001) -> Listener:
    return Listener(port, "0.0.0.0", uid, inode)


@pytest.mark.parametrize(
    ("listeners", "readable", "result"),
    [
        ((), True, "ok"),
        ((listening(30000, 5),), True, "ok"),
        ((listening(30000, 6),), True, "fail"),
        ((listening(30000, 5), listening(30000, 6)), True, "fail"),
        ((listening(30000, 5),), False, "unknown"),
        ((listening(30001, 6),), True, "ok"),
    ],
)
def test_the_port(listeners: tuple[Listener, ...], readable: bool, result: str) -> None:
    held = frozenset({5}) if readable else frozenset()
    details = Details(
        (ProcessDetails(10, sockets=held, fds_readable=readable),), listeners, ((1001, "ann"),), complete=True
    )
    check = check_port(30000, details, OURS)
    assert check.result == result
    if result == "fail":
        assert "(of ann)" in check.text
        runtimes = dataclasses.replace(
            details, listeners=(Listener(30000, None, 0, 9),)
        )  # a container's port, held by docker-proxy
        assert [check_port(30000, runtimes, OURS, in_container=inside).result for inside in (False, True)] == [
            "fail",
            "unknown",
        ]
        assert check_port(30000, details, OURS, in_container=True).result == "fail"
    assert check_port(30000, Details(), OURS).result == "unknown"


@pytest.mark.parametrize(
    ("words", "args", "program", "model"),
    [
        (("/m", "--tp", "2"), ("--model-path", "/m", "--tp", "2"), "sglang", "/m"),
        (("--model-path", "/m", "--model-type", "llm"), ("--model-path", "/m"), "sglang", "/m"),
        (("/m", "--model-type=diffusion"), ("--model-path", "/m"), None, "/m"),
        (("--model-type",), (), "sglang", None),
    ],
)
def test_what_sglang_serve_hands_on(
    words: tuple[str, ...], args: tuple[str, ...], program: str | None, model: str | None
) -> None:
    found = asked("sglang", "serve", *words)
    assert (found.args, found.program) == (args, program)
    assert [one.path for one in found.models] == ([] if model is None else [model])


def test_derived_ports() -> None:
    attention = sglang("--port", "30000", "--dp", "2", "--tp", "2", "--enable-dp-attention", "--nccl-port", "40000")
    assert [derived.port for derived in attention.derived] == [*range(30233, 30241), 40000]
    taken = Details((), (listening(30236, 9),), ((1001, "ann"),), complete=True)
    check = check_derived(attention, taken, ())
    assert check is not None
    assert (check.result, "30236 (of ann), for DP attention" in check.text) == ("fail", True)
    free = check_derived(attention, Details(complete=True), ())
    assert free is not None
    assert free.result == "ok"
    assert check_derived(sglang(), taken, ()) is None
    far = derived_ports("sglang", 65500, {"enable-dp-attention": (), "dist-init-addr": ("[::1]:65534",)})
    assert [derived.port for derived in far] == [65534, 65535]
    prefill = {"disaggregation-mode": ("prefill",)}
    assert [derived.port for derived in derived_ports("sglang", 1, prefill)] == [8998]


OPTIONS = ("--speculative-num-steps", "--tp-size", "--api-key", "-h")
SCAN = Scanned("0.5.23", OPTIONS)


@pytest.mark.parametrize(
    ("answer", "result", "words"),
    [
        (FlagAnswer("found", "/p", SCAN, Parsed(options=OPTIONS)), "ok", "sglang 0.5.23 takes"),
        (FlagAnswer("found", "/p", SCAN, Parsed(None, ("--speculative-num-stpes=3", "sk-1"), OPTIONS)), "fail", "does not know --speculative-num-stpes."),
        (FlagAnswer("found", "/p", SCAN, Parsed("argument --tp: invalid int value: 'two'", (), OPTIONS)), "fail", "'two'"),
        (FlagAnswer("found", "/p", SCAN, Parsed("bad value hunter2hunter2", (), OPTIONS)), "fail", "bad value ***"),
        (FlagAnswer("found", "/p", SCAN, Parsed(text="ImportError: libcuda")), "warn", "--speculative-num-stpes stands nowhere"),
        (FlagAnswer("found", "/p", SCAN, late=True), "warn", "took too long"),
        (FlagAnswer("found", "/p", Scanned(text="no sglang is installed")), "unknown", "no sglang is installed"),
        (FlagAnswer("other", "/bin/sh"), "unknown", "no Python"),
        (FlagAnswer("absent", "/bin/x"), "unknown", "not there"),
        (FlagAnswer(late=True), "unknown", "took too long"),
        (FlagAnswer(), "unknown", "ended early"),
    ],
)  # fmt: skip
def test_flags(answer: FlagAnswer, result: str, words: str) -> None:
    argv = ("python", "-m", "sglang.launch_server", "--speculative-num-stpes=3", "--api-key", "hunter2hunter2")
    check = check_flags(asked(*argv), answer, argv)
    assert (check.id, check.result) == ("launch.flags", result)
    assert words in check.text
    assert "hunter2" not in check.text + (check.todo or "")
    if "stpes" in check.text:
        assert check.todo == "Did you mean --speculative-num-steps instead of --speculative-num-stpes?"


def test_a_configuration_file_may_name_what_is_required() -> None:
    needs = FlagAnswer("found", "/p", SCAN, Parsed("the following arguments are required: --model-path", (), OPTIONS))
    assert check_flags(sglang("--config", "a.yaml"), needs, ("x",)).result == "ok"
    assert check_flags(sglang("--tp", "2"), needs, ("x",)).result == "fail"
    known = FlagAnswer("found", "/p", SCAN, late=True)
    assert check_flags(sglang("--tp_size", "2", "--no-api-key"), known, ("x",)).result == "unknown"


def test_the_nearest_name() -> None:
    assert nearest("--tp_siz=3", OPTIONS) == "--tp-size"
    assert nearest("--something-else", OPTIONS) is None
    assert nearest("--tp-size", OPTIONS) is None


@pytest.mark.parametrize(
    ("value", "result"), [('{"method": "ngram"}', "ok"), ("{method: ngram}", "fail"), ("", "fail"), ("[" * 9000, "fail"), ("3", "ok")]
)  # fmt: skip
def test_json(value: str, result: str) -> None:
    check = check_json(asked("vllm", "serve", "m", f"--speculative-config={value}"))
    assert check is not None
    assert (check.id, check.result) == ("launch.json", result)
    assert check_json(sglang("--tp", "2")) is None


def test_no_sentence_carries_an_escape_or_a_secret() -> None:
    word = "x\x1b[31m\nhf_ABCDEFGHIJKLMNOPQRSTU"
    for check in (
        check_program(Program("absent", word), None, word, word),
        check_cwd(ABSENT, word),
        check_log(FILE, FOLDER, f"/{word}"),
        *checks_of_models(sglang("--model-path", f"/{word}"), NodeFacts(paths=(("model-0", ABSENT),)), {}),
        check_container(NodeFacts(handle=(1, word)), "docker", word),
        check_flags(sglang(f"--{word}"), FlagAnswer("found", word, SCAN, Parsed(word, (), OPTIONS)), ()),
    ):
        shown = check.text + (check.todo or "")
        assert not any(c < " " for c in shown)
        assert "hf_ABC" not in shown
