"""`connect`: the screen for a node."""

from __future__ import annotations

import asyncio
import os
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING

import click

from eagletui.cli.hangup import leave_when_the_terminal_is_gone
from eagletui.cli.options import check_target, is_remote, node_options, open_chosen
from eagletui.config.screen import screen_settings
from eagletui.errors import EagletuiError, UsageError

if TYPE_CHECKING:
    from collections.abc import Callable

    from eagletui.cli.prompter import TerminalPrompter
    from eagletui.cli.screen_watch import Measuring
    from eagletui.history.store import History
    from eagletui.launching.operating import NodeOperator
    from eagletui.monitor.monitor import NodeMonitor
    from eagletui.nodes.base import Node
    from eagletui.ui.app import EagleApp

QUIET_SECONDS = 1.0
"""A connection that takes longer is announced: an empty terminal looks like a hang."""

_EPILOG = """Passphrases, passwords, codes and unknown host keys are asked on the terminal before the screen opens.

Exit status: 0 after q, 20 when the first connection fails, 2 usage (or no terminal), 130 when a question was answered with ctrl+c, 129 when the
terminal is gone."""


@click.command(
    help="Open the screen for NODE: demo (a simulated node), local, or anything ssh accepts.", epilog=_EPILOG
)
@node_options
@click.option("--theme", metavar="NAME", default=None, help="A theme from `eagletui themes`.")
def connect(
    node: str, port: int | None, log_path: str | None, ssh_config: Path | None, speed: float | None,
    scenario: str | None, theme: str | None,
) -> int:  # fmt: skip
    """Run the screen until `q`. Raises NodeError when the first connection fails."""
    if not sys.stdin.isatty() or not sys.stdout.isatty():
        raise UsageError(f"connect needs a terminal; in scripts and pipes use `eagletui status {node}` (or `--json`)")
    if os.environ.get("TERM", "") in ("", "dumb"):
        shown = os.environ.get("TERM", "")
        raise UsageError(f"this terminal cannot show a screen (TERM={shown}); use `eagletui status {node}`")
    check_target(node, speed, scenario, ssh_config)
    if theme is not None:
        _check_theme(theme)
    own = screen_settings()
    theme = theme or own.theme
    if own.keys:
        from eagletui.ui.actions import rebind

        rebind(own.keys)
    if is_remote(node):
        return asyncio.run(_log_in_and_run(node, port, log_path, ssh_config, theme))
    return _run_at_once(node, port, log_path, speed, scenario, theme)


def _run_at_once(
    node: str, port: int | None, log_path: str | None, speed: float | None, scenario: str | None, theme: str | None
) -> int:
    """Nothing can be asked: the screen comes first, and what takes time to load after it."""
    from eagletui.monitor.lazy import LazyMonitor
    from eagletui.ui.app import EagleApp

    failed: list[EagletuiError] = []
    app: EagleApp

    def give_up(error: EagletuiError) -> None:
        failed.append(error)
        app.exit()

    def make() -> NodeMonitor:
        from eagletui.cli.keeping import history_of
        from eagletui.monitor.monitor import NodeMonitor

        opened, history = open_chosen(node, None, speed, scenario=scenario), history_of(node, speed)
        monitor = NodeMonitor(opened, port=port, log_path=log_path, on_failure=give_up, history=history)
        # Nobody restarts anything in the first second, and the watch should not wait for the libraries of it.
        threading.Thread(target=bring_operator, args=(monitor, history), name="operator", daemon=True).start()
        return monitor

    def bring_operator(monitor: NodeMonitor, history: History) -> None:
        from eagletui.cli.screen_watch import hand_over, screen_measuring, screen_operator

        hand_over(app, screen_operator(monitor, node, history), screen_measuring(monitor, node, history))

    app = EagleApp(LazyMonitor(node, make, give_up), node_name=node, theme=theme)
    leave_when_the_terminal_is_gone(app.exit_from_thread)
    app.run()
    if failed:
        raise failed[0]
    return app.return_code or 0


async def _log_in_and_run(
    name: str, port: int | None, log_path: str | None, ssh_config: Path | None, theme: str | None
) -> int:
    """The login on the plain terminal, then the screen on the same loop over the same link."""
    from eagletui.cli.keeping import history_of
    from eagletui.cli.prompter import TerminalPrompter

    prompter = TerminalPrompter()
    node = open_chosen(name, ssh_config, None, prompter)
    # The screen's libraries take as long to load as a login takes: the two go together.
    loading = asyncio.create_task(asyncio.to_thread(_load_screen))
    try:
        await _connect(node, prompter)
        app_type, monitor_type, operator_maker, measuring_maker = await loading
        failed: list[EagletuiError] = []
        app: EagleApp

        def give_up(error: EagletuiError) -> None:
            failed.append(error)
            app.exit()

        history = history_of(name)
        monitor = monitor_type(node, port=port, log_path=log_path, on_failure=give_up, history=history)
        app = app_type(monitor, node_name=name, theme=theme, operator=operator_maker(monitor, name, history))
        measuring_maker(monitor, name, history).give(app)
        prompter.leave_first(app)
        leave_when_the_terminal_is_gone(app.exit_from_thread)
        await app.run_async()
        if failed:
            raise failed[0]
        return app.return_code or 0
    finally:
        loading.cancel()
        await node.aclose()


def _load_screen() -> tuple[
    type[EagleApp],
    type[NodeMonitor],
    Callable[[NodeMonitor, str, History], NodeOperator],
    Callable[[NodeMonitor, str, History], Measuring],
]:
    import eagletui.bench.session
    import eagletui.bench.sources
    import eagletui.ui.history_ledger  # noqa: F401 - loaded here, beside the login, and not on the loop
    from eagletui.cli.screen_watch import screen_measuring, screen_operator
    from eagletui.monitor.monitor import NodeMonitor
    from eagletui.ui.app import EagleApp

    return EagleApp, NodeMonitor, screen_operator, screen_measuring


async def _connect(node: Node, prompter: TerminalPrompter) -> None:
    """Connect, and say so where it takes a while and nothing was asked."""

    def announce() -> None:
        if not prompter.asked:
            click.echo(f"connecting to {node.name} …", err=True)

    later = asyncio.get_running_loop().call_later(QUIET_SECONDS, announce)
    try:
        await node.connect()
    finally:
        later.cancel()


def _check_theme(name: str) -> None:
    from eagletui.ui.theming import load_themes

    names = [t.name for t in load_themes().themes]
    if name not in names:
        raise UsageError(f"there is no theme {name!r}; `eagletui themes` lists them: {', '.join(names)}")
