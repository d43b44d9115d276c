"""The port that the launch serves on, and those it derives from it: free, or held by the family that will be stopped. Pure."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from eagletui.launching.checks.asked import Asked
from eagletui.launching.plan import Check
from eagletui.launching.words import plain
from eagletui.shell.details import Details, Listener


def _held_by(listeners: Sequence[Listener], details: Details, family: Collection[int]) -> str:
    """ "nobody", "family", "other" or "unknown"."""
    if not listeners:
        return "nobody"
    looked = [process for process in details.processes if process.pid in family]
    inodes = {inode for process in looked for inode in process.sockets}
    if all(listener.inode in inodes for listener in listeners):
        return "family"
    return "unknown" if any(not process.fds_readable for process in looked) else "other"


def _whom(listeners: Sequence[Listener], details: Details) -> str:
    users = dict(details.users)
    uids = {listener.uid for listener in listeners if listener.uid is not None}
    names = sorted(plain(users.get(uid, f"uid {uid}")) for uid in uids)
    return f" (of {', '.join(names)})" if names else ""


def check_port(port: int | None, details: Details, family: Collection[int], *, in_container: bool = False) -> Check:
    """`port.main`: the one that it serves on. `in_container`: the old server is in one, whose runtime may hold its port on the node."""
    name = "port.main"
    if port is None:
        return Check(name, "unknown", "Which port the launch will listen on cannot be told.")
    if not details.complete:
        return Check(name, "unknown", f"The node did not say who listens on port {port}.")
    there = [listener for listener in details.listeners if listener.port == port]
    held = _held_by(there, details, family)
    if held == "nobody":
        return Check(name, "ok", f"Port {port} is free.")
    if held == "family":
        return Check(name, "ok", f"Port {port} is the old server's and becomes free with its stop.")
    if held == "unknown" or (held == "other" and in_container and all(one.uid == 0 for one in there)):
        return Check(
            name,
            "unknown",
            f"Somebody listens on port {port}; whether it is the server that will be stopped cannot be seen.",
        )
    todo = f"Choose another port in the profile, or see who it is: ss -ltnp 'sport = :{port}'"
    return Check(name, "fail", f"Somebody else listens on port {port}{_whom(there, details)}.", todo)


def check_derived(asked: Asked, details: Details, family: Collection[int]) -> Check | None:
    """`port.derived`: the others that it opens. None where its arguments name none."""
    name = "port.derived"
    if not asked.derived:
        return None
    if not details.complete:
        return Check(name, "unknown", "The node did not say who listens on the ports derived from the server's.")
    taken = []
    for derived in asked.derived:
        there = [listener for listener in details.listeners if listener.port == derived.port]
        if _held_by(there, details, family) == "other":
            taken.append(f"{derived.port}{_whom(there, details)}, for {plain(derived.why)}")
    if taken:
        text = f"Somebody else listens on a port that the launch opens: {'; '.join(taken)}."
        return Check(name, "fail", text, "Name another in the profile, or move the server's own port.")
    shown = ", ".join(str(derived.port) for derived in asked.derived[:8])
    return Check(name, "ok", f"The ports that it derives ({shown}) are free or the old server's.")


def checks_of_ports(
    asked: Asked, details: Details, family: Collection[int], *, in_container: bool = False
) -> tuple[Check, ...]:
    """Both."""
    derived = check_derived(asked, details, family)
    return (
        check_port(asked.port, details, family, in_container=in_container),
        *(() if derived is None else (derived,)),
    )
