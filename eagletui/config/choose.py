"""Which node is meant, what may be done there, and which profiles fit it. Pure: from a loaded configuration and names.

Guards follow the machine and not the name: a node that is called otherwise (or not at all) but leads to the same host as a node of the person's own
file has that node's `read_only` and `confirm_name`, too.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from eagletui.config.load import HERE, Loaded
from eagletui.config.models import NodeConfig, Profile


@dataclass(frozen=True, slots=True)
class Place:
    """What a configured name leads to. `host` as ssh accepts it. `ssh_config`: another configuration file for ssh, absolute. `file`: who says so.
    `foreign`: a project's file says so."""

    host: str
    ssh_config: Path | None
    file: Path
    foreign: bool


@dataclass(frozen=True, slots=True)
class Guards:
    """`read_only`: nothing may be started or stopped there. `confirm_name`: what must be typed first, None where nothing must. `node` and `file`: which
    node of which file says so, for the sentence; None where no guard holds."""

    read_only: bool = False
    confirm_name: str | None = None
    node: str | None = None
    file: Path | None = None

    @property
    def sentence(self) -> str | None:
        """Why nothing is done there; None where it may be."""
        if not self.read_only:
            return None
        return f"{self.node} is read_only in {self.file}: nothing is started, stopped or restarted there"


def place_of(loaded: Loaded, name: str) -> Place | None:
    """What a name means by the configuration; None where it says nothing of it."""
    node = loaded.config.nodes.get(name)
    foreign = name in loaded.project_nodes
    source = loaded.project if foreign else loaded.own
    if node is None or source is None:
        return None
    ssh_config = None
    if node.ssh_config is not None:
        ssh_config = source.path.absolute().parent / Path(node.ssh_config).expanduser()
    return Place(node.host or name, ssh_config, source.path, foreign)


def _machine(host: str) -> str:
    """The host alone, without user and port, as names are compared."""
    place = host.removeprefix("ssh://").rstrip("/").rpartition("@")[2].lower().rstrip(".")
    if place.startswith("["):
        return place[1:].partition("]")[0]
    return place.partition(":")[0] if place.count(":") == 1 else place


def _same(host: str) -> str:
    return host


def guards_of(loaded: Loaded, name: str, real: Callable[[str], str] = _same) -> Guards:
    """What holds for a node, by whatever name it was called. The stricter of several words counts; those of the person's own file come first. `real`
    gives what ssh's configuration makes of a host, so that an alias and its address are one machine; it is asked only where a node is guarded."""
    nodes = loaded.config.nodes
    guarded = [other for other, node in nodes.items() if node.read_only or node.confirm_name]
    own = [other for other in guarded if other not in loaded.project_nodes]
    here = _leads_to(name, nodes.get(name), real) if own else set()
    found = [
        other for other in guarded if other == name or (other in own and here & _leads_to(other, nodes[other], real))
    ]
    found.sort(key=lambda other: (other in loaded.project_nodes, other != name))
    strict = next((other for other in found if nodes[other].read_only), None)
    asking = next((other for other in found if nodes[other].confirm_name), None)
    told = strict or asking
    source = (loaded.project if told in loaded.project_nodes else loaded.own) if told is not None else None
    return Guards(strict is not None, asking, told, source.path if source is not None else None)


def _leads_to(name: str, node: NodeConfig | None, real: Callable[[str], str]) -> set[str]:
    host = (node.host if node is not None else None) or name
    return {_machine(name), _machine(host), _machine(real(_machine(host)))}


def profiles_of(loaded: Loaded, name: str) -> tuple[str, ...]:
    """Profiles that fit a node, the preferred ones first: those that it lists, those that name it, and where it lists none those that name no node.
    A project's profile never fits the node that is this machine."""
    node = loaded.config.nodes.get(name)
    listed = tuple(node.profiles) if node is not None else ()
    named = [profile for profile, one in loaded.config.profiles.items() if one.node == name]
    free = [profile for profile, one in loaded.config.profiles.items() if one.node is None] if not listed else []
    own = [one for one in (*named, *free) if one not in loaded.project_profiles]
    theirs = [one for one in (*named, *free) if one in loaded.project_profiles]
    found = dict.fromkeys((*listed, *own, *theirs))
    return tuple(
        one for one in found if one in loaded.config.profiles and not (name == HERE and one in loaded.project_profiles)
    )


def profile_of(loaded: Loaded, node: str, asked: str | None) -> tuple[str, Profile] | None:
    """The profile to use on a node: the one asked for, else the only one that fits (or the first that the node lists), and never one of a project's file
    that nobody asked for by name. None where there is no such one. Raises KeyError where the one asked for does not fit the node."""
    fitting = profiles_of(loaded, node)
    if asked is not None:
        if asked not in fitting:
            raise KeyError(asked)
        return asked, loaded.config.profiles[asked]
    own = [one for one in fitting if one not in loaded.project_profiles]
    config = loaded.config.nodes.get(node)
    preferred = [
        one for one in own if config is not None and node not in loaded.project_nodes and one in config.profiles
    ]
    chosen = (preferred or own)[:1] if preferred or len(own) == 1 else []
    return (chosen[0], loaded.config.profiles[chosen[0]]) if chosen else None
