r"""docker and podman: a container that exists, started, stopped and looked at by its name.

container-start PORTS TOKEN TOOL NAME          TOOL: docker or podman
    started\n     exit 3:  no-tool\n   container-missing\n   container-failed\n (what the tool said on stderr)
container-stop PORTS TOKEN TOOL NAME SECONDS   asks for the stop and waits for nothing: SIGTERM to its first process, and after SECONDS what the tool does then
    stopping\n    exit 3 as above
container-state TOOL NAME LINES                reads only; in the words of `keeper-state`: its first process as the node sees it, its exit status, its
                                               last lines. begun y: it runs
"""

from __future__ import annotations

import re
from typing import Final

from eagletui.shell.fragments import FENCE
from eagletui.shell.script import Command, Script
from eagletui.shell.units import TELL_PROCESS

_CONTAINER: Final = r"""
no_container() { printf '%s\n' "$1"; exit 3; }
limit() { if timeout 1 true >/dev/null 2>&1; then timeout 5 "$@"; else "$@"; fi; }
tool=${1:-}; name=${2:-}
case $tool in docker|podman) ;; *) printf '%s\n' 'not a container tool' >&2; exit 2;; esac
case $name in ''|[!0-9A-Za-z]*|*[!0-9A-Za-z_.-]*) printf '%s\n' 'not a name' >&2; exit 2;; esac
command -v "$tool" >/dev/null 2>&1 || no_container no-tool
shown=$(limit "$tool" container inspect --format '{{.State.Status}} {{.State.Pid}} {{.State.ExitCode}}' "$name" 2>&1 </dev/null) || {
printf '%s\n' "$shown" >&2
case $shown in *[Nn]'o such'*|*[Nn]'o container'*) no_container container-missing;; *) no_container container-failed;; esac
}
"""
"""Looks at $1 and $2; leaves `tool`, `name`, and in `shown` its status, first process and exit status."""

CONTAINER_START: Final = Script(
    "container-start",
    FENCE
    + _CONTAINER
    + r"""
fence
said=$(limit "$tool" container start "$name" 2>&1 </dev/null) || { printf '%s\n' "$said" >&2; no_container container-failed; }
printf 'started\n'
exit 0
""",
    reads_only=False,
)

CONTAINER_STOP: Final = Script(
    "container-stop",
    FENCE
    + r"""
seconds=${3:-}; case $seconds in ''|*[!0-9]*|0?*|??????*) printf '%s\n' 'not a number of seconds' >&2; exit 2;; esac
command -v setsid >/dev/null 2>&1 || { printf 'no-tool\n'; printf '%s\n' 'there is no setsid' >&2; exit 3; }
"""
    + _CONTAINER
    + r"""
fence
setsid setsid "$tool" container stop -t "$seconds" "$name" </dev/null >/dev/null 2>&1
printf 'stopping\n'
exit 0
""",
    reads_only=False,
)

CONTAINER_STATE: Final = Script(
    "container-state",
    TELL_PROCESS
    + r"""
lines=${3:-}; case $lines in ''|*[!0-9]*|0*|?????*) printf '%s\n' 'not a number' >&2; exit 2;; esac
"""
    + _CONTAINER
    + r"""
status=${shown%% *}; pid=${shown#* }; code=${pid#* }; pid=${pid%% *}; code=${code%%[!0-9]*}
case $status in
running|paused|stopping|restarting) begin_state y; tell_process "$pid";;
exited|dead|stopped) begin_state n; case $code in ''|*[!0-9]*|????*) ;; *) printf 'exit %s\n' "$code";; esac;;
*) begin_state n;;
esac
printf 'log  - - 0 -\n@tail\n'
limit "$tool" container logs --tail "$lines" "$name" 2>&1 </dev/null | tail -c 4096
exit 0
""",
)

CONTAINER_NAME: Final = re.compile(r"[0-9A-Za-z][0-9A-Za-z_.-]{0,200}")
"""A name (or the begin of an id) as docker and podman have it."""


def ask_container_start(fence: tuple[str, str], tool: str, name: str) -> Command:
    """Start a container that exists."""
    return Command(CONTAINER_START, (*fence, tool, name))


def ask_container_stop(fence: tuple[str, str], tool: str, name: str, seconds: int) -> Command:
    """Stop it; the tool ends it by force after so many seconds."""
    return Command(CONTAINER_STOP, (*fence, tool, name, str(seconds)))


def ask_container_state(tool: str, name: str, lines: int) -> Command:
    """What became of it; keeper.parse_keeper_state reads it."""
    return Command(CONTAINER_STATE, (tool, name, str(lines)))
