"""The wish that launches a variant of the history again: by its profile and variant where they are still known, with what its flags have otherwise. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from eagletui.engines.command_line import COMMAND, NotALaunchError, difference
from eagletui.launching.plan import Wish
from eagletui.servers.model import Server
from eagletui.shell.masking import MASK
from eagletui.ui.ledger import Entry, RunEntry

NOT_KEPT = "How it was launched is not kept: it was measured by address, or its launch was not watched. R edits the flags of what runs now."


def base_wish(entry: Entry, server: Server | None, known: Mapping[str, Sequence[str]]) -> Wish:
    """The launch whose flags come nearest: the profile and variant that it had, else what runs now, or ran last. `known`: variants by profile."""
    facts = entry.result.facts if isinstance(entry, RunEntry) else entry
    wish = Wish("start") if server is None else Wish("restart", server=server.id, port=server.port)
    profile, variant = facts.profile, facts.variant
    if profile is None or profile not in known:
        return wish
    return replace(wish, profile=profile, variant=variant if variant in known[profile] else None)


def with_flags(wish: Wish, base: Sequence[str], command: Sequence[str]) -> Wish:
    """The wish with the flags that `command` has otherwise than `base`, which is what the wish comes to; both are masked. What is masked stays as it is
    in the base: nobody knows it any more. Raises NotALaunchError."""
    found = difference(base, command)
    return replace(
        wish,
        changes=tuple((one.flag, one.after) for one in found if one.flag != COMMAND and MASK not in str(one.after)),
    )


__all__ = ["NOT_KEPT", "NotALaunchError", "base_wish", "with_flags"]
