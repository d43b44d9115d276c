"""What a launch runs, as a value. Pure. NOT masked: it is only ever written to `launch/` on the node, and shown through `shown_command`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from eagletui.shell.masking import mask_argv, shown

Source = Literal["profile", "record", "process"]


@dataclass(frozen=True, slots=True)
class Limits:
    """What a process inherits besides its environment. `umask` in octal ("0022"); `soft` are soft limits by the name and in the unit of
    /proc/PID/limits (None: unlimited); `cpus` as taskset has it ("0-63"). None or empty: as the login has it."""

    umask: str | None = None
    soft: tuple[tuple[str, int | None], ...] = ()
    cpus: str | None = None


@dataclass(frozen=True, slots=True)
class Recipe:
    """`argv` and `env` are exact. `env` is the whole environment of the launch (env -i). `log`: an absolute path on the node, its template filled in.
    `launcher`: a name of the registry; `handle`: the tmux session, unit or container it means, None for its own choice. `kept_log`: who keeps its output
    instead of `log` ("docker NAME", "unit NAME"): a container or a unit that exists, whose command, folder and environment are its own, too."""

    argv: tuple[str, ...]
    env: tuple[tuple[str, str], ...]
    cwd: str
    log: str
    source: Source
    engine: str | None = None
    port: int | None = None
    profile: str | None = None
    variant: str | None = None
    launcher: str = "setsid"
    handle: str | None = None
    limits: Limits = Limits()
    kept_log: str | None = None

    @property
    def log_file(self) -> str | None:
        """The file that its output goes to; None where its launcher keeps that."""
        return self.log if self.kept_log is None else None

    @property
    def shown_command(self) -> tuple[str, ...]:
        """The command, masked and printable."""
        return tuple(shown(word) for word in mask_argv(self.argv))
