"""The dry run: every command of a sequence as it would run, masked; only those that read are run."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable

from eagletui.errors import LaunchingError
from eagletui.launching.acting import Acting, Fence
from eagletui.launching.lock import new_fence
from eagletui.launching.on_node import WorkOnNode
from eagletui.launching.operator import DryCommand
from eagletui.launching.plan import Plan
from eagletui.launching.steps import StepName
from eagletui.launching.transitions import STEPS
from eagletui.nodes.base import Node
from eagletui.servers.record import masked_environment
from eagletui.shell.masking import MASK, mask_argv, mask_text, shown
from eagletui.shell.processes import as_text
from eagletui.shell.script import Command

TOKEN = "TOKEN"  # noqa: S105 - what is shown in place of one
"""Stands for the lock's token, which is drawn anew each time."""
LEAST_SECRET = 4
"""Characters of a masked word from which on it is looked for inside of others as well."""


async def commands_of(node: Node, plan: Plan, who: str) -> tuple[DryCommand, ...]:
    """Every command, in order. Raises NodeError."""
    fence = new_fence(plan.locks)
    told: list[tuple[StepName, Command]] = []
    step = StepName.PREFLIGHT
    acting = Acting(node, fence, ran=lambda command: told.append((step, command)), dry=True)
    work = WorkOnNode(acting, plan, who=who)
    for name in STEPS[plan.kind]:
        step = name
        for do in _of_step(name, work):
            try:
                await do()
            except LaunchingError:
                continue  # what a step would say of the node as it will be, it cannot say of the node as it is
    step = StepName.LEFTOVERS if plan.kind == "stop" else StepName.VERIFY
    await work.release_lock()
    mask = _Masks(plan, fence)
    return tuple(mask.command(step, command) for step, command in told)


def _of_step(name: StepName, work: WorkOnNode) -> Iterable[Callable[[], Awaitable[object]]]:
    async def stop() -> object:
        return await work.stop(await work.identify(), asyncio.Event())

    return {
        StepName.PREFLIGHT: (work.take_lock, work.check, work.write_record),
        StepName.IDENTIFY: (lambda: work.note(StepName.IDENTIFY), work.identify),
        StepName.STOP: (lambda: work.note(StepName.STOP), stop),
        StepName.GPUS: (lambda: work.note(StepName.GPUS), work.gpus_free),
        StepName.LEFTOVERS: (lambda: work.note(StepName.LEFTOVERS), work.leftovers),
        StepName.LAUNCH: (lambda: work.note(StepName.LAUNCH), work.launch),
        StepName.VERIFY: (work.verify,),
        StepName.WATCH: (),
        StepName.READY: (),
    }[name]


class _Masks:
    """What is secret in a plan's recipe, and where it stands in a command."""

    def __init__(self, plan: Plan, fence: Fence) -> None:
        self._words: dict[str, str] = {fence.token: TOKEN}
        recipe = plan.recipe
        if recipe is not None:
            self._add(recipe.argv, mask_argv(recipe.argv))
            for (name, value), (_, hidden) in zip(recipe.env, masked_environment(recipe.env), strict=True):
                self._add((f"{name}={value}",), (f"{name}={hidden}",))
                if hidden == MASK:
                    self._words.setdefault(value, MASK)
        if plan.server is not None:
            self._add(plan.server.command, mask_argv(plan.server.command))

    def _add(self, words: Iterable[str], masked: Iterable[str]) -> None:
        for word, hidden in zip(words, masked, strict=True):
            if word != hidden:
                self._words[word] = hidden

    def command(self, step: StepName, command: Command) -> DryCommand:
        """A command as it is shown."""
        args = tuple(self._hide(as_text(one) if isinstance(one, bytes) else one) for one in command.args)
        stdin = "\n".join(self._hide(line) for line in as_text(command.data).replace("\0", "\n").split("\n"))
        script = command.script
        return DryCommand(step.value, script.name, script.text, args, stdin.rstrip("\n"), script.reads_only)

    def _hide(self, text: str) -> str:
        if text in self._words:
            return shown(self._words[text])
        for secret, hidden in self._words.items():
            if len(secret) >= LEAST_SECRET and secret in text:
                text = text.replace(secret, hidden)
        return shown(mask_text(text))
