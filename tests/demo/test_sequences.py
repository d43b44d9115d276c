"""Sequences one after another on the demo node: what was said of a server when it was launched holds when it is stopped."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from eagletui.config.choose import Guards
from eagletui.config.load import read_config
from eagletui.demo.node import DemoNode
from eagletui.demo.shape import COMMAND
from eagletui.errors import RefusedError
from eagletui.launching.operating import NodeOperator
from eagletui.launching.plan import Plan, Wish
from eagletui.launching.steps import Progress


async def done(operator: NodeOperator, plan: Plan) -> Progress:
    assert not plan.refused, plan.refusals
    async with asyncio.timeout(60):
        return await operator.begin(plan).wait()


async def test_a_stop_is_as_its_profile_and_its_launcher_have_it(tmp_path: Path) -> None:
    """Drained without limit where the profile says so, and not refused as a unit's when the unit is eagletui's own."""
    profile = (
        f"[profiles.mine]\ncommand = {list(COMMAND)}\nlauncher = 'systemd'\ngrace_s = 0.0\nremove_leftovers = false\n"
    )
    (tmp_path / "config.toml").write_text(profile)
    loaded = read_config(tmp_path / "config.toml", tmp_path / "none.toml")
    node = DemoNode(speed=50)
    await node.connect()
    try:
        operator = NodeOperator(node, name="demo", loaded=loaded)
        assert (await operator.prepare(Wish("stop"))).grace_s == 30  # nobody knows that it is of the profile
        named = await operator.prepare(Wish("stop", profile="mine"))
        assert (named.refusals, named.grace_s) == ((), 0)
        assert [one.code for one in (await operator.prepare(Wish("stop", profile="other"))).refusals] == ["no-profile"]
        progress = await done(operator, await operator.prepare(Wish("restart", profile="mine")))
        assert progress.ending == "done", progress
        plan = await operator.prepare(Wish("stop"))
        assert (plan.kept.kind, plan.grace_s, plan.wish.remove_leftovers) == ("unit", 0, False)
        only_looks = NodeOperator(node, name="demo", guards=Guards(read_only=True, node="demo", file=tmp_path))
        with pytest.raises(RefusedError, match="is read_only in"):
            only_looks.begin(plan)
        progress = await done(operator, plan)
        assert progress.ending == "done", progress
        assert operator.current is not None
        assert operator.current.record is not None
        left = operator.current.record
        assert NodeOperator(node, name="demo").resume(left) is None  # it is done
        again = NodeOperator(node, name="demo").resume(replace(left, outcome="running", step="leftovers"))
        assert again is not None
        assert (again.plan.grace_s, again.plan.wish.remove_leftovers) == (0, False)
        assert (await again.wait()).ending == "done"
    finally:
        await node.aclose()
