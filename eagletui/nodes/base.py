"""The Node protocol: everything eagletui does to a machine goes through these few methods. Kinds: ssh, local."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from eagletui.shell.script import Command

if TYPE_CHECKING:
    import httpx


@dataclass(frozen=True, slots=True)
class Completed:
    """A remote command that ended. `exit_status` is None when it was ended by a signal or the node did not say; stdout has no rc-file noise."""

    exit_status: int | None
    stdout: bytes
    stderr: bytes


class Stream(Protocol):
    """A remote command that goes on. Closing it ends its stdin, which ends it on the node."""

    async def read(self, limit: int = 65536) -> bytes:
        """Next bytes of stdout (rc-file noise dropped), b"" at its end. Not reading stops the writer. Raises LinkLostError, ShellError."""

    async def write(self, data: bytes) -> None:
        """Send to its stdin. Raises LinkLostError."""

    @property
    def stderr(self) -> bytes:
        """The first 16 KiB of what it said on stderr so far."""

    @property
    def exit_status(self) -> int | None:
        """Its exit status once it ended."""


class Node(Protocol):
    """A machine. Every method raises a NodeError subclass with a sentence, never a library's exception."""

    @property
    def name(self) -> str:
        """As the user named it."""

    @property
    def latency_ms(self) -> float | None:
        """The link's latest round trip, None where it was not measured (`local`: 0.0 is not measured either)."""

    @property
    def asked_person(self) -> bool:
        """Whether the latest login needed a person's answer: a passphrase, a password, a one-time code.

        A question about an unknown host key does not count: it is asked only once.
        """

    async def connect(self, *, may_ask: bool = True) -> None:
        """Open the link. Raises NodeError.

        Without `may_ask` nobody is asked anything: a login that would need it raises AuthError or HostKeyError with `needs_person`.
        """

    async def ping(self) -> float:
        """Measure one round trip in milliseconds and keep it in latency_ms. Raises LinkLostError."""

    async def run(self, command: Command, *, timeout: float = 20.0, limit: int = 16 << 20) -> Completed:  # noqa: ASYNC109 - the remote command is ended too
        """Run to the end; at most `limit` bytes of stdout are kept. Raises CommandTimeout (s), ChannelError, LinkLostError, ShellError."""

    def stream(self, command: Command) -> AbstractAsyncContextManager[Stream]:
        """Start a command that goes on. Its stdin stays open after the command's data."""

    def http_transport(self) -> httpx.AsyncBaseTransport:
        """An httpx transport whose connections are opened *on the node* (127.0.0.1 is the node's). Opens no TCP port here."""

    def stream_transport(self) -> httpx.AsyncBaseTransport:
        """The same for many long answers at a time (nodes.streaming), of as many connections as are asked for at once."""

    async def aclose(self) -> None:
        """Close everything. Never raises."""
