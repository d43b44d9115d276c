"""What processes of SGLang and vLLM look like: launchers by argument, titles of their children, and the flags that
matter. Pure tables.

Launchers are recognised by whole arguments, never by a part of the text of a command line: an editor, a pager or a
shell whose arguments mention an engine is none. Titles: setproctitle names of SGLang 0.5 and vLLM 0.1x; the kernel's
comm is the title cut to 15 bytes. Flags: the arguments' own syntax (`--x v`, `--x=v`, later ones win, `_` may stand
for `-`).
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

Engine = Literal["sglang", "vllm"]
ProcessRole = Literal["launcher", "scheduler", "detokenizer", "other"]

DEFAULT_PORT: dict[str, int] = {"sglang": 30000, "vllm": 8000}
"""Where an engine listens when its arguments name no port."""

_PYTHON = re.compile(r"\A(?:python|pypy)[0-9.]*[a-z]*(?:-dbg)?\Z")
_MODULES: dict[str, Engine] = {
    "sglang.launch_server": "sglang",
    "sglang_router.launch_server": "sglang",
    "vllm.entrypoints.openai.api_server": "vllm",
    "vllm.entrypoints.api_server": "vllm",
}
_SERVING_MODULES: dict[str, Engine] = {
    "sglang": "sglang",
    "sglang.cli.main": "sglang",
    "vllm": "vllm",
    "vllm.entrypoints.cli.main": "vllm",
    "vllm.scripts": "vllm",
}
"""Modules that serve only when their first argument is `serve`."""
_SCRIPTS: tuple[tuple[str, Engine], ...] = (
    ("sglang/launch_server.py", "sglang"),
    ("vllm/entrypoints/openai/api_server.py", "vllm"),
    ("vllm/entrypoints/api_server.py", "vllm"),
)
_PROGRAMS: dict[str, Engine] = {"sglang": "sglang", "vllm": "vllm"}


@dataclass(frozen=True, slots=True)
class Launch:
    """A command line that starts a server: the engine, and the arguments that the engine itself reads."""

    engine: Engine
    args: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Title:
    """What a renamed process says of itself.

    `rank` as printed ("DP0_TP0_EP0"), `name` the whole title as far as it is known.
    """

    engine: Engine
    role: ProcessRole
    rank: str | None
    name: str


def _base(path: str) -> str:
    return path.rsplit("/", 1)[-1]


def _program(rest: Sequence[str]) -> Launch | None:
    """`sglang serve …` or `vllm serve …`, the program's path first."""
    engine = _PROGRAMS.get(_base(rest[0])) if rest else None
    return Launch(engine, tuple(rest[2:])) if engine is not None and len(rest) > 1 and rest[1] == "serve" else None


def _module(name: str, rest: Sequence[str]) -> Launch | None:
    if name in _MODULES:
        return Launch(_MODULES[name], tuple(rest))
    serving = _SERVING_MODULES.get(name)
    return Launch(serving, tuple(rest[1:])) if serving is not None and rest and rest[0] == "serve" else None


def _script(rest: Sequence[str]) -> Launch | None:
    for ending, engine in _SCRIPTS:
        if rest[0] == ending or rest[0].endswith("/" + ending):
            return Launch(engine, tuple(rest[1:]))
    return _program(rest)


def _python(argv: Sequence[str]) -> Launch | None:
    """The interpreter's own options first: letters may be joined ("-um"), -W and -X take a value, -m and -c end all."""
    at = 1
    while at < len(argv):
        word = argv[at]
        if not word.startswith("-"):
            return _script(argv[at:])
        if word in {"-", "--"}:
            return None
        at += 1
        if word.startswith("--"):
            at += word == "--check-hash-based-pycs"
            continue
        for index, letter in enumerate(word[1:], start=2):
            value = word[index:]
            if letter == "c":
                return None
            if letter == "m":
                name = value or (argv[at] if at < len(argv) else "")
                return _module(name, argv[at if value else at + 1 :])
            if letter in "WX":
                at += not value
                break
    return None


def launch_of(argv: Sequence[str]) -> Launch | None:
    """The launch that a command line is; None for everything else, wrappers (sudo, timeout, uv run …) included."""
    if not argv:
        return None
    return _python(argv) if _PYTHON.match(_base(argv[0])) else _program(argv)


_ROLES: tuple[tuple[str, ProcessRole], ...] = (
    ("schedul", "scheduler"),
    ("enginecor", "scheduler"),
    ("worker", "scheduler"),
    ("detokenizer_router", "other"),
    ("detoken", "detokenizer"),
)
"""By the beginning of what follows `::`, lower case, cut as comm may be cut.

vLLM's workers hold the ranks, its core the schedule.
"""
_TITLE = re.compile(
    r"\A(sglang|VLLM)::([A-Za-z][A-Za-z]*(?:_[a-z][a-z]*)*)(?:[_ ]?((?:[A-Z]+\d+)(?:_[A-Z]+\d+)*|\d+))?"
)


def title_of(argv: Sequence[str], comm: str = "") -> Title | None:
    """What a process that an engine renamed is.

    `comm` is asked only when there are no arguments (it is cut to 15 bytes, so it has no rank).
    """
    text = argv[0] if argv else comm
    found = _TITLE.match(text)
    if found is None:
        return None
    engine: Engine = "sglang" if found[1] == "sglang" else "vllm"
    word = found[2].lower()
    role: ProcessRole = next((role for start, role in _ROLES if word.startswith(start)), "other")
    return Title(engine, role, found[3], text)


def holds_no_port(argv: Sequence[str]) -> bool:
    """A helper that never listens for clients (compile workers come by the dozen, and looking closely at each costs
    time)."""
    return any("torch/_inductor/compile_worker" in word or "multiprocessing.resource_tracker" in word for word in argv)


@dataclass(frozen=True, slots=True)
class Flags:
    """Settings read from a launch's arguments; None where they do not say. `port_named`: the arguments name the port.

    `words` are the main ones for the status line. `has_config`: a file adds settings that are not known here.
    """

    model: str | None = None
    served_name: str | None = None
    port: int | None = None
    host: str | None = None
    tp: int | None = None
    pp: int | None = None
    dp: int | None = None
    nodes: int | None = None
    words: tuple[str, ...] = ()
    has_config: bool = False
    headless: bool = False

    @property
    def port_named(self) -> bool:
        """The arguments name the port."""
        return self.port is not None


_NAMES: dict[str, dict[str, str]] = {
    "sglang": {
        "model-path": "model", "model": "model", "served-model-name": "served", "port": "port", "host": "host",
        "tensor-parallel-size": "tp", "tp-size": "tp", "tp": "tp", "data-parallel-size": "dp", "dp-size": "dp", "dp":
        "dp",
        "pipeline-parallel-size": "pp", "pp-size": "pp", "pp": "pp", "expert-parallel-size": "ep", "ep-size": "ep",
        "ep": "ep", "nnodes": "nodes", "speculative-algorithm": "method", "speculative-algo": "method",
        "speculative-num-steps": "steps", "speculative-eagle-topk": "topk", "speculative-num-draft-tokens": "draft",
        "quantization": "quantization", "config": "config", "disaggregation-mode": "disaggregation",
    },
    "vllm": {
        "model": "model", "served-model-name": "served", "port": "port", "host": "host", "uds": "uds",
        "tensor-parallel-size": "tp", "tp": "tp", "data-parallel-size": "dp", "dp": "dp", "pipeline-parallel-size":
        "pp",
        "pp": "pp", "nnodes": "nodes", "speculative-config": "speculative", "sc": "speculative",
        "speculative-config.method": "method", "speculative-config.num-speculative-tokens": "draft",
        "num-speculative-tokens": "draft", "quantization": "quantization", "q": "quantization", "config": "config",
    },
}  # fmt: skip
_SWITCHES = re.compile(
    r"\A(?:enable|disable|no|skip|trust|enforce|allow|return|use|log)-|\A(?:headless|help|calculate-kv-scales|async-scheduling)\Z"
)
"""Flags that take no value, by their beginning: enough to tell where vLLM's positional model stands."""
_VALUED = frozenset({"log-level", "log-config-file", "allow-media-domains"})


def is_switch(name: str) -> bool:
    """Whether a flag (without its hyphens) takes no value, by its name."""
    return _SWITCHES.search(name) is not None and name not in _VALUED


def _pairs(args: Sequence[str]) -> tuple[dict[str, str], list[str]]:
    """Flags with their values (a flag without one has ""), and the arguments that are no flag's value."""
    flags: dict[str, str] = {}
    bare: list[str] = []
    at = 0
    while at < len(args):
        word = args[at]
        at += 1
        if not word.startswith("-") or word == "-":
            bare.append(word)
            continue
        name, equals, value = word.lstrip("-").partition("=")
        name = name.replace("_", "-")
        if not equals and not is_switch(name) and at < len(args) and not args[at].startswith("--"):
            value = args[at]
            at += 1
        flags[name] = value
    return flags, bare


def _count(text: str | None) -> int | None:
    return int(text) if text and text.isascii() and text.isdigit() and len(text) < 10 else None


def _port(text: str | None) -> int | None:
    number = _count(text)
    return number if number is not None and 0 < number < 65536 else None


def _speculation(known: dict[str, str]) -> str | None:
    """ "EAGLE3 steps 2 topk 4 draft 5", from SGLang's flags or vLLM's JSON."""
    if "speculative" in known:
        try:
            config = json.loads(known["speculative"])
        except (ValueError, RecursionError):
            return "speculative"
        if not isinstance(config, dict):
            return "speculative"
        found = {"method": config.get("method"), "draft": config.get("num_speculative_tokens")}
        known = known | {key: str(value) for key, value in found.items() if isinstance(value, str | int)}
    if not known.get("method") and "draft" not in known:
        return None
    numbers = [f"{name} {known[name]}" for name in ("steps", "topk", "draft") if _count(known.get(name)) is not None]
    return " ".join([(known.get("method") or "speculative").upper()[:24], *numbers])


def _words(known: dict[str, str]) -> tuple[str, ...]:
    parallel = ((name.upper(), _count(known.get(name))) for name in ("tp", "pp", "dp", "ep"))
    words = [f"{name} {count}" for name, count in parallel if count is not None and (count > 1 or name == "TP")]
    speculation = _speculation(known)
    if speculation is not None:
        words.append(speculation)
    words += [known[name][:24] for name in ("quantization", "disaggregation") if known.get(name)]
    return tuple(words)


def flags_of(launch: Launch) -> Flags:
    """The settings in a launch's arguments.

    What is a value is only text here: nothing in it is interpreted but vLLM's speculative JSON.
    """
    named, bare = _pairs(launch.args)
    names = _NAMES[launch.engine]
    known = {names[name]: value for name, value in named.items() if name in names}
    model = known.get("model") or (bare[0] if bare and launch.engine == "vllm" else None)
    return Flags(
        model=model,
        served_name=known.get("served") or None,
        port=_port(known.get("port")),
        host=known.get("host") or None,
        tp=_count(known.get("tp")),
        pp=_count(known.get("pp")),
        dp=_count(known.get("dp")),
        nodes=_count(known.get("nodes")),
        words=_words(known),
        has_config="config" in known,
        headless="headless" in named or "uds" in known,
    )


def short_model(name: str) -> str:
    """A model's path or repository name as the status line shows it: its last part."""
    return _base(name.rstrip("/")) or name
