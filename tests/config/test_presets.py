"""Presets of a person's own: what they change, and the sentence for what is none."""

from __future__ import annotations

import pytest

from eagletui.bench.presets import PRESETS, preset_named, with_own
from eagletui.config.models import BenchPreset, Config
from eagletui.errors import UsageError


def test_own_presets_change_the_houses_or_begin_from_quick() -> None:
    own = Config.model_validate(
        {"presets": {"standard": {"concurrency": 16}, "steady": {"rate": 2, "output_len": 32}}}
    ).presets
    loads = with_own({name: preset.changes() for name, preset in own.items()})
    assert [one.preset for one in loads] == ["quick", "standard", "steady"]
    standard, steady = preset_named("standard", loads), preset_named("steady", loads)
    assert (standard.concurrency, standard.requests) == (16, PRESETS[1].requests)
    assert (steady.rate, steady.concurrency, steady.output_len, steady.input_len) == (2, None, 32, PRESETS[0].input_len)
    with pytest.raises(UsageError, match="did you mean steady"):
        preset_named("stedy", loads)


def test_each_field_of_a_preset_is_one_of_a_load() -> None:
    assert set(BenchPreset.model_fields) <= set(PRESETS[0].__slots__)
