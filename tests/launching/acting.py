"""A node that a test of the sequence's steps acts on: this machine or a user of the loopback's sshd, with the lock held, and what it launched ended."""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from eagletui.launching.acting import Acting, Fence
from eagletui.launching.recipe import Recipe
from eagletui.launching.records import create, new_id, read_records
from eagletui.nodes.base import Completed, Node
from eagletui.nodes.local import LocalNode
from eagletui.servers.record import Record
from eagletui.shell.lock import ask_lock_release, ask_lock_take
from tests.locked import end_session
from tests.sshd import free_port


@dataclass(slots=True)
class Place:
    """`ran`: the names of the commands that were run. `told`: what steps said meanwhile."""

    acting: Acting
    folder: Path
    port: int
    ran: list[str] = field(default_factory=list)
    told: list[str] = field(default_factory=list)

    @property
    def node(self) -> Node:
        """Where it acts."""
        return self.acting.node

    def recipe(
        self, *argv: str, env: dict[str, str] | None = None, log: str | None = None, launcher: str = "setsid"
    ) -> Recipe:
        """A recipe with a log of its own."""
        env = {"PATH": os.environ["PATH"], **(env or {})}
        log = log or str(self.folder / "logs" / f"{new_id()}.log")
        return Recipe(argv, tuple(env.items()), str(self.folder), log, "profile", port=self.port, launcher=launcher)

    async def written(self, recipe: Recipe | None, *, previous: str | None = None, handle: str | None = None) -> Record:
        """A record of it on the node."""
        how = recipe.launcher if recipe is not None else "setsid"
        record = Record(
            new_id(), "start", "2026-12-01T10:00:00Z", "me@here", how, port=self.port, previous=previous, handle=handle
        )
        return await create(self.acting, record, recipe)


@asynccontextmanager
async def acting_on(node: Node, folder: Path, *, dry: bool = False) -> AsyncIterator[Place]:
    """The lock of a free port, and afterwards the end of every launch whose record is there."""
    port, token = free_port(), secrets.token_hex(16)
    ran: list[str] = []
    told: list[str] = []
    acting = Acting(
        node, Fence((port,), token), dry=dry, tell=lambda text, _: told.append(text), ran=lambda command: ran.append(command.script.name)
    )  # fmt: skip
    place = Place(acting, folder, port, ran, told)
    taken: Completed = await node.run(ask_lock_take([port], token, "me@here", "test", "launch"))
    assert taken.exit_status == 0
    try:
        yield place
    finally:
        await node.run(ask_lock_release([port], token))
        shutil.rmtree(f"/tmp/eagletui-lock-{port}", ignore_errors=True)
        for kept in (await read_records(node)).records:
            if kept.record.keeper is not None:
                end_session(*kept.record.keeper)


@asynccontextmanager
async def acting_here(folder: Path, *, dry: bool = False) -> AsyncIterator[Place]:
    """On this machine (HOME has to be `folder`)."""
    node = LocalNode()
    await node.connect()
    try:
        async with acting_on(node, folder, dry=dry) as place:
            yield place
    finally:
        await node.aclose()


async def take_over(place: Place) -> None:
    """Another eagletui has the lock now."""
    token = Path(f"/tmp/eagletui-lock-{place.port}/token")
    token.write_text("anothertoken\n")
