"""Who sends a run's load, as a protocol: the built-in client, and programs on the node."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from eagletui.bench.load import Load
from eagletui.bench.outcome import BenchProgress, Facts, Measured, Result

if TYPE_CHECKING:
    import httpx

    from eagletui.bench.witness import Witness
    from eagletui.nodes.base import Node


@dataclass(frozen=True, slots=True)
class Target:
    """The server that gets the load. `base_url`: as seen from where `transport` opens connections (the node's 127.0.0.1, or an address given with --url).
    `node` None: by address, nothing else of it is known. `api_key` is a secret: sent, never shown or kept. `transport`: gives a new
    one for so many connections."""

    facts: Facts
    base_url: str
    transport: Callable[[int], httpx.AsyncBaseTransport]
    node: Node | None = None
    api_key: str | None = field(default=None, repr=False)
    witness: Witness | None = None


class Runner(Protocol):
    """Sends a load. Cancelling it ends it everywhere, on the node, too."""

    name: str

    async def run(self, load: Load, target: Target, on_progress: Callable[[BenchProgress], None]) -> Measured:
        """All repeats. A request that fails is a row; raises BenchError where nothing could be measured (the runner is not installed, no
        API answers), NodeError when the link is lost for good."""


class Bench(Protocol):
    """Benchmarks one node's server, for the screen and the command line: facts, runner, caveats, baseline and history come together here.
    One run at a time: `begin` while one runs gives that one. `on_change` is called whenever `current.progress` changed."""

    on_change: Callable[[], None] | None

    @property
    def current(self) -> BenchRun | None:
        """The run that is under way, or the last one."""

    def presets(self) -> tuple[Load, ...]:
        """Of the house and of the configuration, by name."""

    def runners(self) -> tuple[str, ...]:
        """Names of the runners."""

    def begin(self, load: Load) -> BenchRun:
        """Start it. What goes wrong is told by `BenchRun.wait`."""

    async def aclose(self) -> None:
        """End what runs. Never raises."""


class BenchRun(Protocol):
    """A run under way, or ended."""

    load: Load
    run: str
    """Its id in the history."""

    @property
    def progress(self) -> BenchProgress:
        """Where it is now."""

    def abort(self) -> None:
        """End it; what was measured until then is kept, marked as not complete."""

    async def wait(self) -> Result:
        """Until it ended. Raises BenchError, NodeError."""
