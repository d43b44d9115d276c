"""A log that is rotated under a server that writes 2,000 numbered lines a second, while the link is down and while it is up: nothing is doubled,
and lost is only what the rotation itself took away before we came back, with a marker that says so."""

from __future__ import annotations

import os
import shutil
import signal
import time
from pathlib import Path

import pytest

from tests.e2e.cuts import HEALS_S, faults, numbered, written_lines
from tests.e2e.test_two_hundred_cuts import SHORT, Scene, scene
from tests.requires import require
from tests.sshd import start_sshd

ROTATIONS = 4
OWN_LEASE = {name: value for name, value in SHORT.items() if not name.endswith((":LEASE_S", ":RENEW_S"))}
"""With a lease of seconds nobody would be there long enough to look at the log's name."""


class Rotation:
    """One way to rotate; `turns`: the lines that each took out of the log."""

    def __init__(self, now: Scene) -> None:
        self.now = now
        self.log = now.engine.log
        self.turns: list[list[str]] = []

    def rename_and_create(self) -> None:
        """As logrotate does without a signal: the server writes on into the file that it has open."""
        self.log.rename(self.log.with_suffix(f".{time.monotonic_ns()}"))
        self.log.write_text("another program's line\n")

    def cut(self) -> None:
        """`copytruncate`, or `: > log`: what was not read before that is in no log any more. The server stands still meanwhile, at a line's end,
        so that what it wrote is known."""
        while True:
            os.kill(self.now.engine.pid, signal.SIGSTOP)
            content = self.log.read_bytes()
            if content.endswith(b"\n"):
                break
            os.kill(self.now.engine.pid, signal.SIGCONT)
            time.sleep(0.003)
        self.turns.append(written_lines(self.log))
        os.truncate(self.log, 0)
        os.kill(self.now.engine.pid, signal.SIGCONT)


@pytest.mark.parametrize("appends", [True, False], ids=["appending", "with holes"])
def test_a_log_that_is_cut(
    tmp_path: Path, sshd_users: dict[str, str], ssh_key: Path, open_folder: Path, appends: bool
) -> None:
    require("procfs")
    log = open_folder / "server.log"
    log.touch()
    shutil.chown(log, sshd_users["bash"])
    with (
        start_sshd(open_folder / "sshd", sshd_users, ssh_key) as sshd,
        scene(sshd, tmp_path, log=log, appends=appends, constants=OWN_LEASE) as now,
    ):
        now.heals("the first connection")
        rotation = Rotation(now)
        for turn in range(ROTATIONS):
            down = turn % 2 == 0
            if down:
                now.proxy.refuse()
                now.proxy.drop()
                time.sleep(0.3)
            rotation.cut()
            time.sleep(0.4)
            now.proxy.forward()
            now.heals(f"rotation {turn}, the link {'down' if down else 'up'}")
            time.sleep(0.3)
        os.kill(now.engine.pid, signal.SIGUSR1)
        now.client.wait_for_text("= line end", HEALS_S)
    shown = numbered(now.client.text(), "= line 0")
    written = [*rotation.turns, written_lines(log)]
    ever = set().union(*written)
    lost = ever - set(shown)
    # A line that had come in part when it was taken away is shown as far as it came.
    begun = {line for line in shown if line not in ever and any(one.startswith(line.rstrip("\ufffd")) for one in lost)}
    told = [
        f"{len(lost & set(lines))} of {len(lines)}, link {'up' if at % 2 else 'down'}"
        for at, lines in enumerate(rotation.turns)
    ]
    print(f"{sum(map(len, written))} lines written; lost by rotations: {'; '.join(told)}; shown in part: {len(begun)}")
    assert len(begun) <= ROTATIONS
    whole = [line for line in shown if line not in begun]
    assert not faults([line for turn in written for line in turn if line not in lost], whole)
    markers = [number for number, line in enumerate(now.client.text().split("\n")) if line.startswith("M ")]
    place = {line[2:]: number for number, line in enumerate(now.client.text().split("\n"))}
    for at, lines in enumerate(written):
        gone = [line for line in lines if line in lost]
        assert lines[len(lines) - len(gone) :] == gone, f"lines of turn {at} are lost that were not its last"
        if not gone and at % 2:
            continue  # all of it had come before it was cut
        if at < ROTATIONS:
            last, then = ([line for line in lines if line not in lost][-1:] or whole[:1])[0], written[at + 1]
            first = next(line for line in then if line not in lost)
            assert any(place[last] < marker < place[first] for marker in markers), (
                f"nothing tells of cut {at}: {now.client.entries('M')}"
            )


def test_a_log_that_is_renamed(tmp_path: Path, sshd_users: dict[str, str], ssh_key: Path, open_folder: Path) -> None:
    """The server has the file open: it is followed by that, and nothing is lost at all."""
    require("procfs")
    with (
        start_sshd(open_folder / "sshd", sshd_users, ssh_key) as sshd,
        scene(sshd, tmp_path, constants=OWN_LEASE) as now,
    ):
        now.heals("the first connection")
        rotation = Rotation(now)
        names = set(now.engine.log.parent.glob("server.*"))
        try:
            now.proxy.refuse()
            now.proxy.drop()
            time.sleep(0.3)
            rotation.rename_and_create()
            [renamed] = set(now.engine.log.parent.glob("server.*")) - names
            time.sleep(0.4)
            now.proxy.forward()
            now.client.wait_for(now.client.newest_number() + 4000, HEALS_S, "a renamed log")
            now.client.wait_for_text("is another file now")
            os.kill(now.engine.pid, signal.SIGUSR1)
            now.client.wait_for_text("= line end", HEALS_S)
            assert not faults(written_lines(renamed), numbered(now.client.text(), "= line 0"))
            assert "another program's line" not in now.client.text()
        finally:
            for path in set(now.engine.log.parent.glob("server.*")) - names:
                path.unlink()
