"""Counting a family while it lives and while it dies."""

from __future__ import annotations

from dataclasses import replace

from eagletui.monitor.family_watch import FamilyCount
from eagletui.servers.model import Member
from eagletui.shell.poll import PollAnswer
from eagletui.shell.processes import StatRow
from tests.ui.scenes import make_server, process


def test_who_goes_while_the_server_is_stopped_stays_in_the_total() -> None:
    """`11 of 12 are left` tells how far a stop is; a helper that goes otherwise was never needed."""
    server = make_server(members=1)
    server = replace(
        server, family=(*server.family, Member(process(50_000), "other"), Member(process(50_001), "other"))
    )

    def answer(*gone: int) -> PollAnswer:
        return PollAnswer(
            1,
            tuple(
                StatRow(one.pid, one.comm, "S", 1, 1, 1, 0, 1, one.started)
                for one in (member.process for member in server.family)
                if one.pid not in gone
            ),
        )

    launcher = (server.launcher.pid, server.launcher.started)
    count = FamilyCount()
    count.found(server)
    count.polled(answer(), launcher)
    assert (count.alive, count.total) == (4, 4)
    count.polled(answer(50_000), launcher)
    assert (count.alive, count.total) == (3, 3)
    count.polled(answer(50_000, 50_001), launcher, stopping=True)
    assert (count.alive, count.total) == (2, 3)
    count.polled(answer(50_000, 50_001), launcher)
    assert (count.alive, count.total) == (2, 2)  # the stop was given up
