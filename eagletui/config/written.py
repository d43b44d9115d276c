"""TOML that eagletui writes for a person to edit: the commented template, and a profile as a piece of text. Pure.

A profile is added at the end of a file as text of its own, so that every byte and every comment that was there stays.
"""

from __future__ import annotations

import json
import re
import shlex
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass

from eagletui.config.words import as_literal, split_command

ONE_LINE = 100
"""Characters of a command that stays on one line."""

_BARE = re.compile(r"\A[A-Za-z0-9_-]+\Z")

TEMPLATE = """\
# eagletui: what is yours to say. Everything here is optional; `eagletui config check` looks it over, `eagletui config schema` tells every key.
# A ./eagletui.toml in the folder where you run eagletui may add nodes and profiles, and nothing else.

# theme = "eagle-night"             # one of `eagletui themes`

# A machine by a name of your own. Without one, NODE is whatever ssh accepts.
# [nodes.gpu]
# host = "me@10.0.0.7:2222"         # a host of ~/.ssh/config, user@host, user@host:port; without it: the name itself
# confirm_name = true               # its name must be typed before anything is stopped or started there
# read_only = true                  # nothing is ever started or stopped there
# profiles = ["llama"]              # the profiles for it, the preferred one first

# A recipe to launch a server. `eagletui config init NODE` writes one from a server that runs.
# [profiles.llama]
# node = "gpu"
# command = '''
# python -m sglang.launch_server
#   --model-path /models/llama
#   --tp 8
#   --port 30000
# '''                               # no shell reads it: quotes group words, $NAME is not replaced
# cwd = "~"
# env = { CUDA_VISIBLE_DEVICES = "0,1,2,3,4,5,6,7", HF_TOKEN = "${HF_TOKEN}" }     # ${NAME}, alone: the login's variable on the node
# base_env = "login"                # env is added to a login's environment; "clean": to HOME, USER, PATH and the like
# log = "~/logs/{profile}-{variant}-{time}.log"      # also {port} and {model}; each launch gets a file of its own
# launcher = "setsid"               # setsid, tmux, systemd, docker, podman
# grace_s = 30                      # how long a stop may drain; 0: no limit

# The same with some flags changed: a value, true for a switch, false to remove a flag.
# [profiles.llama.variants.steps2]
# set = { speculative-num-steps = 2, enable-metrics = true, disable-radix-cache = false }
"""


@dataclass(frozen=True, slots=True)
class Variable:
    """A variable of the environment as it is written: its value, or that of the login's variable of the same name (`referred`), or only a comment
    why it is left out (`value` None)."""

    name: str
    value: str | None
    referred: bool = False
    why: str = ""


@dataclass(frozen=True, slots=True)
class Draft:
    """A profile to be written. `comments` stand above it, a line each."""

    name: str
    command: tuple[str, ...]
    node: str | None = None
    cwd: str | None = None
    log: str | None = None
    port: int | None = None
    launcher: str | None = None
    handle: str | None = None
    umask: str | None = None
    base_env: str = "login"
    env: tuple[Variable, ...] = ()
    comments: tuple[str, ...] = ()


def toml_text(text: str) -> str:
    """A string of TOML. Raises ValueError for what TOML cannot hold (bytes that are no UTF-8)."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        raise ValueError("it is not written in UTF-8") from None
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def toml_key(name: str) -> str:
    """A key of TOML. Raises ValueError as toml_text."""
    return name if _BARE.match(name) else toml_text(name)


def _comment(text: str) -> str:
    return "# " + "".join(char if char.isprintable() else "?" for char in text)


def command_text(words: Sequence[str]) -> str:
    """A command as it is written: on one line, else a flag a line, and a list where that cannot be read back. Raises ValueError as toml_text."""
    line = shlex.join(words)
    candidates = [toml_text(line)] if len(line) <= ONE_LINE else []
    lines: list[list[str]] = [[]]
    for word in words:
        if word.startswith("--") and lines[-1]:
            lines.append([])
        lines[-1].append(shlex.quote(word))
    candidates.append("'''\n" + "\n  ".join(" ".join(one) for one in lines) + "\n'''")
    for text in candidates:
        if _reads_back(text, tuple(words)):
            return text
    return "[\n" + "".join(f"  {toml_text(word)},\n" for word in words) + "]"


def _reads_back(text: str, words: tuple[str, ...]) -> bool:
    try:
        return split_command(tomllib.loads(f"command = {text}")["command"]) == words
    except ValueError:
        return False


def profile_text(draft: Draft) -> str:
    """A profile as TOML. Raises ValueError for a command or a path that is not written in UTF-8."""
    name = toml_key(draft.name)
    lines = [_comment(text) for text in draft.comments]
    lines.append(f"[profiles.{name}]")
    if draft.node is not None:
        lines.append(f"node = {toml_text(draft.node)}")
    lines.append(f"command = {command_text(draft.command)}")
    lines += [
        f"{key} = {toml_text(value)}" for key, value in (("cwd", draft.cwd), ("log", draft.log)) if value is not None
    ]
    if draft.port is not None:
        lines.append(f"port = {draft.port}")
    if draft.launcher is not None:
        lines.append(f"launcher = {toml_text(draft.launcher)}")
    if draft.handle is not None:
        lines.append(f"handle = {toml_text(draft.handle)}")
    if draft.umask is not None:
        lines.append(f"umask = {toml_text(draft.umask)}")
    if draft.base_env != "login":
        lines.append(f"base_env = {toml_text(draft.base_env)}")
    if draft.env:
        lines += ["", f"[profiles.{name}.env]", *(_variable(one) for one in draft.env)]
    return "\n".join(lines) + "\n"


def _variable(one: Variable) -> str:
    if one.value is None:
        return _comment(f"{one.name}: {one.why}")
    value = f"${{{one.name}}}" if one.referred else as_literal(one.value)
    return f"{toml_key(one.name)} = {toml_text(value)}{'  ' + _comment(one.why) if one.why else ''}"


def added(text: str, profile: str) -> str:
    """A file's text with a profile at its end."""
    return (text.rstrip("\n") + "\n\n" if text.strip() else "") + profile
