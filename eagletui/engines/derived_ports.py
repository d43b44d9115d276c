"""The ports that an engine opens beside the one it serves on, as far as its arguments tell them. Pure.

SGLang's NCCL port is drawn at random until a free one is found, and vLLM's are; both name nothing and are not listed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from eagletui.engines.shapes import Engine

ZMQ_DELTA: Final = 233
"""SGLang with DP attention: its rendezvous is at the port and so many, its ZMQ sockets right behind (PortArgs.init_new)."""
ZMQ_PORTS: Final = 6
"""Rendezvous, tokenizer, detokenizer, RPC, metrics, scheduler input; then one for each DP rank."""
BOOTSTRAP_PORT: Final = 8998
"""SGLang's --disaggregation-bootstrap-port when it is not named, opened by a prefill server."""


@dataclass(frozen=True, slots=True)
class DerivedPort:
    """`why` is a flag, or what the port is for."""

    port: int
    why: str


def _port(text: str | None) -> int | None:
    number = int(text) if text and text.isascii() and text.isdigit() and len(text) < 6 else 0
    return number if 0 < number < 65536 else None


def _behind_colon(address: str | None) -> int | None:
    return _port(address.rpartition(":")[2]) if address and ":" in address else None


def derived_ports(engine: Engine, port: int | None, flags: Mapping[str, tuple[str, ...]]) -> tuple[DerivedPort, ...]:
    """Beside `port`. `flags` by the name that stands for each and its aliases (flag_names.one_name), with their values."""
    last = {name: values[-1] if values else "" for name, values in flags.items()}
    found: dict[int, str] = {}
    named = ("nccl-port", "grpc-port", "engine-info-bootstrap-port", "data-parallel-rpc-port", "master-port")
    for name in named:
        number = _port(last.get(name))
        if number is not None:
            found.setdefault(number, f"--{name}")
    if engine == "sglang":
        rendezvous = _behind_colon(last.get("dist-init-addr"))
        if rendezvous is not None:
            found.setdefault(rendezvous, "--dist-init-addr")
        if "enable-dp-attention" in flags and (rendezvous is not None or port is not None):
            first = rendezvous if rendezvous is not None else (port or 0) + ZMQ_DELTA
            ranks = last.get("dp-size", "")
            count = int(ranks) if ranks.isascii() and ranks.isdigit() and len(ranks) < 4 else 0
            for number in range(first, min(65536, first + ZMQ_PORTS + count)):
                found.setdefault(number, "DP attention")
        if last.get("disaggregation-mode") == "prefill":
            found.setdefault(_port(last.get("disaggregation-bootstrap-port")) or BOOTSTRAP_PORT, "disaggregation")
    found.pop(port or 0, None)
    return tuple(DerivedPort(number, why) for number, why in sorted(found.items()))
