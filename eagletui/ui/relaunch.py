"""The wish that launches a variant of the history again: by its profile and variant, where they are still known, else by what its flags have otherwise
than what runs now. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from eagletui.engines.command_line import COMMAND, NotALaunchError, difference
from eagletui.launching.plan import Wish
from eagletui.servers.model import Server
from eagletui.shell.masking import MASK
from eagletui.ui.ledger import Entry, RunEntry


def wish_for(
    entry: Entry, command: Sequence[str], server: Server | None, known: Mapping[str, Sequence[str]]
) -> Wish | str:
    """What to plan, or the sentence why it cannot be. `command`: of its launch, masked; () where it is not known. `known`: variants by profile. What is masked
    in it stays as it is in what runs now: nobody knows it any more."""
    facts = entry.result.facts if isinstance(entry, RunEntry) else entry
    target = Wish("start") if server is None else Wish("restart", server=server.id, port=server.port)
    profile, variant = facts.profile, facts.variant
    if profile is not None and profile in known and (variant is None or variant in known[profile]):
        return replace(target, profile=profile, variant=variant)
    if not command:
        return "How it was launched is not kept: it was measured by address, or its launch was not watched. R edits the flags of what runs now."
    if server is None:
        return "No server runs, and its profile is not in the configuration: start one with S, then its flags are changed with R."
    try:
        found = difference(server.command, command)
    except NotALaunchError:
        return "Its command is not one that flags can be changed in. R edits the flags of what runs now."
    changes = tuple((one.flag, one.after) for one in found if one.flag != COMMAND and MASK not in str(one.after))
    return replace(target, changes=changes)
