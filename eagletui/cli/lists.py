"""`keys` and `themes`: one a line, name and what it is."""

from __future__ import annotations

import click


@click.command(help="List the keys of the screen: key, action, what it does.")
def keys() -> None:
    """Print the action registry."""
    from eagletui.config.screen import screen_settings
    from eagletui.ui import actions

    actions.rebind(screen_settings().keys)
    width = max(len(a.key) for a in actions.ACTIONS)
    names = max(len(a.id) for a in actions.ACTIONS)
    for action in actions.ACTIONS:
        click.echo(
            f"{action.key:<{width}}  {action.id:<{names}}  {action.help}{'' if action.available else '  (not yet)'}"
        )


@click.command(help="List the themes: name, then what it is. `eagletui connect NODE --theme NAME` uses one.")
def themes() -> None:
    """Print the themes, and on stderr those that could not be read."""
    from eagletui.ui.theming import load_themes

    found = load_themes()
    width = max((len(t.name) for t in found.themes), default=0)
    for theme in found.themes:
        click.echo(f"{theme.name:<{width}}  {theme.description}")
    for problem in found.problems:
        click.echo(f"eagletui: {problem}", err=True)
