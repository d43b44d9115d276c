"""Recordings of real servers, as bytes."""

from __future__ import annotations

import random
from functools import cache
from pathlib import Path

import zstandard

DATA = Path(__file__).parent.parent / "data" / "logs"


@cache
def recorded(name: str) -> bytes:
    """The bytes of a recorded log."""
    return zstandard.ZstdDecompressor().decompress((DATA / f"{name}.zst").read_bytes())


def cut(data: bytes, seed: int, largest: int) -> list[bytes]:
    """The same bytes in chunks of random sizes."""
    chance = random.Random(seed)
    chunks, at = [], 0
    while at < len(data):
        size = chance.randint(1, largest)
        chunks.append(data[at : at + size])
        at += size
    return chunks
