"""The scripts about benchmarks that run on the node: the simulated one has none installed, and so never ran one. Pure; `shell/bench_run.py` says what
each must print."""

from __future__ import annotations

import re
from collections.abc import Sequence

from eagletui.demo.answer import Answer, lines, refused, word
from eagletui.demo.ledger import id_of
from eagletui.demo.locks import fence
from eagletui.demo.world import World


def bench_find(_world: World, args: Sequence[bytes], _now: float) -> Answer:
    """Neither sglang nor aiperf is there for any Python."""
    if not re.fullmatch(r"[1-9][0-9]{0,7}", word(args, 0)):
        return refused("not a pid", 2)
    if not re.fullmatch(r"[1-9][0-9]{0,2}", word(args, 1)):
        return refused("not a number of seconds", 2)
    return lines(["done"])


def bench_start(world: World, args: Sequence[bytes], now: float) -> Answer:
    """No program of that path can be run here."""
    fence(world, args, now)
    id_of(word(args, 2))
    return refused("not a program", 2)


def bench_state(world: World, args: Sequence[bytes], _now: float) -> Answer:
    """There is no such run."""
    id_of(word(args, 0))
    if not re.fullmatch(r"0|[1-9][0-9]{0,11}", word(args, 1)):
        return refused("not an offset", 2)
    return lines([f"boot {world.boot_id}", "run n"])
