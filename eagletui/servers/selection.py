"""Which of several servers is looked at. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from eagletui.servers.model import LogSource, Server


def chosen(servers: Sequence[Server], *, wanted: str | None, port: int | None, current: Server | None) -> Server | None:
    """The user's choice by id, else by port, else the current one, else its successor on the same port; without a current one the first (the oldest).

    None when there is none to change to.
    """
    if wanted is not None and (found := next((s for s in servers if s.id == wanted), None)) is not None:
        return found
    if port is not None:
        return next((s for s in servers if s.port == port), None)
    if current is not None:
        identity = (current.launcher.pid, current.launcher.started)
        same = next((s for s in servers if (s.launcher.pid, s.launcher.started) == identity), None)
        if same is not None:
            return same
        # A server that died stays in view, with its log: another one that is READY says nothing about it.
        return next((s for s in servers if s.port == current.port), None)
    return servers[0] if servers else None


def with_log(server: Server, path: str | None) -> Server:
    """The server with the log that the user named instead of the one found."""
    return server if path is None else replace(server, log=LogSource(path, via="flag"))
