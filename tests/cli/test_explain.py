"""`explain` on whatever a name may stand for: compressed, cut, empty, a pipe, a hole, nothing."""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest
import zstandard

from eagletui.cli.explain_input import open_log
from eagletui.errors import UsageError
from eagletui.logs.explain import Explanation, explain
from tests.cli.command import run
from tests.logs.vllm_lines import log, served, step_failed, throughput

TEXT = log(served(), throughput(100, 4, 200.0))
DEAD = log(served(), step_failed(105, "AssertionError: num_scheduled_tokens > 0"))
HOLE = 64 << 20
"""Bytes of a hole in a sparse file."""


def told(file: Path) -> Explanation:
    """What explain finds in a file."""
    with open_log(str(file)) as opened:
        return explain(opened.blocks(), newest_first=opened.newest_first)


def state_of(file: Path) -> tuple[str, int, int]:
    """The state of its last launch, its lines and its bytes."""
    found = told(file)
    return found.servers[0].launches[-1].state, found.lines, found.bytes


PACKED = {
    "gzip": gzip.compress(TEXT),
    "gzip, padded": gzip.compress(TEXT) + b"\0" * 512,
    "gzip of two parts": gzip.compress(TEXT[:900]) + gzip.compress(TEXT[900:]),
    "zstd": zstandard.compress(TEXT),
    "zstd of two frames": zstandard.compress(TEXT[:900]) + zstandard.compress(TEXT[900:]),
}


@pytest.mark.parametrize("how", PACKED)
def test_a_compressed_log_is_read_as_the_plain_one(how: str, tmp_path: Path) -> None:
    file = tmp_path / "server.log"  # its name tells nothing
    file.write_bytes(PACKED[how])
    assert state_of(file) == ("ready", TEXT.count(b"\n"), len(TEXT))


BROKEN = {
    "gzip, cut": (gzip.compress(TEXT)[:-300], "ended before"),
    "gzip, its last bytes gone": (gzip.compress(TEXT)[:-3], "ended before"),
    "gzip, changed": (gzip.compress(TEXT)[:-8] + b"12345678", "CRC"),
    "gzip, its begin only": (b"\x1f\x8b", "ended before"),
    "zstd, cut": (zstandard.compress(TEXT)[:-100], "ended before"),
    "zstd, the second frame cut": (zstandard.compress(TEXT) + zstandard.compress(TEXT)[:-9], "ended before"),
    "zstd, changed": (b"\x28\xb5\x2f\xfd" + b"junk" * 9, "decompressed"),
}


@pytest.mark.parametrize("how", BROKEN)
def test_a_compressed_log_that_is_broken_is_not_explained(how: str, tmp_path: Path) -> None:
    data, words = BROKEN[how]
    file = tmp_path / "server.log.gz"
    file.write_bytes(data)
    with pytest.raises(UsageError, match=words) as raised:
        told(file)
    assert str(file) in str(raised.value)


# By name: a gzip's header holds the time, and a test's id made of it differs from worker to worker.
WORDLESS = {
    "empty": b"",
    "gzip": gzip.compress(b""),
    "zstd": zstandard.compress(b""),
    "blanks": b"\n \r\n\t\n",
    "NULs": b"\0\0\0",
}


@pytest.mark.parametrize("data", WORDLESS.values(), ids=WORDLESS)
def test_a_log_without_a_word_never_started(data: bytes, tmp_path: Path) -> None:
    file = tmp_path / "server.log"
    file.write_bytes(data)
    diagnosis = told(file).servers[0].launches[-1].diagnosis
    assert diagnosis is not None
    assert diagnosis.code == "never-started"


@pytest.mark.parametrize("name", ["missing.log", ".", "a-file/below", ""])
def test_what_is_no_file_is_refused(name: str, tmp_path: Path) -> None:
    (tmp_path / "a-file").write_bytes(TEXT)
    with pytest.raises(UsageError):
        told(tmp_path / name)


def test_a_log_that_may_not_be_read_is_refused() -> None:
    with pytest.raises(UsageError, match="cannot be read"):
        told(Path("/proc/self/mem"))


def test_a_pipe_is_read(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = threading.Thread(target=lambda: pipe.write_bytes(TEXT))
    writer.start()
    assert state_of(pipe)[0] == "ready"
    writer.join()


def test_a_hole_is_passed_over(tmp_path: Path) -> None:
    file = tmp_path / "server.log"
    half = TEXT.index(b"\n", len(TEXT) // 2) + 1
    with file.open("wb") as out:
        out.write(TEXT[:half])
        out.seek(HOLE, os.SEEK_CUR)
        out.write(TEXT[half:])
    assert state_of(file) == ("ready", TEXT.count(b"\n"), len(TEXT) + HOLE)


def test_stdin_the_status_and_a_reader_that_leaves(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "eagletui", "explain", "-"]
    found = subprocess.run([*command, "--json"], input=DEAD, capture_output=True, check=False, timeout=60)
    assert found.returncode == 13, found.stderr
    assert json.loads(found.stdout)["servers"][0]["launches"][-1]["diagnosis"]["code"] == "request-killed-server"
    shell = f'"{sys.executable}" -m eagletui explain - --json < "$1" | head -c 1; echo "${{PIPESTATUS[0]}}"'
    file = tmp_path / "server.log"
    file.write_bytes(DEAD)
    left = subprocess.run(
        ["bash", "-c", shell, "-", str(file)], capture_output=True, text=True, check=False, timeout=60
    )
    assert left.stderr == ""
    assert left.stdout.startswith("{")


@pytest.mark.parametrize(
    ("args", "words"),
    [(["--idle", "-1"], "--idle"), (["--idle", "nan"], "--idle"), (["--exit-code", "256"], "--exit-code"), (["--engine", "tgi"], "--engine")],
)  # fmt: skip
def test_values_that_mean_nothing_are_refused(args: list[str], words: str, tmp_path: Path) -> None:
    (tmp_path / "server.log").write_bytes(TEXT)
    found = run(tmp_path, "explain", "server.log", *args)
    assert found.returncode == 2
    assert words in found.stderr
    assert "Traceback" not in found.stderr
