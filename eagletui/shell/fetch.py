"""Asking HTTP by a program on the node (`http-get`): the command, and what its output means. Total."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import Final, Literal

from eagletui.shell.script import Command
from eagletui.shell.scripts import HTTP_GET

BODY_LIMIT: Final = 4 << 20
"""Bytes of a body that the script gives; it holds the same number."""
SECONDS_LIMIT: Final = 999
"""The script takes at most three digits."""

Failure = Literal["refused", "timeout", "closed", "no-tool", "not-asked"]

_SAID: Final = re.compile(r"(curl|wget) ([0-9]{1,3}) ?(.*)", re.DOTALL)
_CURL: Final = re.compile(r"([0-9]{3}) ([0-9]{1,6})[.,]([0-9]{1,9})\s*")
_WGET_STATUS: Final = re.compile(r"^  HTTP/[0-9.]{1,5} ([0-9]{3})\b", re.MULTILINE)
_CURL_CUT, _CURL_REFUSED, _CURL_TIMEOUT = 23, 7, 28
_WGET_CUT, _WGET_ANSWERED = 3, (0, 8)
_UNUSABLE: Final = {"curl": (2, 4, 126, 127), "wget": (1, 2, 126, 127)}
"""Exit statuses of a program that does not know an option of ours (busybox's wget does not), or cannot be started."""
_TIMED_OUT: Final = (124, 137, 143)
"""Of `timeout`, which ends a program that does not keep its own deadline."""


@dataclass(frozen=True, slots=True)
class Fetched:
    """What came of it: a status with the body, or a failure and neither.

    `seconds` is the program's own time from the start to the last byte, None where it tells none (wget). `failure`:
    "refused", "timeout", "closed" as for any request; "no-tool": neither curl nor GNU wget is there; "not-asked": the
    script did not take the address.
    """

    tool: str | None = None
    status: int | None = None
    seconds: float | None = None
    body: bytes = b""
    failure: Failure | None = None


def ask_http(host: str, port: int, path: str, seconds: float) -> Command:
    """GET http://HOST:PORT/PATH, asked on the node, with a deadline in seconds (rounded up)."""
    return Command(HTTP_GET, (host, str(port), path, str(min(SECONDS_LIMIT, max(1, math.ceil(seconds))))))


def parse_fetch(exit_status: int | None, stdout: bytes, stderr: bytes) -> Fetched:
    """The outcome by what the script printed."""
    if exit_status == 127:
        return Fetched(failure="no-tool")
    if exit_status == 2:
        return Fetched(failure="not-asked")
    found = _SAID.match(stderr.decode("utf-8", "replace"))
    if found is None:
        return Fetched(failure="closed")
    tool, status, said = found[1], int(found[2]), found[3]
    if status in _TIMED_OUT:
        return Fetched(tool, failure="timeout")
    whole = len(stdout) < BODY_LIMIT
    return (_curl if tool == "curl" else _wget)(status, said, stdout, whole)


def _curl(status: int, said: str, body: bytes, whole: bool) -> Fetched:
    told = _CURL.match(said)
    answered = told is not None and told[1] != "000" and (status == 0 or (status == _CURL_CUT and not whole))
    if told is not None and answered:
        return Fetched("curl", int(told[1]), float(f"{told[2]}.{told[3]}"), body)
    if status in _UNUSABLE["curl"]:
        return Fetched("curl", failure="no-tool")
    failure: Failure = "closed"
    if status in (_CURL_REFUSED, _CURL_TIMEOUT):
        failure = "refused" if status == _CURL_REFUSED else "timeout"
    return Fetched("curl", failure=failure)


def _wget(status: int, said: str, body: bytes, whole: bool) -> Fetched:
    told = _WGET_STATUS.search(said)
    if told is not None and (status in _WGET_ANSWERED or (status == _WGET_CUT and not whole)):
        return Fetched("wget", int(told[1]), None, body)
    if told is None and status in _UNUSABLE["wget"]:
        return Fetched("wget", failure="no-tool")
    failure: Failure = "closed"
    if "timed out" in said:
        failure = "timeout"
    elif told is None and "Connection refused" in said:
        failure = "refused"
    return Fetched("wget", failure=failure)
