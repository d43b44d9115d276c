"""The verdict of a node without a server to show. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from eagletui.logs.state import Diagnosis
from eagletui.monitor.snapshot import Verdict
from eagletui.servers.model import Reason, Server, State
from eagletui.servers.verdict import Evidence, judge
from eagletui.servers.witnesses import unexplained


def absent_link(error: str | None, since: float | None) -> Verdict:
    """OFFLINE with its sentence."""
    return Verdict(*judge(Evidence(linked=False, link_error=error)), since)


def before_discovery(node: str, unable: str | None, *, connecting: bool) -> Verdict:
    """Nothing is known yet. `unable`: why its processes cannot be read, a sentence."""
    if connecting:
        return _absent(f"connecting to {node}", "connecting")
    if unable is not None:  # a login shell that never runs anything of ours
        return Verdict(State.UNKNOWN, Reason("unreadable", unable))
    return _absent("looking for servers", "looking")


def nobody(node: str, port: int | None, servers: Sequence[Server]) -> Verdict:
    """There is none, or none on the port that was asked for."""
    if port is not None and servers:
        return _absent(f"no server on port {port}; there is one on {', '.join(str(one.port) for one in servers)}")
    return _absent(f"no server on port {port} of {node}" if port is not None else f"no server on {node}")


def never_started(verdict: Verdict) -> Diagnosis | None:
    """For a launch that no server came of, with what is known of why; None for any other verdict."""
    if verdict.reason.code != "never-started":
        return None
    said = verdict.reason.text
    return replace(unexplained("", None, started=False), summary=said[:1].upper() + said[1:])


def _absent(text: str, code: str = "no-server") -> Verdict:
    return Verdict(State.ABSENT, Reason(code, text))
