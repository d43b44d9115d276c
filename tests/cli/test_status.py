"""`status local`: what is found, what is said, and that no secret comes out."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cli.command import run
from tests.engine import CANARY, Engine, running_engine
from tests.requires import require

KEYS = {
    "id", "engine", "pid", "user", "port", "model", "log", "command", "cwd", "family", "state", "phase", "reason", "progress", "uptime_s",
    "log_age_s", "health", "throughput", "launch", "diagnosis",
}  # fmt: skip


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    require("procfs")
    with running_engine(tmp_path_factory.mktemp("engine")) as running:
        running.wait_for("Decode batch")
        yield running


def status(home: Path, engine: Engine, *argv: str) -> tuple[int, dict[str, Any], str]:
    done = run(home, "status", "local", "--json", "--port", str(engine.port), *argv)
    model = json.loads(done.stdout)
    assert len(model["servers"]) == 1
    return done.returncode, model["servers"][0], done.stdout + done.stderr


def test_a_server_at_work_is_ready(tmp_path: Path, engine: Engine) -> None:
    code, server, _ = status(tmp_path, engine)
    assert set(server) == KEYS
    assert (code, server["state"], server["reason"]["code"]) == (0, "ready", "serving")
    assert (server["engine"], server["pid"], server["port"]) == ("sglang", engine.pid, engine.port)
    assert server["model"] == "/models/tiny"
    assert server["log"] == str(engine.log)
    assert sorted(m["role"] for m in server["family"]) == ["detokenizer", "launcher", "scheduler", "scheduler"]
    assert server["health"]["status"] == 200
    assert 80 <= server["throughput"]["gen_tok_s"] <= 85
    assert server["throughput"]["running"] == 1
    assert not server["throughput"]["stale"]


def test_no_secret_comes_out(tmp_path: Path, engine: Engine) -> None:
    _, server, everything = status(tmp_path, engine)
    assert CANARY.encode() in Path(f"/proc/{engine.pid}/cmdline").read_bytes()
    assert CANARY not in everything
    assert server["command"][-2:] == ["--api-key", "***"]
    done = run(tmp_path, "status", "local")
    assert CANARY not in done.stdout + done.stderr


def test_text_says_the_same(tmp_path: Path, engine: Engine) -> None:
    done = run(tmp_path, "status", "local", "--port", str(engine.port))
    assert done.returncode == 0
    assert done.stdout.splitlines()[1].startswith("READY")
    assert "tok/s" in done.stdout


def test_another_log_can_be_named(tmp_path: Path, engine: Engine) -> None:
    other = tmp_path / "other.log"
    other.write_text("nothing of an engine\n")
    _, server, _ = status(tmp_path, engine, "--log", str(other))
    assert server["log"] == str(other)
    assert server["throughput"]["gen_tok_s"] == pytest.approx(81.5)  # from /metrics


def test_a_port_without_a_server_is_absent(tmp_path: Path, engine: Engine) -> None:
    done = run(tmp_path, "status", "local", "--json", "--port", "1")
    assert done.returncode == 14
    assert json.loads(done.stdout)["servers"] == []


def test_loading_is_starting_with_its_progress(tmp_path: Path) -> None:
    require("procfs")
    with running_engine(tmp_path, pace_s=2.0) as loading:  # a busy machine takes its time to look
        loading.wait_for("1/16")
        code, server, _ = status(tmp_path, loading)
    assert (code, server["state"], server["phase"]) == (10, "starting", "weights")
    assert server["progress"]["total"] == 16
    assert server["progress"]["done"] >= 1
    assert server["health"]["status"] is None
    assert server["throughput"] is None


def test_a_dead_rank_is_a_crash(tmp_path: Path) -> None:
    require("procfs")
    with running_engine(tmp_path) as broken:
        broken.wait_for("Decode batch")
        os.kill(broken.children()["sglang::scheduler_TP1"], signal.SIGKILL)
        time.sleep(0.3)
        code, server, _ = status(tmp_path, broken)
    assert (code, server["state"], server["reason"]["code"]) == (13, "crashed", "rank-missing")


def test_the_demo_is_a_node_like_any_other(tmp_path: Path) -> None:
    done = run(tmp_path, "status", "demo", "--json", "--speed", "100")
    model = json.loads(done.stdout)
    assert done.returncode in (0, 10)
    assert model["node"] == "demo"
    assert [gpu["index"] for gpu in model["gpus"]] == list(range(8))
    assert model["servers"][0]["engine"] == "sglang"
    assert model["gpu_error"] is None


def test_a_log_that_is_not_there_is_told(tmp_path: Path, engine: Engine) -> None:
    _, server, _ = status(tmp_path, engine, "--log", "/no/such.log")
    assert "There is no log at /no/such.log" in server["reason"]["text"]
    assert server["log_age_s"] is None
    assert server["reason"]["code"] == "serving"  # /metrics tells that tokens flow


def test_a_log_is_of_one_server(tmp_path: Path, engine: Engine) -> None:
    with running_engine(tmp_path):
        time.sleep(0.5)
        done = run(tmp_path, "status", "local", "--log", str(engine.log))
    assert done.returncode == 2
    assert "--port" in done.stderr
