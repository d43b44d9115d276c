"""What this process is doing to servers, as it tells whoever watches them: what ends on request is no crash, and what was launched is followed at once. Pure.

Times are the client's time.monotonic().
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from eagletui.servers.family import Identity

OURS = "eagletui"
"""By whom a server was launched or stopped, where it was us."""


@dataclass(frozen=True, slots=True)
class Stopping:
    """These are being ended, since `at`. `port`: the one that they serve. Told again when more of them are known."""

    members: frozenset[Identity]
    at: float
    port: int | None = None


@dataclass(frozen=True, slots=True)
class Spared:
    """These were to be ended and nobody of them was told so."""

    members: frozenset[Identity]
    at: float


@dataclass(frozen=True, slots=True)
class Launching:
    """A launch was sent. `record`: its id on the node; `log`: the file that it was given."""

    at: float
    port: int | None = None
    record: str | None = None
    log: str | None = None


@dataclass(frozen=True, slots=True)
class Launched:
    """Its process is there: it is shown from now on, though it may be no server yet. `at`: when the launch was sent."""

    process: Identity
    at: float
    port: int | None = None
    record: str | None = None
    log: str | None = None


@dataclass(frozen=True, slots=True)
class NeverStarted:
    """The launch is dead before a server came of it. `text`: a sentence why; `printed`: its last lines, masked."""

    text: str
    at: float
    port: int | None = None
    record: str | None = None
    log: str | None = None
    exit_status: int | None = None
    printed: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Over:
    """The sequence ended, however: nothing more is going to be done. What was done stays known."""

    at: float


Intent = Stopping | Spared | Launching | Launched | NeverStarted | Over
Launch = Launching | Launched | NeverStarted


@dataclass(frozen=True, slots=True)
class Intents:
    """Everything told so far. `stopped`: every process that we ended, `stopped_at` when that began last. `launch`: the last one.
    `acting`: a sequence is under way."""

    stopped: frozenset[Identity] = frozenset()
    stopped_at: float | None = None
    launch: Launch | None = None
    acting: bool = False

    def after(self, intent: Intent) -> Intents:
        """With one more."""
        match intent:
            case Stopping(members, at):
                again = self.stopped_at is not None and bool(members & self.stopped)
                began = self.stopped_at if again else at
                return replace(self, stopped=self.stopped | members, stopped_at=began, launch=None, acting=True)
            case Spared(members):
                return replace(self, stopped=self.stopped - members)
            case Launching() | Launched():
                return replace(self, launch=intent, acting=True)
            case NeverStarted():
                return replace(self, launch=intent, acting=False)
        return replace(self, acting=False)
