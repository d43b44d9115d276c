"""Reading a file of the configuration: the text and the table, or a problem with its line. Nothing here is trusted to be a small readable file."""

from __future__ import annotations

import codecs
import os
import re
import stat
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

MAX_BYTES = 1 << 20
"""A configuration is some pages of text; more is a mistake, and its tables would take long to check."""

_PLACE = re.compile(r"\s*\(at (?:line (\d+), column (\d+)|end of document)\)\Z")


@dataclass(frozen=True, slots=True)
class Problem:
    """What is wrong: where (`line` None: nowhere in particular; `key` with dots, "" for the file itself), and a sentence."""

    file: Path
    line: int | None
    key: str
    text: str

    def __str__(self) -> str:
        place = f"{self.file}:{self.line}" if self.line is not None else str(self.file)
        told = f"{place}: {self.key}: {self.text}" if self.key else f"{place}: {self.text}"
        return "".join(char if char.isprintable() else f"\\x{ord(char):02x}" for char in told)


@dataclass(frozen=True, slots=True)
class Source:
    """A file as read. `mode` and `owner` (uid) as they were when it was opened."""

    path: Path
    text: str
    table: dict[str, Any]
    mode: int
    owner: int


class UnreadableError(Exception):
    """A file that cannot be used at all."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(str(problem))
        self.problem = problem


def read_source(path: Path) -> Source:
    """Raises FileNotFoundError where there is none, UnreadableError for all else that keeps it from being used."""
    data, status = _bytes_of(path)
    text = _text_of(path, data)
    try:
        table = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        told = str(error)
        place = _PLACE.search(told)
        line = int(place[1]) if place is not None and place[1] else text.count("\n") + 1 if place is not None else None
        column = f" (column {place[2]})" if place is not None and place[2] else ""
        sentence = told[: place.start()] if place is not None else told
        raise UnreadableError(Problem(path, line, "", f"it is no TOML: {_small(sentence)}{column}")) from None
    except RecursionError:
        raise UnreadableError(
            Problem(path, None, "", "it is no configuration: brackets within hundreds of brackets")
        ) from None
    return Source(path, text, table, stat.S_IMODE(status.st_mode), status.st_uid)


def _small(sentence: str) -> str:
    return sentence[:1].lower() + sentence[1:]


def _bytes_of(path: Path) -> tuple[bytes, os.stat_result]:
    try:
        # Not blocking: a FIFO of that name would hold every command for ever.
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError):
        raise FileNotFoundError(str(path)) from None
    except OSError as error:
        raise UnreadableError(Problem(path, None, "", f"it cannot be read: {error.strerror or error}")) from None
    try:
        status = os.fstat(handle)
        if stat.S_ISDIR(status.st_mode):
            raise UnreadableError(Problem(path, None, "", "it is a folder; the configuration is a file of that name"))
        if not stat.S_ISREG(status.st_mode):
            raise UnreadableError(Problem(path, None, "", "it is no regular file"))
        data = _read_all(handle)
    except OSError as error:
        raise UnreadableError(Problem(path, None, "", f"it cannot be read: {error.strerror or error}")) from None
    finally:
        os.close(handle)
    if len(data) > MAX_BYTES:
        raise UnreadableError(Problem(path, None, "", "it is larger than 1 MiB, which no configuration is"))
    return data, status


def _read_all(handle: int) -> bytes:
    """No more than one byte beyond what is allowed."""
    data = b""
    while len(data) <= MAX_BYTES and (piece := os.read(handle, MAX_BYTES + 1 - len(data))):
        data += piece
    return data


def _text_of(path: Path, data: bytes) -> str:
    if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        raise UnreadableError(Problem(path, 1, "", "it is written in UTF-16; save it as UTF-8"))
    data = data.removeprefix(codecs.BOM_UTF8)  # some editors write one; it means nothing
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise UnreadableError(Problem(path, line, "", "it is not written in UTF-8; save it as UTF-8")) from None
