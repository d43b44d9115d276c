"""The scripts of the restart: one story each, told of the simulated node and of the real sh here, by our own parsers."""

from __future__ import annotations

import os
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eagletui.demo import shape
from eagletui.demo.answers import ANSWERS, GIVEN
from eagletui.demo.life import KILL
from eagletui.shell.context import (
    ask_launch_context,
    ask_login_environment,
    parse_launch_context,
    parse_login_environment,
)
from eagletui.shell.flag_check import FlagAnswer, ask_check_flags, parse_check_flags
from eagletui.shell.keeper import KeeperState, ask_keeper_state, ask_launch, parse_keeper_state, parse_launch
from eagletui.shell.leftovers import (
    PLACE,
    ask_remove_shared_memory,
    ask_shared_memory,
    parse_removed,
    parse_shared_memory,
)
from eagletui.shell.listeners import ask_listeners, parse_listeners
from eagletui.shell.lock import (
    LockAnswer,
    ask_lock_look,
    ask_lock_release,
    ask_lock_renew,
    ask_lock_take,
    parse_fenced,
    parse_lock,
)
from eagletui.shell.ownership import ask_ownership, parse_ownership
from eagletui.shell.preflight import ask_preflight, parse_preflight
from eagletui.shell.processes import ask_processes, parse_processes
from eagletui.shell.records import (
    LaunchFiles,
    ask_record_copy,
    ask_record_create,
    ask_record_prune,
    ask_record_update,
    ask_records,
    parse_record_answer,
    parse_records,
)
from eagletui.shell.script import Command
from eagletui.shell.signals import ask_signal, parse_signal
from eagletui.shell.tmux import ask_launch_tmux
from eagletui.shell.units import ask_launch_systemd
from eagletui.shell.waits import ask_waits, parse_waits
from tests.demo.places import Place, Real, Said, Simulated, scripts, until

linux = sys.platform.startswith("linux")
STREAMS = {"poll", "follow", "loop-tool"}
TOKEN = "aB3"


@pytest.fixture(
    params=["demo", pytest.param("real", marks=pytest.mark.skipif(not linux, reason="the scripts read /proc"))]
)
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    return Simulated() if request.param == "demo" else Real(tmp_path)


def test_every_script_has_an_answer() -> None:
    assert set(scripts()) == set(ANSWERS) | set(GIVEN) | STREAMS


def lock(said: Said) -> LockAnswer:
    return parse_lock(said.stdout)


def fence_of(place: Place, token: str = TOKEN) -> tuple[str, str]:
    return str(place.port), token


def locked(place: Place) -> tuple[str, str]:
    """The fence of a lock that was taken."""
    assert lock(place.run(ask_lock_take([place.port], TOKEN, "me", "here", "preflight"))).taken == (place.port,)
    return fence_of(place)


def unlock(place: Place) -> None:
    assert place.run(ask_lock_release([place.port], TOKEN)).status == 0


def test_a_lock(place: Place) -> None:
    ports = [place.port, place.port + 1]
    free = lock(place.run(ask_lock_look(ports)))
    assert (free.free, free.holders, free.complete) == (tuple(ports), (), True)
    taken = place.run(ask_lock_take(ports, TOKEN, "me@laptop", "laptop 7", "preflight"))
    assert (taken.status, lock(taken).taken, lock(taken).complete) == (0, tuple(ports), True)
    assert lock(place.run(ask_lock_take(ports, TOKEN, "me@laptop", "laptop 7", "x"))).taken == tuple(ports)
    other = place.run(ask_lock_take(ports[1:], "other", "you", "yours", "stop"))
    (holder,) = lock(other).holders
    assert (other.status, lock(other).complete, lock(other).taken) == (7, False, ())
    facts = (holder.port, holder.state, holder.uid, holder.who, holder.client, holder.step)
    assert facts == (ports[1], "held", place.uid, "me@laptop", "laptop 7", "preflight")
    assert holder.user
    assert (holder.age_s or 0, holder.idle_s or 0) < (5, 5)
    assert place.run(ask_lock_renew(ports, TOKEN, "stop")).stdout == b"done\n"
    assert place.run(ask_lock_renew(ports, TOKEN)).stdout == b"done\n"
    assert {one.step for one in lock(place.run(ask_lock_look(ports))).holders} == {"stop"}
    fenced = place.run(ask_lock_renew(ports, "other", "launch"))
    told = parse_fenced(fenced.stdout)
    assert told is not None
    assert (fenced.status, told.who, told.client, told.step, told.port) == (
        9,
        "me@laptop",
        "laptop 7",
        "stop",
        ports[0],
    )
    assert (told.age_s or 0) < 5
    assert place.run(ask_lock_release(ports, "other")).status == 9
    over = place.run(ask_lock_take(ports, "other", "you", "yours", "stop", "laptop 7"))
    assert (over.status, [one.who for one in lock(over).overtook]) == (0, ["me@laptop"] * 2)
    assert place.run(ask_lock_release(ports, TOKEN)).status == 9
    assert place.run(ask_lock_release(ports, "other")).stdout == b"done\n"
    assert lock(place.run(ask_lock_look(ports))).free == tuple(ports)
    nobody = place.run(ask_lock_renew(ports, TOKEN))
    assert (nobody.status, parse_fenced(nobody.stdout) is not None) == (9, True)


def files_of(place: Place, *argv: str, log: str = "new.log") -> LaunchFiles:
    return LaunchFiles(argv or place.command, place.environment, "/", f"{place.folder}/{log}", ("umask 0022",))


def test_records(place: Place) -> None:
    empty = parse_records(place.run(ask_records()).stdout)
    assert (empty.records, empty.complete, empty.folder is not None, empty.machine is not None) == (
        (),
        True,
        True,
        True,
    )
    fence = locked(place)
    secret = files_of(place, "p", "--api-key", "s e\nc", "", "--port=1")
    made = parse_record_answer(0, place.run(ask_record_create(fence, "a-1", b'{"a": 1}', secret)).stdout)
    assert (made.done, made.folder) == (True, f"{empty.folder}/a-1")
    stop = place.run(ask_record_create(fence, "b-2", b"{}", None))
    again = place.run(ask_record_create(fence, "b-2", b"{}", None))
    assert (stop.status, again.status, parse_record_answer(3, again.stdout).word) == (0, 3, "exists")
    assert place.run(ask_record_update(fence, "b-2", b'{"b": 2}')).status == 0
    missing = place.run(ask_record_update(fence, "c", b"{}"))
    assert (missing.status, parse_record_answer(3, missing.stdout).word) == (3, "missing")
    cut = ask_record_update(fence, "b-2", b"12345")
    short = place.run(Command(cut.script, cut.args, b"12"))
    assert (short.status, parse_record_answer(3, short.stdout).word) == (3, "cut")
    edits = (0, 1, 2, "--port=2")
    log = f"{place.folder}/copy.log"
    copied = place.run(ask_record_copy(fence, "c-3", "a-1", b"{}", log=log, argv=edits))
    assert copied.status == 0, copied
    for wrong in (
        ask_record_copy(fence, "d", "b-2", b"{}", log=log),
        ask_record_copy(fence, "d", "no", b"{}", log=log),
    ):
        said = place.run(wrong)
        assert (said.status, parse_record_answer(3, said.stdout).word) == (3, "missing")
    beyond = place.run(ask_record_copy(fence, "d", "a-1", b"{}", log=log, argv=(0, 7)))
    assert (beyond.status, parse_record_answer(3, beyond.stdout).word) == (3, "word")
    found = parse_records(place.run(ask_records()).stdout)
    facts = [
        (one.id, one.launch, one.begun, one.keeper, one.process, one.exit_status, one.json) for one in found.records
    ]
    assert facts == [
        ("c-3", True, False, None, None, None, b"{}"),
        ("b-2", False, False, None, None, None, b'{"b": 2}'),
        ("a-1", True, False, None, None, None, b'{"a": 1}'),
    ]
    assert found.complete
    assert [one.id for one in parse_records(place.run(ask_records(1)).stdout).records] == ["c-3"]
    pruned = place.run(ask_record_prune(fence, 1))
    assert parse_record_answer(0, pruned.stdout).count == 2
    assert [one.id for one in parse_records(place.run(ask_records()).stdout).records] == ["c-3"]
    for command in (
        ask_record_create(fence_of(place, "x"), "z", b"{}", None),
        ask_record_update(fence_of(place, "x"), "c-3", b"{}"),
        ask_record_copy(fence_of(place, "x"), "z", "c-3", b"{}", log=log),
        ask_record_prune(fence_of(place, "x")),
        ask_launch(fence_of(place, "x"), "c-3"),
    ):
        assert place.run(command).status == 9
    unlock(place)


def state_of(place: Place, record: str) -> KeeperState:
    return parse_keeper_state(place.run(ask_keeper_state(record)).stdout)


def test_a_launch_lives_is_signalled_and_leaves_its_status(place: Place) -> None:
    nothing = state_of(place, "a")
    assert (nothing.record, nothing.complete, nothing.boot is not None) == (False, False, True)
    fence = locked(place)
    assert place.run(ask_record_create(fence, "a", b"{}", files_of(place))).status == 0
    waiting = state_of(place, "a")
    assert (waiting.record, waiting.begun, waiting.keeper, waiting.log_size) == (True, False, None, None)
    assert parse_launch(place.run(ask_launch(fence, "a")).stdout)[0] == "started"
    state = until(place, lambda: state_of(place, "a"), lambda found: found.lives and found.outputs != ())
    assert state.lives
    assert state.complete
    assert state.keeper is not None
    assert state.process is not None
    assert (state.parent, state.session, state.group) == (state.keeper.pid,) * 3
    assert [(one.number, one.is_log, one.link) for one in state.outputs] == [
        (n, True, f"{place.folder}/new.log") for n in (1, 2)
    ]
    assert (state.log, state.exit_status, state.members) == (f"{place.folder}/new.log", None, ())
    (record,) = parse_records(place.run(ask_records()).stdout).records
    assert (record.begun, record.keeper, record.process) == (True, state.keeper, state.process)
    rows = {row.stat.pid: row for row in parse_processes(place.run(ask_processes()).stdout).rows}
    assert rows[state.process.pid].argv == place.command
    assert rows[state.keeper.pid].argv[-2:] == (
        "eagletui-keeper",
        f"{parse_records(place.run(ask_records()).stdout).folder}/a",
    )
    assert place.run(ask_record_prune(fence, 1)).stdout == b"done 0\n"
    again = place.run(ask_launch(fence, "a"))
    assert (again.status, parse_launch(again.stdout)[0]) == (3, "begun")
    looked_at(place, state)
    boot, one = state.boot or "", (state.process.pid, state.process.started)
    sent = parse_signal(
        place.run(ask_signal(fence, "TERM", boot, [(one[0], one[1] + 1), one, (1, 0), (4_000_000, 5)])).stdout
    )
    assert sent.complete
    assert sent.fates == ((one[0], "other"), (one[0], "sent"), (1, "refused"), (4_000_000, "gone"))
    assert parse_signal(place.run(ask_signal(fence, "KILL", "0-0", [one])).stdout).fates == ((one[0], "other"),)
    ended = until(place, lambda: state_of(place, "a"), lambda found: found.exit_status is not None)
    assert (ended.lives, ended.exit_status) == (False, 143)
    until(place, lambda: state_of(place, "a"), lambda found: found.keeper is not None and not found.keeper.alive)
    assert parse_signal(place.run(ask_signal(fence, "KILL", boot, [one])).stdout).fates == ((one[0], "gone"),)
    unlock(place)


def looked_at(place: Place, state: KeeperState) -> None:
    """What the looking scripts tell of it."""
    assert state.process is not None
    assert state.keeper is not None
    pid = state.process.pid
    owned = parse_ownership(place.run(ask_ownership([pid, 4_000_000])).stdout)
    assert owned.complete
    assert owned.own is not None
    assert owned.host
    assert "127.0.0.1" in owned.addresses
    assert [one.pid for one in owned.others] == [pid]
    found = owned.of(pid)
    assert found is not None
    assert (found.cgroup is not None, found.pid_ns == owned.own.pid_ns, found.job) == (True, True, None)
    assert [one.pid for one in found.above[:2]] == [pid, state.keeper.pid]
    assert found.above[0].argv == place.command
    assert found.above[0].tty == 0
    context = parse_launch_context(place.run(ask_launch_context(pid)).stdout)
    assert (context.pid, context.started, context.uid) == (pid, state.process.started, place.uid)
    assert (context.argv, context.cwd, context.umask, context.complete) == (place.command, "/", "0022", True)
    assert context.environ is not None
    assert set(place.environment) <= set(context.environ)
    assert context.cpus
    assert dict(context.soft)["Max open files"]
    assert [(number, kind) for number, _, kind in context.outputs] == [(0, "character"), (1, "regular"), (2, "regular")]
    assert context.exe
    (waits,) = parse_waits(place.run(ask_waits([pid, 4_000_000])).stdout)
    assert (waits.pid, waits.state in "RS") == (pid, True)
    gone = parse_launch_context(place.run(ask_launch_context(4_000_000)).stdout)
    assert (gone.gone, gone.complete) == (True, False)


def test_launches_that_die_at_once_say_why(place: Place) -> None:
    fence = locked(place)
    assert place.run(ask_record_create(fence, "a", b"{}", files_of(place, "no-such-program", "x"))).status == 0
    assert parse_launch(place.run(ask_launch(fence, "a")).stdout)[0] == "started"
    state = until(place, lambda: state_of(place, "a"), lambda found: found.exit_status is not None)
    assert (state.exit_status, state.lives) == (127, False)
    assert b"no-such-program" in state.tail
    assert b"No such file or directory" in state.tail
    same = files_of(place)
    assert place.run(ask_record_create(fence, "b", b"{}", same)).status == 0
    said = place.run(ask_launch(fence, "b"))
    assert (said.status, parse_launch(said.stdout)[0]) == (3, "log-exists")
    nowhere = LaunchFiles(place.command, place.environment, "/no/such", f"{place.folder}/c.log")
    assert place.run(ask_record_create(fence, "c", b"{}", nowhere)).status == 0
    assert place.run(ask_launch(fence, "c")).status == 0
    state = until(place, lambda: state_of(place, "c"), lambda found: found.exit_status is not None)
    assert (state.exit_status, b"/no/such" in state.tail) == (126, True)
    unwritable = LaunchFiles(place.command, place.environment, "/", "/proc/no/d.log")
    assert place.run(ask_record_create(fence, "d", b"{}", unwritable)).status == 0
    said = place.run(ask_launch(fence, "d"))
    assert (said.status, parse_launch(said.stdout)[0], bool(said.stderr)) == (3, "log-unwritable", True)
    for record in ("missing", "e"):
        if record == "e":
            assert place.run(ask_record_create(fence, "e", b"{}", None)).status == 0
        said = place.run(ask_launch(fence, record))
        assert (said.status, parse_launch(said.stdout)[0]) == (3, "missing")
    unlock(place)


def test_what_a_node_is_to_a_launch(place: Place) -> None:
    asked = ask_preflight(
        path=dict(place.environment)["PATH"], cwd="/", program="sh", log=f"{place.folder}/sub/x.log", tmp="/tmp",
        tools=("setsid", "no-such-tool", "-x"), models=[("/no/such", "models--a--b"), (place.folder, "")],
    )  # fmt: skip
    facts = parse_preflight(place.run(asked).stdout)
    assert facts.complete
    assert (facts.uid, bool(facts.user), bool(facts.home), bool(facts.cgroup)) == (place.uid, True, True, True)
    assert facts.program is not None
    assert (facts.program.word, facts.program.path.endswith("/sh"), facts.interpreter) == ("found", True, None)
    keys = [key for key, _ in facts.paths]
    assert keys == ["cwd", "log", "folder", "state", "tmp", "shm", "hub", "model-0", "hub-0", "model-1", "config-1"]
    folder, log, shm, model = (facts.path(key) for key in ("folder", "log", "shm", "model-0"))
    assert folder is not None
    assert (folder.there, folder.near, folder.near_kind, folder.near_write, folder.near_enter) == (
        False, len(place.folder), "d", True, True,
    )  # fmt: skip
    assert (folder.free or 0) > 0
    assert (folder.inodes or 0) > 0
    assert log is not None
    assert not log.there
    assert shm is not None
    assert (shm.kind, (shm.size or 0) >= (shm.free or 0) > 0) == ("d", True)
    assert model is not None
    assert (model.there, model.near) == (False, 0)
    assert dict(facts.weights)[1].count == 0
    assert dict(facts.snapshots) == {0: 0}
    assert facts.tools == {"setsid"}
    nothing = parse_preflight(
        place.run(
            ask_preflight(path="/", cwd="/", program="no-such", log="", tmp="", launcher="docker", handle="x")
        ).stdout
    )
    assert nothing.program is not None
    assert (nothing.program.word, nothing.complete) == ("absent", True)


def test_what_the_engines_parser_says_of_flags(place: Place) -> None:
    path = "/usr/local/bin:/usr/bin:/bin"

    def asked(program: str, *args: str) -> FlagAnswer:
        command = ask_check_flags("sglang", args, program=program, cwd="/", env=(("A", "b"),), path=path)
        said = place.run(command)
        return parse_check_flags(said.stdout, said.status)

    bare = asked("python3", "--tp", "8")  # neither has an SGLang there
    assert (bare.word, bare.parser) == ("found", None)
    assert bare.scan is not None
    assert (bare.scan.options, (bare.scan.text or "").startswith("no sglang is installed for ")) == ((), True)
    assert asked("sh").word == "other"
    assert asked("no-such").word == "absent"
    if isinstance(place, Simulated):
        for program in ("/opt/venv/bin/python3", "/opt/venv/bin/sglang"):
            good, strange, wrong = (
                asked(program, "--model-path", "m", *more) for more in ((), ("--tpp", "8"), ("--tp", "x"))
            )
            assert good.scan is not None
            assert {"--tp", "--tp-size", "--mem-fraction-static"} <= set(good.scan.options)
            found = [(one.parser.error, one.parser.extras) for one in (good, strange, wrong) if one.parser is not None]
            assert found == [(None, ()), (None, ("--tpp", "8")), ("argument --tp: invalid int value: 'x'", ())]


def test_what_a_login_gets(place: Place) -> None:
    login = parse_login_environment(place.run(ask_login_environment()).stdout)
    assert (login.complete, login.boot is not None, login.shell is not None) == (True, True, True)
    assert login.environ is not None
    assert {"PATH", "HOME"} <= set(dict(login.environ))
    assert "PATH" in dict(login.own)
    free = parse_listeners(place.run(ask_listeners([place.port])).stdout)
    assert (free.holders, free.complete) == ((), True)


def test_what_is_left_in_shared_memory(place: Place, request: pytest.FixtureRequest) -> None:
    name = f"nccl-eagletui{os.getpid()}"
    if isinstance(place, Simulated):
        engine = place.world.engine
        place.world.signal(place.now, engine.pid, KILL)
        place.wait(1.0)
        name = place.world.shared_memory(place.now)[0].name
    else:
        path = Path(PLACE) / name
        path.write_bytes(b"x")
        request.addfinalizer(lambda: path.unlink(missing_ok=True))
    fence = locked(place)
    found = parse_shared_memory(place.run(ask_shared_memory()).stdout)
    (entry,) = (one for one in found.entries if one.name == name)
    assert (found.complete, entry.used, entry.size > 0, entry.made > 1e9) == (True, False, True, True)
    assert place.run(ask_remove_shared_memory(fence_of(place, "x"), [entry])).status == 9
    wrong = replace(entry, inode=entry.inode + 1)
    absent = replace(entry, name="nccl-nothing")
    said = parse_removed(place.run(ask_remove_shared_memory(fence, [wrong, absent, entry])).stdout)
    assert said == (((name, "other"), ("nccl-nothing", "gone"), (name, "removed")), True)
    assert name not in {one.name for one in parse_shared_memory(place.run(ask_shared_memory()).stdout).entries}
    unlock(place)


@pytest.mark.parametrize("launcher", ["tmux", "systemd"])
def test_the_other_launchers_of_the_simulated_node(launcher: str) -> None:
    place = Simulated()
    fence = locked(place)
    ask = ask_launch_tmux if launcher == "tmux" else ask_launch_systemd
    names = []
    for record in ("a", "b"):
        assert place.run(ask_record_create(fence, record, b"{}", files_of(place, log=f"{record}.log"))).status == 0
        names.append(parse_launch(place.run(ask(fence, record, "k25")).stdout))
        assert state_of(place, record).lives
    assert names == [("started", "k25"), ("started", "k25-2")]


WORDS = st.lists(st.binary(max_size=12).filter(lambda raw: b"\0" not in raw), max_size=4)


@settings(max_examples=12, deadline=None)
@given(WORDS, st.sampled_from([(), shape.COMMAND]))
def test_any_command_can_be_launched_and_looked_at(words: list[bytes], command: tuple[str, ...]) -> None:
    place = Simulated()
    argv = (*command, *(word.decode("utf-8", "surrogateescape") for word in words))
    fence = locked(place)
    env = (("A", argv[-1] if argv else ""),)
    files = LaunchFiles(argv, env, argv[-1] if argv else "/", f"{place.folder}/x{argv[-1] if argv else ''}.log")
    assert place.run(ask_record_create(fence, "a", b"{}", files)).status == 0
    started = place.run(ask_launch(fence, "a")).status == 0
    place.wait(300.0)
    state = state_of(place, "a")
    assert (state.process is not None) is started
    for ask in (
        ask_processes(),
        ask_ownership([53_051]),
        ask_launch_context(53_051),
        ask_shared_memory(),
        ask_records(),
    ):
        assert place.run(ask).status == 0


@settings(max_examples=20, deadline=None)
@given(st.sampled_from(sorted(GIVEN)), WORDS, st.binary(max_size=30))
def test_any_data_gives_an_answer(name: str, args: list[bytes], data: bytes) -> None:
    said = Simulated().run(Command(scripts()[name], tuple(args), data))
    assert said.status in {2, 9} or said.stdout


@pytest.mark.skipif(not linux, reason="the scripts read /proc")
@pytest.mark.parametrize(
    ("name", "args"),
    [
        ("unit-state", ["x", "0"]), ("unit-state", ["x", "1"]), ("unit-state", [".service", "1"]), ("container-state", ["x", "y", "5"]),
        ("container-state", ["docker", "-y", "5"]), ("container-state", ["docker", "y", ""]), ("container-start", ["30000", ""]),
        ("remove-shared-memory", ["x", "y"]), ("unit-stop", []), ("launch-tmux", []), ("launch-systemd", []),
        ("lock-take", []), ("lock-take", ["30000", "a b"]), ("lock-take", ["30000", "a", "", "", "", "x"]), ("lock-look", ["0", "01"]),
        ("lock-look", ["30000,x", "60"]), ("lock-renew", ["", "a"]), ("lock-release", ["1", ""]), ("signal", ["07", "a"]),
        ("records", []), ("records", ["007"]), ("keeper-state", []), ("keeper-state", ["-x", "5"]), ("keeper-state", ["x", "0"]),
        ("launch-context", ["0"]), ("launch-context", ["x"]), ("listeners", ["0"]), ("listeners", ["30000", "x"]), ("waits", ["x", "0"]),
        ("preflight", ["a"]), ("check-flags", ["0"]), ("check-flags", []), ("check-flags", ["5", "/", "/", "nothing"]),
    ],
)  # fmt: skip
def test_what_cannot_be_is_refused_as_the_real_one_does(name: str, args: list[str], tmp_path: Path) -> None:
    command = Command(scripts()[name], tuple(args))
    here, there = Simulated().run(command), Real(tmp_path).run(command)
    assert (here.status, here.stderr) == (there.status, there.stderr)
    assert here.stdout == there.stdout or there.stdout.startswith(b"boot ")
