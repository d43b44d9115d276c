"""One server judged once."""

from __future__ import annotations

from dataclasses import dataclass

from eagletui.logs.state import Diagnosis, LogState
from eagletui.monitor.snapshot import Health, Throughput
from eagletui.servers.model import Reason, Server, State
from eagletui.servers.record import Record


@dataclass(frozen=True, slots=True)
class Assessment:
    """One server judged once. `log_error`: why its log cannot be read, a sentence;
    `diagnosis`: why it failed or does not move; `record`: what launched it, None for what eagletui did not launch.

    Ages in seconds; `at` of health and throughput are by the same clock as `now` given to build_status.
    """

    server: Server
    state: State
    reason: Reason
    log: LogState
    health: Health | None
    throughput: Throughput | None
    log_age_s: float | None
    log_error: str | None = None
    diagnosis: Diagnosis | None = None
    record: Record | None = None
