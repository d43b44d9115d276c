"""Words of a command that a person wrote on one line, and values of an environment. Pure.

No shell ever reads them: the line is split as a shell would split it, and what only a shell could do (a pipe, `$HOME`, `A=1 program`)
is an error with a sentence, since it would otherwise reach the program as it stands.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

_OPERATORS = "|&;<>()"
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_ASSIGNMENT = re.compile(r"\A[A-Za-z_][A-Za-z0-9_]*=")
_REFERENCE = re.compile(r"\A\$(?:\{([A-Za-z_][A-Za-z0-9_]*)\}|([A-Za-z_][A-Za-z0-9_]*))\Z")


def split_command(text: str) -> tuple[str, ...]:
    """The words of a command line. Raises ValueError with a sentence."""
    return check_words(tuple(_words(text)))


def check_words(words: tuple[str, ...]) -> tuple[str, ...]:
    """A command's words, given back. Raises ValueError where they are none."""
    if not words or not words[0]:
        raise ValueError("the command is empty")
    if any("\0" in word for word in words):
        raise ValueError("the command holds a NUL character")
    found = _ASSIGNMENT.match(words[0])
    if found is not None:
        raise ValueError(f"a command begins with a program: set {found[0][:-1]} in the profile's env instead")
    return words


def _words(text: str) -> Iterator[str]:  # noqa: C901 - one state machine reads best in one place
    """As POSIX sh parts and unquotes. (shlex leaves the backslash of `"\\$x"`, and tells of no operator.)"""
    word: list[str] | None = None
    quote, at = "", 0
    while at < len(text):
        char = text[at]
        at += 1
        if char == "\\" and quote != "'":
            following = text[at : at + 1]
            at += 1
            if following == "\n":
                continue
            if not following:
                raise ValueError("the command cannot be split into words: it ends with a backslash")
            word = [*(word or []), following if not quote or following in '$`"\\' else char + following]
        elif char == quote:
            quote = ""
        elif not quote and char in "'\"":
            quote, word = char, word or []
        elif not quote and char.isspace():
            if word is not None:
                yield "".join(word)
            word = None
        else:
            _refuse_for_a_shell(text, at - 1, quote)
            word = word or []
            word.append(char)
    if quote:
        raise ValueError(f"the command cannot be split into words: a {quote} is not closed")
    if word is not None:
        yield "".join(word)


def _refuse_for_a_shell(text: str, at: int, quote: str) -> None:
    char = text[at]
    if not quote and char in _OPERATORS:
        raise ValueError(
            f"no shell reads the command, so {char} does nothing in it: put it in quotes if it belongs to a word, else start a script instead"
        )
    told = _expansion(text, at) if char in "$`" and quote != "'" else None
    if told is not None:
        raise ValueError(
            f"no shell reads the command, so {told} is not replaced: write its value, or put it in single quotes if it is meant as it stands"
        )


def _expansion(text: str, at: int) -> str | None:
    if text[at] == "`":
        return "`…`"
    following = text[at + 1 : at + 2]
    name = _NAME.match(text, at + 1)
    if name is not None:
        return f"${name[0]}"
    return {"{": "${…}", "(": "$(…)"}.get(following)


def reference_of(value: str) -> str | None:
    """The name of the login's variable that a value of `env` means; None where it is text."""
    found = _REFERENCE.match(value)
    return (found[1] or found[2]) if found is not None else None


def literal_of(value: str) -> str:
    """The text that a value of `env` means when it is no reference: `$$` stands for `$`."""
    return value.replace("$$", "$")


def as_literal(text: str) -> str:
    """How a text is written as a value of `env`, so that it means itself."""
    return text.replace("$", "$$")


def check_value(value: str) -> str:
    """A value of `env`, given back. Raises ValueError for a reference that does not stand alone."""
    if "\0" in value:
        raise ValueError("it holds a NUL character")
    if reference_of(value) is None and "$" in value.replace("$$", ""):
        raise ValueError(
            "$NAME or ${NAME} can only be the whole value (the login's variable of that name on the node); "
            "for a dollar sign itself write $$"
        )
    return value
