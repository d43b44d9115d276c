"""What a script that ran to its end gave, and how its arguments are read. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple


class Answer(NamedTuple):
    """A script that ran to its end."""

    stdout: bytes = b""
    stderr: bytes = b""
    status: int = 0


class Ended(Exception):  # noqa: N818 - a script that ends early is no error
    """A script ended with this, before its end."""

    def __init__(self, answer: Answer) -> None:
        super().__init__()
        self.answer = answer


def refused(sentence: str, status: int) -> Answer:
    """It ended without output."""
    return Answer(b"", sentence.encode("utf-8", "surrogateescape") + b"\n", status)


def lines(told: Sequence[str], status: int = 0) -> Answer:
    """These lines."""
    return Answer("".join(f"{line}\n" for line in told).encode("utf-8", "surrogateescape"), b"", status)


def as_text(argument: bytes) -> str:
    """Bytes as text that can become the same bytes again."""
    return argument.decode("utf-8", "surrogateescape")


def raw(text: str) -> bytes:
    """And back."""
    return text.encode("utf-8", "surrogateescape")


def word(args: Sequence[bytes], index: int) -> str:
    """An argument, empty where there is none."""
    return as_text(args[index]) if index < len(args) else ""


def hexed(text: str | bytes) -> str:
    """As the scripts tell what a user can choose."""
    return (text if isinstance(text, bytes) else raw(text)).hex()
