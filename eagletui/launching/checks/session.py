"""The launcher's tools, and whether what it starts outlives the login. Pure."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Sequence

from eagletui.launching.checks.asked import CONTAINERS
from eagletui.launching.launchers.base import Launcher, Need
from eagletui.launching.launchers.systemd import existing_unit
from eagletui.launching.plan import Check
from eagletui.launching.words import plain
from eagletui.shell.preflight import NodeFacts

_SETTING = re.compile(r"\A\s*(Kill(?:UserProcesses|OnlyUsers|ExcludeUsers))\s*=\s*(.*?)\s*\Z")
_ORDER = ("/etc/", "/run/", "/usr/local/lib/", "/usr/lib/")
"""Where a file of one name counts before the same name elsewhere (logind.conf(5))."""
_SESSION = re.compile(r"/session-[A-Za-z0-9]{1,20}\.scope")
SAID = 300
"""Characters of a tool's own words that are shown."""
_YES = frozenset({"yes", "true", "1", "on", "y", "t"})


def logind_kills(settings: Sequence[tuple[str, str]], user: str | None) -> tuple[bool, str | None]:
    """Whether logind kills what this user leaves behind at logout, and the file that says so. `settings`: (file, line). Without a line: it does not;
    root is left alone. Drop-ins count after the main file, by their names."""

    def rank(file: str) -> int:
        return next((n for n, start in enumerate(_ORDER) if file.startswith(start)), len(_ORDER))

    files: dict[str, str] = {}
    for file in sorted({file for file, _ in settings}, key=rank):
        files.setdefault(posixpath.basename(file), file)
    main = [files.pop("logind.conf")] if "logind.conf" in files else []
    counted = [*main, *(files[name] for name in sorted(files))]
    kills, said_by = False, None
    only: list[str] = []
    spared = ["root"]
    for file in counted:
        for match in (_SETTING.match(line) for at, line in settings if at == file):
            if match is None:
                continue
            if match[1] == "KillUserProcesses":
                kills, said_by = match[2].lower() in _YES, file
            elif match[1] == "KillOnlyUsers":
                only = [*only, *match[2].split()] if match[2] else []
            else:
                spared = [*spared, *match[2].split()] if match[2] else []
    return kills and user not in spared and (not only or user in only), said_by


def check_logout(facts: NodeFacts, launcher: str, handle: str | None = None) -> Check:
    """`node.logout`: the server outlives this login.

    Linger does not help what `setsid` and `tmux` start: it keeps the user's own manager, while logind kills the session's scope all the same.
    """
    name = "node.logout"
    if launcher in CONTAINERS or (launcher == "systemd" and existing_unit(handle) is not None):
        return Check(name, "ok", "Who keeps the server is not this login.")
    if launcher == "systemd":
        if facts.uid == 0 or facts.linger:
            return Check(name, "ok", "A unit of the user's manager outlives this login (linger is on).")
        user = plain(facts.user or "USER")
        todo = f"On the node: loginctl enable-linger {user}"
        return Check(name, "fail", f"Linger is off for {user}: systemd ends the user's units at the last logout.", todo)
    kills, file = logind_kills(facts.logind, facts.user)
    if not facts.logind_runs or not kills or not _SESSION.search(facts.cgroup):
        return Check(name, "ok", "What is started here outlives this login.")
    text = f"logind kills everything that a login leaves behind (KillUserProcesses=yes in {plain(file or '')}): the server would die with it."
    todo = 'Use launcher = "systemd" with linger (loginctl enable-linger), or have KillUserProcesses=no set; linger alone does not help.'
    return Check(name, "fail", text, todo)


def check_need(need: Need, facts: NodeFacts) -> Check:
    """`launcher.setsid`, `launcher.tmux` …: the programs that a launcher runs are on the node."""
    missing = [program for program in need.programs if program not in facts.tools]
    if not missing:
        return Check(need.id, "ok", f"The node has {', '.join(need.programs)}.")
    names = ", ".join(missing)
    if not facts.complete:
        return Check(need.id, "unknown", f"The node did not say whether it has {names}.")
    return Check(need.id, "fail", f"This login finds no {names} on the node, which the launcher needs.", need.todo)


def check_bus(facts: NodeFacts) -> Check:
    """`launcher.bus`: the user's own systemd manager can be talked to. Root's units are the system's."""
    name = "launcher.bus"
    if facts.uid == 0 or facts.bus:
        return Check(name, "ok", "This login has a systemd manager.")
    todo = "On the node: loginctl enable-linger, then log in anew; in a container choose another launcher."
    text = "This login has no systemd manager of its own (no bus in /run/user): systemd-run --user fails."
    return Check(name, "fail", text, todo)


def check_unit(facts: NodeFacts, unit: str) -> Check:
    """`launcher.unit`: a unit that exists is known to systemd."""
    name, called = "launcher.unit", plain(unit)
    if facts.handle is None:
        return Check(name, "unknown", f"The node did not say whether there is a unit {called}.")
    words = plain(facts.handle[1])[:SAID]
    if "=loaded" in words:
        return Check(name, "ok", f"systemd knows the unit {called}.")
    if "LoadState" in words:
        return Check(
            name,
            "fail",
            f"systemd knows no unit {called}.",
            "On the node: systemctl --user list-units; systemctl list-units",
        )
    return Check(name, "fail", f"systemd did not tell of the unit {called}: {words}", "On the node: systemctl status")


def check_container(facts: NodeFacts, tool: str, handle: str | None) -> Check:
    """`launcher.container`: the container exists, and its tool answers."""
    name, called = "launcher.container", plain(handle or "")
    if not called:
        text = f"The launcher {tool} restarts a container that exists, and the profile names none (or not as one is named)."
        return Check(name, "fail", text, f"Name it in the profile: handle = ... On the node: {tool} ps -a")
    if facts.handle is None:
        return Check(name, "unknown", f"The node did not say whether there is a container {called}.")
    status, said = facts.handle
    words = plain(said)[:SAID]
    if status == 0:
        return Check(name, "ok", f"{tool} knows the container {called} ({words}).")
    if status in {124, 137}:
        return Check(
            name, "fail", f"{tool} did not answer within 5 s.", f"Does its daemon run? On the node: {tool} info"
        )
    if "no such" in words.lower() or "no container" in words.lower():
        todo = f"On the node: {tool} ps -a. eagletui restarts containers, it makes none."
        return Check(name, "fail", f"{tool} knows no container {called}.", todo)
    text = f"{tool} did not tell of the container {called}: {words}"
    return Check(name, "fail", text, f"May this login use {tool}? On the node: {tool} info")


def check_unchanged(asked_for: str, *, changed: bool) -> Check | None:
    """`launch.flags` where the launcher starts what exists. `asked_for`: "container NAME" or "unit NAME". None: nothing was to be changed."""
    if not changed:
        return None
    text = f"The {plain(asked_for)} runs the command that it was made with: changed flags cannot be given to it by a restart."
    todo = "Make it anew with these flags yourself, or choose another launcher (setsid) in the profile."
    return Check("launch.flags", "fail", text, todo)


def checks_of_session(facts: NodeFacts, launcher: Launcher, handle: str | None) -> tuple[Check, ...]:
    """What this launcher needs, and what it would start. `handle`: what the launcher calls it (Launcher.handle)."""
    checks = [check_need(need, facts) for need in launcher.needs]
    if launcher.name in CONTAINERS:
        checks.append(check_container(facts, launcher.name, handle))
    elif launcher.name == "systemd" and (unit := existing_unit(handle)) is not None:
        checks.append(check_unit(facts, unit))
    elif launcher.name == "systemd":
        checks.append(check_bus(facts))
    return (*checks, check_logout(facts, launcher.name, handle))
