"""Ways in which a link to a node breaks, each done to a real sshd, and what tells whether anything was lost."""

from __future__ import annotations

import contextlib
import itertools
import os
import random
import re
import signal
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from tests.blackhole import Proxy
from tests.e2e.following import Client
from tests.node_processes import processes_of, told
from tests.sshd import Sshd, children_of

HEALS_S = 30.0
"""A client that follows again is here within a second or two; what is longer is a failure."""
NOTICED_S = 17.0
"""15 s by the product's keepalive, and what a busy machine adds."""
REAL = "black hole, noticed by the product's own keepalive"


def end_all(pids: list[int]) -> None:
    """Kill them, if they are there."""
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


class Cutter:
    """Cuts the link of one client in the ways that `KINDS` names. `stop_s` is a nap and `sleep_s` a sleep longer than
    the lease; `dead_s` a silence after which the client must have noticed."""

    def __init__(
        self, sshd: Sshd, proxy: Proxy, client: Client, user: str, engine: int, *, sleep_s: float, dead_s: float
    ) -> None:
        self.done: Counter[str] = Counter()
        self._sshd = sshd
        self._proxy = proxy
        self._client = client
        self._user = user
        self._engine = engine
        self._sleep_s = sleep_s
        self._dead_s = dead_s

    def cut(self, kind: str) -> None:
        """Do it, and count it."""
        KINDS[kind](self)
        self.done[kind] += 1

    def _sshd_monitor_killed(self) -> None:
        end_all(self._sshd.connections())

    def _sshd_user_part_killed(self) -> None:
        end_all([child for pid in self._sshd.connections() for child in children_of(pid)])

    def _sshd_restarted(self) -> None:
        self._sshd.restart()

    def _reset(self) -> None:
        self._proxy.drop()

    def _closed(self) -> None:
        self._proxy.end()

    def _black_hole(self) -> float:
        """Nothing of this connection is forwarded any more, and neither end is told; new ones find another way. Gives the seconds until
        the client noticed."""
        began = time.monotonic()
        links = len(self._client.entries("L"))
        self._proxy.abandon()
        until = time.monotonic() + self._dead_s
        while len(self._client.entries("L")) == links and time.monotonic() < until:
            time.sleep(0.05)
        changes = self._client.entries("L")[links:]
        assert changes, f"a black hole was not noticed in {self._dead_s} s"
        return float(changes[0].split()[0]) - began

    def _silence(self) -> None:
        """Nothing is forwarded for a while, and then everything that was sent meanwhile."""
        self._proxy.black_hole()
        time.sleep(random.uniform(0.2, 3.0))
        self._proxy.forward()

    def _real_black_hole(self) -> None:
        """The same with the product's own keepalive, which a new connection takes."""
        os.kill(self._client.pid, signal.SIGUSR1)
        time.sleep(0.2)
        self._proxy.drop()
        self._client.wait_for(self._client.newest_number() + 5000, HEALS_S, "a reset before a black hole")
        took = self._black_hole()
        assert 10 < took < NOTICED_S, f"with the product's own keepalive a black hole was noticed after {took:.1f} s"
        os.kill(self._client.pid, signal.SIGUSR2)

    def _kill_ours(self, pattern: str) -> None:
        """The processes of ours on the node whose command line this is; they are there once the client is back."""
        until = time.monotonic() + HEALS_S
        while True:
            ours = processes_of(self._user, without=(self._engine,))
            if pids := [one.pid for one in ours if re.search(pattern, one.line, re.DOTALL)]:
                return end_all(pids)
            assert time.monotonic() < until, f"no {pattern!r} in {told(ours)}"
            time.sleep(0.02)

    def _tail_killed(self) -> None:
        self._kill_ours(r"^tail ")

    def _poll_shell_killed(self) -> None:
        self._kill_ours(r"^sh .* poll$")

    def _poll_timeout_killed(self) -> None:
        self._kill_ours(r"^timeout .* poll$")

    def _nap(self) -> None:
        self._sleep(random.uniform(0.3, 1.5))

    def _longer_than_the_lease(self) -> None:
        self._sleep(self._sleep_s)

    def _sleep(self, seconds: float) -> None:
        os.kill(self._client.pid, signal.SIGSTOP)
        time.sleep(seconds)
        os.kill(self._client.pid, signal.SIGCONT)


KINDS: dict[str, Callable[[Cutter], object]] = {
    "sshd's monitor process killed": Cutter._sshd_monitor_killed,
    "sshd's user part killed": Cutter._sshd_user_part_killed,
    "sshd restarted": Cutter._sshd_restarted,
    "connection reset": Cutter._reset,
    "connection closed": Cutter._closed,
    "black hole": Cutter._black_hole,
    "silence, and all of it late": Cutter._silence,
    REAL: Cutter._real_black_hole,
    "tail on the node killed": Cutter._tail_killed,
    "poll shell on the node killed": Cutter._poll_shell_killed,
    "timeout of the poll shell killed": Cutter._poll_timeout_killed,
    "client stopped": Cutter._nap,
    "client stopped longer than the lease": Cutter._longer_than_the_lease,
}


def plan(count: int, seed: int, rare: tuple[str, ...]) -> list[str]:
    """Kinds for `count` cuts, seeded: each kind in turn of a shuffled round, the `rare` (slow) ones a third as often, and
    REAL in the middle of each full hundred."""
    chosen = random.Random(seed)
    kinds: list[str] = []
    at = 0
    while len(kinds) < count:
        one = [kind for kind in KINDS if kind != REAL and (kind not in rare or at % 3 == 0)]
        chosen.shuffle(one)
        kinds += one
        at += 1
    for middle in range(50, count - 49, 100):
        kinds[middle] = REAL
    return kinds[:count]


def numbered(text: str, start: str) -> list[str]:
    """The numbered lines of a log or of what a client wrote, in order."""
    return [line[len(start) - 6 :] for line in text.split("\n") if line.startswith(start)]


def faults(written: list[str], shown: list[str]) -> list[str]:
    """What is wrong with what was shown: lost, doubled, out of order, not written so. Empty when it is exact."""
    if written == shown:
        return []
    times = Counter(shown)
    lost = [line[:20] for line in written if not times[line]]
    doubled = [line[:20] for line, count in times.items() if count > 1]
    strange = [line[:60] for line in set(shown) - set(written)]
    order = [f"{a[:14]} before {b[:14]}" for a, b in itertools.pairwise(shown) if a[:14] > b[:14]]
    return [
        f"{what}: {len(found)}, such as {found[:3]}"
        for what, found in (("lost", lost), ("doubled", doubled), ("not written", strange), ("out of order", order))
        if found
    ] or ["different"]


def written_lines(log: Path) -> list[str]:
    """The numbered lines of a log file. NULs of a hole are no text."""
    return numbered(log.read_bytes().replace(b"\0", b"").decode(), "line 0")
