"""What a server says of itself when it is asked: engine, version, model, arguments."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from eagletui.bench.client import Client
from eagletui.bench.outcome import Facts
from eagletui.shell.masking import mask_argv, shown

_INFO: Final = ("/server_info", "/get_server_info")
_NOT_ARGUMENTS: Final = frozenset({"internal_states", "status", "version", "max_total_num_tokens", "max_req_input_len"})
"""Of SGLang's answer: figures beside the arguments."""


async def facts_of(client: Client, facts: Facts) -> Facts:
    """The facts with what the server tells of them. What it does not tell stays as it is."""
    from dataclasses import replace

    models = await client.get_json("/v1/models")
    first = _first(models)
    engine = facts.engine or (first.get("owned_by") if first.get("owned_by") in {"sglang", "vllm"} else None)
    model = facts.model or _text(first.get("id"))
    args: Mapping[str, object] = facts.args
    version = facts.version
    if engine in {None, "sglang"}:
        for path in _INFO:
            told = await client.get_json(path)
            if isinstance(told, dict) and "model_path" in told:
                engine = "sglang"
                model = model or _text(told.get("served_model_name")) or _text(told.get("model_path"))
                version = version or _text(told.get("version"))
                args = args or arguments(told)
                break
    if version is None and engine in {None, "vllm"}:
        told = await client.get_json("/version")
        version = _text(told.get("version")) if isinstance(told, dict) else None
    return replace(facts, engine=engine, model=model, version=version, args=args)


def served_name(models: object) -> str | None:
    """The name that requests have to give, of `/v1/models`."""
    return _text(_first(models).get("id"))


def arguments(told: Mapping[str, Any]) -> dict[str, object]:
    """The plain ones of SGLang's server_info, by name without hyphens, masked."""
    found: dict[str, object] = {}
    for name, value in told.items():
        if name in _NOT_ARGUMENTS or value is None or isinstance(value, dict | list):
            continue
        found[name.replace("_", "-")] = value if isinstance(value, bool | int | float) else masked(name, str(value))
    return found


def masked(name: str, value: str) -> str:
    """A value that may be shown."""
    return shown(mask_argv((f"--{name.replace('_', '-')}", value))[-1])


def _first(models: object) -> dict[str, Any]:
    if isinstance(models, dict) and isinstance(models.get("data"), list) and models["data"]:
        first = models["data"][0]
        return first if isinstance(first, dict) else {}
    return {}


def _text(value: object) -> str | None:
    return shown(value) if isinstance(value, str) and value else None
