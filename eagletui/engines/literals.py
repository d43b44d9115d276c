"""What a text must hold to match a pattern: a literal that can be looked for in many lines at once."""

from __future__ import annotations

SHORTEST = 3
"""Characters of a literal that is worth looking for."""
_ENDS = frozenset("^$.[")
_TAKES_BACK = frozenset("?*{")
"""After one of these the character before it need not be there."""


def longest_literal(branch: str) -> str:
    """The longest run of characters that every text matched by a pattern holds; "" where it has none of SHORTEST. The pattern has no
    `|` at its outermost level; groups and classes end a run.
    """
    runs, run, i = [], "", 0
    while i < len(branch):
        char = branch[i]
        if char == "(":
            if branch.startswith("(?", i) and not branch.startswith(("(?:", "(?P<", "(?=", "(?!", "(?<", "(?i:"), i):
                return ""  # flags that hold for all of it
            i = _after_group(branch, i)
        elif char == "[":
            i = branch.index("]", i + 2) + 1
        elif char == "\\" and not branch[i + 1].isalnum():
            run, i = run + branch[i + 1], i + 2
            continue
        elif char == "\\":
            i += 2
        elif char in _TAKES_BACK:
            run = run[:-1]
            i = branch.find("}", i) + 1 if char == "{" else i + 1
        elif char in _ENDS or char == "+":
            i += 1
        else:
            run, i = run + char, i + 1
            continue
        runs.append(run)
        run = ""
    longest = max((*runs, run), key=len)
    return longest if len(longest) >= SHORTEST else ""


def _after_group(branch: str, start: int) -> int:
    depth, i = 0, start
    while i < len(branch):
        char = branch[i]
        if char == "\\":
            i += 1
        elif char == "[":
            i = branch.index("]", i + 2)
        elif char == "(":
            depth += 1
        elif char == ")":
            depth -= 1
            if depth == 0:
                return i + 1
        i += 1
    return len(branch)
