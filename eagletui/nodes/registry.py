"""Which kind of node a name means. Kinds are strings until one is used, so that naming them imports nothing."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    from collections.abc import Callable

    from eagletui.nodes.base import Node
    from eagletui.nodes.prompter import Prompter

SPECIAL = {
    "local": "eagletui.nodes.local:LocalNode",
    "demo": "eagletui.demo.node:open_demo",
}
"""Names that are no host, with what makes each node (called without arguments)."""

SSH = "eagletui.nodes.ssh:SshNode"
"""What makes every other node: called with the name, `config_file` and `prompter`."""


def load(reference: str) -> Callable[..., Node]:
    """What a `module:name` string stands for."""
    module, _, name = reference.partition(":")
    return cast("Callable[..., Node]", getattr(import_module(module), name))


def open_node(name: str, *, config_file: Path | None = None, prompter: Prompter | None = None) -> Node:
    """The node a user named; nothing is connected yet. `config_file` is ssh's -F; `prompter` asks the person during a
    login, nobody is asked without one. Raises UsageError for what cannot be a name.

    Importing what an SSH node needs takes about 0.2 s: call this in a thread where a screen must not stall.
    """
    if name in SPECIAL:
        return load(SPECIAL[name])()
    return load(SSH)(name, config_file=config_file, prompter=prompter)
