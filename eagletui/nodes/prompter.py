"""Asking a person during a login. Pure of any terminal: whoever has one gives a Prompter.

A server's words are kept apart from ours (`said`, and `Field.by_server`), cleaned and bounded, so that a hostile server
can pose neither as eagletui nor as another machine on the way: each question names the login it is for.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

LINE_LIMIT = 300
"""Characters of one line of a server's text that are shown: a long instruction, with its link, fits."""
LINES_LIMIT = 20
"""Lines of a server's text that are shown: a banner fits, a flood does not."""


@dataclass(frozen=True, slots=True)
class Field:
    """One answer to give. `secret`: it must not appear on the screen. `by_server`: the label is a server's word."""

    label: str
    secret: bool = True
    by_server: bool = False


@dataclass(frozen=True, slots=True)
class Question:
    """`login` is whom it is for (user@host:port and its place on the way). `told` are our lines, `said` the server's."""

    login: str
    fields: tuple[Field, ...]
    told: tuple[str, ...] = ()
    said: tuple[str, ...] = ()


class Prompter(Protocol):
    """Who can ask the person."""

    @property
    def can_ask(self) -> bool:
        """Whether there is somebody to ask, as far as can be known without asking."""

    async def ask(self, question: Question) -> Sequence[str] | None:
        """The answers, one a field; None when the person gives none (ctrl+d) or cannot be reached.

        Raises LoginCancelledError when the person stops the login (ctrl+c). May be cancelled at any time.
        """


class Nobody:
    """The prompter of scripts, pipes and automatic reconnects: nobody is there."""

    can_ask = False

    async def ask(self, question: Question) -> Sequence[str] | None:  # noqa: ARG002 - see Prompter
        """See Prompter."""
        return None


def clean_line(text: str, limit: int = LINE_LIMIT) -> str:
    """A server's text as one line of printable characters, spaces in a row as one."""
    line = " ".join("".join(c if c.isprintable() else " " for c in text[: limit * 8]).split())
    return line if len(line) <= limit else line[: limit - 1] + "…"


def clean_lines(text: str) -> tuple[str, ...]:
    """A server's text as lines of printable characters, without empty ones."""
    # Only \n and \r part lines: Unicode's own separators would be one more way to draw a screen.
    lines = (clean_line(line) for line in text.replace("\r", "\n").split("\n", LINES_LIMIT * 8))
    return tuple(line for line in lines if line)[:LINES_LIMIT]
