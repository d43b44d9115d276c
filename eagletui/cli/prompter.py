"""Questions of a login on the person's terminal: before the screen opens, or while it is suspended.

The terminal is read in a thread and without its line editor, so that the event loop goes on, ctrl+c is a key and not a
signal, and a login that ends (or is ended) leaves the terminal as it was.
"""

from __future__ import annotations

import asyncio
import codecs
import contextlib
import os
import select
import shutil
import signal
import termios
import textwrap
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from types import FrameType
from typing import Protocol

from eagletui.errors import LoginCancelledError
from eagletui.nodes.prompter import Field, Question

TERMINAL = "/dev/tty"
ANSWER_LIMIT = 4096
"""Characters of an answer: more than any passphrase, and less than a pasted file."""
MARK = "│ "
"""Begins each line of a server's words: nothing of a server's stands at the begin of a line."""
_ENTER, _BACKSPACE, _STOP, _END, _CLEAR, _WORD = "\r\n", "\x7f\b", "\x03\x1c", "\x04", "\x15", "\x17"
_DEADLY = (signal.SIGTERM, signal.SIGHUP)


class Screen(Protocol):
    """Who has the terminal while the screen is open."""

    @property
    def can_leave_terminal(self) -> bool:
        """Whether leave_terminal can be entered now."""

    def leave_terminal(self) -> AbstractContextManager[None]:
        """The terminal as it was before the screen, until the end."""


class TerminalPrompter:
    """A `nodes.prompter.Prompter` on the process's own terminal. `asked` tells whether it has asked anything yet."""

    def __init__(self) -> None:
        self.asked = False
        self._screen: Screen | None = None

    def leave_first(self, screen: Screen | None) -> None:
        """From now on a screen has the terminal, and leaves it for each question; None: no longer."""
        self._screen = screen

    @property
    def can_ask(self) -> bool:
        """See Prompter."""
        if self._screen is not None and not self._screen.can_leave_terminal:
            return False
        try:
            os.close(os.open(TERMINAL, os.O_RDWR | os.O_NOCTTY))
        except OSError:
            return False
        return True

    async def ask(self, question: Question) -> Sequence[str] | None:
        """See Prompter."""
        self.asked = True
        try:
            with self._left_by_screen(), _raw_terminal() as terminal:
                return await self._ask(terminal, question)
        except (OSError, termios.error):
            return None

    def _left_by_screen(self) -> AbstractContextManager[None]:
        return self._screen.leave_terminal() if self._screen is not None else contextlib.nullcontext()

    async def _ask(self, terminal: int, question: Question) -> Sequence[str] | None:
        _write(terminal, "".join(f"{line}\n" for line in render(question, shutil.get_terminal_size().columns)))
        answers = []
        for number, field in enumerate(question.fields, 1):
            _write(terminal, prompt(field, number, len(question.fields)))
            answer = await _read_answer(terminal, field)
            if answer is None:
                return None
            answers.append(answer)
        return answers


def render(question: Question, width: int) -> list[str]:
    """The lines above the answers: whom it is for, our words, then the server's, marked line by line."""
    room = max(width - 1, 20)
    lines = ["", *textwrap.wrap(f"eagletui: login {question.login}", room)]
    for line in question.told:
        lines += textwrap.wrap(line, room, break_on_hyphens=False) or [""]
    labels = [f"{n}. {f.label}" if len(question.fields) > 1 else f.label for n, f in enumerate(question.fields, 1)]
    said = [*question.said, *(label for label, f in zip(labels, question.fields, strict=True) if f.by_server)]
    if said:
        lines.append("The server says:")
    for line in said:
        lines += [MARK + part for part in textwrap.wrap(line, room - len(MARK)) or [""]]
    return lines


def prompt(field: Field, number: int, of: int) -> str:
    """What stands before the answer. A server's label has been shown above it."""
    if not field.by_server:
        return f"{field.label}: "
    return f"Answer {number}: " if of > 1 else "Answer: "


@contextlib.contextmanager
def _raw_terminal() -> Iterator[int]:
    """The terminal, byte by byte and without echo, and as it was afterwards, also when the process is ended by a
    signal.
    """
    terminal = os.open(TERMINAL, os.O_RDWR | os.O_NOCTTY)
    try:
        before = termios.tcgetattr(terminal)
        raw = termios.tcgetattr(terminal)
        raw[3] &= ~(termios.ECHO | termios.ICANON | termios.ISIG | termios.IEXTEN)
        raw[6][termios.VMIN], raw[6][termios.VTIME] = 1, 0

        def restore() -> None:
            # TCSAFLUSH: keys that were typed for one question are no answer to the next.
            termios.tcsetattr(terminal, termios.TCSAFLUSH, before)

        with _restored_by_signals(restore):
            termios.tcsetattr(terminal, termios.TCSAFLUSH, raw)
            try:
                yield terminal
            finally:
                restore()
    finally:
        os.close(terminal)


@contextlib.contextmanager
def _restored_by_signals(restore: Callable[[], None]) -> Iterator[None]:
    """A signal that ends the process does so, after `restore`."""
    before = {number: signal.getsignal(number) for number in _DEADLY}

    def end(number: int, frame: FrameType | None) -> None:  # noqa: ARG001 - the signal module's signature
        with contextlib.suppress(OSError, termios.error):
            restore()
        signal.signal(number, before[signal.Signals(number)])
        os.kill(os.getpid(), number)

    for number in _DEADLY:
        signal.signal(number, end)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


async def _read_answer(terminal: int, field: Field) -> str | None:
    """One line. None: its end (ctrl+d). Raises LoginCancelledError for ctrl+c."""
    line = LineEditor()
    try:
        while True:
            data = await _next_bytes(terminal)
            echo = line.feed(data)
            if not field.secret and echo:
                _write(terminal, echo)
            if line.stopped:
                raise LoginCancelledError("the login was stopped")
            if line.ended:
                return line.text
    finally:
        _write(terminal, "\n")


async def _next_bytes(terminal: int) -> bytes:
    """What is typed next, read in a thread that ends when this is cancelled."""
    wake_read, wake_write = os.pipe()

    def wait() -> bytes:
        ready, _, _ = select.select([terminal, wake_read], [], [])
        return os.read(terminal, ANSWER_LIMIT) if terminal in ready else b""

    waiting = asyncio.create_task(asyncio.to_thread(wait))
    try:
        # An empty read is a terminal that was closed.
        return await asyncio.shield(waiting) or b"\x04"
    except asyncio.CancelledError:
        os.write(wake_write, b"x")
        await asyncio.wait((waiting,))
        raise
    finally:
        os.close(wake_read)
        os.close(wake_write)


class LineEditor:
    """A line as it is typed: backspace, ctrl+u, ctrl+w; no history. `feed` gives what to echo where it may be seen."""

    def __init__(self) -> None:
        self._typed: list[str] = []
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._escape = ""
        self.stopped = False
        self.ended = False
        self._no_answer = False

    @property
    def text(self) -> str | None:
        """The answer; None where there is none (ctrl+d on an empty line)."""
        return None if self._no_answer else "".join(self._typed)

    def feed(self, data: bytes) -> str:
        """Take what was typed, up to the end of the line; what comes after it is dropped."""
        echo = ""
        for key in self._decoder.decode(data):
            if self.ended or self.stopped:
                break
            echo += self._key(key)
        return echo

    def _key(self, key: str) -> str:
        if self._escape:
            return self._in_escape(key)
        if key in _ENTER:
            self.ended = True
        elif key in _STOP:
            self.stopped = True
        elif key == _END:
            # As with a terminal's own line editor, ctrl+d ends an empty line only.
            self.ended = self._no_answer = not self._typed
        elif key in _BACKSPACE:
            return self._rub_out(1)
        elif key == _CLEAR:
            return self._rub_out(len(self._typed))
        elif key == _WORD:
            kept = "".join(self._typed).rstrip().rpartition(" ")[0]
            return self._rub_out(len(self._typed) - len(kept))
        elif key == "\x1b":
            self._escape = key
        elif key.isprintable() and len(self._typed) < ANSWER_LIMIT:
            self._typed.append(key)
            return key
        return ""

    def _in_escape(self, key: str) -> str:
        """Arrow keys and the marks of a paste are no part of an answer."""
        if self._escape == "\x1b" and key not in "[O":
            self._escape = ""
            return self._key(key) if key in _ENTER + _STOP else ""
        self._escape += key
        if len(self._escape) > 2 and "@" <= key <= "~":
            self._escape = ""
        return ""

    def _rub_out(self, count: int) -> str:
        gone = self._typed[len(self._typed) - count :]
        del self._typed[len(self._typed) - count :]
        cells = sum(
            0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in gone
        )
        return "\b \b" * cells


def _write(terminal: int, text: str) -> None:
    data = text.replace("\n", "\r\n").encode("utf-8", "replace")
    while data:
        data = data[os.write(terminal, data) :]
