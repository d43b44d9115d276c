"""The chunked transfer coding: the same body whatever way its bytes are cut; what is none is refused."""

from __future__ import annotations

from itertools import pairwise

import httpx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eagletui.nodes.streaming import Chunked


@settings(max_examples=200, deadline=None)
@given(
    st.lists(st.binary(min_size=1, max_size=40), max_size=6),
    st.sampled_from([b"", b";a=b"]),
    st.sampled_from([b"", b"X-Took: 1\r\n"]),
    st.lists(st.integers(0, 400), max_size=12),
)
def test_cut_anywhere_it_gives_the_same_body(
    parts: list[bytes], extension: bytes, trailer: bytes, cuts: list[int]
) -> None:
    whole = b"".join(b"%x%s\r\n%s\r\n" % (len(part), extension, part) for part in parts) + b"0\r\n" + trailer + b"\r\n"
    edges = [0, *sorted(min(cut, len(whole)) for cut in cuts), len(whole)]
    chunked = Chunked()
    body = b"".join(chunked.feed(whole[one:other]) for one, other in pairwise(edges))
    assert body == b"".join(parts)
    assert chunked.done


@pytest.mark.parametrize("sent", [b"-5\r\nabcde\r\n", b"zz\r\n", b"3\r\nabcde\r\n", b"\r\n\r\n"])
def test_what_is_no_size_is_refused(sent: bytes) -> None:
    with pytest.raises(httpx.RemoteProtocolError):
        Chunked().feed(sent)
