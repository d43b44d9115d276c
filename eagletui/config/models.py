"""What a person writes in `config.toml` and `eagletui.toml`, as pydantic models. Unknown keys are errors.

    theme = "eagle-night"

    [nodes.gpu]
    host = "me@10.0.0.7:2222"
    confirm_name = true

    [profiles.llama]
    node = "gpu"
    command = "python -m sglang.launch_server --model-path /models/llama --tp 8 --port 30000"
    env = { CUDA_VISIBLE_DEVICES = "0,1,2,3,4,5,6,7", HF_TOKEN = "${HF_TOKEN}" }
    variants.steps2.set = { speculative-num-steps = 2 }

Nothing here knows an engine: what `set` does to a command is `engines.command_line.change(profile.argv(), profile.changes(variant))`.
"""

from __future__ import annotations

import re
from typing import Annotated, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StrictBool,
    StrictFloat,
    StrictInt,
    StrictStr,
)

from eagletui.config.log_path import check_template
from eagletui.config.screen import flat_ids
from eagletui.config.words import check_value, check_words, literal_of, reference_of, split_command

GRACE_S = 30.0
"""Seconds from the first TERM until the rest of a family is ended: what a drain takes that nobody is told about."""
MAX_NAME = 100
DEFAULT_LOG = "~/.local/state/eagletui/logs/{profile}-{variant}-{time}.log"
"""Where a profile logs that does not say."""

FlagValue = str | bool | None | tuple[str, ...]
"""A flag's value as engines.command_line has it: True a switch, False or None removes, a tuple several values."""

_VARIABLE = re.compile(r"\A[A-Za-z_][A-Za-z0-9_]*\Z")
_FLAG = re.compile(r"\A[A-Za-z0-9][\w.+-]*\Z")
_UMASK = re.compile(r"\A0?[0-7]{3}\Z")
_LAUNCHER = re.compile(r"\A[a-z][a-z0-9_-]*\Z")
_HANDLE = re.compile(r"\A[A-Za-z0-9_][\w.@:+-]*\Z")


def _name(value: str) -> str:
    if not value or not value.isprintable() or value != value.strip() or value.startswith("-") or len(value) > MAX_NAME:
        raise ValueError(
            f"{value[:40]!r} is no name: write 1 to {MAX_NAME} printable characters, not beginning with a hyphen"
        )
    return value


def _host(value: str) -> str:
    if not value or value.startswith("-") or any(c.isspace() or not c.isprintable() for c in value):
        raise ValueError("write it as ssh accepts it: a host of ~/.ssh/config, user@host, or user@host:port")
    return value


def _variable(value: str) -> str:
    if not _VARIABLE.match(value):
        raise ValueError(f"{value[:40]!r} is no name of a variable: letters, digits and _, not beginning with a digit")
    return value


def _flag(value: str) -> str:
    name = value.lstrip("-")
    if not _FLAG.match(name):
        raise ValueError(f"{value[:40]!r} is no flag: write its name, with or without the hyphens before it")
    return name


def _command(value: object) -> object:
    """A str stays what it is and is only checked, so that the file can be written again as it was."""
    if isinstance(value, str):
        split_command(value)
    elif isinstance(value, list | tuple) and all(isinstance(word, str) for word in value):
        check_words(tuple(value))
    return value


def _umask(value: object) -> object:
    if not isinstance(value, str):
        raise ValueError('write it in octal and in quotes, like "022"')  # noqa: TRY004 - pydantic reports ValueError
    if not _UMASK.match(value):
        raise ValueError(f'{value!r} is no umask: three octal digits, like "022"')
    return value.zfill(4)


def _launcher(value: str) -> str:
    if not _LAUNCHER.match(value):
        raise ValueError(f"{value!r} is no launcher: setsid, tmux, systemd, docker or podman")
    return value


def _handle(value: str) -> str:
    if not _HANDLE.match(value):
        raise ValueError(f"{value!r} is no name of a tmux session, a unit or a container")
    return value


def _path(value: str) -> str:
    if not value or "\0" in value or "\n" in value:
        raise ValueError("it is no path")
    return value


def _flat(value: object) -> object:
    return flat_ids(value) if isinstance(value, dict) else value


Name = Annotated[str, AfterValidator(_name)]
Port = Annotated[int, Field(ge=1, le=65535, strict=True)]
Flag = Annotated[str, AfterValidator(_flag)]
Set = StrictBool | StrictInt | StrictFloat | StrictStr | list[StrictStr | StrictInt | StrictFloat]
"""What a variant may set a flag to; false removes it."""


class Written(BaseModel):
    """What a person writes: an unknown key is an error."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class NodeConfig(Written):
    """A machine by a name of the person's own."""

    host: Annotated[str, AfterValidator(_host)] | None = Field(
        default=None,
        description="What ssh accepts: a host of ~/.ssh/config, user@host, user@host:port. Without it: the node's own name.",
    )
    ssh_config: Annotated[str, AfterValidator(_path)] | None = Field(
        default=None, description="Another ssh configuration file, like -F. Only in the user's own file."
    )
    read_only: bool = Field(
        default=False, strict=True, description="Nothing on this node may be started, stopped or restarted."
    )
    confirm_name: bool = Field(
        default=False,
        strict=True,
        description="A production node: its name must be typed before anything is stopped or started.",
    )
    profiles: list[Name] = Field(default_factory=list, description="Profiles for this node, the preferred one first.")


class Variant(Written):
    """A profile with some flags changed."""

    set: dict[Flag, Set] = Field(
        default_factory=dict,
        description="Flag to value: true is a switch, false removes the flag, a list is several values.",
    )

    def changes(self) -> tuple[tuple[str, FlagValue], ...]:
        """The flags (without hyphens) and their values, in the order written."""
        return tuple((flag, flag_value(value)) for flag, value in self.set.items())


def flag_value(value: object) -> FlagValue:
    """What a person wrote behind a flag, as the command line has it."""
    if isinstance(value, list):
        return tuple(str(one) for one in value)
    return value if isinstance(value, bool) else str(value)


class Profile(Written):
    """A recipe to launch a server."""

    command: Annotated[list[StrictStr] | StrictStr, BeforeValidator(_command)] = Field(
        description="The program and its arguments: a list, or one line that is split like a shell splits (no shell runs it)."
    )
    node: Name | None = Field(
        default=None, description="The node it is for; without it every node that lists no profiles of its own."
    )
    cwd: Annotated[str, AfterValidator(_path)] | None = Field(
        default=None, description="Working directory on the node (~ is the login's home there). Without it: the home."
    )
    env: dict[Annotated[str, AfterValidator(_variable)], Annotated[StrictStr, AfterValidator(check_value)]] = Field(
        default_factory=dict,
        description="Environment added to the base. A whole value $NAME or ${NAME} is the login's variable on the node; $$ is a $.",
    )
    base_env: Literal["login", "clean"] = Field(
        default="login",
        description="What env is added to: a login shell's environment on the node, or next to nothing (HOME, USER, PATH …).",
    )
    log: Annotated[str, AfterValidator(check_template)] = Field(
        default=DEFAULT_LOG,
        description="Log file on the node: {profile} {variant} {time} {port} {model}; each launch gets a file of its own.",
    )
    launcher: Annotated[str, AfterValidator(_launcher)] = Field(
        default="setsid", description="What starts and keeps it: setsid, tmux, systemd, docker, podman."
    )
    handle: Annotated[str, AfterValidator(_handle)] | None = Field(
        default=None, description="The tmux session, the unit or the container that the launcher uses."
    )
    grace_s: float = Field(
        default=GRACE_S,
        ge=0,
        strict=True,
        description="Seconds that a stop may drain before what is left is ended; 0 is no limit.",
    )
    port: Port | None = Field(default=None, description="Where it listens; without it as the command says.")
    remove_leftovers: bool = Field(
        default=True, strict=True, description="Remove /dev/shm entries that dead processes of this server left."
    )
    umask: Annotated[str, BeforeValidator(_umask)] | None = Field(default=None, description='In octal, like "022".')
    variants: dict[Name, Variant] = Field(
        default_factory=dict, description="The same with some flags changed, by name."
    )

    def argv(self) -> tuple[str, ...]:
        """The command's words, without any variant."""
        return split_command(self.command) if isinstance(self.command, str) else tuple(self.command)

    def changes(self, variant: str | None) -> tuple[tuple[str, FlagValue], ...]:
        """What a variant changes; nothing for None. Raises KeyError for a name that is none."""
        return () if variant is None else self.variants[variant].changes()

    def literal_env(self) -> tuple[tuple[str, str], ...]:
        """The variables whose value stands in the file."""
        return tuple((name, literal_of(value)) for name, value in self.env.items() if reference_of(value) is None)

    def referred_env(self) -> tuple[tuple[str, str], ...]:
        """The variables whose value is that of the login's: (name, the login's name for it)."""
        found = ((name, reference_of(value)) for name, value in self.env.items())
        return tuple((name, there) for name, there in found if there is not None)


class BenchPreset(Written):
    """A load by a name, for `eagletui bench --preset`; what it leaves out is as in `quick`."""

    requests: Annotated[int, Field(ge=1, le=1_000_000, strict=True)] | None = Field(
        default=None, description="Requests of each repeat."
    )
    input_len: Annotated[int, Field(ge=1, le=10_000_000, strict=True)] | None = Field(
        default=None, description="Tokens of a prompt."
    )
    output_len: Annotated[int, Field(ge=1, le=1_000_000, strict=True)] | None = Field(
        default=None, description="Tokens of an answer."
    )
    concurrency: Annotated[int, Field(ge=1, le=10_000, strict=True)] | None = Field(
        default=None, description="Requests at a time; with `rate` the most at a time."
    )
    rate: Annotated[float, Field(gt=0, le=100_000)] | None = Field(
        default=None, description="Begin so many requests a second (Poisson) instead of so many at a time."
    )
    warmup: Annotated[int, Field(ge=0, le=100_000, strict=True)] | None = Field(
        default=None, description="Requests before the first repeat that are not counted."
    )
    repeats: Annotated[int, Field(ge=1, le=1000, strict=True)] | None = Field(
        default=None, description="How often: two or more give an interval."
    )
    seed: Annotated[int, Field(ge=0, strict=True)] | None = Field(
        default=None, description="Of prompts, lengths and arrivals."
    )
    spread: Annotated[float, Field(ge=0, le=1)] | None = Field(
        default=None, description="Lengths are drawn from (1 - spread) of that up to it."
    )
    temperature: Annotated[float, Field(ge=0, le=10)] | None = Field(default=None, description="Of the sampling.")
    ignore_eos: StrictBool | None = Field(
        default=None, description="Answers are as long as asked, where the engine can."
    )
    api: Literal["completions", "chat", "generate"] | None = Field(
        default=None, description="Which API; else the first that the server has."
    )
    runner: Literal["builtin", "bench_serving"] | None = Field(
        default=None, description="Who sends it: eagletui, or a program on the node."
    )

    def changes(self) -> dict[str, object]:
        """What it says, by the names of a load."""
        return self.model_dump(exclude_none=True)


class Config(Written):
    """The whole of it."""

    theme: Name | None = Field(default=None, description="A theme of `eagletui themes`. Only in the user's own file.")
    keys: Annotated[dict[Name, str | list[str]], BeforeValidator(_flat)] = Field(
        default_factory=dict, description="Action (`eagletui keys`) to key or keys. Only in the user's own file."
    )
    nodes: dict[Name, NodeConfig] = Field(default_factory=dict, description="Machines by name.")
    profiles: dict[Name, Profile] = Field(default_factory=dict, description="Recipes to launch a server, by name.")
    presets: dict[Name, BenchPreset] = Field(
        default_factory=dict, description="Loads of `eagletui bench`, by name. Only in the user's own file."
    )
