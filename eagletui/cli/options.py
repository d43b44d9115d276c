"""Options that several commands share."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from eagletui.errors import UsageError

if TYPE_CHECKING:
    from eagletui.nodes.base import Node
    from eagletui.nodes.prompter import Prompter

F = TypeVar("F", bound=Callable[..., object])


class NumberRange(click.FloatRange):
    """A range of numbers; nan and inf, which every comparison lets pass, are none."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        number = float(super().convert(value, param, ctx))
        if not math.isfinite(number):
            self.fail(f"{value!r} is not a number.", param, ctx)
        return number


def _not_empty(context: click.Context, parameter: click.Parameter, value: str | None) -> str | None:
    if value == "":
        raise click.BadParameter("the path is empty", context, parameter)
    return value


def _reaching() -> tuple[Callable[[F], F], ...]:
    return (
        click.option(
            "-F", "ssh_config", metavar="FILE", type=click.Path(exists=True, dir_okay=False, path_type=Path), help="Another ssh configuration file."
        ),
        click.option(
            "--speed", type=NumberRange(0.1, 1000), default=None, help="For the demo node only: its times are divided by this."
        ),
        click.option(
            "--scenario", metavar="NAME", default=None,
            help="For the demo node only: what happens to its server. oom, rank-dies, stalls, kept-by-systemd, in-a-container, rank-of-two, "
            "never-started, port-taken, stuck-gpu, zombie, slow-drain or two-users.",
        ),
    )  # fmt: skip


def reaching_options(function: F) -> F:
    """A NODE that may be left out, and the options that say how to reach it."""
    for decorate in reversed((click.argument("node", required=False), *_reaching())):
        function = decorate(function)
    return function


def node_options(function: F) -> F:
    """NODE and the options that say how to reach it and which server and log to look at."""
    return server_options(
        click.option(
            "--log",
            "log_path",
            metavar="PATH",
            callback=_not_empty,
            help="Follow this file on the node instead of the one found.",
        )(function)
    )


def server_options(function: F) -> F:
    """NODE and the options that say how to reach it and which server is meant."""
    for decorate in reversed(
        (
            click.argument("node"),
            click.option("--port", type=click.IntRange(1, 65535), help="The server that listens on this port."),
            *_reaching(),
        )
    ):  # fmt: skip
        function = decorate(function)
    return function


@lru_cache(maxsize=1)
def use_own_rules() -> None:
    """The user's own patterns and diagnosis rules hold from now on; what cannot be used of them is told once, on stderr."""
    from eagletui.cli.user_rules import load_user_rules

    for complaint in load_user_rules():
        click.echo(f"eagletui: {complaint}", err=True)


def check_target(node: str, speed: float | None, scenario: str | None = None, ssh_config: Path | None = None) -> None:
    """What can be told wrong before anything heavy is loaded. Raises UsageError, ConfigError."""
    from eagletui.cli.configured import configured, reached
    from eagletui.nodes.target import parse_target

    use_own_rules()
    configured()  # a mistake in it is told whatever node is meant, and before anything is done

    if speed is not None and node != "demo":
        raise UsageError("--speed is for the demo node alone: only a simulated node's time can be changed")
    if scenario is not None:
        _check_scenario(node, scenario)
    if is_remote(node):
        parse_target(reached(node, ssh_config)[0])


def _check_scenario(node: str, name: str) -> None:
    if node != "demo":
        raise UsageError("--scenario is for the demo node alone: nothing is done to a real server")
    from eagletui.demo.scenarios import ALIASES, SCENARIOS

    if name not in SCENARIOS and name not in ALIASES:
        told = "; ".join(f"{one.name} ({one.what})" for one in SCENARIOS.values())
        raise UsageError(f"there is no scenario {name!r}. There are {told}")


def is_remote(node: str) -> bool:
    """Whether the name means a machine that is logged in to."""
    return node not in ("demo", "local")


def open_chosen(
    node: str,
    ssh_config: Path | None,
    speed: float | None,
    prompter: Prompter | None = None,
    *,
    scenario: str | None = None,
) -> Node:
    """The node that the options name, not connected yet; `prompter` asks the person during its logins. Raises
    UsageError, ConfigError, UnknownHostError.
    """
    from eagletui.nodes.registry import open_node

    check_target(node, speed, scenario, ssh_config)
    if node == "demo":
        from eagletui.demo.node import open_demo

        return open_demo(speed=speed or 1.0, scenario=scenario)
    if not is_remote(node):
        return open_node(node, config_file=ssh_config, prompter=prompter)
    from eagletui.cli.configured import reached

    host, config_file = reached(node, ssh_config)
    return open_node(host, config_file=config_file, prompter=prompter)
