"""Which of several servers is looked at."""

from __future__ import annotations

from dataclasses import replace

import pytest

from eagletui.servers.model import LogSource, Process, Server
from eagletui.servers.selection import chosen, with_log


def server(pid: int, port: int) -> Server:
    launcher = Process(pid, 1, pid, pid, "S", "python3", pid * 10)
    return Server(
        id=f"sglang:{port}", engine="sglang", launcher=launcher, family=(), user="u", port=port, model="/m", command=(), cwd=None,
        log=LogSource("/x.log"),
    )  # fmt: skip


A, B = server(10, 30000), server(20, 30001)


@pytest.mark.parametrize(
    ("servers", "wanted", "port", "current", "found"),
    [
        ((), None, None, None, None),
        ((A, B), None, None, None, A),
        ((A, B), "sglang:30001", None, A, B),
        ((A, B), None, 30001, None, B),
        ((A,), None, 30001, None, None),
        ((A, B), None, None, B, B),
        ((A,), None, None, B, None),  # B died: it stays in view, and A says nothing about it
        ((A,), "sglang:30001", None, B, None),
        ((A, server(21, 30001)), None, None, B, server(21, 30001)),
    ],
)
def test_choice(
    servers: tuple[Server, ...], wanted: str | None, port: int | None, current: Server | None, found: Server | None
) -> None:
    assert chosen(servers, wanted=wanted, port=port, current=current) == found


def test_a_named_log_replaces_the_one_found() -> None:
    assert with_log(A, None) is A
    assert with_log(A, "/y.log") == replace(A, log=LogSource("/y.log", via="flag"))
