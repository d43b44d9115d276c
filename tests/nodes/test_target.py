"""How nodes are named."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eagletui.errors import UsageError
from eagletui.nodes.target import Target, parse_target


@pytest.mark.parametrize(
    ("text", "target"),
    [
        ("gpu-node", Target("gpu-node")),
        ("user@host", Target("host", "user")),
        ("host:2222", Target("host", None, 2222)),
        ("user@host:22", Target("host", "user", 22)),
        ("[::1]:2222", Target("::1", None, 2222)),
        ("[::1]", Target("::1")),
        ("::1", Target("::1")),
        ("fe80::1%eth0", Target("fe80::1%eth0")),
        ("user@::1", Target("::1", "user")),
        ("user@[::1]:22", Target("::1", "user", 22)),
        ("ssh://user@host:2222", Target("host", "user", 2222)),
        ("ssh://host/", Target("host")),
        ("ssh://[::1]:7", Target("::1", None, 7)),
        ("me@corp.example@host", Target("host", "me@corp.example")),
        ("10.0.0.1:65535", Target("10.0.0.1", None, 65535)),
    ],
)
def test_names(text: str, target: Target) -> None:
    assert parse_target(text) == target
    assert parse_target(str(target)) == target


@pytest.mark.parametrize(
    "text",
    ["", "-oProxyCommand=x", "user@-x", "-l@host", "@host", "user@", "host:", "host:0", "host:65536", "host:x",
     "host:٣", "[::1", "[::1]x", "[::1]:", "a b", "a;b", "a`b`", "$(x)@host", "a\nb", "a\0b", "ssh://", "host:1e3", "host:-1"],
)  # fmt: skip
def test_refused(text: str) -> None:
    with pytest.raises(UsageError):
        parse_target(text)


@given(st.text(max_size=30))
@settings(max_examples=100)
def test_any_text_is_a_target_or_a_usage_error(text: str) -> None:
    try:
        target = parse_target(text)
    except UsageError:
        return
    assert not target.host.startswith("-")
    assert target.port is None or 0 < target.port < 65536
