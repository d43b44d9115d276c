"""The command line against the engine's own parser on the node: a mistyped flag costs a server otherwise. Pure."""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Iterable, Sequence

from eagletui.launching.checks.asked import Asked
from eagletui.launching.plan import Check, Plan
from eagletui.launching.words import plain
from eagletui.shell.flag_check import FlagAnswer, Scanned
from eagletui.shell.masking import MASK, mask_argv

NAME = "launch.flags"
SAID = 400
"""Characters of the engine's complaint that are shown: it may list two hundred architectures."""
JSON_FLAGS = {
    "vllm": frozenset({
        "speculative-config", "compilation-config", "attention-config", "hf-overrides", "kv-transfer-config",
        "kv-events-config", "override-generation-config", "override-pooler-config", "pooler-config", "additional-config",
        "mm-processor-kwargs", "media-io-kwargs", "model-loader-extra-config", "default-chat-template-kwargs",
        "rope-scaling", "structured-outputs-config", "reasoning-config", "profiler-config",
    }),
    "sglang": frozenset({
        "json-model-override-args", "model-loader-extra-config", "hicache-storage-backend-extra-config",
        "mm-process-config", "preferred-sampling-params",
    }),
}  # fmt: skip
"""Flags whose value is JSON, by the name that stands for each."""
_REQUIRED = re.compile("arguments are required")
_CONTEXT = "Correct it in the profile or in what you changed; the old server runs on meanwhile."


def _known_to_work(plan: Plan) -> str | None:
    """Why the flags need not be asked for: this very command serves, or did."""
    if plan.recipe is None:
        return None
    if plan.server is not None and plan.server.command == plan.recipe.argv:
        return "The command is the one that runs now; its flags are known to be good."
    last = plan.previous
    if last is not None and last.ready_s is not None and last.command == plan.recipe.shown_command:
        return "The command is the one that ran before; its flags are known to be good."
    return None


def not_asked(plan: Plan, asked: Asked) -> Check | None:
    """Why the engine's parser is not asked; None: it is."""
    known = _known_to_work(plan)
    if known is not None:
        return Check(NAME, "ok", known)
    if asked.engine is None or asked.program is None:
        who = plain(asked.wrapper or "the command").rsplit("/", 1)[-1]
        return Check(
            NAME, "unknown", f"The flags were not tried: {who} starts the engine, in an environment of its own making."
        )
    return None


def _masked(text: str, argv: Sequence[str]) -> str:
    """The engine's words, without the secrets of the command line, on one line."""
    for word, masked in zip(argv, mask_argv(argv), strict=True):
        secret = word.partition("=")[2] if word.startswith("--") and "=" in word else word
        if word != masked and len(secret) > 3:
            text = text.replace(secret, MASK)
    return plain(text)[:SAID]


def nearest(flag: str, options: Iterable[str]) -> str | None:
    """The option that may be meant. A pair of swapped letters or a lost one is near; another word is not."""
    name = flag.partition("=")[0].partition(".")[0].replace("_", "-")
    found = difflib.get_close_matches(name, list(options), n=1, cutoff=0.75)
    return found[0] if found and found[0] != name else None


def _meant(flags: Sequence[str], options: Iterable[str]) -> str | None:
    known = tuple(options)
    meant = [f"{near} instead of {plain(flag.partition('=')[0])}" for flag in flags if (near := nearest(flag, known))]
    return f"Did you mean {'; '.join(meant)}?" if meant else None


def _by_scan(asked: Asked, scan: Scanned, why: str) -> Check:
    """What the engine's source tells when its parser could not be asked: names only, no values."""
    names = {option.replace("_", "-") for option in scan.options}
    words = [word.partition("=")[0].partition(".")[0] for word in asked.args if word.startswith("--") and len(word) > 2]
    strange = [
        word for word in words if word.replace("_", "-") not in names and word.replace("--no-", "--", 1) not in names
    ]
    if strange:
        text = f"{', '.join(map(plain, strange[:5]))} stands nowhere in the engine's source; its parser itself could not be asked ({why})."
        return Check(NAME, "warn", text, _meant(strange, names) or "Look it up in the engine's --help on the node.")
    text = f"The flags' names all stand in the engine's source; their values were not tried, as its parser could not be asked ({why})."
    return Check(NAME, "unknown", text)


def _not_told(asked: Asked, answer: FlagAnswer, argv: Sequence[str]) -> Check | None:
    """What is said when the engine's parser itself did not answer; None: it did."""
    scan, parser = answer.scan, answer.parser
    if parser is not None and parser.text is None:
        return None
    if answer.word == "other":
        why = f"{plain(asked.program or '')} is started by no Python"
    elif answer.word == "absent":
        why = "the program or its Python is not there"
    elif answer.late:
        why = "importing it took too long"
    elif parser is not None:
        why = _masked(parser.text or "", argv)
    elif scan is not None and not scan.options:
        why = _masked(scan.text or "its source told nothing", argv)
    else:
        why = "its Python ended early"
    if scan is not None and scan.options:
        return _by_scan(asked, scan, why)
    return Check(NAME, "unknown", f"The flags were not tried: {why}.")


def check_flags(asked: Asked, answer: FlagAnswer, argv: Sequence[str]) -> Check:
    """`launch.flags`. `argv`: the whole command, whose secrets the engine's complaint may repeat."""
    parser = answer.parser
    untold = _not_told(asked, answer, argv)
    if untold is not None or parser is None:
        return untold or Check(NAME, "unknown", "The flags were not tried.")
    version = f" {plain(answer.scan.version)}" if answer.scan is not None and answer.scan.version else ""
    engine = f"{asked.engine}{version}"
    if parser.error is not None and not (asked.has_config and _REQUIRED.search(parser.error)):
        flags = [flag for flag in re.findall(r"--[A-Za-z][\w-]*", parser.error) if flag not in parser.options]
        text = f"{engine} refuses these arguments: {_masked(parser.error, argv)}"
        return Check(NAME, "fail", text, _meant(flags, parser.options) or _CONTEXT)
    if parser.extras:
        flags = [word for word in parser.extras if word.startswith("-")]
        shown = ", ".join(plain(flag.partition("=")[0]) for flag in flags) or "a word that belongs to no flag"
        return Check(NAME, "fail", f"{engine} does not know {shown}.", _meant(flags, parser.options) or _CONTEXT)
    return Check(NAME, "ok", f"{engine} takes these flags.")


def check_json(asked: Asked) -> Check | None:
    """`launch.json`: flags whose value is JSON hold JSON. None where there are none."""
    name = "launch.json"
    known = JSON_FLAGS.get(asked.engine or "", frozenset())
    values = {flag: found[-1] for flag, found in asked.flags.items() if flag in known and found}
    for flag, value in values.items():
        try:
            json.loads(value)
        except ValueError as error:
            text = f"--{flag} is no JSON: {error}".replace("\n", " ")
            todo = 'Names and texts stand in double quotes, as in {"method": "ngram"}; a shell may have eaten them.'
            return Check(name, "fail", text, todo)
        except RecursionError:
            return Check(name, "fail", f"--{flag} is JSON that is nested too deep.", _CONTEXT)
    return Check(name, "ok", f"{', '.join('--' + flag for flag in values)} can be read as JSON.") if values else None
