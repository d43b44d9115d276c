"""Who is who between two discoveries. Pure."""

from __future__ import annotations

from eagletui.servers.model import Inventory, Server


def members(inventory: Inventory) -> frozenset[tuple[int, int]]:
    """Every process of an engine that was found, by pid and start."""
    found = [member.process for server in inventory.servers for member in server.family]
    return frozenset((p.pid, p.started) for p in (*found, *(orphan.process for orphan in inventory.orphans)))


def same_launch(one: Server, other: Server) -> bool:
    """Whether two looks saw one launcher."""
    return (one.launcher.pid, one.launcher.started) == (other.launcher.pid, other.launcher.started)


def still_there(server: Server, servers: tuple[Server, ...]) -> bool:
    """Whether its launcher was found again."""
    return any(same_launch(server, other) for other in servers)
