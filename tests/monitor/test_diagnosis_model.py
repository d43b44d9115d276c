"""A diagnosis as JSON: the shape of the contract, with nothing secret and nothing that a terminal obeys."""

from __future__ import annotations

from eagletui.logs.state import Diagnosis, Quote
from eagletui.monitor.diagnosis_model import DiagnosisModel

FOUND = Diagnosis(
    "cuda-oom", "critical", "weights", "TP2", "Out of memory", "Use more GPUs.",
    (Quote(812, "api_key='sk-abcdefghijklmnopqrst' \x1b]0;x\x07 failed"), Quote(0, "bytes \udcff")),
)  # fmt: skip


def test_the_shape() -> None:
    model = DiagnosisModel.of(FOUND).model_dump()
    assert list(model) == ["code", "severity", "phase", "rank", "summary", "advice", "evidence"]
    assert [quote["line"] for quote in model["evidence"]] == [812, 0]


def test_no_secret_and_nothing_a_terminal_obeys() -> None:
    text = DiagnosisModel.of(FOUND).model_dump_json()
    assert "abcdefghij" not in text
    assert all(bad not in text for bad in ("\\u001b", "\\u0007", "\\udcff", "\udcff"))
    assert "failed" in text


def test_null_where_no_rank_or_phase_is_to_blame() -> None:
    model = DiagnosisModel.of(Diagnosis("died-silently", "critical", None, None, "It ended.", "")).model_dump()
    assert model["phase"] is None
    assert model["rank"] is None
