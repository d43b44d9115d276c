"""Launches for tests."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from eagletui.history.launches import Identity, LaunchKind, LaunchRecord, Outcome, PhaseTime

KIND = LaunchKind("sglang", "/models/x", 8, "f1")
BEGAN = datetime(2026, 11, 1, tzinfo=UTC)


def launch(
    number: int = 1,
    *,
    machine: str = "m1 gpu-node",
    kind: LaunchKind = KIND,
    outcome: Outcome = "ready",
    weights: float = 40.0,
    cold: bool | None = None,
    diagnosis: str | None = None,
) -> LaunchRecord:
    """A launch: its number is its pid, its ticks and the hour in which it began."""
    return LaunchRecord(
        identity=Identity(machine, "boot", 100 + number, number),
        node="gpu-node",
        kind=kind,
        command=("python3", "-m", "sglang.launch_server"),
        started=BEGAN + timedelta(hours=number),
        outcome=outcome,
        phases=(PhaseTime("launch", 10.0), PhaseTime("weights", weights, (("TP0", weights), ("TP1", 1.0)))),
        ready_s=10.0 + weights if outcome == "ready" else None,
        lead_s=4.0,
        diagnosis=diagnosis,
        cold=cold,
    )
