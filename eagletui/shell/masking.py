"""Secrets in command lines and in text, replaced by MASK. Pure, total, and stable: masking what is masked changes
nothing.

A secret is known by its name (`--api-key V`, `HF_TOKEN=V`, `'api_key': 'V'`) or by its looks (hf_…, sk-…, a bearer
header, a password in an address). Names are judged by their words, so `tokenizer` and `max_total_tokens` are none.
Most lines hold no hint at all, and a few substring searches find that out before any pattern is tried.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

MASK = "***"

_ALWAYS = frozenset({
    "secret", "secrets", "password", "passwd", "passphrase", "credential", "credentials", "apikey", "authorization",
    "pwd",
})  # fmt: skip
"""Words that make any name secret."""
_MAYBE = frozenset({"key", "token"})
"""Words that make a name secret when they end it (or stand anywhere in an environment variable's name)."""
_HARMLESS_BEFORE = frozenset({
    "bos", "eos", "pad", "unk", "sep", "cls", "mask", "image", "video", "audio", "stop", "start", "end", "think",
    "first",
    "next", "last", "per", "draft", "special", "output", "input", "prompt", "accepted", "tool", "num", "number", "max",
    "min",
    "primary", "foreign", "sort", "cache", "routing", "missing", "unexpected",
})  # fmt: skip
"""Before "token" or "key" these say that it is a model's token or a table's key."""
_NOT_A_SECRET = re.compile(r"\A(?:[-+]?[0-9.,]*%?|\[[0-9., ]*\]?|None|null|true|false|True|False|<.*>|\*+)\Z")
"""Values that a token or key of no secrecy has (and no real one)."""

_WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
_HINT = re.compile("key|token|secret|pass|pwd|credential|authorization")
_HINT_ANY_CASE = re.compile(_HINT.pattern, re.IGNORECASE)
_NAME_LIMIT = 64
"""Characters on either side of a hint that may belong to the name: it bounds the time for hostile lines."""

_VALUE = r"""(?P<value>'(?:[^'\\]|\\.)*'?|"(?:[^"\\]|\\.)*"?|\[[^\]]*\]?|(?![\[{(])[^\s,;&|)\]}'"]+)"""
_REST_OF_NAME = re.compile(rf"[\w.-]{{0,{_NAME_LIMIT}}}")
_ASSIGNED = re.compile(
    rf"""\\?['"]?\s{{0,8}}(?:=|:(?!//))\s{{0,8}}(?:(?:bearer|basic|token)\s+)?\\?{_VALUE}""", re.IGNORECASE
)
_OPTION = re.compile(rf"\s{{1,8}}(?!-){_VALUE}")
_BEARER = re.compile(r"\b(bearer\s+)[\w.~+/=-]{6,}", re.IGNORECASE)
_ADDRESS = re.compile(r"(://[^\s/:@'\"]{0,256}:)[^\s/@'\"]{1,1024}(@)")
_GITHUB = re.compile("gh[pousr]_")
_LOOK = re.compile(
    r"""(?<![A-Za-z0-9])(?:
      hf_(?=[a-z]*[A-Z0-9]|[A-Za-z0-9]{20})[A-Za-z0-9]{8,}
    | sk-(?=[a-z_-]*[A-Z0-9]|[\w-]{24})[\w-]{8,}
    | gh[pousr]_[A-Za-z0-9]{10,} | github_pat_\w{10,} | glpat-[\w-]{10,} | nvapi-[\w-]{10,}
    | A[KS]IA[0-9A-Z]{12,} | AIza[\w-]{20,}
    | xox[a-z]-[A-Za-z0-9-]{6,}
    | eyJ[\w-]{6,}\.[\w-]+(?:\.[\w-]*)?
    )""",
    re.VERBOSE,
)


def secret_name(name: str) -> bool:
    """Whether what goes by this name (an option, a variable, a key of a table) is a secret, by the name's words."""
    words = [word.lower() for word in _WORDS.findall(name)]
    if not words:
        return False
    if _ALWAYS.intersection(words) or ("api" in words and "key" in words):
        return not (words[-1] in {"file", "path", "parser", "length"} and name.islower())
    bare = name.strip("-")
    if bare.isupper():  # an environment variable
        return bool(_MAYBE.intersection(words))
    if words[-1] not in _MAYBE:
        return False
    return len(words) == 1 or words[-2] not in _HARMLESS_BEFORE


def _strong(name: str) -> bool:
    """Secret whatever the value looks like."""
    words = {word.lower() for word in _WORDS.findall(name)}
    return bool(_ALWAYS & words) or "api" in words


def _keeps(name: str, value: str) -> bool:
    """A value that is plainly no secret: nothing, None, and for a mere token or key also a number."""
    if value in {"", "None", "null", MASK}:
        return True
    if name.strip("-").lower() == "key":  # "key: model.layers.0" says nothing; a long random word does
        return re.fullmatch(r"(?=.*[0-9])(?=.*[A-Za-z])[\w+=-]{16,}", value) is None
    return not _strong(name) and _NOT_A_SECRET.match(value) is not None


def _hidden(value: str) -> str:
    """MASK in the quotes of the value, the backslash before an escaped closing quote included."""
    quote = value[0] if value[0] in "'\"" else ""
    closed = bool(quote) and len(value) > 1 and value.endswith(quote)
    inner = value[1:-1] if closed else value[len(quote) :]
    tail = "\\" if inner.endswith("\\") else ""
    return f"{quote}{MASK}{tail}{quote if closed else ''}"


def _bare(value: str) -> str:
    return value.strip("'\"\\")


def _mask_named(text: str, lower: str) -> str:
    """Values of secret names. Each hint is widened to the name around it, and the name's words decide."""
    hints = _HINT.finditer(lower) if len(lower) == len(text) else _HINT_ANY_CASE.finditer(text)
    pieces: list[str] = []
    done = 0
    for hint in hints:
        begin = hint.start()
        if begin < done:
            continue
        floor = max(done, begin - _NAME_LIMIT)
        while begin > floor and (text[begin - 1].isalnum() or text[begin - 1] in "_.-"):
            begin -= 1
        rest = _REST_OF_NAME.match(text, hint.end())
        end = rest.end() if rest is not None else hint.end()
        found = _ASSIGNED.match(text, end)
        if found is None and text[begin] == "-":
            found = _OPTION.match(text, end)
        if found is None:
            continue
        name, value = text[begin:end], found["value"]
        if secret_name(name) and not _keeps(name, _bare(value)):
            pieces += (text[done : found.start("value")], _hidden(value))
            done = found.end()
    return "".join(pieces) + text[done:] if pieces else text


def mask_text(text: str) -> str:
    """A line or more of text with its secrets masked."""
    lower = text.lower()
    if (
        "key" in lower
        or "token" in lower
        or "secret" in lower
        or "pass" in lower
        or "pwd" in lower
        or "credential" in lower
        or "authorization" in lower
    ):
        text = _mask_named(text, lower)
    if "bearer" in lower:
        text = _BEARER.sub(rf"\g<1>{MASK}", text)
    if "@" in text and "://" in text:
        text = _ADDRESS.sub(rf"\g<1>{MASK}\g<2>", text)
    if (
        "hf_" in text
        or "sk-" in text
        or ("gh" in text and _GITHUB.search(text))
        or "pat" in text
        or "xox" in text
        or "eyJ" in text
        or "KIA" in text
        or "SIA" in text
        or "AIza" in text
        or "nvapi-" in text
    ):
        text = _LOOK.sub(MASK, text)
    return text


def mask_argv(argv: Sequence[str]) -> tuple[str, ...]:
    """A command line with its secrets masked, argument by argument: it keeps its length."""
    masked: list[str] = []
    hiding = several = False
    for word in argv:
        if hiding and not word.startswith("-"):
            masked.append(MASK)
            hiding = several
            continue
        hiding = False
        if word.startswith("-") and "=" not in word and not any(c.isspace() for c in word):
            hiding = secret_name(word)
            several = hiding and "api" in _WORDS.findall(word.lower())  # vLLM takes several API keys
            masked.append(mask_text(word))
            continue
        masked.append(mask_text(word))
    return tuple(masked)


_LONE = re.compile("[\ud800-\udfff]")


def shown(text: str) -> str:
    """Text that can be written anywhere: bytes that were no UTF-8 (kept as lone surrogates, to go back unchanged) become U+FFFD."""
    return _LONE.sub("\ufffd", text)
