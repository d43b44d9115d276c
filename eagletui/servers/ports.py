"""Where a server listens: the node's listening sockets, the sockets its family holds, and what its arguments say.

Pure.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from eagletui.engines.shapes import DEFAULT_PORT, Flags
from eagletui.servers.model import Process
from eagletui.shell.details import Details, Listener

_ANY = frozenset({"0.0.0.0", "::"})  # noqa: S104 - compared with, never bound


@dataclass(frozen=True, slots=True)
class Endpoint:
    """`listening`: open now, by the family.

    `foreign`: open now, by somebody else. `host`: the address to ask on the node.
    """

    port: int | None
    host: str = "127.0.0.1"
    listening: bool = False
    foreign: bool = False


def _host(listeners: Iterable[Listener]) -> str:
    """Loopback where it answers there, else the one address it is bound to.

    What a command line only names is never asked: any process may name any host.
    """
    addresses = {listener.address for listener in listeners if listener.address}
    if addresses & {"127.0.0.1", *_ANY}:
        return "127.0.0.1"
    return min(addresses) if addresses else "127.0.0.1"


def endpoint_of(engine: str, flags: Flags, launcher: Process, family: Iterable[Process], details: Details) -> Endpoint:
    """The server's port.

    A port that the arguments name is the server's, whether it is open yet or not: launchers open others before it.
    Without one: the engine's default if the family listens there, else the lowest that the launcher listens on, else
    the default. Where descriptors cannot be read (another user's), a listener of the same uid counts as the family's.
    """
    if flags.headless:
        return Endpoint(None)
    members = {process.pid for process in family}
    looked = [p for p in details.processes if p.pid in members]
    held = {inode for p in looked for inode in p.sockets}
    expected = flags.port or DEFAULT_PORT.get(engine)
    if any(not p.fds_readable for p in looked if p.pid == launcher.pid):
        own = [x for x in details.listeners if x.uid == launcher.uid and x.port == expected]
    else:
        own = [x for x in details.listeners if x.inode in held]
    port = expected
    if flags.port is None and all(x.port != expected for x in own):
        seen = details.of(launcher.pid)
        sockets = seen.sockets if seen is not None else frozenset()
        port = min((x.port for x in own if x.inode in sockets), default=expected)
    mine = [x for x in own if x.port == port]
    open_ = any(x.port == port for x in details.listeners)
    return Endpoint(port, _host(mine), bool(mine), open_ and not mine)
