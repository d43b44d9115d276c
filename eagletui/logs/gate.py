"""Which lines of many hold one of many literals: by google-re2 where it is installed (one automaton over the whole of it), else by
looking only at lines of a shape that was not met before. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any, Protocol

VARYING = b"0123456789abcdef"
"""What differs between lines of one shape: numbers, addresses, ids in hexadecimal."""
SHORTEST = 4
"""Characters that must be left of a literal without what varies; a shorter one is looked for in everything."""
KNOWN_SHAPES = 4 << 20
"""Bytes of shapes, and of their words, that are remembered; then all are forgotten, so that memory stays flat."""


class Gate(Protocol):
    """`lines` gives the beginnings of the lines (each between two LF) that hold a literal, in order."""

    def lines(self, block: bytes) -> list[int]: ...


def gate(literals: Iterable[str], *, re2: bool = True) -> Gate:
    """The quickest gate that there is here. `re2`: False keeps from using it."""
    wanted = sorted({literal.encode() for literal in literals})
    # One that holds another is found with it.
    needed = [one for one in wanted if not any(other in one for other in wanted if other != one)]
    if re2:
        try:
            import re2 as engine  # type: ignore[import-untyped, import-not-found, unused-ignore]
        except ImportError:
            pass
        else:
            return _Automaton(needed, engine)
    return _Shapes(needed)


class _Automaton:
    def __init__(self, literals: list[bytes], engine: Any) -> None:
        options = engine.Options()
        options.encoding = engine.Options.Encoding.LATIN1
        options.never_capture = True
        self._pattern = engine.compile(b"|".join(re.escape(one) for one in literals), options)

    def lines(self, block: bytes) -> list[int]:
        found, at = [], 0
        while (hit := self._pattern.search(block, at)) is not None:
            start = hit.start()
            found.append(block.rfind(b"\n", 0, start) + 1)
            at = block.find(b"\n", start)
            if at < 0:
                break
        return found


class _Shapes:
    """A line's shape is what is left of it without what varies. Most lines of a log have one of few shapes; what one of them could
    hold is asked once.
    """

    def __init__(self, literals: list[bytes]) -> None:
        self._always = [one for one in literals if len(one.translate(None, VARYING)) < SHORTEST]
        self._reduced: dict[bytes, list[bytes]] = {}
        for one in literals:
            if one not in self._always:
                self._reduced.setdefault(one.translate(None, VARYING), []).append(one)
        self._keys: dict[bytes, list[bytes]] = {}
        """What one word of a shape must hold, and the reduced literals that it may belong to."""
        for reduced in self._reduced:
            self._keys.setdefault(max(reduced.split() or [reduced], key=len), []).append(reduced)
        self._shapes: dict[bytes, tuple[bytes, ...]] = {}
        self._words: dict[bytes, tuple[bytes, ...]] = {}
        self._size = 0

    def lines(self, block: bytes) -> list[int]:
        if self._size > KNOWN_SHAPES:
            self._shapes.clear()
            self._words.clear()
            self._size = 0
        shapes = set(block.translate(None, VARYING).split(b"\n"))
        new = shapes.difference(self._shapes)
        if new:
            self._learn(new)
        known = self._shapes
        possible = {literal for shape in shapes if (held := known[shape]) for literal in held}
        return sorted({start for literal in (*self._always, *possible) for start in _lines_with(literal, block)})

    def _learn(self, new: set[bytes]) -> None:
        """What shapes that were not met before could hold."""
        text = b"\n".join(new)
        words = set(text.split())
        unknown = words.difference(self._words)
        self._shapes.update(dict.fromkeys(new, ()))
        self._words.update(dict.fromkeys(unknown, ()))
        self._size += len(text) + sum(map(len, unknown))
        joined = b"\n".join(unknown)
        for key in self._keys:
            if key in joined:
                for word in unknown:
                    if key in word:
                        self._words[word] += (key,)
        keys = {key for word in words if (held := self._words[word]) for key in held}
        for reduced in {reduced for key in keys for reduced in self._keys[key] if reduced in text}:
            for shape in new:
                if reduced in shape:
                    self._shapes[shape] += tuple(self._reduced[reduced])


def _lines_with(literal: bytes, block: bytes) -> Iterator[int]:
    at = block.find(literal)
    while at >= 0:
        yield block.rfind(b"\n", 0, at) + 1
        at = block.find(b"\n", at)
        if at < 0:
            return
        at = block.find(literal, at)
