"""Who keeps a server, and whether it is ours to restart: the design's table, as functions of what the node's files say. Pure.

Every row stands for itself: a container or a scheduler that would start it anew or account for it elsewhere, a unit, one rank of many, a script that
goes on when the server is gone. What ends with the server (`timeout`, `uv run`, `conda run`) keeps nothing: what stands above that is asked.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

from eagletui.engines.shapes import launch_of
from eagletui.shell.masking import mask_argv, shown
from eagletui.shell.ownership import Above, Ownership, Surroundings


@dataclass(frozen=True, slots=True)
class Kept:
    """Who keeps a server (RESTART.md, the table). `kind`: "nobody", "keeper" (ours), "shell" (interactive), "script" (will go on), "unit", "container",
    "slurm", "ranks", "unseen". `name` (masked, printable), `pid` and `since_s` (age in seconds) as far as there are any."""

    kind: str
    name: str = ""
    pid: int | None = None
    since_s: float | None = None


NOBODY = Kept("nobody")
USER_UNIT = "user unit "
"""Before the name of a unit that a user's own manager has."""

# Containers. A word that only names a runtime is none: docker.service is the daemon. Ids are 64 hex digits (Docker, Podman, containerd, CRI-O).
_ID = r"(?P<id>[0-9a-f]{64})(?![0-9a-f])"
_CONTAINERS: tuple[tuple[str, re.Pattern[str]], ...] = (
    ("Kubernetes pod", re.compile(r"kubepods.*?pod(?P<id>[0-9a-f]{8}[0-9a-f_-]{20,40})")),
    ("Kubernetes pod", re.compile(r"kubepods")),
    ("podman", re.compile(r"libpod-(?:conmon-|payload-)?" + _ID)),
    ("docker", re.compile(r"docker[-/]" + _ID)),
    ("containerd", re.compile(r"(?:cri-containerd|containerd|nerdctl)[-:/]" + _ID)),
    ("crio", re.compile(r"crio-" + _ID)),
    ("lxc", re.compile(r"/lxc(?:\.payload\.|/)(?P<id>[^/\n]{1,64})")),
    ("nspawn", re.compile(r"systemd-nspawn@(?P<id>[^/\n]{1,64})\.service")),
    ("machine", re.compile(r"/machine-(?P<id>[^/\n]{1,64})\.scope")),
    ("apptainer", re.compile(r"/(?:apptainer|singularity)-(?P<id>[0-9]{1,10})\.scope")),
    ("container", re.compile(r"/" + _ID)),
)
_JOB = re.compile(r"slurm.*/job_(?P<id>[0-9]{1,12})(?:/|\n|\Z)")
_LOGINS = re.compile(r"\A(?:user@|sshd?(?:@|\.)|dropbear(?:@|\.))")
"""Services that a login runs in, where there are no session scopes. They keep nobody's server."""

_SHELLS = frozenset({"bash", "zsh", "fish", "sh", "dash", "ash", "ksh", "mksh", "tcsh", "csh", "nu", "xonsh", "elvish"})
_SHELL_VALUES = frozenset(
    {"--rcfile", "--init-file", "-o", "+o", "-O", "+O", "-C", "--init-command", "--config", "--env-config"}
)
"""Options of shells that take a value."""
_HOSTS = re.compile(
    r"\A(?:sshd|sshd-session|dropbear|systemd|init|tmux(?:: server|: client)?|screen|SCREEN|mosh-server|login|dtach|abduco|zellij|byobu"
    r"|tini|dumb-init|docker-init|catatonit)\Z"
)
"""Programs (by comm) that only hold what runs below them, or adopt what lost its parent: none of them starts a server anew."""
_ENDS_WITH_CHILD = frozenset(
    {"timeout", "setsid", "nohup", "env", "nice", "ionice", "taskset", "numactl", "stdbuf", "unbuffer", "script", "time", "strace", "ltrace", "nsys",
     "ncu", "sudo", "su", "runuser", "setpriv", "doas", "catchsegv", "chrt", "prlimit", "firejail", "py-spy", "memray", "scalene", "xvfb-run",
     "dbus-run-session"}
)  # fmt: skip
_RUNNERS = frozenset({"uv", "uvx", "conda", "mamba", "micromamba", "poetry", "pipenv", "pixi", "hatch", "pdm", "rye", "pipx"})  # fmt: skip
"""Programs that with `run` (or as `uvx`) start one command, and end with it."""
_PYTHON = re.compile(r"\A(?:python|pypy)[0-9.]*\Z")


def _base(path: str) -> str:
    return path.rsplit("/", 1)[-1]


def _paths(cgroup: str | None) -> list[str]:
    """The paths of /proc/PID/cgroup: v2 (`0::/…`) and systemd's own hierarchy first, since the others may be of an older layout."""
    lines = [line.split(":", 2) for line in (cgroup or "").split("\n")]
    found = [parts for parts in lines if len(parts) == 3]
    return [parts[2] for parts in sorted(found, key=lambda parts: parts[1] not in {"", "name=systemd"})]


def container_of(cgroup: str | None) -> tuple[str, str] | None:
    """The container that control groups name: its runtime, and its id (short) or name; None for none."""
    for path in _paths(cgroup):
        for runtime, pattern in _CONTAINERS:
            if found := pattern.search(path):
                name = found.groupdict().get("id") or ""
                return runtime, name[:12] if len(name) == 64 else name
    return None


def job_of(surroundings: Surroundings) -> str | None:
    """The Slurm job, by its control group or its environment."""
    for path in _paths(surroundings.cgroup):
        if found := _JOB.search(path):
            return found["id"]
    job = surroundings.job
    return job if job is not None and re.fullmatch(r"[0-9]{1,12}", job) else None


def unit_of(cgroup: str | None) -> str | None:
    """The systemd service, where its own part of the tree is the deepest: a scope below it (a session, tmux's own) is no service's."""
    for path in _paths(cgroup)[:2]:
        for part in reversed(path.split("/")):
            if part.endswith(".scope"):
                break
            if part.endswith(".service"):
                if _LOGINS.match(part):
                    break
                return f"{USER_UNIT}{part}" if "/user@" in path else part
    return None


def is_interactive(process: Above) -> bool:
    """A shell at which somebody types: it has a terminal, and was given neither a script nor a command."""
    if not process.argv or process.tty == 0:
        return False
    first = process.argv[0]
    if _base(first.lstrip("-")) not in _SHELLS:
        return False
    words = list(process.argv[1:])
    while words:
        word = words.pop(0)
        if word in _SHELL_VALUES:
            words[:1] = []
        elif word in {"-s", "--"} or not word.startswith(("-", "+")):
            return word == "-s"
        elif word == "--command" or (not word.startswith("--") and "c" in word[1:]):
            return False
    return True


def _ends_with_child(process: Above) -> bool:
    """A wrapper of one command."""
    argv = process.argv
    if not argv:
        return False
    name, rest = _base(argv[0]), list(argv[1:])
    if name in _ENDS_WITH_CHILD:
        return True
    if _PYTHON.match(name) and rest and not rest[0].startswith("-"):  # conda, poetry, nsys … are Python programs
        name, rest = _base(rest[0]), rest[1:]
    elif _PYTHON.match(name) and rest[:1] == ["-m"] and len(rest) > 1:
        name, rest = rest[1].partition(".")[0], rest[2:]
    if name in {"uvx", "pipx"}:
        return True
    return name in _RUNNERS and "run" in rest


def _is_condas_script(process: Above, parent: Above | None) -> bool:
    """`conda run` writes what it runs into a file of /tmp, and gives that to a shell."""
    return parent is not None and _ends_with_child(parent) and _base(process.argv[0] if process.argv else "") in _SHELLS


def _name(process: Above) -> str:
    """A script by its name, anything else by its masked command line."""
    argv = process.argv
    if not argv:
        return shown(process.comm)
    base = _base(argv[0].lstrip("-"))
    if base in _SHELLS or _PYTHON.match(base):
        script = next((word for word in argv[1:] if not word.startswith("-")), None)
        if script is not None and "-c" not in argv and " " not in script:
            return shown(_base(script))
    text = " ".join(shown(word) for word in mask_argv(argv))
    return text if len(text) <= 60 else text[:59] + "…"


def _by_parent(above: Sequence[Above], keepers: Collection[int], since: dict[int, float]) -> Kept:
    for index, process in enumerate(above[1:], start=1):
        age = since.get(process.pid)
        if process.pid == 1:
            return NOBODY
        if process.pid in keepers:
            return Kept("keeper", "eagletui", process.pid, age)
        if is_interactive(process):
            return Kept("shell", _base(process.argv[0].lstrip("-")), process.pid, age)
        if _HOSTS.match(process.comm):
            return NOBODY
        parent = above[index + 1] if index + 1 < len(above) else None
        if _ends_with_child(process) or launch_of(process.argv) is not None or _is_condas_script(process, parent):
            continue
        return Kept("script", _name(process), process.pid, age)
    return NOBODY


# One rank of many


def _values(argv: Sequence[str], *names: str) -> list[str]:
    """What a flag was given (`--x v`, `--x=v`, `_` for `-`), each time; "" for one without a value."""
    found = []
    for at, word in enumerate(argv):
        name, equals, value = word.partition("=")
        if name.startswith("--") and name.lstrip("-").replace("_", "-") in names:
            following = argv[at + 1] if at + 1 < len(argv) and not argv[at + 1].startswith("--") else ""
            found.append(value if equals else following)
    return found


def _is_local(address: str, host: str | None, addresses: Collection[str]) -> bool:
    text = address.removeprefix("tcp://")
    name = text[1:].partition("]")[0] if text.startswith("[") else text.rpartition(":")[0] or text
    try:
        ip = ipaddress.ip_address(name)
    except ValueError:
        mine = (host or "").lower()
        return name.lower() in {"", "localhost", mine, mine.partition(".")[0]} or (
            bool(mine) and name.lower().partition(".")[0] == mine.partition(".")[0]
        )
    return ip.is_loopback or ip.is_unspecified or str(ip) in addresses


def _in_ray(argv: Sequence[str], above: Sequence[Above]) -> str | None:
    for process in above[1:]:
        if process.comm.startswith(("ray::", "raylet")) or (process.argv and process.argv[0].startswith("ray::")):
            return "it runs in Ray"
    backends = _values(argv, "distributed-executor-backend", "data-parallel-backend")
    return "its workers run in Ray" if any(value.lower() == "ray" for value in backends) else None


def ranks_of(argv: Sequence[str], above: Sequence[Above], host: str | None, addresses: Collection[str]) -> str | None:
    """Why a server is but a part of one (in a few words); None where it is whole."""
    if (ray := _in_ray(argv, above)) is not None:
        return ray
    for value in _values(argv, "nnodes"):
        if value.isascii() and value.isdigit() and int(value[:9]) > 1:
            return f"--nnodes {int(value[:9])}"
    for value in _values(argv, "node-rank"):
        if value.strip() != "0":
            return f"--node-rank {shown(value)[:20]}"
    for flag in ("dist-init-addr", "nccl-init-addr", "master-addr", "data-parallel-address"):
        for value in _values(argv, flag):
            if value and not _is_local(value, host, addresses):
                return f"--{flag} {shown(value)[:60]} is another machine's"
    return None


def _elsewhere(process: Surroundings, own: Surroundings) -> Kept | None:
    """In a container, a job or a namespace that our own shell is not in."""
    container = container_of(process.cgroup)
    if container is not None and container != container_of(own.cgroup):
        return Kept("container", " ".join(part for part in container if part))
    job = job_of(process)
    if job is not None and job != job_of(own):
        return Kept("slurm", job)
    pairs = (("pid", process.pid_ns, own.pid_ns), ("mount", process.mnt_ns, own.mnt_ns))
    for name, theirs, mine in pairs:
        if theirs is not None and mine is not None and theirs != mine:
            return Kept("container", f"another {name} namespace")
    return None


def kept_by(
    argv: Sequence[str],
    pid: int,
    facts: Ownership,
    *,
    keepers: Collection[int] = (),
    uptime_s: float | None = None,
    ticks_per_s: int = 100,
) -> Kept:
    """Who keeps the server whose launcher is `pid` and whose command is `argv`. `keepers`: pids of our own, from records.

    What our own shell stands in as well (the same container, job, unit) keeps nothing from us. A process whose surroundings could not be read is "unseen".
    """
    process, own = facts.of(pid), facts.own
    if process is None or own is None or not process.above:
        return Kept("unseen", "its surroundings could not be read")
    if (elsewhere := _elsewhere(process, own)) is not None:
        return elsewhere
    unit = unit_of(process.cgroup)
    if unit is not None and unit != unit_of(own.cgroup) and not any(is_interactive(one) for one in process.above[1:]):
        return Kept("unit", shown(unit))
    part = ranks_of(argv, process.above, facts.host, facts.addresses)
    if part is not None:
        return Kept("ranks", part)
    above = process.above if uptime_s is not None else ()
    since = {one.pid: max(0.0, round((uptime_s or 0.0) - one.started / ticks_per_s, 1)) for one in above}
    return _by_parent(process.above, keepers, since)


def _why_not_a_unit(name: str) -> tuple[str, str]:
    what = name.removeprefix(USER_UNIT)
    how = f"systemctl --user restart {what}" if name != what else f"systemctl restart {what}"
    text = (
        f"it belongs to the systemd unit {what}, which may start it again. Use `{how}`,"
        f' or a profile with launcher = "systemd" and handle = "{what}"'
    )
    return "systemd-unit", text


def _why_not_a_container(name: str) -> tuple[str, str]:
    runtime, _, which = name.partition(" ")
    if runtime in _RUNTIMES:
        how = f'`{runtime} restart {which}`, or with a profile that has launcher = "{runtime}" and handle = the container\'s name'
    elif runtime == "Kubernetes":
        how = "deleting the pod (`kubectl delete pod NAME`): its controller makes a new one"
    else:
        how = "what started it there"
    text = f"it runs in a container or a sandbox ({name}) and is not launched outside of it. Restart it by {how}"
    return "container", text


def _why_not_a_job(name: str) -> tuple[str, str]:
    text = f"it runs in the Slurm job {name}, and this login does not. Use `srun --overlap --jobid {name}`"
    return "slurm", text


def _why_not_a_rank(name: str) -> tuple[str, str]:
    text = (
        f"it is one part of a server on several nodes or in Ray ({name}): to stop this part alone hangs the others."
        " Restart it from where all of it is started"
    )
    return "rank-of-many", text


def _why_not_unseen(name: str) -> tuple[str, str]:
    return "unseen-listener", f"it cannot be told who keeps it ({name}). Log in as the user whose it is"


_RUNTIMES = frozenset({"docker", "podman"})
"""Those with a launcher of their own."""
_WHY_NOT: dict[str, Callable[[str], tuple[str, str]]] = {
    "unit": _why_not_a_unit,
    "container": _why_not_a_container,
    "slurm": _why_not_a_job,
    "ranks": _why_not_a_rank,
    "unseen": _why_not_unseen,
}


def why_not(kept: Kept) -> tuple[str, str] | None:
    """Why such a server is not ours to restart, unless a profile or a record declares the very unit or container: a code (as in launching.plan.Refusal)
    and a sentence. None: it is."""
    reason = _WHY_NOT.get(kept.kind)
    return None if reason is None else reason(kept.name)
