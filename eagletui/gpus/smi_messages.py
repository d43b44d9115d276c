"""What nvidia-smi says instead of rows, and what that means.

The texts stand in no manual; they are collected from real nodes and bug reports. Exit statuses are those of nvidia-
smi's manual page ("RETURN VALUE", which are NVML's error numbers), of sh (126, 127) and of timeout(1) (124, 137).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final, NamedTuple

from eagletui.gpus.model import GpuErrorCode, GpuState

TEXT_CAP: Final = 1000
"""Characters kept of what the tool said: a screen and a JSON field, not a log."""


class Bus(NamedTuple):
    """A PCI address. nvidia-smi prints the domain with four digits in messages and with eight in rows."""

    domain: int
    bus: int
    device: int
    function: int


@dataclass(frozen=True, slots=True)
class Message:
    """A line that is not a row.

    `code` is None where it tells nothing of an error (a warning, the second line of a message).

    `device` is set when the line speaks of one GPU that the tool could not open: the state of that GPU; `bus` says
    which.
    """

    text: str
    code: GpuErrorCode | None = None
    device: GpuState | None = None
    bus: Bus | None = None


_BUS = re.compile(r"([0-9A-Fa-f]{1,8}):([0-9A-Fa-f]{1,2}):([0-9A-Fa-f]{1,2})\.([0-9A-Fa-f])")
_HANDLE = re.compile(r"unable to determine the device handle for gpu\s*(.*)", re.IGNORECASE)
_UNKNOWN_FIELD = re.compile(r'Field "([^"]*)" is not a valid field to query', re.IGNORECASE)
_MEANINGS: tuple[tuple[str, GpuErrorCode], ...] = (
    (r"driver/library version mismatch", "driver-mismatch"),
    (r"insufficient permissions|permission denied|not have permission", "no-permission"),
    (r"gpu is lost|fallen off the bus", "lost"),
    (r"communicate with the nvidia driver|driver (?:is )?not loaded", "no-driver"),
    (r"libnvidia-ml|nvml shared library", "no-driver"),
    (r"failed to initialize nvml", "nvml-error"),
    (r"no devices were found", "no-devices"),
)
_PATTERNS = tuple((re.compile(pattern, re.IGNORECASE), code) for pattern, code in _MEANINGS)
_EXITS: dict[int, GpuErrorCode] = {
    4: "no-permission",
    6: "no-devices",
    9: "no-driver",
    12: "no-driver",
    15: "lost",
    18: "driver-mismatch",
    124: "timeout",
    126: "no-permission",
    127: "no-tool",
    137: "timeout",
}
_USAGE_MAX: Final = 3
"""Up to here nvidia-smi speaks of its arguments, not of the driver."""
_SENTENCES: dict[GpuErrorCode, str] = {
    "no-permission": "nvidia-smi may not be run by this user",
    "no-devices": "nvidia-smi found no devices",
    "no-driver": "nvidia-smi could not reach the NVIDIA driver",
    "lost": "nvidia-smi says that a GPU is lost",
    "driver-mismatch": "the NVIDIA driver and its library are of different versions",
    "timeout": "nvidia-smi was ended before it answered",
    "no-tool": "nvidia-smi is not installed or not on PATH",
}
_FIRST: tuple[GpuErrorCode, ...] = ("lost",)
_LAST: tuple[GpuErrorCode, ...] = ("no-devices", "unparsable")


def read_bus(text: str) -> Bus | None:
    """The first PCI address in a text, or None."""
    match = _BUS.search(text)
    return Bus(*(int(part, 16) for part in match.groups())) if match else None


def read_message(text: str) -> Message:
    """What a line that is no row means. Unknown lines are messages without a code."""
    text = text[:TEXT_CAP]
    handle = _HANDLE.search(text)
    code = next((code for pattern, code in _PATTERNS if pattern.search(text)), None)
    if handle is None:
        return Message(text, code)
    bus = read_bus(handle[1])
    if code == "no-permission":
        return Message(text, code, "error", bus)
    if "reset" in handle[1].lower():
        return Message(text, "nvml-error", "error", bus)
    return Message(text, "lost", "lost", bus)


def unknown_field(text: str) -> str | None:
    """The name of a field that this version of nvidia-smi does not know, if that is what it says."""
    match = _UNKNOWN_FIELD.search(text)
    return match[1] if match else None


def leading_code(messages: list[Message]) -> GpuErrorCode | None:
    """The code that stands for several messages:

    a lost GPU first, the vague ones last, otherwise the first that was said.
    """
    codes = [m.code for m in messages if m.code is not None]
    for code in _FIRST:
        if code in codes:
            return code
    return next((c for c in codes if c not in _LAST), codes[0] if codes else None)


def joined(messages: list[Message]) -> str:
    """What the tool said, line by line, each line once."""
    return "\n".join(dict.fromkeys(m.text for m in messages))[:TEXT_CAP]


def was_ended(exit_status: int | None, *, silent: bool = False) -> bool:
    """Whether the deadline on the node ended the call.

    timeout(1) exits 124 after SIGTERM and dies of SIGKILL itself where that did not help, which sh tells as 137, Python
    as -9 and a node as "no exit status". The last is taken for it only where the tool said nothing at all (`silent`).
    """
    return exit_status in (124, 137, -9) or (exit_status is None and silent)


def code_of_exit(exit_status: int | None) -> GpuErrorCode:
    """What an answer without rows and without a known message means by its exit status."""
    if exit_status is None:
        return "unparsable"
    return _EXITS.get(exit_status, "unparsable" if exit_status <= _USAGE_MAX else "nvml-error")


def sentence(code: GpuErrorCode, exit_status: int | None) -> str:
    """A sentence of ours for an error about which the tool said nothing."""
    status = "" if exit_status is None else f" (exit status {exit_status})"
    return _SENTENCES.get(code, "nvidia-smi printed no GPUs") + status
