"""Nothing lost: numbered lines at 2,000 a second through a real sshd, while the link is cut in every way that we know.

The default is a short run. The whole proof is 200 cuts (about ten minutes):

    EAGLETUI_CUTS=200 EAGLETUI_CUTS_SEED=1 pytest -s tests/e2e/test_two_hundred_cuts.py

prints duration, lines and cuts a kind. The client is a process of its own that runs the product's NodeMonitor; only its times are
shortened (backoff, keepalive, lease), and the product's own keepalive is in force for some of the black holes.
"""

from __future__ import annotations

import json
import os
import pwd
import random
import signal
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.blackhole import Proxy, proxied
from tests.e2e.cuts import HEALS_S, Cutter, faults, numbered, plan, written_lines
from tests.e2e.following import Client, Orders, following_client
from tests.engine import Engine, user_engine
from tests.node_processes import processes_of, told
from tests.requires import require
from tests.sshd import Sshd, start_sshd

CUTS = int(os.environ.get("EAGLETUI_CUTS", "12"))
SEED = int(os.environ.get("EAGLETUI_CUTS_SEED", str(random.SystemRandom().randrange(10**6))))
"""Another one each time, told when it fails."""
LINES_PER_S = 2000
KEPT = 5
"""Processes on the node while a client follows."""
LEASE_S = 3
KEEPALIVE_S = 0.5
SHORT: dict[str, float | list[float]] = {
    "eagletui.shell.scripts:LEASE_S": LEASE_S,
    "eagletui.monitor.monitor:RENEW_S": LEASE_S - 1,
    "eagletui.nodes.ssh:KEEPALIVE_SECONDS": KEEPALIVE_S,
    "eagletui.monitor.link:BACKOFF_S": [0.05, 0.2, 0.5],
}
SLOW = ("black hole", "client stopped longer than the lease")
NEXT_AT_ONCE = 0.15
"""Part of the cuts that are followed by the next one before the client is back."""


@dataclass(slots=True)
class Scene:
    """A server that writes, an sshd, a proxy before it, and a client that follows through both."""

    sshd: Sshd
    proxy: Proxy
    engine: Engine
    client: Client
    user: str

    def newest_written(self) -> int:
        """Number of the newest whole numbered line in the log."""
        until = time.monotonic() + HEALS_S
        while True:  # the first one comes when the engine is up, and a log that was cut has none for a moment
            with self.engine.log.open("rb") as file:
                file.seek(max(0, file.seek(0, os.SEEK_END) - 16_384))
                lines = [line for line in file.read().split(b"\n")[1:-1] if line.startswith(b"line 0")]
            if lines:
                return int(lines[-1].split()[1])
            assert time.monotonic() < until, "the engine writes no line"
            time.sleep(0.02)

    def heals(self, why: str) -> None:
        """The client shows what was written after this moment."""
        self.client.wait_for(self.newest_written() + 1, HEALS_S, why)


@contextmanager
def scene(
    sshd: Sshd,
    folder: Path,
    *,
    log: Path | None = None,
    appends: bool = False,
    constants: Mapping[str, float | list[float]] = SHORT,
) -> Iterator[Scene]:
    user = sshd.user("bash")
    home = Path(pwd.getpwnam(user).pw_dir)
    with (
        user_engine(user, home, lines_per_s=LINES_PER_S, log=log, appends=appends, pace_s=0.01) as engine,
        proxied(sshd.port) as proxy,
    ):
        engine.wait_for("line 0")
        config = sshd.write_config(
            "proxied",
            f"Host node\n  HostName 127.0.0.1\n  Port {proxy.port}\n  User {user}\n  HostKeyAlias [127.0.0.1]:{sshd.port}",
        )
        orders = Orders("node", str(config), str(folder / "shown"), engine.port, str(log) if log else None, constants)
        with following_client(orders) as client:
            yield Scene(sshd, proxy, engine, client, user)


def test_no_line_is_lost_or_doubled_over_cuts(
    tmp_path: Path, sshd_users: dict[str, str], ssh_key: Path, open_folder: Path
) -> None:
    require("procfs")
    chosen = random.Random(SEED)
    began = time.monotonic()
    with start_sshd(open_folder / "sshd", sshd_users, ssh_key) as sshd, scene(sshd, tmp_path) as now:
        cutter = Cutter(sshd, now.proxy, now.client, now.user, now.engine.pid, sleep_s=LEASE_S + 1, dead_s=20)
        now.heals("the first connection")
        before = len(processes_of(now.user, without=(now.engine.pid,)))
        for number, kind in enumerate(plan(CUTS, SEED, SLOW)):
            cutter.cut(kind)
            if chosen.random() >= NEXT_AT_ONCE:
                now.heals(f"cut {number} of seed {SEED}: {kind}")
                time.sleep(chosen.uniform(0, 0.4))
        now.heals("the last cut")
        until = time.monotonic() + HEALS_S
        # A look at everything may be under way, and it is no more than a moment.
        while len(during := processes_of(now.user, without=(now.engine.pid,))) > KEPT and time.monotonic() < until:
            time.sleep(0.05)
        os.kill(now.engine.pid, signal.SIGUSR1)
        now.client.wait_for_text("= line end", HEALS_S)
        links = now.client.entries("L")
    text = now.client.text()
    shown, written = numbered(text, "= line 0"), written_lines(now.engine.log)
    figures = {
        "seed": SEED, "cuts": sum(cutter.done.values()), "kinds": dict(sorted(cutter.done.items())), "seconds": round(time.monotonic() - began),
        "lines written": len(written), "lines shown": len(shown), "times the link came up": sum(" up " in link for link in links),
        "processes kept at the beginning and the end": [before, len(during)],
    }  # fmt: skip
    print(json.dumps(figures, indent=1))
    assert not faults(written, shown), (SEED, faults(written, shown), figures)
    assert not now.client.entries("R"), "the ring dropped lines before they were looked at"
    assert not now.client.entries("M"), now.client.entries("M")
    assert "eagletui itself" not in text, now.client.entries("N")
    assert len(during) <= KEPT, told(during)
