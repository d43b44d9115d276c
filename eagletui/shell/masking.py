"""Secrets in command lines and in text, replaced by MASK. Pure, total, and stable: masking what is masked changes
nothing.

A secret is known by its name (`--api-key V`, `HF_TOKEN=V`, `'api_key': 'V'`) or by its looks (hf_…, sk-…, a bearer
header, a password in an address). Names are judged by their words, so `tokenizer` and `max_total_tokens` are none.
Most lines hold no hint at all, and a few substring searches find that out before any pattern is tried. Lines may be
long and hostile: a value is scanned only for a name that is a secret's, and then it is skipped, so time is linear.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from itertools import pairwise

MASK = "***"

_ALWAYS = frozenset({
    "secret", "secrets", "password", "passwords", "passwd", "passphrase", "credential", "credentials", "apikey",
    "apikeys", "authorization", "pwd", "cookie", "cookies", "authtoken", "accesstoken", "apitoken", "accesskey",
    "secretkey", "privatekey",
})  # fmt: skip
"""Words that make any name secret."""
_GLUED = ("password", "passwd", "apikey")
"""Ends of words that do (PGPASSWORD)."""
_MAYBE = frozenset({"key", "token"})
"""Words that make a name secret when they end it (or stand anywhere in an environment variable's name)."""
_OWNERS = frozenset({"api", "auth", "access", "hf", "bearer", "refresh", "secret", "private"})
"""Before "keys" or "tokens" these say that they are secrets, not a table's or a model's."""
_HARMLESS_BEFORE = frozenset({
    "bos", "eos", "pad", "unk", "sep", "cls", "mask", "image", "video", "audio", "stop", "start", "end", "think",
    "first",
    "next", "last", "per", "draft", "special", "output", "input", "prompt", "accepted", "tool", "num", "number", "max",
    "min",
    "primary", "foreign", "sort", "cache", "routing", "missing", "unexpected",
})  # fmt: skip
"""Before "token" or "key" these say that it is a model's token or a table's key."""
_SHORT_FLAGS = (
    ("api-key", 2), ("admin-api-key", 2), ("hf-token", 4), ("ssl-keyfile-password", 12), ("router-api-key", 8),
    ("worker-api-key", 8),
)  # fmt: skip
"""Servers' secret options, and how many letters of each say which one is meant: argparse takes any prefix."""
_SHORT_WORDS = re.compile(r"(?:\A|-)(?:pass(?:w(?:o(?:r)?)?)?|secre?|cred(?:e(?:n(?:t\w{0,8})?)?)?|api-ke?)\Z|-toke?\Z")
_NOT_A_SECRET = re.compile(
    r"\A(?:[-+]?[0-9.,]*%?|[\[(][0-9., ]*[\])]?|None|null|true|false|True|False|<(?:[^<>]{0,64}>)?|\*+)\Z"
)
"""Values that a token or key of no secrecy has (and no real one)."""
_NOTHING = re.compile(r"\A(?:\*\*\*|None|null|[\[({](?:[\s,\[\](){}]|None|null)*)?\Z")
_RANDOM = re.compile(r"['\"]?(?=[A-Za-z+=_-]{0,128}[0-9])(?=[0-9+=_-]{0,128}[A-Za-z])[\w+=-]{16}")

_WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
_HINT = re.compile("key|token|secret|pass|pwd|credential|authorization|cookie")
_HINT_ANY_CASE = re.compile(_HINT.pattern, re.IGNORECASE)
_NAME_LIMIT = 64
"""Characters on either side of a hint that may belong to the name: it bounds the time for hostile lines."""

_REST_OF_NAME = re.compile(rf"[\w.-]{{0,{_NAME_LIMIT}}}")
_ASSIGNED = re.compile(
    r"""\\?['"]?\s{0,8}(?:=>|:=|->|==?|:(?!//))\s{0,8}(?:(?:bearer|basic|token)\s{1,8})?\\?""",
    re.IGNORECASE,
)
_BEHIND = frozenset("=:->'\"\\(") | frozenset(c for c in map(chr, range(0x3001)) if c.isspace())
"""What may come right behind the name of a secret."""
_PAIR = re.compile(r"""['"]\s{0,8},\s{0,8}(?=b?['"])""")
"""Between a header's name and its value in a list of pairs."""
_OPTION = re.compile(r"\s{1,8}(?!-)\\?")
_QUOTED = re.compile(
    r"""[bBrRuUfF]{0,2}(?:'''.*?(?:'''|\Z)|\"{3}.*?(?:\"{3}|\Z)|'(?:[^'\\]|\\.)*'?|"(?:[^"\\]|\\.)*"?)""", re.DOTALL
)
_OPENING = re.compile(rf"(?:[A-Za-z_][\w.]{{0,{_NAME_LIMIT}}})?[\[({{]")
_PLAIN = re.compile(r"""[^\s,;&|)\]}'"]*""")
_PIECE = re.compile(r"""'(?:[^'\\]|\\.)*'?|"(?:[^"\\]|\\.)*"?|[\[({\])}]""", re.DOTALL)
_HEADER = re.compile(r"\A(?:proxy-)?authorization\Z|(?:\A|-)cookie2?\Z", re.IGNORECASE)
_LINES = {quote: re.compile(rf"[^\r\n{quote}]*") for quote in ("", "'", '"')}
_WRAPPED = frozenset({"SecretStr", "SecretBytes"})

_BEARER = re.compile(r"\b(bearer\s+)[\w.~+/=-]{6,}", re.IGNORECASE)
_ADDRESS = re.compile(r"([A-Za-z]{0,8}://)(?:([^\s/:@'\"]*):([^\s/'\"]*)|([^\s/:@'\"?#,;]+))@")
_QUERY = re.compile(
    r"""((?:[?&]|\\u0026)(?:amp;)?|(?<![\w-])(?=x-(?:amz|goog)-))([\w.%\[\]-]{1,64})=([^\s&'"\\]+)""", re.IGNORECASE
)
_QUERY_NAMES = frozenset({"sig", "signature", "auth", "jwt", "sid", "session", "sessionid"})
_PEM = re.compile(r"(-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY[A-Z ]{0,40}-----).*?(?=-----END|\Z)", re.DOTALL)
_FLAG = re.compile(r"(?<![\w-])--[A-Za-z][\w-]{1,63}(?![\w-])")
_LOGIN = r"""(?:'([^':]{0,128}:)[^']+|"([^":]{0,128}:)[^"]+|([^\s:'"]{0,128}:)[^\s'"]+)"""
_USER = re.compile(rf"(--(?:proxy-)?user(?:=|\s{{1,8}}))(?!\d+:\d+(?:\s|\Z)){_LOGIN}")
_CURL_USER = re.compile(rf"(\s(?:-[A-Za-z]{{0,8}}[uU]\s{{0,8}}|--(?:proxy-)?user(?:=|\s{{1,8}}))){_LOGIN}")
_CURL = re.compile(r"(?<![\w-])curl(?![\w-])")
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


@lru_cache(maxsize=1024)
def secret_name(name: str) -> bool:
    """Whether what goes by this name (an option, a variable, a key of a table) is a secret, by the name's words."""
    words = [word.lower() for word in _WORDS.findall(name)]
    if not words:
        return False
    if _strong(words):
        if name in {"PWD", "OLDPWD"}:  # the shell's directories
            return False
        return not (words[-1] in {"file", "path", "parser", "length"} and name.islower())
    bare = name.strip("-")
    if bare.isupper():  # an environment variable
        return bool(_MAYBE.intersection(words)) or (words[-1] == "pass" and len(words) > 1)
    if words[-1] in {"keys", "tokens"}:
        return len(words) > 1 and words[-2] in _OWNERS
    return words[-1] in _MAYBE and (len(words) == 1 or words[-2] not in _HARMLESS_BEFORE)


def _strong(words: Sequence[str]) -> bool:
    """Secret whatever the value looks like."""
    if _ALWAYS.intersection(words) or any(word.endswith(_GLUED) for word in words):
        return True
    return any(before in {"api", "access", "private"} and word in {"key", "keys"} for before, word in pairwise(words))


@lru_cache(maxsize=1024)
def _strong_name(name: str) -> bool:
    return _strong([word.lower() for word in _WORDS.findall(name)])


@lru_cache(maxsize=1024)
def _secret_flag(flag: str) -> bool:
    """Whether an option's value is a secret; the option may be shortened, as argparse accepts it."""
    if secret_name(flag):
        return True
    if not flag.startswith("--"):
        return False
    name = flag[2:].replace("_", "-").lower()
    if any(len(name) >= least and full.startswith(name) for full, least in _SHORT_FLAGS):
        return True
    return _SHORT_WORDS.search(name) is not None


def _keeps(name: str, value: str) -> bool:
    """A value that is plainly no secret: nothing, None, and for a mere token or key also a number."""
    if _NOT_A_SECRET.match(value) is not None and not _strong_name(name):
        return True
    return _NOTHING.match(value) is not None


def _hidden(value: str) -> str:
    """MASK in the quotes of the value, the backslash before an escaped closing quote included."""
    rest = value.lstrip("bBrRuUfF")
    prefix, quote = value[: len(value) - len(rest)], rest[:1]
    if quote not in {"'", '"'}:
        return MASK
    closed = len(rest) > 1 and rest.endswith(quote)
    inner = rest[1:-1] if closed else rest[1:]
    tail = "\\" if inner.endswith("\\") else ""
    return f"{prefix}{quote}{MASK}{tail}{quote if closed else ''}"


def _bare(value: str) -> str:
    return value.lstrip("bBrRuUfF").strip("'\"\\") if value[-1:] in {"'", '"'} else value.strip("'\"\\")


def _container_end(text: str, begin: int) -> int:
    """Behind the bracket that closes the one before `begin`; the text's end without one."""
    depth = 1
    for piece in _PIECE.finditer(text, begin):
        first = text[piece.start()]
        if first in "[({":
            depth += 1
        elif first in "])}":
            depth -= 1
            if depth == 0:
                plain = _PLAIN.match(text, piece.end())
                return plain.end() if plain is not None else piece.end()
    return len(text)


def _value_end(text: str, begin: int) -> int:
    """Where the value that begins here ends: a quoted string, a bracket's content, a call, or a word."""
    if not text[begin : begin + 1].isdigit():  # numbers are the commonest, and neither of these
        quoted = _QUOTED.match(text, begin)
        if quoted is not None:
            return quoted.end()
        opening = _OPENING.match(text, begin)
        if opening is not None:
            return _container_end(text, opening.end())
    plain = _PLAIN.match(text, begin)
    return plain.end() if plain is not None else begin


def _header_end(text: str, name_begin: int, begin: int) -> int:
    """Where an unquoted header's value ends: at the quote that opened before the name, else at the line's end."""
    quote = text[name_begin - 1] if name_begin else ""
    line = _LINES.get(quote, _LINES[""]).match(text, begin)
    return line.end() if line is not None else begin


def _wrapped_value(text: str, begin: int) -> tuple[int, int] | None:
    """The span of what SecretStr( holds."""
    if text[begin : begin + 4].lstrip("'\"").startswith(MASK):
        return None
    stop = _container_end(text, begin)
    closed = stop - 1 if text[stop - 1] == ")" else stop
    return (begin, closed) if closed > begin else None


def _named_value(text: str, begin: int, end: int) -> tuple[int, int] | None:
    """The span of the value of the name at begin:end, when the name is a secret's and the value is one."""
    found = _ASSIGNED.match(text, end)
    if found is None and text[begin] == "-":
        found = _OPTION.match(text, end)
    if found is None and "(" in text[max(0, begin - 3) : begin] and text[begin - 1] in "'\"":
        found = _PAIR.match(text, end)
    name = text[begin:end]
    if found is None:
        wrapped = name.rpartition(".")[2] in _WRAPPED and text[end : end + 1] == "("
        return _wrapped_value(text, end + 1) if wrapped else None
    if not secret_name(name):
        return None
    start = found.end()
    bare = name.strip("-").lower()
    if bare == "key" and not _RANDOM.match(text, start):
        return None  # "key: model.layers.0" says nothing; a long random word does
    if bare == "pwd" and text[start : start + 2].lstrip("'\"")[:1] in {"/", "~"}:
        return None  # a directory
    if (
        bare.endswith(("authorization", "cookie", "cookie2"))
        and _HEADER.search(name)
        and text[start : start + 1] not in {"'", '"', "[", "(", "{"}
        and ":" in found[0]
    ):
        known = found[0].rstrip()[-1:].isalpha()  # after a scheme comes one word
        stop = _value_end(text, start) if known else _header_end(text, begin, start)
    else:
        stop = _value_end(text, start)
    return None if stop == start or _keeps(name, _bare(text[start:stop])) else (start, stop)


def _mask_named(text: str, lower: str) -> str:
    """Values of secret names. Each hint is widened to the name around it, and the name's words decide."""
    hints = _HINT.finditer(lower) if len(lower) == len(text) else _HINT_ANY_CASE.finditer(text)
    pieces: list[str] = []
    done = named = 0
    for hint in hints:
        begin, end = hint.span()
        if begin < named:
            continue
        rest = _REST_OF_NAME.match(text, end)
        end = rest.end() if rest is not None else end
        behind = text[end : end + 1]
        if end - hint.end() >= _NAME_LIMIT or behind not in _BEHIND:
            continue  # no name is that long; no value follows
        floor = max(done, begin - _NAME_LIMIT)
        if begin > floor and text[begin - 1] not in " #(":  # the commonest ones before a name, to be fast
            back = _REST_OF_NAME.match(text[floor:begin][::-1])
            begin -= back.end() if back is not None else 0
        named = end
        if behind == " " and text[begin] != "-" and text[end + 1 : end + 2] not in _BEHIND:
            continue
        span = _named_value(text, begin, end)
        if span is not None:
            pieces += (text[done : span[0]], _hidden(text[span[0] : span[1]]))
            done = named = span[1]
    return "".join(pieces) + text[done:] if pieces else text


def _mask_short_flags(text: str) -> str:
    """Values of secret options that are written shortened."""
    pieces: list[str] = []
    done = 0
    for flag in _FLAG.finditer(text):
        if flag.start() < done or secret_name(flag[0]) or not _secret_flag(flag[0]):
            continue
        found = _ASSIGNED.match(text, flag.end()) or _OPTION.match(text, flag.end())
        if found is None:
            continue
        stop = _value_end(text, found.end())
        if stop > found.end() and not _NOTHING.match(_bare(text[found.end() : stop])):
            pieces += (text[done : found.end()], _hidden(text[found.end() : stop]))
            done = stop
    return "".join(pieces) + text[done:] if pieces else text


def _hide_address(found: re.Match[str]) -> str:
    scheme, user, password, alone = found.groups()
    if alone is not None:  # a token, except where logins go without one
        return found[0] if scheme.lower() in {"ssh://", "sftp://", "rsync://"} else f"{scheme}{MASK}@"
    if not password or (len(user) >= 16 and any(c.isdigit() for c in user)):  # the token is the user
        user = MASK if user else ""
    return f"{scheme}{user}:{MASK}@"


def _hide_query(found: re.Match[str]) -> str:
    words = [word.lower() for word in _WORDS.findall(found[2])]
    if words and (words[-1] in _QUERY_NAMES or secret_name(found[2])):
        return f"{found[1]}{found[2]}={MASK}"
    return found[0]


def _hide_login(found: re.Match[str]) -> str:
    flag, single, double, plain = found.groups()
    if single is not None:
        return f"{flag}'{single}{MASK}"
    return f'{flag}"{double}{MASK}' if double is not None else f"{flag}{plain}{MASK}"


def _mask_curl(text: str) -> str:
    """The password of `-u name:V` behind the word curl."""
    curl = _CURL.search(text)
    return text if curl is None else text[: curl.end()] + _CURL_USER.sub(_hide_login, text[curl.end() :])


def _mask_looks(text: str) -> str:
    """What shows by itself that it is a secret."""
    if (
        "hf_" in text
        or "sk-" in text
        or ("gh" in text and _GITHUB.search(text))
        or ("pat" in text and ("_pat_" in text or "glpat-" in text))
        or "xox" in text
        or "eyJ" in text
        or "IA" in text
        or "AIza" in text
        or "nvapi-" in text
    ):
        return _LOOK.sub(MASK, text)
    return text


def mask_text(text: str) -> str:
    """A line or more of text with its secrets masked."""
    masked = _mask_once(text)
    if masked is text:
        return text
    for _ in range(3):  # a mask may uncover a name beside it; the second turn finds nothing more as a rule
        if masked == text:
            break
        text, masked = masked, _mask_once(masked)
    return masked


def _mask_once(text: str) -> str:
    text = _mask_looks(text)
    if "--" in text:
        if "PRIVATE KEY" in text:
            text = _PEM.sub(rf"\g<1>{MASK}", text)
        text = _mask_short_flags(text)
        if "user" in text:
            text = _USER.sub(_hide_login, text)
    if "curl" in text:
        text = _mask_curl(text)
    if "=" in text and ("?" in text or "&" in text or "u0026" in text or "ignature" in text):
        text = _QUERY.sub(_hide_query, text)
    if "@" in text and "://" in text:
        text = _ADDRESS.sub(_hide_address, text)
    lower = text.lower()
    if (
        "key" in lower
        or "token" in lower
        or "cre" in lower  # secret, credential
        or "pass" in lower
        or "pwd" in lower
        or "authorization" in lower
        or "cookie" in lower
    ):
        text = _mask_named(text, lower)
    if "bearer" in lower:
        text = _BEARER.sub(rf"\g<1>{MASK}", text)
    return text


_OTHER_FLAG = re.compile(r"\A(?:--[A-Za-z][A-Za-z0-9_.-]*(?:=\S*)?|-[A-Za-z]|-[a-z-]+|--)\Z")
_ONE_FLAG = re.compile(r"\A--?[A-Za-z][\w.-]*\Z")
_ONE_VALUE = re.compile(r"\A(-{0,2}[A-Za-z_][\w.-]{0,128})=")
_ONE_HEADER = re.compile(r"\A([A-Za-z][\w-]{0,128}):\s{0,8}(?:(?:bearer|basic|token|digest)\s{1,8})?", re.IGNORECASE)


def _mask_word(word: str, before: str) -> str:
    """One argument: all behind its first "=" belongs to its value, blanks and all, unless it is a shell's script."""
    if before != "-c":
        one = _ONE_VALUE.match(word)
        if one is not None and (_secret_flag(one[1]) if word.startswith("-") else secret_name(one[1])):
            value = word[one.end() :]
            return word if _keeps(one[1], _bare(value)) else f"{one[0]}{_hidden(value) if _is_quoted(value) else MASK}"
        if before in {"-H", "--header", "--proxy-header"}:
            one = _ONE_HEADER.match(word)
            if one is not None and secret_name(one[1]) and len(word) > one.end():
                return f"{one[0]}{MASK}"
    return mask_text(word)


def _is_quoted(value: str) -> bool:
    """The whole value is one quoted string."""
    return value[:1] in {"'", '"'} and value.find(value[0], 1) == len(value) - 1


def _mask_login(word: str) -> str:
    user, colon, password = word.partition(":")
    return f"{user}:{MASK}" if colon and password else word


def mask_argv(argv: Sequence[str]) -> tuple[str, ...]:
    """A command line with its secrets masked, argument by argument: it keeps its length."""
    masked: list[str] = []
    hiding = several = curl = False
    before = ""
    for word in argv:
        if hiding and not _OTHER_FLAG.match(word):
            masked.append(MASK)
            hiding = several
            continue
        hiding = False
        login = before in {"--user", "--proxy-user"} and re.fullmatch(r"\d+:\d+", word) is None
        if login or (curl and (before in {"-u", "-U", "--user", "--proxy-user"} or word[:2] in {"-u", "-U"})):
            masked.append(_mask_login(word))
        elif _ONE_FLAG.match(word):
            hiding = _secret_flag(word)
            several = hiding and "api" in _WORDS.findall(word.lower())  # vLLM takes several API keys
            masked.append(mask_text(word))
        else:
            masked.append(_mask_word(word, before))
        curl = curl or word.rpartition("/")[2] == "curl"
        before = word
    return tuple(masked)


_LONE = re.compile("[\ud800-\udfff]")


def shown(text: str) -> str:
    """Text that can be written anywhere: bytes that were no UTF-8 (kept as lone surrogates, to go back unchanged) become U+FFFD."""
    return _LONE.sub("\ufffd", text)
