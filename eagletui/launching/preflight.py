"""Step 1: everything that can be known before the old server is touched. Reads only; takes no lock.

Each check is a value with an id that `doctor` lists too (launching/checks). `fail` means: do not touch the old server. `unknown` and `warn` let the
sequence go on and are shown.
"""

from __future__ import annotations

from eagletui.launching.acting import Acting
from eagletui.launching.checks.program import checks_of_program
from eagletui.launching.plan import Check, Plan
from eagletui.shell.preflight import ask_preflight, parse_preflight

DEFAULT_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
"""Where shells look when the environment has no PATH."""
FACTS_S = 15.0
"""Seconds that the node may take to tell its facts: within the 20 s of the step."""


async def preflight(acting: Acting, plan: Plan) -> tuple[Check, ...]:
    """The checks of a plan, worst first within their order of ids. Raises NodeError (no link); whatever the node does not tell is `unknown`."""
    recipe = plan.recipe
    if recipe is None:
        return ()
    env = dict(recipe.env)
    path = env.get("PATH", DEFAULT_PATH)
    done = await acting.run(
        ask_preflight(
            path=path,
            cwd=recipe.cwd,
            program=recipe.argv[0],
            log=recipe.log,
            tmp=env.get("TMPDIR", "/tmp"),  # noqa: S108 - the default of mktemp and Python, looked at only
            launcher=recipe.launcher,
            handle=recipe.handle or "",
        ),
        timeout=FACTS_S,
    )
    facts = parse_preflight(done.stdout)
    return checks_of_program(facts, recipe.argv[0], path, recipe.cwd)
