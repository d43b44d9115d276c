"""What a recipe asks of the node: its flags by name, its models, its GPUs, its ports. Pure."""

from __future__ import annotations

import json
import posixpath
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from eagletui.engines.command_words import NotALaunchError, take_apart
from eagletui.engines.derived_ports import DerivedPort, derived_ports
from eagletui.engines.shapes import DEFAULT_PORT, Engine, launch_of
from eagletui.launching.recipe import Recipe

DEFAULT_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
"""Where shells look when the environment has no PATH."""
_SEE_THROUGH = frozenset({"taskset", "numactl", "nice", "ionice", "chrt", "setsid", "nohup", "stdbuf", "time"})
"""Programs before a command that leave its environment as it is."""
CONTAINERS = frozenset({"docker", "podman"})
"""Launchers whose server lives in a container: what the node's own files say does not hold for it."""


@dataclass(frozen=True, slots=True)
class Model:
    """A model that the launch names. `what`: "model", "draft model", "tokenizer". `word` as written; `path` absolute, where it would lie; `hub` its
    folder's name among downloads, where it may be a hub's name. `remote`: an address that the engine fetches itself."""

    what: str
    word: str
    path: str
    hub: str = ""
    remote: bool = False

    @property
    def is_path(self) -> bool:
        """Written as a path, so no hub's name."""
        return not self.remote and not self.hub


@dataclass(frozen=True, slots=True)
class Asked:
    """`flags`: by the name that stands for each and its aliases, with the values of the last one. `args`: what the engine itself reads; `program`: who
    runs it (a Python, or a script of one); both None where a wrapper of unknown ways does. `gpus`: how many of this node's it needs (None: cannot be
    told), from position `first_gpu` of the visible ones in steps of `gpu_step`. `fraction`: of a GPU's memory that it claims, None where it chooses."""

    engine: Engine | None
    flags: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    args: tuple[str, ...] = ()
    program: str | None = None
    wrapper: str | None = None
    models: tuple[Model, ...] = ()
    has_config: bool = False
    dummy_weights: bool = False
    gpus: int | None = None
    tp: int = 1
    first_gpu: int = 0
    gpu_step: int = 1
    fraction: float | None = None
    port: int | None = None
    derived: tuple[DerivedPort, ...] = ()


def _last(flags: Mapping[str, tuple[str, ...]], *names: str) -> str | None:
    return next((flags[name][-1] for name in names if flags.get(name)), None)


def _count(flags: Mapping[str, tuple[str, ...]], name: str, missing: int = 1) -> int | None:
    """None: it is there and no number."""
    if name not in flags:
        return missing
    text = _last(flags, name) or ""
    return int(text) if text.isascii() and text.isdigit() and len(text) < 6 else None


def _gpus(engine: Engine, flags: Mapping[str, tuple[str, ...]]) -> int | None:
    """GPUs of this node: tensor × pipeline × data parallel ranks, over the nodes."""
    if _last(flags, "device") == "cpu":
        return 0
    if engine == "sglang":
        dp = 1 if "enable-dp-attention" in flags else _count(flags, "dp-size")
        tp, pp = _count(flags, "tp-size"), _count(flags, "pp-size")
    else:
        local = "data-parallel-size-local" in flags
        dp = _count(flags, "data-parallel-size-local" if local else "data-parallel-size")
        tp, pp = _count(flags, "tensor-parallel-size"), _count(flags, "pipeline-parallel-size")
    nodes = _count(flags, "nnodes")
    if tp is None or pp is None or dp is None or not nodes:
        return None
    return max(1, tp * pp * dp // nodes)


def _fraction(engine: Engine, flags: Mapping[str, tuple[str, ...]]) -> float | None:
    text = _last(flags, "mem-fraction-static" if engine == "sglang" else "gpu-memory-utilization")
    try:
        number = float(text) if text else None
    except ValueError:
        return None
    return number if number is not None and 0 < number <= 1 else None


def model_of(what: str, word: str, cwd: str) -> Model:
    """A model as the engines take the word: an address, a folder or file, else a hub's name."""
    if "://" in word:
        return Model(what, word, "", remote=True)
    path = posixpath.join(cwd, word)
    parts = word.split("/")
    hub = not word.startswith(("/", ".", "~")) and len(parts) <= 2 and all(parts) and not word.endswith(".gguf")
    return Model(what, word, path, f"models--{'--'.join(parts)}" if hub else "")


def _models(engine: Engine, flags: Mapping[str, tuple[str, ...]], cwd: str) -> tuple[Model, ...]:
    named: list[tuple[str, str | None]]
    if engine == "sglang":
        named = [
            ("model", _last(flags, "model-path")),
            ("draft model", _last(flags, "speculative-draft-model-path")),
            ("tokenizer", _last(flags, "tokenizer-path")),
        ]
    else:
        named = [
            ("model", _last(flags, "model")),
            ("draft model", _draft(flags)),
            ("tokenizer", _last(flags, "tokenizer")),
        ]
    return tuple(model_of(what, word, cwd) for what, word in named if word)


def _draft(flags: Mapping[str, tuple[str, ...]]) -> str | None:
    """vLLM's draft model, which stands in JSON or behind a dot."""
    try:
        config = json.loads(_last(flags, "speculative-config") or "null")
    except (ValueError, RecursionError):
        config = None
    inside = config.get("model") if isinstance(config, dict) else None
    return _last(flags, "speculative-config.model") or (inside if isinstance(inside, str) else None)


def _served(args: tuple[str, ...]) -> tuple[tuple[str, ...], bool]:
    """What `sglang serve` hands to the server's own parser: it takes a model without a flag, and keeps `--model-type`. True: another backend is named."""
    rest = list(("--model-path", *args) if args and not args[0].startswith("-") else args)
    kept: list[str] = []
    kind = "auto"
    while rest:
        word = rest.pop(0)
        name, equals, value = word.partition("=")
        if name != "--model-type":
            kept.append(word)
        elif equals:
            kind = value
        elif rest:
            kind = rest.pop(0)
    return tuple(kept), kind not in {"auto", "llm"}


def _launch(argv: Sequence[str]) -> tuple[str | None, tuple[str, ...], str | None]:
    """Who runs the engine, what the engine's parser reads, and the wrapper that cannot be seen through."""
    for at in range(len(argv)):
        launch = launch_of(argv[at:])
        if launch is None:
            continue
        before = argv[at : len(argv) - len(launch.args)]
        args, other = launch.args, False
        if launch.engine == "sglang" and before[-1] == "serve":
            args, other = _served(args)
        if at > 0 and posixpath.basename(argv[0]) not in _SEE_THROUGH:
            return None, args, argv[0]
        if other or any(word.startswith("sglang_router") for word in before):
            return None, args, "the router" if not other else "another backend of sglang"
        return argv[at], args, None
    return None, (), argv[0] if argv else None


def asked_of(recipe: Recipe) -> Asked:
    """What this recipe asks for."""
    try:
        parts = take_apart(recipe.argv)
    except NotALaunchError:
        return Asked(None, wrapper=recipe.argv[0] if recipe.argv else None, port=recipe.port)
    program, args, wrapper = _launch(recipe.argv)
    if parts.engine is None:
        return Asked(None, wrapper=wrapper, port=recipe.port)
    engine = parts.engine
    flags = {item.key: item.values for item in parts.items}
    if engine == "sglang" and "model-path" not in flags and args[:1] == ("--model-path",):
        flags["model-path"] = args[1:2]  # `sglang serve MODEL`
    named = _last(flags, "port")
    port = int(named) if named and named.isascii() and named.isdigit() and len(named) < 6 else None
    port = port or recipe.port or DEFAULT_PORT[engine]
    tp = _count(flags, "tp-size" if engine == "sglang" else "tensor-parallel-size")
    return Asked(
        engine,
        flags,
        args,
        program,
        wrapper,
        _models(engine, flags, recipe.cwd),
        has_config="config" in flags,
        dummy_weights=_last(flags, "load-format") == "dummy",
        gpus=None if "config" in flags else _gpus(engine, flags),
        tp=tp or 1,
        first_gpu=_count(flags, "base-gpu-id", 0) or 0,
        gpu_step=_count(flags, "gpu-id-step") or 1,
        fraction=_fraction(engine, flags),
        port=port,
        derived=derived_ports(engine, port, flags),
    )
