"""What a command line asks of the simulated engine: its settings, what its log says of them, and why it cannot start with them. Pure.

The engine on this node is the recorded one: a flag is known when the recorded server told a setting of that name, and what a launch says of
itself is the recorded text with its own values in it. What the recording cannot be played for dies as SGLang does, in SGLang's words.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final

from eagletui.demo import shape
from eagletui.demo.load import Line
from eagletui.engines.arguments import read_arguments
from eagletui.engines.shapes import launch_of

ALIASES: Final = {
    "tp": "tp_size", "tensor_parallel_size": "tp_size", "dp": "dp_size", "data_parallel_size": "dp_size", "pp": "pp_size",
    "pipeline_parallel_size": "pp_size", "ep": "ep_size", "expert_parallel_size": "ep_size", "model": "model_path",
    "speculative_algo": "speculative_algorithm", "cuda_graph_max_bs": "cuda_graph_max_bs_decode", "cuda_graph_bs": "cuda_graph_bs_decode",
    "speculative_draft_model": "speculative_draft_model_path",
}  # fmt: skip
"""Other names that SGLang takes for its settings."""
_RANK_LINE: Final = re.compile(rb"(?m)^\[[-0-9: ]+ TP(\d+)\] .*\n")
_SITE: Final = "/opt/venv/lib/python3.12/site-packages/sglang/srt"
SIGQUIT: Final = "SIGQUIT received. signum=None, frame=None. It usually means one child failed."
MOST_STATIC: Final = 0.95
LEAST_STATIC: Final = 0.72
"""Shares of a GPU's memory between which --mem-fraction-static leaves room for the KV cache beside the weights, and for the graphs."""


@dataclass(frozen=True, slots=True)
class Failure:
    """A start that ends at `at` (seconds of the engine's time after the launch): what it says, by rank, and its exit status as a shell has it.

    `raw`: it is printed as it is, without the engine's stamp. `gone`: seconds until all is over.
    """

    at: float
    says: tuple[tuple[str, str], ...]
    status: int
    raw: bool = False
    gone: float = 0.2

    @property
    def never_ran(self) -> bool:
        """The engine itself said nothing."""
        return self.raw and self.gone == 0.0


@dataclass(frozen=True, slots=True)
class Settings:
    """What a launch's arguments say. `values`: setting → its literal as the log tells it. `failure`: why it dies; None when it serves."""

    argv: tuple[str, ...] = shape.COMMAND
    port: int = shape.PORT
    host: str = "127.0.0.1"
    ranks: int = shape.RANKS
    model: str = shape.MODEL
    steps: int | None = 2
    values: Mapping[str, str] = field(default_factory=dict)
    failure: Failure | None = None

    @property
    def own_ranks(self) -> int:
        """Ranks on this node that there are GPUs for."""
        return max(1, min(self.ranks, shape.RANKS))

    def told(self, text: bytes) -> bytes:
        """A piece of the recorded log as this launch says it."""
        if b"server_args=ServerArgs(" in text:
            for name, literal in self.values.items():
                text = _setting(name).sub(f"{name}={literal}".encode().replace(b"\\", rb"\\"), text, count=1)
        if self.own_ranks < shape.RANKS:
            text = _RANK_LINE.sub(lambda line: b"" if int(line[1]) >= self.own_ranks else line[0], text)
        if self.port != shape.PORT or self.host != "127.0.0.1":
            text = text.replace(
                b"http://127.0.0.1:30000", f"http://{self.host}:{self.port}".encode("utf-8", "surrogateescape")
            )
        return text

    def fill(self, info: dict[str, object]) -> None:
        """/server_info's settings with this launch's values."""
        for name, literal in self.values.items():
            if name in info:
                info[name] = ast.literal_eval(literal)


@lru_cache(maxsize=512)
def _setting(name: str) -> re.Pattern[bytes]:
    """Where the log tells it, with its value."""
    return re.compile(rb"(?<=[(, ])%s=(?:'(?:[^'\\]|\\.)*'|\[[^\]]*\]|[^,()\[]+)" % name.encode())


@lru_cache(maxsize=2)
def recorded_settings(text: str) -> dict[str, object]:
    """The settings that the recorded server told, by name. `text`: the recorded log from `server_args=` on."""
    return read_arguments(text)


def flag_names(recorded: Mapping[str, object]) -> tuple[str, ...]:
    """Every flag that this engine takes, with its hyphens."""
    return tuple(sorted(f"--{name.replace('_', '-')}" for name in (*recorded, *ALIASES, "config", "help")))


def _usage(sentence: str) -> Failure:
    said = f"usage: sglang serve [-h] --model-path MODEL_PATH\n                    [--tokenizer-path TOKENIZER_PATH]\nsglang serve: error: {sentence}\n"
    return Failure(shape.FIRST_BYTE, (("", said),), 2, raw=True)


def _crash(at: float, rank: str, path: str, line: int, name: str, error: str) -> Failure:
    """A scheduler's exception, and the end of everything."""
    said = f'Scheduler hit an exception: Traceback (most recent call last):\n  File "{_SITE}/{path}", line {line}, in {name}\n{error}\n'
    return Failure(at, ((rank, said), ("", SIGQUIT)), 137, gone=2.5)


def never_ran(sentence: str, status: int) -> Failure:
    """What was to run never became the engine: what the shell says, and its exit status."""
    return Failure(0.05, (("", f"{sentence}\n"),), status, raw=True, gone=0.0)


def bind_failure(host: str, port: int) -> Failure:
    """Somebody else listens on its port: it finds out when everything is loaded."""
    error = f"ERROR:    [Errno 98] error while attempting to bind on address ('{host}', {port}): address already in use"
    return Failure(
        shape.HTTP_OPEN,
        (("", error), ("", "INFO:     Waiting for application shutdown."), ("", SIGQUIT)),
        137,
        gone=2.0,
    )


def _literal(value: str, recorded: object) -> str | None:
    """A flag's value as the log tells it; None where it is no value of that setting's kind."""
    if isinstance(recorded, int) or (recorded is None and re.fullmatch(r"-?\d+", value)):
        return str(int(value)) if re.fullmatch(r"-?\d{1,18}", value) else None
    if isinstance(recorded, float):
        return repr(float(value)) if re.fullmatch(r"-?\d+(\.\d*)?|\.\d+", value) else None
    return repr(value)


def _failure(values: Mapping[str, str], ranks: int, models: frozenset[str]) -> Failure | None:
    return _no_model(values, models) or _wrong_ranks(ranks) or _wrong_share(values)


def _no_model(values: Mapping[str, str], models: frozenset[str]) -> Failure | None:
    for name in ("model_path", "speculative_draft_model_path"):
        path = ast.literal_eval(values[name]) if name in values else None
        if path is not None and path not in models:
            error = (
                f"OSError: Repo id must be in the form 'repo_name' or 'namespace/repo_name': '{path}'. "
                "Use `repo_type` argument if needed.\n"
            )
            site = "/opt/venv/lib/python3.12/site-packages/transformers/utils/hub.py"
            frame = f'  File "{site}", line 488, in cached_files\n    raise OSError(f"{{e}}") from e\n'
            launched = f'  File "{_SITE.removesuffix("/srt")}/launch_server.py", line 88, in <module>\n    run_server(server_args)\n'
            config = f'  File "{_SITE}/configs/model_config.py", line 282, in __init__\n    get_config(\n'
            said = f"Traceback (most recent call last):\n{launched}{config}{frame}{error}"
            return Failure(shape.SERVER_ARGS - 0.5, (("", said),), 1, raw=True)
    return None


def _wrong_ranks(ranks: int) -> Failure | None:
    """The recorded model needs all eight GPUs' memory, and there are no more."""
    if ranks == shape.RANKS:
        return None
    if ranks > shape.RANKS:
        error = "torch.AcceleratorError: CUDA error: invalid device ordinal"
        place = ("model_executor/model_runner.py", 838, "init_torch_distributed")
        return _crash(shape.DISTRIBUTED + 0.8, f"TP{shape.RANKS}", *place, error)
    if ranks not in {1, 2, 4}:
        error = f"AssertionError: 64 is not divisible by {ranks}"
        return _crash(shape.WEIGHTS + 0.4, "TP0", "distributed/utils.py", 62, "ensure_divisibility", error)
    error = (
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.75 GiB. GPU 0 has a total capacity of "
        "139.80 GiB of which 612.44 MiB is free. Including non-PyTorch memory, this process has 139.20 GiB memory in use."
    )
    return _crash(shape.WEIGHTS + 6.0 * ranks, "TP0", "model_loader/loader.py", 391, "load_model", error)


def _wrong_share(values: Mapping[str, str]) -> Failure | None:
    static = values.get("mem_fraction_static")
    if static is None or LEAST_STATIC <= float(static) < MOST_STATIC:
        return None
    if float(static) < LEAST_STATIC:
        error = "RuntimeError: Not enough memory. Please try to increase --mem-fraction-static."
        place = ("model_executor/model_runner.py", 1402, "init_memory_pool")
    else:
        error = (
            "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 38.20 GiB. GPU 0 has a total capacity of "
            "139.80 GiB of which 36.91 GiB is free."
        )
        place = ("mem_cache/memory_pool.py", 1190, "_create_buffers")
    return _crash(shape.KV_CACHE + 0.5, "TP0", *place, error)


def read_settings(argv: Sequence[str], recorded: Mapping[str, object], models: frozenset[str]) -> Settings:
    """The settings of a command line. `recorded`: what the recorded server told; `models`: paths of models that there are."""
    launch = launch_of(argv)
    if launch is None or launch.engine != "sglang":
        name = argv[0] if argv else ""
        return Settings(argv=tuple(argv), failure=never_ran(f"env: '{name}': No such file or directory", 127))
    values, unknown, wrong = _values(launch.args, recorded)

    def number(name: str, otherwise: int) -> int:
        return int(values[name]) if re.fullmatch(r"\d+", values.get(name, "")) else otherwise

    def text(name: str, otherwise: str) -> str:
        return str(ast.literal_eval(values[name])) if name in values else otherwise

    ranks, nodes = number("tp_size", 1), max(1, number("nnodes", 1))
    if unknown:
        failure: Failure | None = _usage(f"unrecognized arguments: {' '.join(unknown)}")
    elif wrong:
        failure = _usage(wrong)
    elif "model_path" not in values:
        failure = _usage("the following arguments are required: --model-path/--model")
    else:
        failure = _failure(values, ranks // nodes, models)
    for name in ("tokenizer_path", "served_model_name"):
        if "model_path" in values:
            values.setdefault(name, values["model_path"])
    steps = values.get("speculative_num_steps") if "speculative_algorithm" in values else None
    for name, missing in (("speculative_algorithm", "None"), ("speculative_num_steps", "None"), ("speculative_eagle_topk", "None"),
                          ("speculative_num_draft_tokens", "None"), ("speculative_draft_model_path", "None"), ("enable_metrics", "False"),
                          ("trust_remote_code", "False"), ("model_loader_extra_config", "'{}'")):  # fmt: skip
        values.setdefault(name, missing)  # the recorded server was given these
    return Settings(
        tuple(argv), number("port", shape.PORT), text("host", "127.0.0.1"), max(1, ranks // nodes), text("model_path", shape.MODEL),
        int(steps) if steps is not None and steps.isdigit() else None, values, failure,
    )  # fmt: skip


def complaint_of(args: Sequence[str], known: Mapping[str, object]) -> tuple[str | None, list[str]]:
    """What the engine's parser says of its arguments: its complaint, and those that it does not know."""
    values, unknown, wrong = _values(args, known)
    if wrong or "model_path" in values:
        return wrong or None, unknown
    return "the following arguments are required: --model-path/--model", unknown


def _values(args: Sequence[str], recorded: Mapping[str, object]) -> tuple[dict[str, str], list[str], str]:
    """Settings with their literals, what argparse does not know, and its sentence on a value that is none."""
    values: dict[str, str] = {}
    unknown: list[str] = []
    wrong = ""
    at = 0
    while at < len(args):
        word = args[at]
        at += 1
        name, equals, value = word.lstrip("-").partition("=")
        name = ALIASES.get(name.replace("-", "_"), name.replace("-", "_"))
        if not word.startswith("--") or name not in recorded:
            unknown.append(word)
            continue
        if isinstance(recorded[name], bool):
            values[name] = "True"
            continue
        if not equals:
            if at >= len(args) or args[at].startswith("--"):
                wrong = wrong or f"argument {word}: expected one argument"
                continue
            value = args[at]
            at += 1
        literal = _literal(value, recorded[name])
        if literal is None:
            kind = "float" if isinstance(recorded[name], float) else "int"
            wrong = wrong or f"argument {word.partition('=')[0]}: invalid {kind} value: '{value}'"
            continue
        values[name] = literal
    return values, unknown, wrong


def said_by(failure: Failure) -> list[Line]:
    """Its lines, by the engine's time."""
    return [Line(failure.at + 0.4 * n, rank, text) for n, (rank, text) in enumerate(failure.says)]
