"""The models that a launch names: there, whole and readable, or to be downloaded. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from eagletui.launching.checks.asked import Asked, Model
from eagletui.launching.checks.storage import size
from eagletui.launching.plan import Check, Result
from eagletui.launching.words import plain
from eagletui.shell.preflight import NodeFacts, PathFact, Weights

POINTER = 1024
"""Bytes: a weight file below it is what git-lfs leaves where the file itself was not fetched."""
_IDS = {"model": "launch.model", "draft model": "launch.draft-model", "tokenizer": "launch.tokenizer"}
_TRUE = frozenset({"1", "true", "yes", "on"})


def offline(env: Mapping[str, str]) -> bool:
    """The launch's environment forbids downloads from the hub."""
    return any(env.get(name, "").lower() in _TRUE for name in ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE"))


def hub_folder(env: Mapping[str, str]) -> str:
    """Where the launch's downloads lie; empty: the login's own ~/.cache/huggingface/hub."""
    for name, below in (
        ("HF_HUB_CACHE", ""), ("HUGGINGFACE_HUB_CACHE", ""), ("HF_HOME", "/hub"), ("XDG_CACHE_HOME", "/huggingface/hub"),
        ("HOME", "/.cache/huggingface/hub"),
    ):  # fmt: skip
        if env.get(name, "").startswith("/"):
            return env[name].rstrip("/") + below
    return ""


def weights_fault(weights: Weights | None) -> str | None:
    """What is wrong with the weight files of a folder."""
    if weights is None:
        return None
    whole = "a download that did not end?"
    faults = (
        (weights.count == 0, "holds no weights of a known kind"),
        (weights.broken > 0, f"has {weights.broken} weight file(s) that are empty or links to nothing: {whole}"),
        (weights.shards < weights.total, f"holds {weights.shards} of {weights.total} weight files: {whole}"),
        (weights.unreadable > 0, f"has {weights.unreadable} weight file(s) that this login may not read"),
        (
            weights.last_size is not None and weights.last_size < POINTER,
            "holds git-lfs pointers instead of weights: git lfs pull was not run",
        ),
    )
    return next((text for is_so, text in faults if is_so), None)


def _folder(model: Model, fact: PathFact, config: PathFact | None, weights: Weights | None, *, dummy: bool) -> Check:
    name, where = _IDS[model.what], plain(model.path)
    if not (fact.read and fact.enter):
        return Check(
            name, "fail", f"This login may not read the {model.what} {where}.", f"On the node: chmod -R a+rX {where}"
        )
    if model.what == "tokenizer":
        return Check(name, "ok", f"The tokenizer {where} is there.")
    fault = None if dummy else weights_fault(weights)
    if fault is not None:
        # Weights of a kind that is not known here may be there: that alone stops nobody.
        result: Result = "warn" if weights is not None and not weights.count else "fail"
        return Check(
            name, result, f"The {model.what} {where} {fault}.", "Fetch it again, or correct its path in the profile."
        )
    if config is None or not config.there:
        text = f"The {model.what} {where} has no config.json (GGUF and Mistral's own format need none)."
        return Check(name, "warn", text, "Is it the folder of the model itself, and not one above or below it?")
    if not config.read:
        return Check(
            name,
            "fail",
            f"This login may not read config.json of the {model.what} {where}.",
            f"On the node: chmod -R a+rX {where}",
        )
    return Check(name, "ok", f"The {model.what} {where} is there.")


def _missing(model: Model, fact: PathFact) -> Check:
    name, where = _IDS[model.what], plain(model.path)
    if model.word.startswith("~"):
        todo = "Write the whole path in the profile: nothing expands ~ in the engine's arguments."
        return Check(name, "fail", f"The {model.what} is written {plain(model.word)}, which no engine expands.", todo)
    if fact.kind == "l":
        return Check(
            name,
            "fail",
            f"The {model.what} {where} is a link to nothing.",
            "Correct the link, or mount what it leads to.",
        )
    near = plain(model.path.encode("utf-8", "surrogateescape")[: fact.near or 0].decode("utf-8", "replace")) or "/"
    if fact.near_kind == "d" and not fact.near_enter:
        return Check(
            name,
            "fail",
            f"This login may not look into {near}, where the {model.what} {where} should be.",
            "Ask its owner.",
        )
    return Check(
        name,
        "fail",
        f"The {model.what} {where} does not exist; {near} does.",
        "Correct its path in the profile. Is its disk mounted?",
    )


def _of_hub(model: Model, facts: NodeFacts, number: int, env: Mapping[str, str]) -> Check:
    name, word = _IDS[model.what], plain(model.word)
    if env.get("SGLANG_USE_MODELSCOPE", "").lower() in _TRUE or env.get("VLLM_USE_MODELSCOPE", "").lower() in _TRUE:
        return Check(
            name, "unknown", f"The {model.what} {word} comes from ModelScope, whose downloads are not looked at."
        )
    if dict(facts.snapshots).get(number, 0):
        return Check(name, "ok", f"The {model.what} {word} was downloaded to this node before.")
    if offline(env):
        todo = "Download it first, name its folder, or take HF_HUB_OFFLINE out of the profile's environment."
        return Check(
            name,
            "fail",
            f"The {model.what} {word} is not on this node, and the launch is told to download nothing.",
            todo,
        )
    hub = facts.path("hub")
    room = f" ({size(hub.free)} free there)" if hub is not None and hub.free is not None else ""
    text = f"The {model.what} {word} is not on this node: the launch downloads it from the hub first{room}, if it gets there."
    return Check(name, "warn", text, "Is it a folder after all? Then write its whole path in the profile.")


def check_model(model: Model, facts: NodeFacts, number: int, env: Mapping[str, str], *, dummy: bool = False) -> Check:
    """`launch.model`, `launch.draft-model`, `launch.tokenizer`. `number`: its place in what the script was asked."""
    name = _IDS[model.what]
    if model.remote:
        return Check(
            name,
            "unknown",
            f"The {model.what} {plain(model.word)} is fetched by the engine itself; it is not looked at.",
        )
    fact = facts.path(f"model-{number}")
    if fact is None:
        return Check(name, "unknown", f"The node did not say whether the {model.what} {plain(model.word)} is there.")
    if fact.kind == "d":
        return _folder(model, fact, facts.path(f"config-{number}"), dict(facts.weights).get(number), dummy=dummy)
    if fact.there:
        if fact.read:
            return Check(name, "ok", f"The {model.what} {plain(model.path)} is there.")
        return Check(name, "fail", f"This login may not read the {model.what} {plain(model.path)}.", "Ask its owner.")
    return _of_hub(model, facts, number, env) if model.hub else _missing(model, fact)


def checks_of_models(asked: Asked, facts: NodeFacts, env: Mapping[str, str]) -> tuple[Check, ...]:
    """One a model; one that says so when there is none to look at."""
    if not asked.models:
        why = (
            "a configuration file names it"
            if asked.has_config
            else "the command does not say it by a flag that is known"
        )
        return (Check("launch.model", "unknown", f"Which model is served was not looked at: {why}."),)
    return tuple(check_model(model, facts, n, env, dummy=asked.dummy_weights) for n, model in enumerate(asked.models))
