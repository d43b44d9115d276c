"""On which line of a TOML file each key stands. Pure.

tomllib tells values without their place. This scanner reads only what says where keys are: headers, keys, and how far a value goes. It is given texts
that tomllib has accepted, and is total: what it does not understand it passes over, and a key without a line is told without one.
"""

from __future__ import annotations

import re
import tomllib

Path = tuple[str, ...]

_BLANK = re.compile(r"(?:[ \t\r\n]|#[^\n]*)*")
_KEY = re.compile(r"""[ \t]*(?:([A-Za-z0-9_-]+)|("(?:[^"\\\n]|\\.)*")|'([^'\n]*)')[ \t]*""")
_STRING = re.compile(
    r'"""(?:[^\\]|\\.)*?"{3,5}|' + r"'''.*?'{3,5}|" + r'"(?:[^"\\\n]|\\.)*"|' + r"'[^'\n]*'", re.DOTALL
)
_PLAIN = re.compile(r"[^,\]}\n#]*")


class _Scanner:
    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.lines: dict[Path, int] = {}
        self._counted = 0
        self._line = 1

    def line(self, at: int) -> int:
        """Places are asked for in their order, so that the whole text is counted once."""
        self._line += self.text.count("\n", self._counted, at)
        self._counted = at
        return self._line

    def blank(self) -> None:
        found = _BLANK.match(self.text, self.at)
        self.at = found.end() if found is not None else self.at

    def key(self, before: Path) -> Path | None:
        """A dotted key; each of its parts stands on this line unless it stood on an earlier one."""
        path = before
        while (found := _KEY.match(self.text, self.at)) is not None:
            path = (*path, found[1] or found[3] or _unquoted(found[2]))
            self.lines.setdefault(path, self.line(self.at))
            self.at = found.end()
            if not self.text.startswith(".", self.at):
                return path
            self.at += 1
        return None

    def document(self) -> None:
        table: Path = ()
        tables: dict[Path, int] = {}
        while self.at < len(self.text):
            self.blank()
            begin = self.at
            if self.text.startswith("[", self.at):
                several = self.text.startswith("[[", self.at)
                self.at += 2 if several else 1
                table = self.key(()) or ()
                if several:
                    tables[table] = tables.get(table, -1) + 1
                    table = (*table, str(tables[table]))
                    self.lines.setdefault(table, self.line(begin))
                self.at = _after(self.text, "]]" if several else "]", self.at)
            else:
                self.pair(table)
            if self.at == begin:
                self.at = _after(self.text, "\n", self.at)

    def pair(self, table: Path) -> None:
        path = self.key(table)
        if path is None or not self.text.startswith("=", self.at):
            return
        self.at += 1
        self.value(path)

    def value(self, path: Path) -> None:
        self.blank_in_line()
        opening = self.text[self.at : self.at + 1]
        if opening == "[":
            self.several(path, "]")
        elif opening == "{":
            self.several(path, "}")
        else:
            found = _STRING.match(self.text, self.at) or _PLAIN.match(self.text, self.at)
            self.at = found.end() if found is not None else len(self.text)

    def several(self, path: Path, closing: str) -> None:
        """What stands between the brackets of an array or of a table on one line."""
        self.at += 1
        count = 0
        while self.at < len(self.text):
            self.blank()
            begin = self.at
            if self.text.startswith(closing, self.at):
                self.at += 1
                return
            if self.text.startswith(",", self.at):
                self.at += 1
                continue
            if closing == "}":
                self.pair(path)
            else:
                one = (*path, str(count))
                self.lines.setdefault(one, self.line(self.at))
                count += 1
                self.value(one)
            if self.at == begin:
                return

    def blank_in_line(self) -> None:
        while self.text[self.at : self.at + 1] in {" ", "\t"}:
            self.at += 1


def _unquoted(text: str) -> str:
    try:
        value = tomllib.loads(f"key = {text}")["key"]
    except tomllib.TOMLDecodeError:
        return text
    return str(value)


def _after(text: str, mark: str, at: int) -> int:
    found = text.find(mark, at)
    return len(text) if found < 0 else found + len(mark)


def lines_of(text: str) -> dict[Path, int]:
    """Path of each key (an array's elements by their index) to its line, counted from 1; of a table the line that names it first."""
    scanner = _Scanner(text)
    try:
        scanner.document()
    except RecursionError:  # brackets within brackets, hundreds of them
        return scanner.lines
    return scanner.lines
