"""The same launches in whatever a collector wraps around their lines: the answer is the same. FORMATS.md 1, 2 and 8."""

# ruff: noqa: E501 - lines of logs stand as they were printed

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.logs.explained import answer
from tests.logs.stamped import decode
from tests.logs.stamped import log as sglang_log
from tests.logs.stamped import served as sglang_served
from tests.logs.vllm_lines import log, served, throughput

BEGIN = datetime(2025, 11, 3, 9, 0, 0, tzinfo=UTC)
LOGS = {
    "sglang": sglang_log(sglang_served(2) + "\n" + decode(60, 2, 100) + "\n" + decode(70, 2, 110)),
    "vllm": log(served(), throughput(100, 4, 200.0), throughput(110, 4, 210.0)),
}


def _iso(seconds: float) -> str:
    return f"{BEGIN + timedelta(seconds=seconds):%Y-%m-%dT%H:%M:%S}"


def _lines(text: bytes) -> list[str]:
    return text.decode().rstrip("\n").split("\n")


def _each(wrap: Callable[[int, str], str]) -> Callable[[bytes], bytes]:
    return lambda text: "".join(wrap(i, line) + "\n" for i, line in enumerate(_lines(text))).encode()


def _newest_first(wrap: Callable[[int, str], str]) -> Callable[[bytes], bytes]:
    return lambda text: "".join(wrap(i, line) + "\n" for i, line in reversed(list(enumerate(_lines(text))))).encode()


def _with_foreign(text: bytes) -> bytes:
    """A wrapper's own records in between, whose clock is of another zone."""
    lines = _lines(text)
    for at, clock in ((0, "17:00:00"), (4, "17:00:05"), (len(lines) + 2, "17:05:00")):
        lines.insert(
            at, f"2025-11-03 {clock}.939481+08:00 - gpustack.worker.backends.base - INFO - Looking at the server"
        )
    return "\n".join(lines).encode() + b"\n"


WRAPPED: dict[str, tuple[str, Callable[[bytes], bytes]]] = {
    "compose": ("llm-1", _each(lambda _, line: f"llm-1      | {line}")),
    "compose of old": ("llm_1", _each(lambda _, line: f"llm_1  | {line}")),
    "compose with a container_name": ("my-llm", _each(lambda _, line: f"my-llm  | {line}")),
    "podman": ("llm", _each(lambda _, line: f"[llm]     | {line}")),
    "pm2": ("llm", _each(lambda _, line: f"0|llm  | {line}")),
    "docker's own file": ("", _each(lambda _, line: json.dumps({"log": line + "\n", "stream": "stderr"}))),
    "kubectl with prefix and times": ("llm-0/server", _each(lambda i, line: f"[pod/llm-0/server] {_iso(i)}.123456789Z {line}")),
    "kubectl with times of a zone": ("", _each(lambda i, line: f"{_iso(i)}.123456789+02:00 {line}")),
    "a node's file": ("", _each(lambda i, line: f"{_iso(i)}.123456789Z stderr F {line}")),
    "buildkite": ("", _each(lambda i, line: f"  | [{_iso(i - 25_000)}Z] {line}")),
    "buildkite without a bar": ("", _each(lambda i, line: f"[{_iso(i)}Z] {line}")),
    "journald": ("gpu7 python3[71]", _each(lambda i, line: f"{_iso(i)}+02:00 gpu7 python3[71]: {line}")),
    "syslog": ("gpu7 vllm[71]", _each(lambda i, line: f"Nov  3 09:00:{i % 60:02} gpu7 vllm[71]: {line}")),
    "an export": ("", _each(lambda i, line: f"ERROR {_iso(i)}.209111405Z {line}")),
    "an export, newest first": ("", _newest_first(lambda i, line: f"INFO {_iso(i // 3)}.{i % 3}09111405Z {line}")),
    "an export, newest first, by seconds": ("", _newest_first(lambda i, line: f"INFO {_iso(i // 3)}Z {line}")),
    "a Ray actor": ("LLMRayActor pid=807, ip=10.0.0.5", _each(lambda _, line: f"(LLMRayActor pid=807, ip=10.0.0.5) {line}")),
    "a Ray actor in colour": ("LLMRayActor pid=807", _each(lambda _, line: f"\x1b[36m(LLMRayActor pid=807)\x1b[0m {line}")),
    "what Ray repeats": ("A pid=8", _each(lambda _, line: f"(A pid=8) {line} [repeated 5x across cluster]")),
    "torchserve": ("W-9000-m_1.0", _each(lambda i, line: f"{_iso(i)},595 [INFO ] W-9000-m_1.0-stdout MODEL_LOG - {line}")),
    "CR LF": ("", lambda text: text.replace(b"\n", b"\r\n")),
    "CR alone": ("", lambda text: text.replace(b"\n", b"\r")),
    "a mark of its byte order": ("", lambda text: b"\xef\xbb\xbf" + text),
    "NULs": ("", lambda text: b"\0" * 900 + text.replace(b"\n", b"\n\0\0", 3)),
    "an end in mid-character": ("", lambda text: text + b"\xe2\x96"),
    "an end in mid-escape": ("", lambda text: text + b"\x1b]0;vll"),
    "tail -F's words": ("", lambda text: text.replace(b"\n", b"\ntail: '/x.log' has been replaced;  following new file\n", 1)),
    "a wrapper's logger": ("", _with_foreign),
}  # fmt: skip


def _launches(found: dict[str, Any]) -> Any:
    return [server["launches"] for server in found["servers"]]


@pytest.mark.parametrize("engine", LOGS)
@pytest.mark.parametrize("how", WRAPPED)
def test_a_wrapped_log_gets_the_same_answer(engine: str, how: str, tmp_path: Path) -> None:
    plain, _ = answer(LOGS[engine], [], tmp_path)
    launch = plain["servers"][0]["launches"][-1]
    assert launch["state"] == "ready"
    assert launch["ready_s"] == {"sglang": 55.0, "vllm": 89.0}[engine]
    source, wrap = WRAPPED[how]
    found, status = answer(wrap(LOGS[engine]), ["--idle", "2"], tmp_path)
    assert [server["id"] for server in found["servers"]] == [source]
    assert found["servers"][0]["engine"] == engine
    assert _launches(found) == _launches(plain)
    assert status == 0


def _prefixed(name: str, text: bytes) -> list[str]:
    return [f"{name}  | {line}" for line in _lines(text)]


def test_two_servers_and_a_neighbour_in_one_file(tmp_path: Path) -> None:
    one, other = _prefixed("llm-a-1", LOGS["vllm"]), _prefixed("llm-b-1", LOGS["sglang"])
    mixed = [line for pair in zip(one, other, strict=False) for line in pair] + one[len(other) :] + other[len(one) :]
    mixed.insert(7, 'nginx-1  | 10.0.0.1 - - "GET / HTTP/1.1" 200')
    found, _ = answer("\n".join(mixed).encode(), [], tmp_path)
    assert [(server["id"], server["engine"]) for server in found["servers"]] == [
        ("llm-a-1", "vllm"),
        ("llm-b-1", "sglang"),
    ]
    assert [server["launches"][-1]["state"] for server in found["servers"]] == ["ready", "ready"]


def test_a_neighbours_line_takes_nothing_from_a_server(tmp_path: Path) -> None:
    lines = [*_prefixed("llm-1", LOGS["vllm"]), "web-1  | hello", "Killed"]
    found, status = answer("\n".join(lines).encode(), [], tmp_path)
    assert [server["id"] for server in found["servers"]] == ["llm-1"]
    assert found["servers"][0]["launches"][-1]["diagnosis"]["code"] == "worker-killed"
    assert status == 13


@pytest.mark.parametrize(
    ("last", "state", "code"),
    [
        ("llm-1 exited with code 137", "crashed", "worker-killed"),
        ("llm-1 exited with code 0", "ready", None),
        ("web-1 exited with code 137", "ready", None),
    ],
)
def test_what_compose_says_of_an_end_is_about_that_service(
    last: str, state: str, code: str | None, tmp_path: Path
) -> None:
    lines = [*_prefixed("llm-1", LOGS["vllm"]), "web-1  | hello", last]
    found, _ = answer("\n".join(lines).encode(), [], tmp_path)
    launch = next(server for server in found["servers"] if server["id"] == "llm-1")["launches"][-1]
    assert launch["state"] == state
    assert (launch["diagnosis"] or {}).get("code") == code


@pytest.mark.parametrize(
    ("last", "code"),
    [
        ("Nov  3 09:05:00 gpu7 kernel: Out of memory: Killed process 810 (VLLM::EngineCor) total-vm:190kB, anon-rss:120kB", "host-oom"),
        ("Nov  3 09:05:00 gpu7 kernel: NVRM: Xid (PCI:0000:a1:00): 79, pid='<unknown>', GPU has fallen off the bus.", "gpu-lost"),
        ("Nov  3 09:05:00 gpu7 systemd[1]: vllm.service: Main process exited, code=killed, status=9/KILL", "worker-killed"),
        ("Nov  3 09:05:00 gpu7 systemd[1]: vllm.service: A process of this unit has been killed by the OOM killer.", "host-oom"),
    ],
)  # fmt: skip
def test_the_machines_own_lines_reach_the_server(last: str, code: str, tmp_path: Path) -> None:
    lines = [f"Nov  3 09:00:00 gpu7 vllm[71]: {line}" for line in _lines(LOGS["vllm"])]
    end = "Nov  3 09:05:01 gpu7 vllm[71]: (APIServer pid=701) ERROR 11-03 09:05:01 [core_client.py:564] Engine core proc EngineCore_DP0 died unexpectedly, shutting down client."
    found, _ = answer("\n".join([*lines, last, end]).encode(), [], tmp_path)
    assert [server["id"] for server in found["servers"]] == ["gpu7 vllm[71]"]
    assert found["servers"][0]["launches"][-1]["diagnosis"]["code"] == code


def test_a_bar_that_is_glued_to_the_next_record(tmp_path: Path) -> None:
    text = LOGS["sglang"].replace(b"4.61s/it]\n\n", b"4.61s/it]")
    assert b"s/it][2025" in text
    found, _ = answer(text, [], tmp_path)
    plain, _ = answer(LOGS["sglang"], [], tmp_path)
    assert _launches(found) == _launches(plain)


def test_new_year_between_two_lines_of_a_log_without_years(tmp_path: Path) -> None:
    text = LOGS["vllm"].replace(b" 11-03 09:00:", b" 12-31 23:59:").replace(b" 11-03 09:01:", b" 01-01 00:00:")
    launch = answer(text, ["--idle", "2"], tmp_path)[0]["servers"][0]["launches"][-1]
    assert (launch["state"], launch["ready_s"], launch["started"]) == ("ready", 89.0, None)


@pytest.mark.parametrize(
    "said",
    ["(raylet) Spilled 2176 MiB, 29 objects, write throughput 1 MiB/s.", "(pid=53316) FutureWarning: Using `TRANSFORMERS_CACHE` is deprecated", "(autoscaler +5s) Tip: use `ray status`"],
)  # fmt: skip
def test_rays_own_words_are_no_server(said: str, tmp_path: Path) -> None:
    text = LOGS["vllm"].replace(b"\n", b"\n" + said.encode() + b"\n", 9)
    found, _ = answer(text, [], tmp_path)
    assert [server["id"] for server in found["servers"]] == [""]
