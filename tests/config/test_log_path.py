"""Where a launch logs: a file of its own, whatever the names."""

from __future__ import annotations

from datetime import datetime
from itertools import islice

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eagletui.config.log_path import Named, candidates, check_template, fill, free_path

TIME = datetime(2026, 12, 1, 9, 5, 7)  # noqa: DTZ001 - the person's own
NAMED = Named("llama", "steps/2", TIME, 30000, "org/Qwen 3 (8B)/")


@pytest.mark.parametrize(
    ("template", "path"),
    [
        ("/logs/{profile}-{variant}-{time}.log", "/logs/llama-steps-2-20261201-090507.log"),
        ("~/l/{model}.{port}", "/home/me/l/Qwen-3-8B.30000"),
        ("$HOME/{profile}", "/home/me/llama"),
        ("${HOME}/{profile}", "/home/me/llama"),
        ("logs/{profile}.log", "/srv/logs/llama.log"),
        ("{{{profile}}}.log", "/srv/{llama}.log"),
        ("/plain.log", "/plain.log"),
    ],
)
def test_a_template_is_filled(template: str, path: str) -> None:
    assert fill(template, NAMED, home="/home/me", cwd="/srv") == path


@pytest.mark.parametrize(
    "template", ["", "a/", "{tim}", "{", "}", "{profile", "~you/x", "/a/$USER/b", "a\nb", "{profile!r}", "{time:%H}"]
)
def test_a_template_that_means_nothing_is_refused(template: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        check_template(template)


def test_an_older_log_is_never_written_on() -> None:
    assert list(islice(candidates("/a.b/x.log"), 3)) == ["/a.b/x.log", "/a.b/x-2.log", "/a.b/x-3.log"]
    assert list(islice(candidates("/a.b/.x"), 2)) == ["/a.b/.x", "/a.b/.x-2"]
    assert free_path("/x.log", {"/x.log", "/x-2.log", "/x-4.log"}) == "/x-3.log"


@settings(max_examples=100)
@given(st.text(max_size=300), st.text(max_size=30), st.text(max_size=300))
def test_a_name_is_one_piece_of_a_path(profile: str, variant: str, model: str) -> None:
    path = fill(
        "/logs/{profile}-{variant}-{model}.log", Named(profile, variant, TIME, None, model), home="/h", cwd="/c"
    )
    folder, _, name = path.rpartition("/")
    assert folder == "/logs"
    assert name not in {"", ".", ".."}
    assert name.isprintable()
    assert " " not in name
    assert len(name.encode()) <= 255
