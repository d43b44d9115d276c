"""Which calls of nvidia-smi make one survey, and in which order. Sans-IO: whoever runs commands drives the generator.

    steps = survey()
    argv = next(steps)
    while True: argv = steps.send(Outcome(exit_status, stdout, stderr) or TIMEOUT)    # StopIteration.value is the
    report

Calls are made one after another: nvidia-smi takes a lock in the driver, and a driver that hangs would collect hanging
processes. After a timeout no further call is made.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable
from dataclasses import dataclass, replace
from enum import Enum
from typing import Final, NamedTuple

from eagletui.gpus.model import GpuError, GpuReport, MigInstance
from eagletui.gpus.nvidia_smi import (
    CALL_TIMEOUT_S,
    LIST_ARGV,
    XML_ARGV,
    Argv,
    Dialect,
    LoopParser,
    QueryAnswer,
    assemble,
    compute_apps_argv,
    loop_argv,
    parse_mig_memory,
    parse_query,
    query_gpu_argv,
    read_compute_apps,
    read_list,
    timeout_report,
    with_memory,
)
from eagletui.gpus.smi_messages import Message, was_ended


class Outcome(NamedTuple):
    """How one call ended. `exit_status` None: not known."""

    exit_status: int | None
    stdout: bytes
    stderr: bytes = b""


class Ended(Enum):
    """The call was ended by the caller's own deadline; what it had printed is of no use."""

    TIMEOUT = "timeout"


TIMEOUT: Final = Ended.TIMEOUT
Reply = Outcome | tuple[int | None, bytes, bytes] | Ended


@dataclass(frozen=True, slots=True)
class Surveyed:
    """A survey's report, and what a loop after it needs: `loop_argv(dialect, only)` and `LoopParser(…, unopened)`.

    `only`: indexes of the GPUs to ask when one that cannot be opened makes a call for all fail; None is all.
    """

    report: GpuReport
    dialect: Dialect
    only: tuple[int, ...] | None = None
    unopened: tuple[Message, ...] = ()

    def loop(self) -> tuple[Argv, LoopParser]:
        """The call that goes on after this survey, and the parser for what it prints."""
        asked = self.only
        if asked is None:
            asked = tuple(gpu.index for gpu in self.report.gpus)
        unopened = () if self.only is None else self.unopened
        return loop_argv(self.dialect, self.only), LoopParser(self.dialect, asked, unopened)


def survey(dialect: Dialect = Dialect.NEW) -> Generator[Argv, Reply, GpuReport]:
    """Yields the calls to make, is sent how each ended, and returns the report. `dialect`: the names to try first."""
    done = yield from full_survey(dialect)
    return done.report


def full_survey(dialect: Dialect = Dialect.NEW, *, processes: bool = True) -> Generator[Argv, Reply, Surveyed]:
    """As survey(), and returns also what loop_argv needs. Without `processes` only the rows are asked: of a node where
    the call for the process table hangs.
    """
    answer, dialect = yield from _query(dialect)
    only: tuple[int, ...] | None = None
    if answer.unopened and not answer.report.gpus:
        answer, only = yield from _query_healthy(answer, dialect)
    report = answer.report
    timed_out = report.error is not None and report.error.code == "timeout"
    if processes and report.gpus and not timed_out:
        report = yield from _join(report, only)
    return Surveyed(report, dialect, only, answer.unopened)


def _ended(reply: Reply) -> Outcome | None:
    """The outcome, or None when the call was ended by a deadline: the caller's, or that of timeout(1) on the node."""
    if isinstance(reply, Ended):
        return None
    outcome = Outcome(*reply)
    silent = not (outcome.stdout or outcome.stderr)
    return None if was_ended(outcome.exit_status, silent=silent) else outcome


def _query(
    dialect: Dialect, only: Iterable[int] | None = None, unopened: Iterable[Message] = ()
) -> Generator[Argv, Reply, tuple[QueryAnswer, Dialect]]:
    while True:
        reply = yield query_gpu_argv(dialect, only)
        if isinstance(reply, Ended):
            return QueryAnswer(timeout_report()), dialect
        exit_status, stdout, stderr = reply
        answer = parse_query(stdout, stderr, exit_status, dialect, unopened)
        if answer.retry is None:
            return answer, dialect
        dialect = answer.retry


def _query_healthy(
    answer: QueryAnswer, dialect: Dialect
) -> Generator[Argv, Reply, tuple[QueryAnswer, tuple[int, ...] | None]]:
    """One GPU that cannot be opened makes the whole query fail; `-L` names the others, and those are asked by index.

    By index, since NVML may open every GPU to find one by its uuid.
    """
    listed = _ended((yield LIST_ARGV))
    if listed is None:
        return answer, None
    listing = read_list(listed.stdout, listed.stderr)
    only = tuple(sorted({index for index, _ in listing.gpus}))
    if not only:
        return answer, None
    second, _ = yield from _query(dialect, only, listing.unopened or answer.unopened)
    return (second, only) if second.report.gpus else (answer, None)


def _join(report: GpuReport, only: tuple[int, ...] | None) -> Generator[Argv, Reply, GpuReport]:
    """Processes, and MIG instances where a GPU has MIG on.

    A failure here leaves the rows as they are and stands beside them.
    """
    mig: dict[str, tuple[MigInstance, ...]] = {}
    error = report.error
    outcome = _ended((yield compute_apps_argv(only)))
    if outcome is None:
        return replace(report, error=error or _late("the process table"))
    apps = read_compute_apps(outcome.stdout, outcome.stderr, outcome.exit_status)
    error = error or apps.error
    if any(gpu.mig_enabled for gpu in report.gpus):
        mig, late_error = yield from _mig()
        error = error or late_error
    return replace(assemble(report, apps.processes, mig), error=error)


def _mig() -> Generator[Argv, Reply, tuple[dict[str, tuple[MigInstance, ...]], GpuError | None]]:
    listed = _ended((yield LIST_ARGV))
    if listed is None:
        return {}, _late("the MIG instances")
    mig = dict(read_list(listed.stdout, listed.stderr).mig)
    if not mig:
        return mig, None
    described = _ended((yield XML_ARGV))
    if described is None:
        return mig, _late("the memory of MIG instances")
    return with_memory(mig, parse_mig_memory(described.stdout)), None


def _late(what: str) -> GpuError:
    return GpuError("timeout", f"nvidia-smi did not tell {what} within {CALL_TIMEOUT_S} s and was ended")
