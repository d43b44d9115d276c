"""Servers are found by bytes of the two scripts: recorded process trees, and nodes on paper for the rest."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eagletui.gpus.model import GpuProcess
from eagletui.servers.attribution import Owner, Owners
from eagletui.servers.discovery import discover
from eagletui.servers.model import Inventory, Server
from tests.servers.nodes import LOG, RECORDED, SPAWN, Listening, PaperNode, Proc, recorded_ps, recorded_tree, sglang


def only(inventory: Inventory) -> Server:
    (server,) = inventory.servers
    return server


def test_a_recorded_sglang_with_two_ranks_and_its_compile_workers() -> None:
    tree = recorded_tree("sglang-tp2-eagle3-tree.json")
    node = PaperNode(tree)
    server = only(node.discover())
    assert (server.id, server.pid, server.model, server.tp) == ("sglang:30000", 4695, "/srv/models/tiny-llama", 2)
    assert server.flags == ("TP 2", "EAGLE3 steps 2 topk 4 draft 5")
    assert len(server.family) == len(tree) == 71
    assert Counter(m.role for m in server.family) == {"launcher": 1, "scheduler": 2, "detokenizer": 1, "other": 67}
    assert [m.rank for m in server.family if m.role == "scheduler"] == ["TP0", "TP1"]
    assert len(node.asked) == 2
    assert len(node.asked[1].args) < 10  # compile workers are not looked at one by one
    assert (server.user, server.ours, server.listening) == ("alice", True, False)
    assert server.age_s == pytest.approx(5000.0)


def test_a_recorded_sglang_on_a_cpu() -> None:
    server = only(PaperNode(recorded_ps((RECORDED / "sglang-cpu-ps-ready.txt").read_text().splitlines())).discover())
    assert (server.id, server.model, server.age_s) == ("sglang:30000", "mid64", 515.0)
    assert [(m.role, m.rank) for m in server.family] == [
        ("launcher", None),
        ("other", None),
        ("scheduler", None),
        ("detokenizer", None),
    ]


def test_a_recorded_vllm() -> None:
    server = only(PaperNode(recorded_ps((RECORDED / "vllm-cpu-ps-ready.txt").read_text().splitlines())).discover())
    assert (server.id, server.engine, server.model) == ("vllm:8100", "vllm", "tinyv")
    assert [m.role for m in server.family] == ["launcher", "other", "scheduler", "scheduler"]


def test_a_recorded_start_is_one_server_at_every_moment() -> None:
    text = (RECORDED / "sglang-cpu-ps-while-starting.txt").read_text()
    moments = text.split("--- ")[1:]
    assert len(moments) > 5
    roles = []
    for moment in moments:
        inventory = PaperNode(recorded_ps(moment.splitlines())).discover()
        server = only(inventory)
        assert server.pid == 21451
        assert not inventory.orphans
        roles.append(tuple(m.role for m in server.family))
    assert roles[0] == ("launcher",)
    assert ("launcher", "other", "other", "detokenizer") in roles
    assert roles[-1] == ("launcher", "other", "scheduler", "detokenizer")


def test_nothing_on_the_node() -> None:
    node = PaperNode((Proc(1, ("init",), ppid=0, uid=0),))
    inventory = node.discover()
    assert (inventory.servers, inventory.orphans) == ((), ())
    assert [p.pid for p in inventory.processes] == [1]


def test_an_unreadable_process_table_is_said() -> None:
    asking = discover()
    next(asking)
    with pytest.raises(StopIteration) as ended:
        asking.send(b"garbage")
    assert ended.value.value.notes


@pytest.mark.parametrize(
    "wrapper",
    [
        ("sudo", "python3", "-m", "sglang.launch_server"),
        ("bash", "-c", "python3 -m sglang.launch_server --port 30000"),
        ("uv", "run", "python3", "-m", "sglang.launch_server"),
        ("python", "/opt/bin/conda", "run", "python3", "-m", "sglang.launch_server"),
        ("python", "-m", "sglang.launch_server", "--port", "30000"),
    ],
)
def test_the_deepest_launcher_is_the_server(wrapper: tuple[str, ...]) -> None:
    above = Proc(90, wrapper, started=400_000)
    family = sglang(100)
    server = only(PaperNode((above, replace(family[0], ppid=90), *family[1:])).discover())
    assert server.pid == 100
    assert 90 not in {m.process.pid for m in server.family}


def test_a_fork_with_the_same_arguments_is_family() -> None:
    launcher, *rest = sglang(100)
    forks = [Proc(150 + n, launcher.argv, ppid=100, pgrp=100, started=500_050) for n in range(3)]
    server = only(PaperNode((launcher, *forks, *rest)).discover())
    assert server.pid == 100
    assert {150, 151, 152} <= {m.process.pid for m in server.family}


def test_mentions_of_a_server_are_no_servers() -> None:
    lines = [
        ("grep", "sglang.launch_server"),
        ("vim", "/opt/sglang/launch_server.py"),
        ("bash", "-c", "python -m sglang.launch_server"),
        ("ssh", "node", "python", "-m", "sglang.launch_server"),
        ("python", "-m", "sglang.bench_serving"),
        ("tail", "-f", "sglang::scheduler.log"),
    ]
    inventory = PaperNode(tuple(Proc(200 + n, argv) for n, argv in enumerate(lines))).discover()
    assert (inventory.servers, inventory.orphans) == ((), ())


def test_two_servers_on_one_node() -> None:
    first, second = sglang(100), sglang(200, port=30001)
    node = PaperNode((*first, *second), (Listening(30000, 1000), Listening(30001, 2000)))
    servers = node.discover().servers
    assert [(s.id, s.listening, len(s.family)) for s in servers] == [
        ("sglang:30000", True, 5),
        ("sglang:30001", True, 5),
    ]


def test_two_servers_on_one_port_have_ids_of_their_own() -> None:
    node = PaperNode((*sglang(100), *sglang(200)), (Listening(30000, 1000),))
    servers = node.discover().servers
    assert [(s.id, s.listening, s.foreign_listener) for s in servers] == [
        ("sglang:30000-100", True, False),
        ("sglang:30000-200", False, True),
    ]


def _where(
    node: PaperNode,
) -> tuple[int | None, bool, bool, str]:
    server = only(node.discover())
    return server.port, server.listening, server.foreign_listener, server.host


def test_ports() -> None:
    named, unnamed = sglang(100, port=31000), sglang(100, port=None)
    assert _where(PaperNode(named)) == (31000, False, False, "127.0.0.1")
    assert _where(PaperNode(unnamed)) == (30000, False, False, "127.0.0.1")
    open_ = (Listening(31000, 1000, address="00000000"),)
    assert _where(PaperNode(named, open_)) == (31000, True, False, "127.0.0.1")
    assert _where(PaperNode(unnamed, open_)) == (31000, True, False, "127.0.0.1")
    other_first = (Listening(20000, 1000), Listening(31000, 1000))
    assert _where(PaperNode(named, other_first)) == (31000, True, False, "127.0.0.1")
    only_another = (Listening(20000, 1000),)  # a launcher opens other ports before the server's own
    assert _where(PaperNode(named, only_another)) == (31000, False, False, "127.0.0.1")
    foreign = (Listening(31000, 5),)
    assert _where(PaperNode(named, foreign)) == (31000, False, True, "127.0.0.1")
    elsewhere = (Listening(31000, 1000, address="0500000A"),)
    assert _where(PaperNode(named, elsewhere)) == (31000, True, False, "10.0.0.5")


def test_a_socket_that_a_child_holds_counts() -> None:
    launcher, *rest = sglang(100)
    worker = Proc(160, SPAWN, ppid=100, pgrp=100, sockets=(555,), started=500_200)
    node = PaperNode((replace(launcher, sockets=()), *rest, worker), (Listening(30000, 555),))
    assert _where(node)[:3] == (30000, True, False)


def test_another_users_server_is_seen_as_far_as_it_can_be() -> None:
    family = tuple(replace(p, readable=False) for p in sglang(100, uid=1001))
    server = only(PaperNode(family, (Listening(30000, 1, uid=1001),)).discover())
    assert (server.user, server.ours, server.listening, server.foreign_listener) == ("bob", False, True, False)
    assert server.log.path is None
    assert server.log.why is not None
    assert "another user" in server.log.why
    server = only(PaperNode(family, (Listening(30000, 1, uid=0),)).discover())
    assert (server.listening, server.foreign_listener) == (False, True)


def _log(fds: dict[int, tuple[str, str]], *more: Proc) -> Server:
    launcher, *rest = sglang(100)
    return only(PaperNode((replace(launcher, fds=fds, pgrp=100), *rest, *more)).discover())


def test_the_log_is_where_errors_go() -> None:
    log = _log({1: ("/data/out.log", "regular"), 2: ("/data/err log", "regular")}).log
    assert (log.path, log.via, log.fd, log.pid, log.inode, log.size, log.deleted) == (
        "/data/err log",
        "fd2",
        2,
        100,
        77,
        1234,
        False,
    )
    log = _log({1: ("/data/out.log (deleted)", "regular"), 2: ("/dev/pts/3", "character")}).log
    assert (log.path, log.via, log.deleted) == ("/data/out.log", "fd1", True)


@pytest.mark.parametrize(
    ("fds", "word"),
    [
        ({2: ("/dev/pts/3", "character")}, "/dev/pts/3"),
        ({2: ("/dev/null", "character")}, "/dev/null"),
        ({2: ("pipe:[7]", "fifo")}, "pipe"),
        ({2: ("socket:[7]", "socket")}, "socket"),
        ({2: ("/data", "directory")}, "/data"),
        ({}, "closed"),
    ],
)
def test_no_log_is_explained(fds: dict[int, tuple[str, str]], word: str) -> None:
    log = _log(fds).log
    assert log.path is None
    assert log.why is not None
    assert word in log.why
    assert "--log PATH" in log.why


@pytest.mark.parametrize(
    ("argv", "path"),
    [
        (("tee", "-a", "/logs/x.log"), "/logs/x.log"),
        (("/usr/bin/tee", "x.log", "y.log"), "/data/x.log"),
        (("tee", "--", "-x"), "/data/-x"),
        (("tee", "--output-error=warn", "../x"), "/x"),
        (("tee",), None),
        (("tee", "-a"), None),
    ],
)
def test_the_log_behind_a_tee(argv: tuple[str, ...], path: str | None) -> None:
    tee = Proc(99, argv, ppid=50, pgrp=100, session=50, fds={0: ("pipe:[7]", "fifo"), 1: ("/dev/pts/0", "character")})
    stranger = Proc(98, ("tee", "/other.log"), ppid=50, pgrp=100, session=50, fds={0: ("pipe:[8]", "fifo")})
    server = _log({1: ("pipe:[7]", "fifo"), 2: ("pipe:[7]", "fifo")}, stranger, tee)
    assert server.log.path == path
    if path is not None:
        assert (server.log.via, server.log.pid, server.log.fd) == ("tee", 99, None)


def test_the_command_is_exact() -> None:
    launcher, *rest = sglang(100, "--served-model-name", "")
    server = only(PaperNode((launcher, *rest)).discover())
    assert server.command == launcher.argv
    assert server.command[-1] == ""
    assert server.launcher.argv == launcher.argv
    assert server.cwd == "/data"


def test_a_server_that_ends_while_it_is_looked_at_is_not_there() -> None:
    assert PaperNode(sglang(100), hidden=frozenset({100})).discover().servers == ()


def test_an_answer_that_is_cut_short_loses_no_server() -> None:
    asking = discover()
    next(asking)
    node = PaperNode(sglang(100))
    asking.send(node.answer(next(discover())))
    with pytest.raises(StopIteration) as ended:
        asking.send(b"")
    inventory = ended.value.value
    assert only(inventory).pid == 100
    assert inventory.notes


def test_processes_of_a_dead_server_are_orphans() -> None:
    family = [replace(p, ppid=1) for p in sglang(100)[1:]]
    core = Proc(300, ("VLLM::EngineCore",), uid=1001, comm="VLLM::EngineCor")
    dead = Proc(301, ("sglang::scheduler_TP7",), state="Z", threads=1)
    inventory = PaperNode((*family, core, dead)).discover()
    assert inventory.servers == ()
    assert [(o.name, o.user) for o in inventory.orphans] == [
        ("sglang::scheduler_TP0", "alice"),
        ("sglang::scheduler_TP1", "alice"),
        ("sglang::detokenizer", "alice"),
        ("VLLM::EngineCore", "bob"),
    ]
    assert inventory.orphans[0].age_s == pytest.approx(4999.0)


def test_our_own_shell_is_nowhere() -> None:
    child = Proc(9998, ("python3", "-m", "sglang.launch_server"), ppid=9999)
    inventory = PaperNode((child, *sglang(100))).discover()
    assert {p.pid for p in inventory.processes}.isdisjoint({9998, 9999})
    assert only(inventory).pid == 100


def test_gpu_memory_has_owners() -> None:
    others = Proc(700, ("python", "train.py"), uid=1001)
    unnamed = Proc(701, ("python", "train.py"), uid=5000)
    inventory = PaperNode((*sglang(100), others, unnamed)).discover()
    owners = Owners(inventory)

    def owner(pid: int) -> Owner:
        return owners.of(GpuProcess(pid, "x", 100, "GPU-1"))

    assert owner(102) == Owner("alice", "sglang:30000")
    assert owner(700) == Owner("bob", None)
    assert owner(701) == Owner("5000", None)
    assert owner(4_000_000) == Owner(None, None)
    assert (inventory.user_of(700), inventory.user_of(4_000_000)) == ("bob", None)


_WORD = st.sampled_from(
    ["python3", "-m", "sglang.launch_server", "vllm", "serve", "sglang::scheduler_TP0", "tee", "--port", "1", ""]
)


@given(
    st.lists(
        st.builds(
            Proc,
            pid=st.integers(2, 12),
            argv=st.lists(_WORD, min_size=1, max_size=5).map(tuple),
            ppid=st.integers(0, 12),
            pgrp=st.integers(1, 12),
            uid=st.sampled_from([0, 1000]),
            started=st.integers(1, 5),
            state=st.sampled_from("SRZ"),
            threads=st.integers(1, 2),
            fds=st.just(LOG),
        ),
        max_size=8,
        unique_by=lambda p: p.pid,
    )
)
@settings(max_examples=100)
def test_families_never_share_a_launcher_and_never_cross_users(procs: list[Proc]) -> None:
    inventory = PaperNode(tuple(procs)).discover()
    launchers = {s.pid for s in inventory.servers}
    assert len({s.id for s in inventory.servers}) == len(inventory.servers)
    for server in inventory.servers:
        for member in server.family:
            assert member.process.uid == server.launcher.uid
            assert member.process.started >= server.launcher.started
        assert [m.process.pid for m in server.family if m.role == "launcher"] == [server.pid]
    assert launchers.isdisjoint(o.process.pid for o in inventory.orphans)
