"""Connecting to a log of 3 GB through a real sshd: its end and its launch's begin are read, and nothing else travels."""

from __future__ import annotations

import time
from pathlib import Path

from eagletui.monitor.monitor import NodeMonitor
from eagletui.nodes.ssh import SshNode
from tests.blackhole import proxied
from tests.e2e.test_ssh_node import home_of, python_of_the_system
from tests.engine import user_engine
from tests.sshd import Sshd
from tests.watching import running, texts, until

SIZE = 3 << 30
LAUNCH = "[2026-11-30 00:40:16] server_args=ServerArgs(model_path='/models/long', tp_size=8, port=1)\n"


async def test_only_the_end_and_the_launch_of_a_long_log_travel(sshd_server: Sshd, open_folder: Path) -> None:
    python_of_the_system()
    log = open_folder / "long.log"
    with log.open("wb") as file:
        file.write(b"before\n" * 10_000 + LAUNCH.encode())
        file.write("".join(f"early {n}\n" for n in range(1_000)).encode())
        file.truncate(SIZE)  # what is between is a hole: it costs no disk, and would travel as any byte does
        file.seek(0, 2)
        file.write(b"\n" + "".join(f"late {n} {chr(120) * 90}\n" for n in range(60_000)).encode())
    size = log.stat().st_size
    with (
        user_engine(sshd_server.user(), home_of(sshd_server, "bash"), pace_s=60) as engine,
        proxied(sshd_server.port) as proxy,
    ):
        node = SshNode(f"{sshd_server.user()}@127.0.0.1:{proxy.port}", config_file=_config(sshd_server, proxy.port))
        monitor = NodeMonitor(node, port=engine.port, log_path=str(log))
        async with running(monitor):
            began = time.monotonic()
            snapshot = await until(monitor, lambda s: "".join(texts(s)[-1:]).startswith("late 59999 "), 40)
            took = time.monotonic() - began
            carried = proxy.carried
    shown = texts(snapshot)
    assert carried < 8 << 20, f"{carried:,} bytes travelled"
    print(f"{carried:,} of {size:,} bytes travelled; first screen after {took:.1f} s")
    assert any("bytes before this were not read" in text for text in shown)
    assert "model_path='/models/long'" in "".join(shown) or snapshot.startup.args.get("model_path") == "/models/long"
    late = [text for text in shown if text.startswith("late ")]
    assert [text.split()[1] for text in late[-1000:]] == [str(n) for n in range(59_000, 60_000)]


def _config(sshd: Sshd, port: int) -> Path:
    """The server's host key under the proxy's port, too."""
    known = sshd.folder / f"known_hosts_{port}"
    known.write_text(sshd.known_hosts.read_text().replace(f":{sshd.port} ", f":{port} "))
    return sshd.write_config(f"config_{port}", f"Host *\n  UserKnownHostsFile {known}")
