"""The operator of a node that a person named, with the configuration, the history and the guards that hold for it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from eagletui.cli.configured import configured, guards_for
from eagletui.cli.keeping import history_of
from eagletui.cli.options import open_chosen

if TYPE_CHECKING:
    from collections.abc import Callable

    from eagletui.cli.request_count import RequestCount
    from eagletui.cli.sequence_watch import MonitorWatch
    from eagletui.cli.wait_output import Output
    from eagletui.history.store import History
    from eagletui.launching.operating import NodeOperator
    from eagletui.launching.watch import Watch
    from eagletui.nodes.base import Node
    from eagletui.nodes.prompter import Prompter
    from eagletui.servers.intent import Intent


def operator_for(
    node: Node,
    name: str,
    history: History | None,
    watch: Watch | None = None,
    *,
    on_intent: Callable[[Intent], None] = lambda _intent: None,
    requests: Callable[[], int | None] = lambda: None,
) -> NodeOperator:
    """The operator of a node that is open, or will be. Raises ConfigError."""
    from eagletui.launching.operating import NodeOperator

    return NodeOperator(
        node,
        name=name,
        loaded=configured(),
        guards=guards_for(name),
        history=history,
        watch=watch,
        requests=requests,
        on_intent=on_intent,
    )


def open_operator(
    name: str, ssh_config: Path | None, speed: float | None, scenario: str | None, prompter: Prompter | None, watching: Output | None,
    timeout_s: float | None,
) -> tuple[NodeOperator, Node, MonitorWatch | None, RequestCount]:  # fmt: skip
    """The operator, its node (not connected yet), who watches a new server (nobody without `watching`), and who counts the old one's requests. Raises
    UsageError, ConfigError."""
    from eagletui.cli.request_count import RequestCount
    from eagletui.cli.sequence_watch import MonitorWatch

    node = open_chosen(name, ssh_config, speed, prompter, scenario=scenario)
    history = history_of(name, speed)
    watch = None if watching is None else MonitorWatch(node, watching, history, timeout_s)
    count = RequestCount(node)
    return operator_for(node, name, history, watch, requests=lambda: count.now), node, watch, count
