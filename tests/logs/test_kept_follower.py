"""Going on after a break in a log that is known by times or cursors."""

from __future__ import annotations

from eagletui.logs.follower import Found, Fresh, Part, Step, Wait
from eagletui.logs.kept_follower import KeptFollower


def follower(keeper: str = "docker 4f3c") -> KeptFollower:
    made = KeptFollower(keeper, "Do this")
    assert made.next_run().step is Step.FOLLOW
    return made


def text(found: list[Found]) -> bytes:
    return b"".join(part.data for part in found if isinstance(part, Part))


def test_lines_of_one_time_are_told_apart_by_their_number() -> None:
    reading = follower()
    first = reading.took(
        b"2026-11-30T00:00:01Z a\n2026-11-30T00:00:02Z b\n2026-11-30T00:00:02Z c\n2026-11-30T00:00:02Z half"
    )
    assert first[0] == Fresh("")
    assert text(first) == b"a\nb\nc\n"
    again = reading.next_run()
    assert again.command.args[:3] == ("docker", "4f3c", "2026-11-30T00:00:02Z")
    assert (
        text(
            reading.took(
                b"2026-11-30T00:00:02Z b\n2026-11-30T00:00:02Z c\n2026-11-30T00:00:02Z d\n2026-11-30T00:00:03Z e\n"
            )
        )
        == b"d\ne\n"
    )
    reading.next_run()
    assert text(reading.took(b"2026-11-30T00:00:03Z e\n2026-11-30T00:00:03Z f\n")) == b"f\n"


def test_a_cursor_gives_what_comes_after_it() -> None:
    reading = follower("unit vllm.service")
    reading.took(b'{"__CURSOR": "c1", "MESSAGE": "a"}\n')
    assert reading.next_run().command.args[:3] == ("unit", "vllm.service", "c1")
    assert text(reading.took(b'{"__CURSOR": "c2", "MESSAGE": "b"}\n')) == b"b\n"


def test_parts_are_dated() -> None:
    found = follower().took(b"2026-11-30T00:00:01Z a\n2026-11-30T00:00:01.5Z b\n2026-11-30T00:01:00Z c\n")
    assert [(part.data, part.at) for part in found if isinstance(part, Part)] == [
        (b"a\nb\n", 1795996801.0),
        (b"c\n", 1795996860.0),
    ]


def test_a_tool_that_refuses_says_why_and_what_to_do() -> None:
    reading = follower()
    reading.took(b"permission denied while trying to connect to the Docker daemon socket\n")
    assert reading.ended(None) == [
        Wait(
            0.5,
            "The log of container 4f3c cannot be read: permission denied while trying to connect to the Docker daemon socket. Do this",
        )
    ]
    reading = follower("unit x.service")
    assert reading.ended(127) == [
        Wait(0.5, "The log of unit x.service cannot be read: this login has no journalctl. Do this")
    ]


def test_one_that_worked_is_only_away_for_a_while() -> None:
    reading = follower()
    reading.took(b"2026-11-30T00:00:01Z a\nError response from daemon\n")
    waits = [reading.ended(None)[0] for _ in range(5)]
    assert waits == [Wait(seconds, None) for seconds in (0.5, 1.0, 2.0, 5.0, 5.0)]
