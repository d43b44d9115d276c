"""The order of calls of one survey, told reply by reply."""

from __future__ import annotations

import pytest

from eagletui.gpus.nvidia_smi import LIST_ARGV, XML_ARGV, Dialect, compute_apps_argv, query_gpu_argv
from eagletui.gpus.sequence import TIMEOUT, Ended, Outcome, survey
from tests.gpus.stand_ins import answer
from tests.gpus.test_nvidia_smi import LISTED, LOST, line, mig_xml

QUERY = query_gpu_argv(Dialect.NEW)
ROWS = Outcome(0, (line(0) + "\n").encode())
APPS = Outcome(0, b"GPU-0, 7, 100, python\n")
OLD = Outcome(2, b'Field "clocks_event_reasons.active" is not a valid field to query.\n\n')
MIG = Outcome(0, (line(0, uuid="GPU-a", mig__mode__current="Enabled") + "\n").encode())


def test_a_healthy_node_takes_two_calls() -> None:
    done, calls = answer([ROWS, APPS])
    assert calls == [QUERY, compute_apps_argv()]
    assert done.report.error is None
    assert [p.pid for p in done.report.gpus[0].processes] == [7]
    assert (done.dialect, done.only) == (Dialect.NEW, None)


def test_plain_tuples_are_replies_too_and_survey_returns_the_report() -> None:
    steps = survey()
    assert next(steps) == QUERY
    with pytest.raises(StopIteration) as stop:
        steps.send((6, b"No devices were found\n", b""))
    assert stop.value.value.error.code == "no-devices"


@pytest.mark.parametrize("ended", [TIMEOUT, Outcome(124, b""), Outcome(137, b"", b"Killed\n"), Outcome(None, b"")])
def test_after_a_timeout_there_is_no_second_call(ended: Outcome | Ended) -> None:
    done, _ = answer([ended])
    assert done.report.gpus == ()
    assert done.report.error is not None
    assert done.report.error.code == "timeout"


@pytest.mark.parametrize("ended", [TIMEOUT, Outcome(124, b"")])
def test_a_late_process_table_keeps_the_rows_and_ends_the_survey(ended: Outcome | Ended) -> None:
    done, _ = answer([MIG, ended])
    assert [(g.index, g.processes, g.mig) for g in done.report.gpus] == [(0, (), ())]
    assert done.report.error is not None
    assert (done.report.error.code, "process table" in done.report.error.text) == ("timeout", True)


def test_old_names_come_second_and_are_remembered() -> None:
    done, calls = answer([OLD, Outcome(0, (line(0, Dialect.OLD) + "\n").encode()), APPS])
    assert calls[:2] == [QUERY, query_gpu_argv(Dialect.OLD)]
    assert done.dialect is Dialect.OLD
    assert done.report.gpus[0].throttle == ("hw-slowdown",)
    _, calls = answer([Outcome(0, (line(0, Dialect.OLD) + "\n").encode()), APPS], Dialect.OLD)
    assert calls[0] == query_gpu_argv(Dialect.OLD)


def test_a_tool_that_knows_no_field_is_asked_three_times_at_most() -> None:
    done, _ = answer([OLD, OLD, OLD])
    assert done.report.error is not None
    assert done.report.error.code == "unparsable"


def test_mig_takes_the_list_and_the_xml() -> None:
    done, calls = answer([MIG, APPS, Outcome(0, LISTED.encode()), Outcome(0, mig_xml())])
    assert calls[2:] == [LIST_ARGV, XML_ARGV]
    assert [(m.profile, m.mem_used_mib, m.mem_total_mib) for m in done.report.gpus[0].mig] == [
        ("1g.10gb", 13, 9728),
        ("1c.3g.40gb+me", None, None),
    ]


def test_mig_without_instances_needs_no_xml() -> None:
    done, _ = answer([MIG, APPS, Outcome(0, b"GPU 0: NVIDIA A100 (UUID: GPU-a)\n")])
    assert done.report.gpus[0].mig == ()
    assert done.report.error is None


@pytest.mark.parametrize("replies", [[TIMEOUT], [Outcome(0, LISTED.encode()), TIMEOUT]])
def test_a_late_list_or_xml_keeps_the_rows(replies: list[Outcome | Ended]) -> None:
    done, _ = answer([MIG, APPS, *replies])
    assert len(done.report.gpus) == 1
    assert len(done.report.gpus[0].mig) == (2 if len(replies) == 2 else 0)
    assert done.report.error is not None
    assert (done.report.error.code, "MIG" in done.report.error.text) == ("timeout", True)


def test_healthy_gpus_are_asked_by_index_when_one_does_not_open() -> None:
    rows = Outcome(0, f"{line(0, uuid='GPU-a')}\n{line(2, uuid='GPU-c')}\n".encode())
    done, calls = answer([Outcome(255, LOST.encode()), Outcome(0, LISTED.encode()), rows, APPS])
    assert calls[1:] == [LIST_ARGV, query_gpu_argv(Dialect.NEW, (0, 2)), compute_apps_argv((0, 2))]
    assert [(g.index, g.state) for g in done.report.gpus] == [(0, "ok"), (1, "lost"), (2, "ok")]
    assert done.report.error is not None
    assert (done.report.error.code, done.report.error.text) == ("lost", LOST)
    argv, parser = done.loop()
    assert argv[-2:] == ("-l", "1")
    assert "0,2" in argv
    assert parser.feed(rows.stdout)[0].gpus == done.report.gpus


@pytest.mark.parametrize("replies", [[TIMEOUT], [Outcome(255, LOST.encode())], [Outcome(0, LISTED.encode()), TIMEOUT]])
def test_when_the_healthy_ones_cannot_be_found_the_message_stays(replies: list[Outcome | Ended]) -> None:
    done, _ = answer([Outcome(255, LOST.encode()), *replies])
    assert done.report.gpus == ()
    assert done.report.error is not None
    assert (done.report.error.code, done.report.error.text) == ("lost", LOST)
    assert done.only is None
