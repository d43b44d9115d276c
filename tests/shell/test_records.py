"""Records on a real disk, under three kinds of sh: whole or not at all, of this machine alone, nothing secret comes back, nothing alive is taken away."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eagletui.launching.acting import FENCED
from eagletui.shell.masking import MASK
from eagletui.shell.records import (
    NOT_AS_ASKED,
    NOT_WRITTEN,
    LaunchFiles,
    RecordAnswer,
    RecordList,
    ask_record_copy,
    ask_record_create,
    ask_record_prune,
    ask_record_update,
    ask_records,
    edits_of,
    parse_record_answer,
    parse_records,
)
from eagletui.shell.script import Command
from tests.locked import Locked, locked
from tests.shell.sh import run

pytestmark = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="nodes are Linux")
SHELLS = ("dash", "bash-as-sh", "busybox")
SECRET = "sk-record-7f3e9d1c5b"
ARGV = ("python", "-m", "x", "--api-key", SECRET, "two\nlines\n", "", "\udcff\\")
FILES = LaunchFiles(
    ARGV, (("HF_TOKEN", SECRET), ("A", "1\n2")), "/work dir\n", "/logs/a.log", ("umask 0027", "cpus 0-1")
)


@pytest.fixture(params=SHELLS)
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Locked]:
    with locked(tmp_path, request.param) as found:
        yield found


def answer(place: Locked, command: Command) -> RecordAnswer:
    status, out, _ = place.run(command)
    found = parse_record_answer(status, out)
    assert found.done == (status == 0)
    assert found.done or status in {NOT_AS_ASKED, NOT_WRITTEN}
    return found


def listed(place: Locked, count: int = 20) -> RecordList:
    out = place.run(ask_records(count))[1]
    assert SECRET.encode() not in out  # launch/ never comes back
    return parse_records(out)


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_a_records_life(place: Locked) -> None:
    assert listed(place).records == ()
    made = answer(place, ask_record_create(place.fence, "1-a", b'{"one": 1}', FILES))
    folder = place.records / "1-a"
    assert made.folder == str(folder)
    assert contents(folder) == {
        "record.json": b'{"one": 1}',
        "launch/argv": b"".join(os.fsencode(word) + b"\0" for word in ARGV),
        "launch/env": f"HF_TOKEN={SECRET}\0A=1\n2\0".encode(),
        "launch/cwd": b"/work dir\n",
        "launch/log": b"/logs/a.log",
        "launch/limits": b"umask 0027\ncpus 0-1\n",
    }
    for path in (place.folder / ".local").rglob("*"):
        assert path.stat().st_mode & 0o777 == (0o700 if path.is_dir() else 0o600), path
    assert answer(place, ask_record_create(place.fence, "1-a", b"{}", FILES)).word == "exists"
    assert answer(place, ask_record_create(place.fence, "2-b", b'{"two": 2}', None)).done
    assert answer(place, ask_record_update(place.fence, "1-a", b'{"one": 3}')).done
    assert answer(place, ask_record_update(place.fence, "9-z", b"{}")).word == "missing"
    for pid in (os.getpid(), 77):  # of what no keeper of ours was with; who was written once stays
        assert answer(place, ask_record_update(place.fence, "2-b", b'{"two": 2}', (pid, 5))).done
    assert place.run(ask_record_update(place.fence, "2-b", b"{}", (1, 5)))[0] == 2
    assert (place.records / "2-b" / "process").read_text() == f"{os.getpid()} 5\n"
    found = listed(place)
    assert [(one.id, one.launch, one.begun, one.json) for one in found.records] == [
        ("2-b", False, False, b'{"two": 2}'), ("1-a", True, False, b'{"one": 3}'),
    ]  # fmt: skip
    assert found.complete
    assert found.folder == str(place.records)
    assert sorted(path.name for path in place.records.iterdir()) == ["1-a", "2-b"]  # nothing is left of writing them

    edits = ("python3", 1, 2, 3, 4, "+plus\nand @ line\n", 6, 7)
    assert answer(place, ask_record_copy(place.fence, "3-c", "1-a", b"{}", log="/logs/c.log", argv=edits)).done
    copied, old = contents(place.records / "3-c"), contents(folder)
    words = ("python3", *ARGV[1:5], "+plus\nand @ line\n", *ARGV[6:])
    assert copied.pop("launch/argv") == b"".join(os.fsencode(word) + b"\0" for word in words)
    assert copied == {name: value for name, value in old.items() if name != "launch/argv"} | {
        "record.json": b"{}", "launch/log": b"/logs/c.log",
    }  # fmt: skip
    assert answer(place, ask_record_copy(place.fence, "4-d", "3-c", b"{}", log="/l", cwd="/elsewhere")).done
    copied = contents(place.records / "4-d")
    assert copied["launch/cwd"] == b"/elsewhere"
    assert copied["launch/argv"] == contents(place.records / "3-c")["launch/argv"]
    assert answer(place, ask_record_copy(place.fence, "5-e", "9-z", b"{}", log="/l")).word == "missing"
    assert answer(place, ask_record_copy(place.fence, "5-e", "2-b", b"{}", log="/l")).word == "missing"
    assert answer(place, ask_record_copy(place.fence, "5-e", "1-a", b"{}", log="/l", argv=(0, 99))).word == "word"
    assert not (place.records / "5-e").exists()


def test_nothing_is_written_behind_the_fence_or_from_half_a_message(place: Locked) -> None:
    assert answer(place, ask_record_create(place.fence, "1-a", b"{}", FILES)).done
    before = contents(place.records)
    other = (str(place.port), "anothertoken")
    for command in (
        ask_record_create(other, "2-b", b"{}", FILES), ask_record_update(other, "1-a", b"{1}"), ask_record_copy(other, "2-b", "1-a", b"{}", log="/l"),
        ask_record_prune(other, 1),
    ):  # fmt: skip
        status, out, _ = place.run(command)
        assert (status, out.split(b" ")[0]) == (FENCED, b"fenced")
    for command in (
        ask_record_create(place.fence, "2-b", b'{"long": 1}', FILES), ask_record_update(place.fence, "1-a", b'{"long": 1}'),
    ):  # fmt: skip
        cut = Command(command.script, command.args, command.data[:-3])  # the link broke meanwhile
        assert answer(place, cut).word == "cut"
    for bad in ("../1-a", "-x", "", "a b", "x" * 65, "$(id)"):
        assert place.run(ask_record_create(place.fence, bad, b"{}", FILES))[0] == 2
        assert place.run(ask_record_update(place.fence, bad, b"{}"))[0] == 2
    assert contents(place.records) == before
    assert [path.name for path in place.records.iterdir()] == ["1-a"]


def test_old_ones_are_taken_away_but_none_that_lives(place: Locked) -> None:
    for at in range(1, 7):
        assert answer(place, ask_record_create(place.fence, f"{at}-a", b"{}", FILES)).done
    fields = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
    (place.records / "1-a" / "keeper").write_text(f"{os.getpid()} {fields[19]}\n")
    (place.records / "2-a" / "process").write_text(
        f"{os.getpid()} {int(fields[19]) + 1}\n"
    )  # the number is another's now
    (place.records / "3-a" / "exit").write_text("137\n")
    (place.records / ".new-7-a.99999999").mkdir()  # what a broken link left
    (place.records / "link").symlink_to(place.folder)
    found = {one.id: one for one in listed(place, 2).records}
    assert set(found) == {"1-a", "6-a"}  # the link counts as one of the two newest, and is none
    assert found["1-a"].keeper is not None
    assert found["1-a"].keeper.alive
    everything = {one.id: one for one in listed(place).records}
    assert everything["2-a"].process is not None
    assert not everything["2-a"].process.alive
    assert everything["3-a"].exit_status == 137
    assert answer(place, ask_record_prune(place.fence, 3)).count == 3
    assert {path.name for path in place.records.iterdir()} == {"1-a", "5-a", "6-a", "link"}


def test_where_they_lie(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Path("/etc/machine-id").read_text().strip() if Path("/etc/machine-id").exists() else os.uname().nodename
    found = parse_records(run(ask_records(), tmp_path)[1])
    assert found.folder == f"{tmp_path}/.local/state/eagletui/launches/{found.machine}"
    assert found.machine == machine or "_" in (found.machine or "")
    monkeypatch.setenv("XDG_STATE_HOME", f"{tmp_path}/a b/")
    assert parse_records(run(ask_records(), tmp_path)[1]).folder == f"{tmp_path}/a b/eagletui/launches/{found.machine}"
    monkeypatch.setenv("XDG_STATE_HOME", "relative")  # the specification says: to be ignored
    assert parse_records(run(ask_records(), tmp_path)[1]).folder == found.folder
    told = subprocess.run(
        ["env", "-u", "HOME", "-u", "XDG_STATE_HOME", "sh", "-c", "set -- 20\n" + ask_records().script.text],
        capture_output=True, timeout=20, check=True,
    ).stdout  # fmt: skip
    assert (parse_records(told).folder or "").startswith(pwd.getpwuid(os.getuid()).pw_dir)


def test_a_place_that_cannot_be_written_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with locked(tmp_path) as place:
        monkeypatch.setenv("XDG_STATE_HOME", "/proc/self/nowhere")
        status, out, said = place.run(ask_record_create(place.fence, "1-a", b"{}", FILES))
        found = parse_record_answer(status, out)
        assert (status, found.word, found.done) == (NOT_WRITTEN, "unwritable", False)
        assert found.folder
        assert found.folder.startswith("/proc/self/nowhere/eagletui/launches/")
        assert b"mkdir" in said


def test_a_full_disk_is_told_and_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Needs to mount: a file system of 64 KiB that only this test sees."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = 'mount -t tmpfs -o size=64k tmpfs "$1" && shift && exec "$@"'
    private = ["unshare", "-m", "sh", "-c", mount, "sh", str(disk)]
    if (
        shutil.which("unshare") is None
        or subprocess.run([*private, "true"], capture_output=True, check=False, timeout=20).returncode
    ):
        pytest.skip("needs to mount")
    monkeypatch.setenv("XDG_STATE_HOME", str(disk))
    with locked(tmp_path) as place:
        big = LaunchFiles(("x",), (("BIG", "x" * 100_000),), "/", "/l")
        text = ask_record_create(place.fence, "1-a", b"{}", big)
        look = 'sh -c "$2" record-create $3 <"$1"; printf \'status %s\\n\' $?; find "$4" -name \'*1-a*\''
        (tmp_path / "stdin").write_bytes(text.data)
        done = subprocess.run(
            [*private, "sh", "-c", look, "sh", str(tmp_path / "stdin"), text.script.text, " ".join(map(str, text.args)), str(disk)],
            capture_output=True, timeout=20, check=True,
        )  # fmt: skip
    assert done.stdout.startswith(b"unwritable ")
    assert done.stdout.endswith(b"\nstatus 4\n")
    assert b"No space left on device" in done.stderr


def test_a_changed_command_needs_no_secret() -> None:
    old = ("python", "-m", "x", "--api-key", MASK, "--tp", "8", MASK)
    assert edits_of(old, old) == tuple(range(8))
    assert edits_of(old, (*old[:6], "4", MASK, "--new", "a")) == (0, 1, 2, 3, 4, 5, "4", 7, "--new", "a")
    assert edits_of(old, old[:5]) == (0, 1, 2, 3, 4)
    with pytest.raises(ValueError, match="masked"):
        edits_of(old, (*old, "--hf-token", MASK))


@settings(deadline=None)
@given(
    st.lists(st.sampled_from(("a", "b", "c", MASK)), max_size=8), st.lists(st.sampled_from(("a", "b", "d")), max_size=8)
)
def test_edits_give_the_new_command(old: list[str], new: list[str]) -> None:
    assert [old[edit] if isinstance(edit, int) else edit for edit in edits_of(old, new)] == new


@settings(deadline=None)
@given(st.binary(max_size=300))
def test_any_bytes_are_a_list_or_an_answer(raw: bytes) -> None:
    parse_records(raw)
    parse_records(b"@node\n-\nm\nzz\n\0@record 1-a y n\nkeeper 1 2\nexit 9999\n\0@json\n" + raw)
    parse_record_answer(0, raw)
    parse_record_answer(None, b"done " + raw)
