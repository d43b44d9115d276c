"""What a log says, with its secrets masked: nothing that quotes it leaves the reader's side otherwise."""

from __future__ import annotations

from dataclasses import replace

from eagletui.logs.state import Diagnosis, LogState
from eagletui.monitor.diagnosis_model import plain
from eagletui.shell.masking import mask_text


class MaskedStates:
    """Masks one log's states as they come. Most of a state is the same object as in the one before, and hundreds of arguments
    take milliseconds: what did not change is not masked again.
    """

    def __init__(self) -> None:
        self._args: tuple[dict[str, object], dict[str, object]] = ({}, {})
        self._diagnosis: tuple[Diagnosis | None, Diagnosis | None] = (None, None)
        self._state: tuple[LogState, LogState] | None = None

    def of(self, state: LogState) -> LogState:
        """The same state with everything that it quotes masked."""
        if self._state is None or self._state[0] is not state:
            self._state = (state, self._masked(state))
        return self._state[1]

    def _masked(self, state: LogState) -> LogState:
        if self._args[0] is not state.args:
            self._args = (state.args, masked_args(state.args))
        if self._diagnosis[0] is not state.diagnosis:
            self._diagnosis = (state.diagnosis, None if state.diagnosis is None else masked_diagnosis(state.diagnosis))
        return replace(
            state,
            error_text=None if state.error_text is None else mask_text(state.error_text),
            diagnosis=self._diagnosis[1],
            warnings=tuple(replace(one, text=mask_text(one.text)) for one in state.warnings),
            args=self._args[1],
        )


def masked_diagnosis(found: Diagnosis) -> Diagnosis:
    """Its sentences and lines masked: a summary may quote an exception."""
    return replace(
        found,
        summary=mask_text(found.summary),
        advice=mask_text(found.advice),
        evidence=tuple(replace(quote, text=mask_text(quote.text)) for quote in found.evidence),
    )


def masked_args(args: dict[str, object]) -> dict[str, object]:
    """Arguments as they may be shown: what looks like a secret by its name or its value is masked."""
    return {name: _masked(name, value) for name, value in args.items()}


def _masked(name: str, value: object) -> object:
    if isinstance(value, bool | int) or value is None:
        return value
    if isinstance(value, float):
        return value if value - value == 0 else None  # JSON knows neither NaN nor infinity
    if isinstance(value, str):
        shown = plain(f"{name}={value}")
        return shown.removeprefix(f"{name}=") if shown.startswith(f"{name}=") else shown
    if isinstance(value, list | tuple):
        return [_masked(name, one) for one in value]
    if isinstance(value, dict):
        return {plain(str(key)): _masked(str(key), one) for key, one in value.items()}
    return plain(str(value))
