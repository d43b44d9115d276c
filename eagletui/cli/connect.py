"""`connect`: the screen for a node."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from eagletui.cli.options import check_target, node_options, open_chosen
from eagletui.errors import EagletuiError, UsageError

if TYPE_CHECKING:
    from eagletui.monitor.monitor import NodeMonitor
    from eagletui.ui.app import EagleApp


@click.command(help="Open the screen for NODE: demo (a simulated node), local, or anything ssh accepts.")
@node_options
@click.option("--theme", metavar="NAME", default=None, help="A theme from `eagletui themes`.")
def connect(
    node: str, port: int | None, log_path: str | None, ssh_config: Path | None, speed: float | None, theme: str | None
) -> int:
    """Run the screen until `q`. Returns 20 when the first connection fails."""
    if not sys.stdin.isatty() or not sys.stdout.isatty():
        raise UsageError(f"connect needs a terminal; in scripts and pipes use `eagletui status {node}` (or `--json`)")
    if os.environ.get("TERM", "") in ("", "dumb"):
        shown = os.environ.get("TERM", "")
        raise UsageError(f"this terminal cannot show a screen (TERM={shown}); use `eagletui status {node}`")
    from eagletui.monitor.lazy import LazyMonitor
    from eagletui.ui.app import EagleApp

    if theme is not None:
        _check_theme(theme)
    check_target(node, speed)
    failed: list[EagletuiError] = []
    app: EagleApp

    def give_up(error: EagletuiError) -> None:
        failed.append(error)
        app.exit()

    def make() -> NodeMonitor:
        from eagletui.monitor.monitor import NodeMonitor

        return NodeMonitor(open_chosen(node, ssh_config, speed), port=port, log_path=log_path, on_failure=give_up)

    app = EagleApp(LazyMonitor(node, make, give_up), node_name=node, theme=theme)
    app.run()
    if failed:
        raise failed[0]
    return app.return_code or 0


def _check_theme(name: str) -> None:
    from eagletui.ui.theming import load_themes

    names = [t.name for t in load_themes().themes]
    if name not in names:
        raise UsageError(f"there is no theme {name!r}; `eagletui themes` lists them: {', '.join(names)}")
