"""The launcher's tools, and whether what it starts outlives the login. Pure."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Sequence

from eagletui.launching.plan import Check
from eagletui.launching.words import plain
from eagletui.shell.preflight import NodeFacts

_TOOLS: dict[str, tuple[str, ...]] = {
    "setsid": ("setsid",),
    "tmux": ("tmux", "setsid"),
    "systemd": ("systemd-run", "systemctl"),
    "docker": ("docker",),
    "podman": ("podman",),
}
"""Programs that a launcher runs on the node."""
_PACKAGE = {"setsid": "util-linux", "systemd-run": "systemd", "systemctl": "systemd"}
_SETTING = re.compile(r"\A\s*(Kill(?:UserProcesses|OnlyUsers|ExcludeUsers))\s*=\s*(.*?)\s*\Z")
_ORDER = ("/etc/", "/run/", "/usr/local/lib/", "/usr/lib/")
"""Where a file of one name counts before the same name elsewhere (logind.conf(5))."""
_SESSION = re.compile(r"/session-[A-Za-z0-9]{1,20}\.scope")
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


def check_logout(facts: NodeFacts, launcher: str) -> Check:
    """`node.logout`: the server outlives this login.

    Linger does not help what `setsid` and `tmux` start: it keeps the user's own manager, while logind kills the session's scope all the same.
    """
    name = "node.logout"
    if launcher in {"docker", "podman"}:
        return Check(name, "ok", "A container outlives this login.")
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


def check_tool(facts: NodeFacts, launcher: str, handle: str | None) -> Check:
    """`launcher.tool`: what the launcher runs is on the node and answers."""
    name = "launcher.tool"
    if launcher not in _TOOLS:
        return Check(
            name,
            "fail",
            f"There is no launcher {plain(launcher)}.",
            f"Choose one of {', '.join(_TOOLS)} in the profile.",
        )
    missing = [tool for tool in _TOOLS[launcher] if tool not in facts.tools]
    if missing and not facts.complete:
        return Check(name, "unknown", f"The node did not say whether it has {missing[0]}.")
    if missing:
        package = _PACKAGE.get(missing[0], missing[0])
        todo = f"Install {package} on the node, or choose another launcher in the profile."
        return Check(name, "fail", f"The launcher {launcher} needs {missing[0]}, which this login does not have.", todo)
    if launcher == "systemd" and not facts.bus:
        todo = "On the node: loginctl enable-linger, then log in anew; in a container choose another launcher."
        return Check(
            name,
            "fail",
            "This login has no systemd manager of its own (no /run/user bus): systemd-run --user fails.",
            todo,
        )
    if launcher in {"docker", "podman"}:
        return _container(facts, launcher, handle)
    return Check(name, "ok", f"The launcher {launcher} has what it needs.")


def _container(facts: NodeFacts, launcher: str, handle: str | None) -> Check:
    name, called = "launcher.tool", plain(handle or "")
    if not called:
        todo = "Name it in the profile (handle)."
        return Check(
            name, "fail", f"The launcher {launcher} restarts a container that exists, and none is named.", todo
        )
    if facts.handle is None:
        return Check(name, "unknown", f"The node did not say whether there is a container {called}.")
    status, said = facts.handle
    words = plain(said)[:300]
    if status == 0:
        return Check(name, "ok", f"{launcher} knows the container {called} ({words}).")
    if status in {124, 137}:
        return Check(
            name, "fail", f"{launcher} did not answer within 5 s.", f"Does its daemon run? On the node: {launcher} info"
        )
    if "no such" in words.lower() or "no container" in words.lower():
        todo = f"On the node: {launcher} ps -a. eagletui restarts containers, it makes none."
        return Check(name, "fail", f"{launcher} knows no container {called}.", todo)
    todo = f"May this login use {launcher}? On the node: {launcher} info"
    return Check(name, "fail", f"{launcher} did not tell of the container {called}: {words}", todo)


def checks_of_session(facts: NodeFacts, launcher: str, handle: str | None) -> tuple[Check, ...]:
    """Both."""
    return check_tool(facts, launcher, handle), check_logout(facts, launcher)
