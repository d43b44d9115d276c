"""`http-get` run for real under every login shell, by curl and by wget, against servers that behave and that do not."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eagletui.shell.fetch import BODY_LIMIT, Fetched, ask_http, parse_fetch
from eagletui.shell.script import Command
from eagletui.shell.scripts import HTTP_GET
from tests.requires import require
from tests.shell.sh import LOGIN_SHELLS, run
from tests.shell.test_scripts import HOSTILE
from tests.sshd import free_port
from tests.talk import BODY, Server, Server6, serving

USUAL = ("cut", "dd", "head", "printf", "sh", "sleep", "timeout")
"""What else the script and its prologue start."""


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    with serving(Server, "127.0.0.1") as port:
        yield port


@pytest.fixture(params=["curl", "wget"])
def tool(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Only this one on PATH, with proxies in the environment and in its rc files that must not be believed."""
    name = str(request.param)
    only(tmp_path / "only", monkeypatch, name)
    for variable in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.setenv(variable, f"http://127.0.0.1:{free_port()}")
    (tmp_path / ".curlrc").write_text('proxy = "http://127.0.0.1:9"\noutput = "written"\n')
    (tmp_path / ".wgetrc").write_text("use_proxy = on\nhttp_proxy = http://127.0.0.1:9\noutput_document = written\n")
    return name


def only(folder: Path, monkeypatch: pytest.MonkeyPatch, *programs: str) -> None:
    """A PATH with these and what the scripts themselves need."""
    folder.mkdir()
    for name in (*programs, *USUAL):
        (folder / name).symlink_to(require(name))
    monkeypatch.setenv("PATH", str(folder))


def fetch(
    path: str, folder: Path, port: int, *, host: str = "127.0.0.1", seconds: float = 5, shell: str = "sh"
) -> Fetched:
    status, output, errors = run(ask_http(host, port, path, seconds), folder, shell)
    return parse_fetch(status, output, errors)


@pytest.mark.parametrize("shell", LOGIN_SHELLS)
def test_an_answer_under_every_login_shell(shell: str, tmp_path: Path, port: int) -> None:
    require("curl")
    Server.seen.clear()
    seen = fetch("/ok?a=1&b=%20", tmp_path, port, shell=shell)
    assert (seen.tool, seen.status, seen.body, seen.failure) == ("curl", 200, BODY, None)
    assert seen.seconds is not None
    assert 0 < seen.seconds < 5
    assert Server.seen[0].startswith(b"GET /ok?a=1&b=%20 HTTP/1.1\r\n")


def test_what_comes_back(tool: str, tmp_path: Path, port: int) -> None:
    ok = fetch("/ok", tmp_path, port)
    assert (ok.tool, ok.status, ok.body, ok.failure) == (tool, 200, BODY, None)
    assert (ok.seconds is None) == (tool == "wget")
    busy = fetch("/busy", tmp_path, port)
    assert (busy.status, busy.body) == (503, b"busy")
    Server.seen.clear()
    assert fetch("/elsewhere", tmp_path, port).status == 302
    assert len(Server.seen) == 1
    for path in ("/close", "/reset", "/cut", "/junk"):
        assert fetch(path, tmp_path, port) == Fetched(tool, failure="closed"), path
    assert fetch("/ok", tmp_path, free_port()) == Fetched(tool, failure="refused")
    assert not (tmp_path / "written").exists()
    assert sorted(p.name for p in tmp_path.iterdir()) == [".curlrc", ".wgetrc", "only"]


@pytest.mark.parametrize("path", ["/silent", "/drip"])
def test_a_deadline_is_kept(path: str, tool: str, tmp_path: Path, port: int) -> None:
    began = time.monotonic()
    assert fetch(path, tmp_path, port, seconds=1) == Fetched(tool, failure="timeout")
    assert time.monotonic() - began < 5


def test_a_body_without_an_end_is_cut(tool: str, tmp_path: Path, port: int) -> None:
    seen = fetch("/endless", tmp_path, port, seconds=20)
    assert (seen.status, len(seen.body)) == (200, BODY_LIMIT)


def test_the_limit_is_the_scripts() -> None:
    assert f"head -c {BODY_LIMIT}\n" in HTTP_GET.text


def test_ipv6(tool: str, tmp_path: Path) -> None:
    if not socket.has_ipv6:
        pytest.skip("needs IPv6")
    with serving(Server6, "::1") as port:
        assert fetch("/ok", tmp_path, port, host="::1").body == BODY
    assert tool


@pytest.mark.parametrize("programs", [(), ("busybox",)])
def test_neither_is_there(
    programs: tuple[str, ...], tmp_path: Path, port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths = [require(name) for name in programs]
    only(tmp_path / "only", monkeypatch)
    for path in paths:  # busybox's wget follows redirects and knows none of the options
        (tmp_path / "only" / "wget").symlink_to(path)
    assert fetch("/ok", tmp_path, port).failure == "no-tool"


@pytest.mark.parametrize("value", [*HOSTILE, "-o/etc/x", "@file", "/ok -o x", "/ok\n-ox", "a/../b?%0d%0a c"])
def test_hostile_arguments_are_refused_and_do_nothing(value: str, tmp_path: Path, port: int) -> None:
    good = ("127.0.0.1", str(port), "/ok", "5")
    for shell in ("dash", "bash-as-sh", "busybox"):
        before = {p.name for p in tmp_path.iterdir()}
        for at in range(4):
            args = (*good[:at], value, *good[at + 1 :])
            status, output, _ = run(Command(HTTP_GET, args), tmp_path, shell)
            assert (status, output) == (2, b""), (shell, args)
        assert {p.name for p in tmp_path.iterdir()} - before <= {f"{shell}-bin"}


@given(
    st.integers() | st.none(),
    st.binary(max_size=60),
    st.binary(max_size=60) | st.from_regex(rb"(curl|wget) \d{1,3} .*"),
)
@settings(max_examples=300)
def test_any_output_has_a_meaning(status: int | None, output: bytes, errors: bytes) -> None:
    seen = parse_fetch(status, output, errors)
    assert (seen.status is None) == (seen.failure is not None)


@pytest.mark.parametrize(
    ("errors", "seen"),
    [
        (b"curl 0 200 0.001234\n", Fetched("curl", 200, 0.001234, b"b")),
        (b"curl 0 200 0,001234\n", Fetched("curl", 200, 0.001234, b"b")),
        (b"curl 52 000 0.2\n", Fetched("curl", failure="closed")),
        (b"curl 18 200 0.2\n", Fetched("curl", failure="closed")),
        (b"curl 23 200 0.2\n", Fetched("curl", failure="closed")),
        (b"curl 124 \n", Fetched("curl", failure="timeout")),
        (b"curl 2 \n", Fetched("curl", failure="no-tool")),
        (b"wget 1 wget: unrecognized option '--max-redirect=0'\n", Fetched("wget", failure="no-tool")),
        (b"wget 8   HTTP/1.1 503 Busy\n  X: y\n", Fetched("wget", 503, None, b"b")),
        (b"", Fetched(failure="closed")),
    ],
)
def test_what_a_tool_says(errors: bytes, seen: Fetched) -> None:
    assert parse_fetch(0, b"b", errors) == seen
