"""What the screen needs of whoever watches the node."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from eagletui.monitor.snapshot import Snapshot


class Source(Protocol):
    """A node under watch. Everything is called on the app's event loop.

    `revision` grows with every change of the snapshot. `on_change` is called when something changed: the first change after quiet
    at once, many of them at most every 100 ms; the screen paints on each call and needs no throttle of its own.
    """

    on_change: Callable[[], None] | None

    @property
    def revision(self) -> int:
        """Grows with every change."""

    def snapshot(self) -> Snapshot:
        """The state now. Cheap: it copies no text."""

    async def run(self) -> None:
        """Watch for ever. A failure of the node is a state of the snapshot; an exception here is a bug, shown as a notice."""

    async def aclose(self) -> None:
        """End the watch and close the link. The server goes on."""

    def select_server(self, id: str) -> None:  # noqa: A002 - the word of the interface
        """Show another server of the node."""

    def probe_now(self) -> None:
        """Ask /health now instead of at the next tick."""

    def connect_now(self) -> None:
        """Try to connect at once, asking what the login asks. Nothing while the link is up."""
