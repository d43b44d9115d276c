"""The built-in client against a server of known pace, a process of its own."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest

from eagletui.bench import client as bench_client
from eagletui.bench.builtin import BuiltinRunner
from eagletui.bench.load import Load
from eagletui.bench.outcome import BenchProgress, Facts, Measured, Row
from eagletui.bench.prompts import Prompts, read_prompts
from eagletui.bench.runner import Target
from eagletui.errors import UsageError
from eagletui.nodes.streaming import StreamTransport, dial_timed
from tests.paced_server import Paced, paced_server

LOAD = Load("test", 6, 20, 10, concurrency=3, warmup=0, repeats=1)


@pytest.fixture(scope="module")
def paced() -> Iterator[Paced]:
    with paced_server() as server:
        yield server


class Asking:
    """Runs loads; `how` is what the server is told to do, for each request in turn (the last one for the rest)."""

    def __init__(self, server: Paced, monkeypatch: pytest.MonkeyPatch) -> None:
        self.server = server
        self.hows: list[dict[str, Any]] = [{}]
        self.told: list[BenchProgress] = []
        original = bench_client.body_of

        def body_of(manner: bench_client.Manner, load: Load, prompt: Any) -> dict[str, Any]:
            how = self.hows.pop(0) if len(self.hows) > 1 else self.hows[0]
            return {**original(manner, load, prompt), "user": json.dumps(how)}

        monkeypatch.setattr(bench_client, "body_of", body_of)

    async def run(self, load: Load, *hows: dict[str, Any], engine: str = "vllm") -> Measured:
        self.hows = list(hows) or [{}]
        target = Target(Facts(engine, model="paced"), self.server.url, lambda _n: StreamTransport(dial_timed))
        return await BuiltinRunner().run(load, target, self.told.append)

    async def asked(self) -> list[dict[str, Any]]:
        async with httpx.AsyncClient() as client:
            found: list[dict[str, Any]] = (await client.get(f"{self.server.url}/asked")).json()
            return found


@pytest.fixture
def asking(paced: Paced, monkeypatch: pytest.MonkeyPatch) -> Asking:
    return Asking(paced, monkeypatch)


def rows(measured: Measured) -> list[Row]:
    return [row for repeat in measured.repeats for row in repeat.rows]


async def test_what_it_measures_is_what_was_sent(asking: Asking) -> None:
    measured = await asking.run(replace(LOAD, warmup=2, repeats=2), {"pace": 0.01, "tokens": 2, "ttft": 0.1})
    found = rows(measured)
    assert [(row.repeat, row.index) for row in found] == [(repeat, index) for repeat in (0, 1) for index in range(6)]
    assert {(row.output_tokens, row.input_tokens, row.source, row.status, row.error) for row in found} == {
        (10, 20, "usage", 200, None)
    }
    for row in found:
        assert row.ttft_ms is not None
        assert row.ttft_ms >= 99
        assert row.e2e_ms is not None
        assert row.e2e_ms - row.ttft_ms >= 20
        assert len(row.gaps_ms) == 9
    assert measured.api == "completions"
    assert asking.told[-1].stage == "ended"
    assert asking.told[-1].done == 12
    sent = (await asking.asked())[-14:]
    assert {(one["max_tokens"], len(one["prompt"]), one["ignore_eos"], one["temperature"]) for one in sent} == {
        (10, 20, True, 0.0)
    }
    prompts = {tuple(one["prompt"]) for one in sent}
    assert len(prompts) == 14, "no answer comes from a cache"


async def test_no_more_than_that_are_open_at_a_time(asking: Asking) -> None:
    await asking.run(LOAD, {"pace": 0.01})
    assert max(one.open for one in asking.told) <= 3


async def test_failures_are_rows(asking: Asking) -> None:
    measured = await asking.run(
        replace(LOAD, concurrency=1),
        {"status": 500, "message": "boom"}, {"cut_after": 3}, {"error_after": 2}, {"pace": 0.001}, {"usage": False}, {"running": True},
    )  # fmt: skip
    told = [(row.status, row.error, row.source) for row in rows(measured)]
    assert told[0][:2] == (500, "boom")
    assert told[1][0] == 200
    assert told[1][1] is not None
    assert told[1][1].startswith("the stream broke after 3 tokens")
    assert told[2][:2] == (200, "CUDA out of memory")
    assert [one[1] for one in told[3:]] == [None] * 3
    assert [one[2] for one in told[3:]] == ["usage", "chunks", "usage"]


@pytest.mark.parametrize(
    ("refused", "missing", "note"),
    [
        ("Unrecognized field: ignore_eos", "ignore_eos", "knows no ignore_eos"),
        ("stream_options is not allowed", "stream_options", "chunks are counted"),
    ],
)
async def test_what_a_server_refuses_is_left_out_and_said(
    asking: Asking, refused: str, missing: str, note: str
) -> None:
    measured = await asking.run(replace(LOAD, requests=1), {"status": 400, "message": refused}, {"pace": 0.001})
    assert [row.error for row in rows(measured)] == [None]
    assert missing not in (await asking.asked())[-1]
    assert any(note in one for one in measured.notes)


async def test_token_ids_that_are_refused_become_texts(asking: Asking) -> None:
    refusal = {"status": 422, "message": "prompt: Input should be a valid string"}
    measured = await asking.run(replace(LOAD, requests=1), refusal, {"pace": 0.001})
    assert [row.error for row in rows(measured)] == [None]
    assert isinstance((await asking.asked())[-1]["prompt"], str)


async def test_an_api_that_is_not_there_is_not_the_servers_last_word(asking: Asking) -> None:
    measured = await asking.run(
        replace(LOAD, requests=2, concurrency=2), {"status": 404}, {"status": 404}, {"pace": 0.001}
    )
    assert [row.error for row in rows(measured)] == [None, None]
    assert measured.api == "chat"
    assert {one["path"] for one in (await asking.asked())[-2:]} == {"/v1/chat/completions"}
    named = await asking.run(replace(LOAD, requests=1, api="completions"), {"status": 404})
    assert [row.status for row in rows(named)] == [404], "the person named it"


async def test_generate_has_its_own_shape(asking: Asking) -> None:
    measured = await asking.run(replace(LOAD, api="generate", requests=2), {"pace": 0.001}, engine="sglang")
    assert {(row.output_tokens, row.input_tokens, row.error) for row in rows(measured)} == {(10, 20, None)}
    sent = (await asking.asked())[-1]
    assert sent["sampling_params"] == {"max_new_tokens": 10, "temperature": 0.0, "ignore_eos": True}


async def test_an_open_loop_does_not_wait_for_answers(asking: Asking) -> None:
    load = replace(LOAD, requests=12, rate=200.0, concurrency=None)
    measured = await asking.run(load, {"pace": 0.02})
    begun = [row.sent_s for row in rows(measured)]
    assert max(begun) < 1.0, (
        "twelve at 200 a second, while each answer takes 0.2 s: one after the other they would take 2.4 s"
    )
    assert begun == sorted(begun)
    assert max(one.open for one in asking.told) > 3


async def test_a_thousand_at_once(asking: Asking) -> None:
    measured = await asking.run(replace(LOAD, requests=1000, concurrency=1000, output_len=3), {"pace": 0.05})
    assert [row.error for row in rows(measured) if row.error] == []
    assert sum(row.output_tokens for row in rows(measured)) == 3000


def test_prompts_are_the_same_for_the_same_seed_and_no_other() -> None:
    first, again, other = Prompts(LOAD), Prompts(LOAD), Prompts(replace(LOAD, seed=1))
    assert first.prompt(0, 3, as_ids=True) == again.prompt(0, 3, as_ids=True)
    assert first.prompt(0, 3, as_ids=True) != other.prompt(0, 3, as_ids=True)
    assert first.prompt(1, 3, as_ids=True) != first.prompt(0, 3, as_ids=True)
    lengths = {len(Prompts(replace(LOAD, spread=0.5)).prompt(0, n, as_ids=True).ids) for n in range(60)}
    assert min(lengths) >= 10
    assert max(lengths) == 20


def test_texts_are_as_long_as_the_server_counts_them() -> None:
    prompts = Prompts(replace(LOAD, input_len=210))
    prompts.learn((16, 42), (144, 298))  # two tokens a word, and ten of a template
    assert len(prompts.prompt(0, 0, as_ids=False).text.split()) == 100


@pytest.mark.parametrize(
    ("content", "told"),
    [('{"prompt": "a"}\n{broken\n', ":2: it is no JSON"), ("[1, 2]\n", ":1: write"), ("\n", "holds no prompt")],
)
def test_a_file_of_prompts_is_told_wrong_with_its_line(tmp_path: Path, content: str, told: str) -> None:
    path = tmp_path / "p.jsonl"
    path.write_text(content)
    with pytest.raises(UsageError, match=told):
        read_prompts(path, 5)


def test_a_file_of_prompts(tmp_path: Path) -> None:
    path = tmp_path / "p.jsonl"
    path.write_text(
        '"a text"\n{"prompt": [1, 2], "output_len": 9}\n\n{"messages": [{"role": "user", "content": "x"}]}\n'
    )
    found, digest = read_prompts(path, 5)
    assert [(one.text, one.ids, one.output_len) for one in found] == [("a text", (), 5), ("", (1, 2), 9), ("", (), 5)]
    assert found[2].body == {"messages": [{"role": "user", "content": "x"}]}
    assert len(digest) == 64
