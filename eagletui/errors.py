"""What can go wrong, as one tree. Every message is a sentence that says what, where and what to do; no traceback reaches a user.

EagletuiError               exit 2 unless said otherwise
├── UsageError              arguments that do not fit together
├── ConfigError             a configuration file, with file and line
├── LaunchingError          a restart, stop or start that was not done, or not to its end
│   ├── NothingThereError   nothing to stop, or neither record nor profile to start from (exit 14)
│   ├── RefusedError        it is not ours to do, or preflight says no; the old server is left running (exit 16)
│   │   └── OvertakenError  another eagletui took the lock: nothing more was done
│   ├── StopFailedError     members are left, or the GPUs are not free (exit 17)
│   └── NeverStartedError   the launch died before it served (exit 18)
├── BenchError              a benchmark that could not measure anything (exit 19)
├── HistoryError            the file of earlier launches cannot be used (never ends anything: history is off)
└── NodeError               exit 20: no link
    ├── UnknownHostError    the name does not resolve
    ├── ConnectError        refused, no route, timed out, jump host failed
    ├── AuthError           the node did not accept any login
    │   └── LoginCancelledError  the person stopped it (exit 130)
    ├── HostKeyError        unknown, changed or revoked host key
    ├── ChannelError        the node refused one more session, or forwarding (`forbidden` tells)
    ├── LinkLostError       the connection broke while in use
    ├── CommandTimeout      a remote command did not end in its time
    └── ShellError          the login shell never ran our script (a noisy or broken rc file)
"""

from __future__ import annotations


class EagletuiError(Exception):
    """A failure with a sentence for the user. `exit_status` is what a command returns for it."""

    exit_status = 2


class UsageError(EagletuiError):
    """Arguments that do not fit together."""


class ConfigError(EagletuiError):
    """A configuration file that cannot be used."""


class HistoryError(EagletuiError):
    """The file of earlier launches cannot be read or written. `passing`: somebody else holds it; it may be tried again."""

    def __init__(self, message: str, *, passing: bool = False) -> None:
        super().__init__(message)
        self.passing = passing


class BenchError(EagletuiError):
    """A benchmark that could not measure anything: no API answers, a runner is not there, an answer of a runner that cannot be read."""

    exit_status = 19


class LaunchingError(EagletuiError):
    """A restart, a stop or a start that was not done, or not to its end. The message also says what is true on the node now."""

    exit_status = 17


class NothingThereError(LaunchingError):
    """There is nothing to stop, or neither a record nor a profile to start from."""

    exit_status = 14


class RefusedError(LaunchingError):
    """Not ours to do, or preflight says no. Nothing was touched. `code` as in launching.plan.Refusal."""

    exit_status = 16

    def __init__(self, message: str, *, code: str = "refused") -> None:
        super().__init__(message)
        self.code = code


class OvertakenError(RefusedError):
    """Another eagletui took over the lock; from then on nothing was signalled or launched from here."""

    def __init__(self, message: str) -> None:
        super().__init__(message, code="overtaken")


class StopFailedError(LaunchingError):
    """Members are left after everything that may be done, or GPU memory did not come back."""


class StopRefusedError(StopFailedError):
    """Who keeps the server (systemd, a container's tool) was asked to stop it and would not: it runs on, untouched."""


class RestartedByKeeperError(StopFailedError):
    """What was stopped is gone, and whoever keeps it started it again."""


class NeverStartedError(LaunchingError):
    """The launch died before it served: its exit status and what it printed are in the message.

    `status`: the exit status that the keeper wrote (128 + n: signal n), None where there is none; `printed`: its last lines, masked."""

    exit_status = 18

    def __init__(self, message: str, *, status: int | None = None, printed: tuple[str, ...] = ()) -> None:
        super().__init__(message)
        self.status = status
        self.printed = printed


class NodeError(EagletuiError):
    """The node cannot be reached or used."""

    exit_status = 20


class UnknownHostError(NodeError):
    """The host name does not resolve."""


class ConnectError(NodeError):
    """The connection could not be made."""


class AuthError(NodeError):
    """The node accepted no login. `needs_person`: it might have, had a person been asked for a passphrase, a password or a code."""

    def __init__(self, message: str, *, needs_person: bool = False) -> None:
        super().__init__(message)
        self.needs_person = needs_person


class LoginCancelledError(AuthError):
    """The person who was asked stopped the login (ctrl+c)."""

    exit_status = 130


class HostKeyError(NodeError):
    """The host key is unknown, changed or revoked. `needs_person`: it is unknown, and a person may say yes to it."""

    def __init__(self, message: str, *, needs_person: bool = False) -> None:
        super().__init__(message)
        self.needs_person = needs_person


class ChannelError(NodeError):
    """The node refused a channel. `refused`: nobody listens there; `forbidden`: forwarding is not allowed; `full`: it takes no further session."""

    def __init__(self, message: str, *, refused: bool = False, forbidden: bool = False, full: bool = False) -> None:
        super().__init__(message)
        self.full = full
        self.refused = refused
        self.forbidden = forbidden


class LinkLostError(NodeError):
    """The connection broke while in use."""


class CommandTimeout(NodeError):  # noqa: N818 - it is an outcome that callers expect, named as in the docs
    """A remote command did not end in its time."""


class ShellError(NodeError):
    """The login shell never ran our script."""
