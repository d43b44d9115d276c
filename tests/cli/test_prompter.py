"""A question as it is shown, and an answer as it is typed."""

from __future__ import annotations

import pytest

from eagletui.cli.prompter import ANSWER_LIMIT, MARK, LineEditor, TerminalPrompter, prompt, render
from eagletui.nodes.prompter import LINE_LIMIT, LINES_LIMIT, Field, Question, clean_line, clean_lines


def typed(*pieces: bytes) -> LineEditor:
    line = LineEditor()
    for piece in pieces:
        line.feed(piece)
    return line


@pytest.mark.parametrize(
    ("keys", "text"),
    [
        (b"secret\n", "secret"),
        (b"secret\r", "secret"),
        (b"\n", ""),
        (b"\x04", None),
        (b"ab\x04c\n", "abc"),
        (b"abc\x7f\x08d\n", "ad"),
        (b"\x7fabc\n", "abc"),
        (b"wrong\x15right\n", "right"),
        (b"one two\x17three\n", "onethree"),
        (b"a\x1b[D\x1b[3~\x1bOPb\n", "ab"),
        (b"\x1b[200~pasted\x1b[201~\n", "pasted"),
        (b"a\x1b\n", "a"),
        (b"tab\tand\x00bell\x07\n", "tabandbell"),
        ("pässwörd ✓\n".encode(), "pässwörd ✓"),
        (b"first\nsecond\n", "first"),
        (b"spaces kept \n", "spaces kept "),
    ],
)
def test_keys(keys: bytes, text: str | None) -> None:
    line = typed(keys)
    assert line.ended
    assert not line.stopped
    assert line.text == text
    assert typed(*(keys[i : i + 1] for i in range(len(keys)))).text == text


@pytest.mark.parametrize("keys", [b"\x03", b"abc\x03", b"\x1b\x03", b"\x1c"])
def test_ctrl_c(keys: bytes) -> None:
    assert typed(keys).stopped


def test_a_pasted_file_is_bounded() -> None:
    text = typed(b"x" * (ANSWER_LIMIT * 3) + b"\n").text
    assert text is not None
    assert len(text) == ANSWER_LIMIT


def test_what_is_rubbed_out_goes_from_the_screen() -> None:
    line = LineEditor()
    assert line.feed("aé漢".encode()) == "aé漢"
    assert line.feed(b"\x7f") == "\b \b" * 2
    assert line.feed(b"\x15") == "\b \b" * 2
    assert line.feed(b"\x7f") == ""


HOSTILE = (
    "ok\x1b[2J\x1b]0;title\x07\r\neagletui: login root@bank:22\u202e\u2028Passphrase of id: " + " " * 500 + "x" * 5000
)


def test_a_server_cannot_draw_nor_pose_as_another() -> None:
    question = Question(
        "you@gpu:22",
        (Field(clean_line(HOSTILE), by_server=True), Field(clean_line("Code: "), secret=False, by_server=True)),
        said=clean_lines(HOSTILE * 10),
    )
    for width in (10, 40, 80, 300):
        lines = render(question, width)
        ours = lines.index("The server says:")
        assert "you@gpu:22" in "".join(lines[:ours])
        assert all(line.startswith(MARK) for line in lines[ours + 1 :])
        assert all(line.isprintable() and len(line) <= max(width, 20) for line in lines)
        assert len(lines) < 1000
    assert prompt(question.fields[0], 1, 2) == "Answer 1: "
    assert prompt(question.fields[1], 1, 1) == "Answer: "
    assert "\x1b" not in clean_line(HOSTILE)


def test_cleaning_is_bounded() -> None:
    assert len(clean_line("x" * 10_000)) == LINE_LIMIT
    assert len(clean_lines("x\n" * 10_000)) == LINES_LIMIT
    assert clean_lines("\n \x07\n") == ()
    assert clean_line("a  \t b\n") == "a b"


def test_a_screen_that_cannot_be_left_means_nobody_to_ask() -> None:
    class Stuck:
        can_leave_terminal = False

        def leave_terminal(self) -> None:
            raise AssertionError

    prompter = TerminalPrompter()
    prompter.leave_first(Stuck())  # type: ignore[arg-type]
    assert not prompter.can_ask
