"""A diagnosis as JSON, the same object in `explain`, `status` and the results of `wait`, `start` and `restart`.

What it quotes is foreign text: secrets are masked here, and what a terminal would obey is gone.
"""

from __future__ import annotations

import re
from typing import Self

from pydantic import BaseModel, ConfigDict

from eagletui.logs.state import Diagnosis
from eagletui.shell.masking import mask_text, shown

_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f]+")


def plain(text: str) -> str:
    """One line that can be written anywhere: secrets masked, control characters and undecodable bytes replaced."""
    return _CONTROL.sub(" ", shown(mask_text(text))).strip()


class EvidenceModel(BaseModel):
    """A quoted line. `line`: its number in the log from 1, 0 where another witness said it (the kernel, a control group)."""

    model_config = ConfigDict(frozen=True)

    line: int
    text: str


class DiagnosisModel(BaseModel):
    """Why a server failed or does not move. `phase` and `rank` are null where no one phase or rank is to blame."""

    model_config = ConfigDict(frozen=True)

    code: str
    severity: str
    phase: str | None
    rank: str | None
    summary: str
    advice: str
    evidence: list[EvidenceModel]

    @classmethod
    def of(cls, diagnosis: Diagnosis) -> Self:
        """The object for a diagnosis, masked and made plain."""
        return cls(
            code=diagnosis.code,
            severity=diagnosis.severity,
            phase=diagnosis.phase,
            rank=diagnosis.rank,
            summary=plain(diagnosis.summary),
            advice=plain(diagnosis.advice),
            evidence=[EvidenceModel(line=quote.line, text=plain(quote.text)) for quote in diagnosis.evidence],
        )
