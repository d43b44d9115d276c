"""MIG memory out of `nvidia-smi -q -x`:

nvidia_smi_log/gpu/mig_devices/mig_device/{index,fb_memory_usage/{total,used}} (nvsmi_device DTD).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final
from xml.parsers import expat

from eagletui.gpus.smi_rows import read_count

XML_CAP: Final = 4 << 20
"""Bytes that are read; a real answer holds about 27 KiB a GPU."""
_GPU: Final = ("nvidia_smi_log", "gpu")
_MIG: Final = (*_GPU, "mig_devices", "mig_device")


@dataclass(frozen=True, slots=True)
class MigMemory:
    """Memory of one MIG instance in MiB; None where the tool did not say."""

    used_mib: int | None
    total_mib: int | None


class _RefusedError(Exception):
    """The document declares entities, which nvidia-smi never does."""


class _Walk:
    """Keeps the few texts that matter while expat walks through. The uuid of a GPU comes after its MIG devices."""

    def __init__(self) -> None:
        self.found: dict[tuple[str, int], MigMemory] = {}
        self._path: list[str] = []
        self._text: list[str] = []
        self._device: dict[str, str] = {}
        self._devices: list[dict[str, str]] = []

    def start(self, name: str, _attributes: dict[str, str]) -> None:
        self._path.append(name)
        self._text.clear()
        if tuple(self._path) == _GPU:
            self._devices = []
        elif tuple(self._path) == _MIG:
            self._device = {}
            self._devices.append(self._device)

    def text(self, data: str) -> None:
        self._text.append(data)

    def end(self, _name: str) -> None:
        path, text = tuple(self._path), "".join(self._text).strip()
        if path[: len(_MIG)] == _MIG:
            self._device["/".join(path[len(_MIG) :])] = text
        elif path == (*_GPU, "uuid"):
            for device in self._devices:
                self._keep(text, device)
        self._text.clear()
        self._path.pop()

    def _keep(self, uuid: str, device: dict[str, str]) -> None:
        index = read_count(device.get("index", ""))
        if index is not None:
            used, total = (read_count(device.get(f"fb_memory_usage/{name}", "")) for name in ("used", "total"))
            self.found[uuid, index] = MigMemory(used, total)


def _refuse(*_declaration: object) -> None:
    raise _RefusedError


def parse_mig_memory(stdout: bytes) -> dict[tuple[str, int], MigMemory]:
    """Memory by (uuid of the GPU, device number). What was read before an error in the document stays; never raises."""
    walk = _Walk()
    parser = expat.ParserCreate()
    parser.StartElementHandler = walk.start
    parser.EndElementHandler = walk.end
    parser.CharacterDataHandler = walk.text
    parser.EntityDeclHandler = _refuse
    try:
        parser.Parse(stdout[:XML_CAP], True)
    except (expat.ExpatError, _RefusedError, ValueError):
        return walk.found
    return walk.found
