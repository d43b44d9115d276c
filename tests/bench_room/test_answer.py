"""An answer as it streams in: every shape that servers and proxies send, at every split."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eagletui.bench.answer import Answer

DONE = b"data: [DONE]\n\n"


def event(value: object) -> bytes:
    return b"data: " + json.dumps(value).encode() + b"\n\n"


def text(words: str, finish: str | None = None, usage: dict[str, int] | None = None) -> bytes:
    return event({"choices": [{"index": 0, "text": words, "finish_reason": finish}], "usage": usage})


def delta(finish: str | None = None, **fields: object) -> bytes:
    return event({"choices": [{"index": 0, "delta": fields, "finish_reason": finish}]})


def usage(tokens: int, prompt: int = 7) -> bytes:
    return event({"choices": [], "usage": {"completion_tokens": tokens, "prompt_tokens": prompt}})


def native(tokens: int, finish: object = None) -> bytes:
    meta = {"completion_tokens": tokens, "prompt_tokens": 5, "finish_reason": finish, "spec_verify_ct": 2}
    return event({"text": "w" * tokens, "meta_info": meta})


def read(*parts: bytes) -> Answer:
    """Each part comes a second after the one before."""
    answer = Answer()
    for at, part in enumerate(parts, 1):
        answer.feed(part, float(at))
    answer.end(float(len(parts)))
    return answer


@pytest.mark.parametrize(
    ("parts", "tokens", "ends", "gaps"),
    [
        pytest.param((text("a"), text("b"), text("c", "length") + usage(3) + DONE), 3, (1, 3), [1000, 1000], id="a token a chunk"),
        pytest.param((text("a b"), text("c d", "length") + usage(4)), 4, (1, 2), [333.3] * 3, id="without [DONE], two tokens a chunk"),
        pytest.param(
            (text("a", usage={"completion_tokens": 1}), text("b c d", "stop", {"completion_tokens": 4})),
            4, (1, 2), [333.3] * 3, id="usage in each chunk",
        ),
        pytest.param(
            (delta(role="assistant", content=""), delta(reasoning_content="x"), delta(content="y"), delta("stop") + usage(2)),
            2, (2, 4), [1000], id="a role is no token, reasoning is one",
        ),
        pytest.param((delta(reasoning="x"), delta("tool_calls", tool_calls=[{"index": 0}]) + usage(9)), 9, (1, 2), [125] * 8, id="a tool call"),
        pytest.param((text("a", "length") + usage(-5),), 1, (1, 1), [], id="a count that is none"),
        pytest.param((text("a", "length") + usage(1),), 1, (1, 1), [], id="one token"),
        pytest.param(
            tuple(text("", finish, {"completion_tokens": n}) for n, finish in ((1, None), (2, None), (3, "length"))),
            3, (1, 3), [1000, 1000], id="tokens without a text, counted as they come",
        ),
        pytest.param(
            (event({"choices": [{"delta": {"role": "assistant"}}], "usage": {"completion_tokens": 1}}), delta(content="x"), delta("stop") + usage(2)),
            2, (2, 3), [], id="a role that is counted is no token",
        ),
        pytest.param((text("", "length") + usage(3),), 3, (1, 1), [], id="tokens without a text"),
        pytest.param((native(1), native(3), native(4, {"type": "length"}) + DONE), 4, (1, 3), [500, 500, 1000], id="generate"),
        pytest.param((text("a"), b": keep-alive\n\n", text("b", "stop")), 2, (1, 3), [2000], id="no usage, and a comment"),
    ],
)  # fmt: skip
def test_good_answers(parts: tuple[bytes, ...], tokens: int, ends: tuple[float, float], gaps: list[float]) -> None:
    answer = read(*parts)
    assert answer.why_bad() is None
    assert (answer.output_tokens, answer.ends()) == (tokens, ends)
    assert list(answer.gaps_ms()) == pytest.approx(gaps, rel=1e-3)


@pytest.mark.parametrize(
    ("parts", "why"),
    [
        ((event({"error": {"message": "too long", "code": 400}}) + DONE,), "too long"),
        ((event({"error": "no"}),), "no"),
        ((event({"object": "error", "message": "gone"}),), "gone"),
        ((event({"detail": [{"msg": "bad field"}]}),), "bad field"),
        ((event([{"error": {"message": "in a list"}}]),), "in a list"),
        ((b'event: error\ndata: {"code": 5}\n\n',), '{"code": 5}'),
        ((b'{"error": {"message": "plain json"}}',), "plain json"),
        ((b'{\n "detail": "Not\n Found"}',), 'it answered with no stream: { "detail": "Not Found"}'),
        ((b"<html>502 Bad Gateway</html>",), "it answered with no stream: <html>502 Bad Gateway</html>"),
        ((text("a"), event({"error": {"message": "died midway"}})), "died midway"),
        ((text("a") + b"data: {broken\n\n",), "{broken"),
        ((native(3, {"type": "abort", "message": "out of memory"}),), "the server ended it: out of memory"),
        ((b"data: " + b"[" * 100_000 + b"\n\n",), "no JSON"),
        ((b"[" * 100_000,), "no stream"),
        ((DONE,), "the answer was empty"),
        ((b"",), "the answer was empty"),
        ((text("a"), text("b")), "the stream ended after 2 tokens without an end"),
        ((event({"error": {"message": "key sk-abcdefghijklmnop0123456789 is wrong"}}),), "***"),
    ],
)  # fmt: skip
def test_bad_ones_say_why(parts: tuple[bytes, ...], why: str) -> None:
    told = read(*parts).why_bad()
    assert told is not None
    assert why in told
    assert "sk-abc" not in told
    assert "\n" not in told


def test_a_plain_answer_counts_and_has_no_first_token() -> None:
    body = {
        "choices": [{"text": "a b", "finish_reason": "stop"}],
        "usage": {"completion_tokens": 2, "prompt_tokens": 4},
    }
    answer = read(json.dumps(body).encode())
    assert (answer.why_bad(), answer.output_tokens, answer.ends()[0], list(answer.gaps_ms())) == (None, 2, None, [])


def test_what_has_no_end_is_bounded() -> None:
    answer = Answer()
    for _ in range(6):
        answer.feed(b"x" * (1 << 20), 0.0)
    assert len(answer._rest) <= 1 << 22
    answer.end(0.0)
    assert answer.why_bad() == "its answer has no end"


WHOLE = (
    delta(role="assistant", content="") + delta(content="é ✓ 𝄞").replace(b"\n", b"\r\n") + delta(content="b") + delta("stop") + usage(5) + DONE
)  # fmt: skip


@given(st.lists(st.integers(0, len(WHOLE)), max_size=6))
@settings(max_examples=60, deadline=None)
def test_wherever_it_is_cut_it_is_the_same(cuts: list[int]) -> None:
    answer = Answer()
    before = 0
    for cut in [*sorted(cuts), len(WHOLE)]:
        answer.feed(WHOLE[before:cut], 1.0)
        before = cut
    answer.end(1.0)
    assert (answer.why_bad(), answer.output_tokens, answer.chunks, answer.prompt_tokens) == (None, 5, 2, 7)


@given(
    st.lists(
        st.binary(max_size=60) | st.sampled_from([b"data: ", b"\n\n", b"{", b"event: error\n", DONE, text("a")]),
        max_size=8,
    )
)
@settings(max_examples=80, deadline=None)
def test_whatever_comes_it_ends_with_a_sentence_or_tokens(parts: list[bytes]) -> None:
    answer = read(*parts)
    assert answer.why_bad() is not None or answer.output_tokens > 0
    assert all(gap >= 0 for gap in answer.gaps_ms())
