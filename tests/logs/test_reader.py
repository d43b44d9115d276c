"""Recordings of real servers, and what must be read in them however they are cut."""

# ruff: noqa: E501 - lines of logs stand as they are printed

from __future__ import annotations

from typing import NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eagletui.engines.batch import BatchSample
from eagletui.logs.events import (
    BatchSeen,
    ErrorSeen,
    Event,
    LaunchBegan,
    PhaseBegan,
    PhaseEnded,
    ProbeLine,
    ProgressSeen,
    ReadySeen,
    StoppingSeen,
)
from eagletui.logs.reader import PARTIAL_READ, Reader
from eagletui.logs.state import Gap, LogState, Pace, Phase, Progress
from tests.logs.recorded import cut, recorded

NOW = 1_000.0


def read(*chunks: bytes, engine: str | None = None, at: float = NOW) -> tuple[Reader, list[Event]]:
    reader = Reader(engine)
    events: list[Event] = []
    for chunk in chunks:
        events += reader.feed(chunk, at)
    return reader, events + reader.flush(at)


class Expected(NamedTuple):
    engine: str
    state: str
    phase: str
    phases: list[tuple[str, float | None]]
    ready_s: float | None
    progress: tuple[int, int, str] | None
    args: dict[str, object]
    gen_tok_s: float | None = None
    accept_len: float | None = None
    error: str | None = None


RECORDED: dict[str, Expected] = {
    "h200-tp2-eagle3": Expected(
        "sglang", "crashed", "serving",
        [("launch", 10.0), ("distributed", 1.92), ("weights", 0.54), ("draft-weights", 0.05), ("kv-cache", 0.0), ("graphs", 26.3), ("warmup", 4.0), ("serving", None)],
        45.0, (23, 23, "graphs"), {"tp_size": 2, "port": 30000, "model_path": "/srv/models/tiny-llama", "speculative_algorithm": "EAGLE3", "speculative_num_draft_tokens": 5},
        5550.39, 2.38, "RuntimeError: [/pytorch/third_party/gloo/gloo/transport/tcp/pair.cc:547] Connection closed by peer [127.0.0.1]:23238",
    ),
    "h200-tp1": Expected(
        "sglang", "stopped", "serving",
        [("launch", 14.0), ("distributed", 0.22), ("weights", 0.75), ("kv-cache", 0.0), ("graphs", 16.58), ("warmup", 2.0), ("serving", None)],
        35.0, (36, 36, "graphs"), {"tp_size": 1, "port": 30000, "speculative_algorithm": None}, 494.27,
    ),
    "h200-pty-ctrl-c": Expected(
        "sglang", "stopped", "serving",
        [("launch", 13.0), ("distributed", 0.2), ("weights", 0.77), ("kv-cache", 1.0), ("graphs", 4.99), ("warmup", 2.0), ("serving", None)],
        22.0, (4, 4, "graphs"), {"tp_size": 1},
    ),
    "h200-sigterm-under-load": Expected(
        "sglang", "stopped", "serving",
        [("launch", 12.0), ("distributed", 0.22), ("weights", 0.67), ("draft-weights", 0.05), ("kv-cache", 1.0), ("graphs", 8.73), ("warmup", 4.0), ("serving", None)],
        28.0, (8, 8, "graphs"), {"port": 30001}, 535.84, 2.0,
    ),
    "h200-mem-fraction-high": Expected(
        "sglang", "crashed", "kv-cache", [("launch", 11.0), ("distributed", 0.2), ("weights", 0.55), ("kv-cache", None)], None, (64, 64, "shards"),
        {"port": 30001}, error="torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.83 GiB.",
    ),
    "h200-port-in-use": Expected(
        "sglang", "crashed", "warmup", [("launch", 14.0), ("distributed", 0.2), ("weights", 0.71), ("kv-cache", 0.0), ("graphs", 1.96), ("warmup", None)],
        None, (4, 4, "graphs"), {"port": 30020}, error="[Errno 98] error while attempting to bind on address ('127.0.0.1', 30020): address already in use",
    ),
    "cpu-startup": Expected(
        "sglang", "ready", "serving", [("launch", 25.0), ("distributed", 0.03), ("weights", 0.1), ("kv-cache", 0.47), ("warmup", 3.0), ("serving", None)],
        29.0, (64, 64, "shards"), {"tp_size": 1, "port": 30000, "model_path": "tiny64"},
    ),
    "cpu-life": Expected(
        "sglang", "stopped", "serving", [("launch", 16.0), ("distributed", 0.04), ("weights", 2.39), ("kv-cache", 10.45), ("warmup", 10.0), ("serving", None)],
        40.0, (64, 64, "shards"), {"tp_size": 1, "model_path": "mid64"}, 2.42,
    ),
    "cpu-port-in-use": Expected(
        "sglang", "crashed", "warmup", [("launch", 39.0), ("distributed", 0.04), ("weights", 0.08), ("kv-cache", 0.47), ("warmup", None)], None,
        (64, 64, "shards"), {"port": 30000}, error="[Errno 98] error while attempting to bind on address ('127.0.0.1', 30000): address already in use",
    ),
    "vllm-startup": Expected(
        "vllm", "ready", "serving", [("launch", 13.0), ("distributed", 0.0), ("weights", 0.02), ("kv-cache", 0.0), ("warmup", 1.0), ("serving", None)],
        15.0, (64, 64, "shards"), {"port": 8100, "model_path": "tinyv", "max_model_len": 4096},
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", RECORDED)
def test_recorded(name: str) -> None:
    expected = RECORDED[name]
    reader, events = read(recorded(f"{name}.log"))
    state = reader.state
    assert (state.engine, state.state, state.phase, state.launch_count) == (
        expected.engine,
        expected.state,
        expected.phase,
        1,
    )
    assert [(phase.name, phase.seconds) for phase in state.phases] == [
        (phase, pytest.approx(seconds) if seconds is not None else None) for phase, seconds in expected.phases
    ]
    assert state.ready_s == expected.ready_s
    last = reader.last_progress
    assert (last and (last.done, last.total, last.unit)) == expected.progress
    assert {key: state.args[key] for key in expected.args} == expected.args
    decodes = [event.total for event in events if isinstance(event, BatchSeen) and event.total.gen_tok_s is not None]
    assert (decodes[-1].gen_tok_s if decodes else None) == expected.gen_tok_s
    assert (decodes[-1].accept_len if decodes else None) == expected.accept_len
    assert (state.error_text or "").startswith(expected.error or "")
    assert (state.error_text is None) == (expected.error is None)


@pytest.mark.parametrize("name", RECORDED)
@pytest.mark.parametrize("largest", [40, 3_000])
def test_any_chunking_reads_the_same(name: str, largest: int) -> None:
    data = recorded(f"{name}.log")
    if largest == 40:
        data = data[:30_000] + data[-5_000:]
    whole, events = read(data)
    parts, part_events = read(*cut(data, seed=largest, largest=largest))
    assert parts.state == whole.state
    assert parts.last_progress == whole.last_progress
    moves = (ProgressSeen, BatchSeen)  # an unfinished bar is seen one drawing earlier
    assert [event for event in part_events if not isinstance(event, ProgressSeen)] == [
        event for event in events if not isinstance(event, ProgressSeen)
    ]
    assert {event for event in events if isinstance(event, moves)} <= {
        event for event in part_events if isinstance(event, moves)
    }


@pytest.mark.parametrize(
    ("name", "error"),
    [
        ("cpu-unknown-flag", "sglang serve: error: unrecognized arguments: --no-such-flag 3"),
        (
            "cpu-model-missing",
            "huggingface_hub.errors.HFValidationError: Repo id must be in the form 'repo_name' or 'namespace/repo_name'",
        ),
        (
            "h200-no-gpu",
            "RuntimeError: No accelerator (CUDA, XPU, HPU, NPU, MUSA, MPS) or platform plugin is available.",
        ),
    ],
)
def test_death_before_the_arguments_are_printed(name: str, error: str) -> None:
    state = read(recorded(f"{name}.log"), engine="sglang")[0].state
    assert (state.state, state.phase, state.engine) == ("crashed", "launch", "sglang")
    assert (state.error_text or "").startswith(error)


def test_a_wanted_stop_of_a_log_whose_begin_is_lost() -> None:
    state = read(recorded("cpu-sigint-idle.log"), engine="sglang")[0].state
    assert (state.state, state.stopping, state.error_text) == ("stopped", False, None)


def test_orphans_that_live_on_after_the_launcher() -> None:
    state = read(recorded("cpu-sigterm-while-spawning.log"))[0].state
    assert (state.state, state.ready_s) == ("crashed", None)
    assert state.error_text == "BrokenPipeError: [Errno 32] Broken pipe"


def test_while_it_drains_it_is_stopping() -> None:
    data = recorded("h200-sigterm-under-load.log")
    at = data.index(b"Gracefully exiting")
    reader, events = read(data[: data.index(b"\n", at) + 1])
    assert (reader.state.state, reader.state.stopping) == ("ready", True)
    assert StoppingSeen(False) in events


def test_the_order_of_events_of_a_start() -> None:
    events = read(recorded("h200-tp2-eagle3.log"))[1]
    began = [event.phase for event in events if isinstance(event, PhaseBegan)]
    assert began == [
        "launch",
        "distributed",
        "weights",
        "kv-cache",
        "draft-weights",
        "kv-cache",
        "graphs",
        "warmup",
        "serving",
    ]
    launch = next(event for event in events if isinstance(event, LaunchBegan))
    assert launch.args["speculative_eagle_topk"] == 4
    assert sum(isinstance(event, ReadySeen) for event in events) == 1
    assert sum(isinstance(event, ProbeLine) for event in events) > 40
    assert not any(
        event.primary for event in events if isinstance(event, ErrorSeen)
    )  # a peer that went away is an echo
    ended = {event.phase: event.seconds for event in events if isinstance(event, PhaseEnded)}
    assert ended["draft-weights"] == 0.05


def test_the_accept_length_and_rank_zero_alone_count() -> None:
    samples = [event for event in read(recorded("h200-tp2-eagle3.log"))[1] if isinstance(event, BatchSeen)]
    assert {event.sample.dp_rank for event in samples} == {""}
    assert {event.sample.kind for event in samples} == {"decode", "prefill"}
    assert max(event.total.gen_tok_s or 0 for event in samples) == max(event.sample.gen_tok_s or 0 for event in samples)


# ---- by hand ---------------------------------------------------------------------------------------------------------


def text(*lines: str) -> bytes:
    return "".join(line + "\n" for line in lines).encode()


ARGS = "[2026-01-01 00:00:00] server_args=ServerArgs(model_path='/m', tp_size=2, port=30000)"


def state_of(*lines: str, engine: str | None = None) -> LogState:
    return read(text(*lines), engine=engine)[0].state


def names(state: LogState) -> list[str]:
    return [phase.name for phase in state.phases]


def test_weights_end_with_the_last_rank_and_not_with_a_full_bar() -> None:
    lines = [
        ARGS,
        "[2026-01-01 00:00:01 TP0] Load weight begin. avail mem=1 GB",
        "[2026-01-01 00:00:01 TP1] Load weight begin. avail mem=1 GB",
        "Loading safetensors checkpoint shards: 100% Completed | 64/64 [00:02<00:00,  6.96it/s]",
        "[2026-01-01 00:00:05 TP1] Load weight end. elapsed=4.00 s, type=X",
        "[2026-01-01 00:00:05 TP1] KV Cache is allocated. #tokens: 3",
    ]
    state = state_of(*lines)
    assert (state.phase, state.progress and state.progress.done) == ("weights", 64)
    assert names(state) == ["launch", "weights"]
    state = state_of(*lines, "[2026-01-01 00:00:09 TP0] Load weight end. elapsed=8.00 s, type=X")
    assert (state.phase, state.progress) == ("kv-cache", None)
    assert state.phases[1] == Phase("weights", "done", 8.0, ranks=(("TP0", 8.0), ("TP1", 4.0)))


def test_the_slowest_rank_gives_the_progress() -> None:
    bar = "(Worker_TP{} pid={}) Loading safetensors checkpoint shards:  20% Completed | {}/158 [00:10<00:18,  6.96it/s]"
    reader, _ = read(
        text(
            "(EngineCore pid=1) INFO 01-01 00:00:00 [x.py:1] Initializing a V1 LLM engine (v0.32.0)",
            "(Worker_TP0 pid=2) INFO 01-01 00:00:00 [x.py:1] Starting to load model x...",
            bar.format(0, 2, 50),
            bar.format(1, 3, 20),
            bar.format(0, 2, 60),
        )
    )
    assert reader.state.progress == Progress(
        20, 158, "shards", 2.0, 69.0, "Loading safetensors checkpoint shards", "TP0"
    )


def test_a_bar_without_a_name_belongs_to_the_stage_and_a_clients_bar_to_nobody() -> None:
    bar = "  0%|          | 0/58 [00:00<?, ?it/s]"
    graphs = "[2026-01-01 00:00:01 TP0] Capture target decode CUDA graph begin. backend=full"
    assert state_of(ARGS, graphs, bar).progress == Progress(0, 58, "graphs", None, None, "", "")
    assert state_of(ARGS, bar).progress is None
    assert state_of(ARGS, "[2026-01-01 00:00:09] The server is fired up and ready to roll!", bar).progress is None


def test_a_bar_is_seen_before_its_line_ends() -> None:
    reader = Reader("sglang")
    reader.feed(text(ARGS, "[2026-01-01 00:00:01] Load weight begin. avail mem=1 GB"), NOW)
    events = reader.feed(
        b"\rLoading safetensors checkpoint shards:  20% Completed | 32/158 [00:04<00:18,  6.96it/s]", NOW
    )
    assert [type(event) for event in events] == [ProgressSeen]
    assert reader.state.progress is not None
    assert reader.state.progress.eta_s == pytest.approx(126 / 6.96)


def test_a_bind_error_cancels_readiness_before_and_after() -> None:
    bind = "[2026-01-01 00:00:03] ERROR:    [Errno 98] error while attempting to bind on address ('0.0.0.0', 1): address already in use"
    ready = "[2026-01-01 00:00:04] The server is fired up and ready to roll!"
    for lines in ((bind, ready), (ready, bind)):
        state = state_of(ARGS, *lines)
        assert state.state == "crashed"
        assert "address already in use" in (state.error_text or "")
    vllm = ("INFO 01-01 00:00:00 [x.py:1] vLLM API server version 0.9", "INFO:     Application startup complete.")
    assert state_of(*vllm).state == "ready"
    assert state_of(*vllm, bind[22:]).state == "crashed"


def test_a_failed_warmup_is_no_readiness() -> None:
    state = state_of(
        ARGS,
        "[2026-01-01 00:00:03] Initialization failed. warmup error: Traceback (most recent call last):",
        "ValueError: x",
    )
    assert (state.state, state.phase) == ("crashed", "launch")


def test_an_exception_that_a_request_raised_is_no_crash_until_the_server_dies() -> None:
    ready = "[2026-01-01 00:00:04] The server is fired up and ready to roll!"
    error = (
        "[2026-01-01 00:00:05] ERROR:    Exception in ASGI application",
        "Traceback (most recent call last):",
        '  File "a.py", line 1, in f',
        "TypeError: bad",
    )
    assert state_of(ARGS, ready, *error).state == "ready"
    assert state_of(ARGS, ready, *error).error_text is None
    state = state_of(
        ARGS,
        ready,
        *error,
        "[2026-01-01 00:00:06] Received sigquit from a child process. It usually means the child failed.",
    )
    assert (state.state, state.error_text) == ("crashed", "TypeError: bad")


def test_the_first_cause_wins_over_echoes_and_over_later_ranks() -> None:
    state = state_of(
        ARGS,
        "[2026-01-01 00:00:04] Received sigquit from a child process. It usually means the child failed.",
        "[2026-01-01 00:00:05 TP1] Scheduler hit an exception: Traceback (most recent call last):",
        '  File "a.py", line 1, in f',
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.75 GiB.",
        "[2026-01-01 00:00:06 TP0] Scheduler hit an exception: Traceback (most recent call last):",
        "RuntimeError: Connection closed by peer",
    )
    assert state.error_text == "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.75 GiB."


def test_new_arguments_begin_a_new_launch() -> None:
    reader, events = read(
        text(ARGS, "[2026-01-01 00:00:04] Received sigquit from a child process.", ARGS.replace("30000", "30001"))
    )
    state = reader.state
    assert (state.state, state.launch_count, state.args["port"], state.error_text) == ("starting", 2, 30001, None)
    assert names(state) == ["launch"]
    assert sum(isinstance(event, LaunchBegan) for event in events) == 2


def test_two_servers_in_one_file_are_kept_apart() -> None:
    reader, _ = read(
        text(
            "a-1  | " + ARGS, "b-1  | " + ARGS, "a-1  | [2026-01-01 00:00:04] The server is fired up and ready to roll!"
        )
    )
    assert {source: state.state for source, state in reader.servers.items()} == {"a-1": "ready", "b-1": "starting"}


def test_figures_are_summed_over_data_ranks() -> None:
    line = "[2026-01-01 00:00:0{} DP{} TP0] Decode batch, #running-req: {}, #token: 1, token usage: 0.10, gen throughput (token/s): {}.00, #queue-req: 1"
    totals = [
        event.total
        for event in read(text(ARGS, line.format(1, 0, 3, 100), line.format(1, 1, 4, 50), line.format(2, 0, 5, 110)))[1]
        if isinstance(event, BatchSeen)
    ]
    assert [(total.gen_tok_s, total.running, total.queued) for total in totals] == [
        (100.0, 3, 1),
        (150.0, 7, 2),
        (160.0, 9, 2),
    ]
    idle = line.replace("00:00:0{}", "00:01:0{}").format(1, 0, 1, 10)
    last = [
        event.total for event in read(text(ARGS, line.format(1, 1, 4, 50), idle))[1] if isinstance(event, BatchSeen)
    ][-1]
    assert (last.gen_tok_s, last.running) == (10.0, 1)


def test_a_log_without_dates_over_midnight() -> None:
    state = state_of(
        "[23:59:50] server_args=ServerArgs(port=1)", "[00:00:20] The server is fired up and ready to roll!"
    )
    assert (state.ready_s, state.phases[0].seconds) == (30.0, 30.0)


def test_lines_without_any_time_are_timed_by_arrival() -> None:
    reader = Reader("sglang")
    reader.feed(b"server_args=ServerArgs(port=1)\n", 10.0)
    reader.feed(b"Load weight begin.\n", 12.0)
    reader.feed(b"The server is fired up and ready to roll!\n", 15.0)
    assert (reader.state.ready_s, [phase.seconds for phase in reader.state.phases]) == (5.0, [2.0, 3.0, None])
    assert reader.state.phases[-1].began_at == 15.0


def test_a_stage_that_began_before_we_came_began_earlier() -> None:
    reader = Reader("sglang")
    reader.feed(
        text(ARGS, "[2026-01-01 00:00:10] Load weight begin. avail mem=1 GB", "[2026-01-01 00:00:40] something"), NOW
    )
    assert reader.state.phases[-1].began_at == NOW - 30.0


def test_a_stage_began_at_least_when_its_bar_did() -> None:
    """Bars have no stamps: who comes in the middle of one would take the stage for as young as its own arrival."""
    reader, _ = read(
        text(
            "[2026-01-01 00:00:00] server_args=ServerArgs(model_path='x', port=1)",
            "[2026-01-01 00:00:10 TP0] Load weight begin. avail mem=21.00 GB",
        ),
        b"\rLoading safetensors checkpoint shards:  50% Completed | 32/64 [00:20<00:20,  1.60it/s]\n",
    )
    assert reader.state.phases[-1].name == "weights"
    assert reader.state.phases[-1].began_at == NOW - 20.0


def test_a_prompt_stalls_it_until_it_is_answered() -> None:
    reader = Reader("sglang")
    reader.feed(text(ARGS), NOW)
    reader.feed(b"Do you wish to run the custom code? [y/N] ", NOW)
    assert (reader.state.state, reader.state.error_text) == ("stalled", "Do you wish to run the custom code? [y/N]")
    reader.feed(b"y\n", NOW)
    assert (reader.state.state, reader.state.error_text) == ("starting", None)


def test_the_state_is_the_same_object_until_something_changes() -> None:
    reader = Reader("sglang")
    reader.feed(text(ARGS), NOW)
    before = reader.state
    reader.feed(b"[2026-01-01 00:00:00] nothing of note\n", NOW)
    assert reader.state is before


def test_nothing_known_is_unknown() -> None:
    assert Reader().state == LogState()
    assert state_of("hello", "world 50% 1/2 [x]") == LogState()
    assert state_of("hello", engine="vllm") == LogState(engine="vllm")


def test_a_log_that_begins_in_mid_life_serves() -> None:
    state = state_of(
        "[2026-01-01 00:00:01 TP0] Decode batch, #running-req: 1, #token: 1, token usage: 0.10, gen throughput (token/s): 5.00, #queue-req: 0"
    )
    assert (state.state, state.phase, state.ready_s, state.engine) == ("ready", "serving", None, "sglang")


def test_a_launch_line_of_300_kilobytes_and_a_dump_of_megabytes() -> None:
    args = ARGS[:-1] + ", x='" + "y" * 300_000 + "')"
    state = state_of(
        args,
        "[2026-01-01 00:00:02 TP0] self.cur_batch.reqs=[Req(rid=" + "z" * 3_000_000,
        "[2026-01-01 00:00:03] The server is fired up and ready to roll!",
    )
    assert (state.state, state.args["tp_size"], state.ready_s) == ("ready", 2, 3.0)


_LINES = st.sampled_from(
    [ARGS, "[2026-01-01 00:00:01 TP0] Load weight begin.", "[2026-01-01 00:00:02 TP0] Load weight end. elapsed=1 s", "[2026-01-01 00:00:02 TP1] Load weight begin.",
     "[2026-01-01 00:00:03 TP0] Capture cuda graph begin.", "[2026-01-01 00:00:03 TP0] Capture cuda graph end.", "Traceback (most recent call last):", "ValueError: x",
     "Loading safetensors checkpoint shards:  20% Completed | 32/158 [00:04<00:18,  6.96it/s]", "  0%|  | 0/5 [00:00<?, ?it/s]", "Killed", "[2026-01-01 00:00:04] SIGTERM received.",
     "The server is fired up and ready to roll!", "(EngineCore pid=1) INFO 01-01 00:00:00 [x.py:1] Starting to load model x", "Memory pool end.", "max_total_num_tokens=1", "[y/N]"]
)  # fmt: skip


@settings(max_examples=60, deadline=None)
@given(st.lists(st.one_of(_LINES, st.text(max_size=20)), max_size=14), st.integers(1, 50))
def test_any_lines_in_any_order(lines: list[str], size: int) -> None:
    data = "\n".join(lines).encode("utf-8", "replace")
    whole = read(data)[0]
    parts = read(*(data[i : i + size] for i in range(0, len(data), size)))[0]
    assert parts.state.state == whole.state.state
    assert parts.state.phases == whole.state.phases
    assert parts.state.error_text == whole.state.error_text


def test_totals_of_a_prefill_before_any_decode() -> None:
    events = read(
        text(
            ARGS, "[2026-01-01 00:00:01 TP0] Prefill batch, #new-seq: 1, #new-token: 6, #running-req: 0, #queue-req: 2"
        )
    )[1]
    total = next(event.total for event in events if isinstance(event, BatchSeen))
    assert total._replace(raw="") == BatchSample("prefill", running=0, queued=2, new_tokens=6)


def test_of_a_long_unfinished_line_only_what_is_shown_is_read_anew() -> None:
    """It is read with each chunk: a line of megabytes must not cost more each time than one of a screen's width."""
    reader = Reader("sglang")
    for _ in range(4):
        reader.feed(b"A" * 16_000, 0.0)
    assert reader.partial is not None
    assert reader.partial.record.text == "A" * PARTIAL_READ
    assert reader.partial.record.length == 64_000


def test_how_long_it_has_been_quiet() -> None:
    """Milestones and bars move a phase; other lines, however many, do not. What was read all at once is as old as it says."""
    reader = Reader("sglang")
    reader.feed(f"{ARGS}\n[2026-01-01 00:00:01 TP0] Load weight begin. avail mem=1 GB\n".encode(), 100.0)
    assert reader.state.phases[-1].quiet_since == 100.0
    reader.feed(b'[2026-01-01 00:00:09] INFO:     10.0.0.9:1 - "GET /health HTTP/1.1" 503 Service Unavailable\n', 108.0)
    assert reader.state.phases[-1].quiet_since == 100.0
    reader.feed(b"Loading safetensors checkpoint shards:  20% Completed | 1/5 [00:10<00:40, 10.00s/it]\r", 111.0)
    assert reader.state.phases[-1].quiet_since == 111.0
    before = reader.state
    assert before.pace is None
    reader.feed(b"Loading safetensors checkpoint shards:  40% Completed | 2/5 [00:31<00:40, 21.00s/it]\r", 132.0)
    assert reader.state.pace == Pace(21.0, 21.0, 1)
    at_once = Reader("sglang")
    lines = [ARGS, "[2026-01-01 00:00:01] Load weight begin. avail mem=1 GB", "[2026-01-01 00:05:01] something else"]
    at_once.feed("".join(f"{line}\n" for line in lines).encode(), 1_000.0)
    assert at_once.state.phases[-1].quiet_since == 700.0


def test_silences_and_ranks_are_told() -> None:
    lines = [
        ARGS,
        "[2026-01-01 00:00:01 TP0] Load weight begin. avail mem=1 GB",
        "[2026-01-01 00:00:01 TP1] Load weight begin. avail mem=1 GB",
        "[2026-01-01 00:01:01 TP1] Load weight end. type=X",
        "[2026-01-01 00:02:21 TP0] Load weight end. type=X",
    ]
    weights = state_of(*lines).phases[1]
    assert (weights.name, weights.seconds) == ("weights", 140.0)
    assert weights.ranks == (("TP0", 140.0), ("TP1", 60.0))
    assert weights.gaps == (Gap(0.0, 60.0), Gap(60.0, 80.0))


def test_when_it_failed_is_told_by_the_last_time_before() -> None:
    """A traceback's last line has no time of its own."""
    state = state_of(
        ARGS,
        "[2026-01-01 00:00:07 TP0] Scheduler hit an exception: Traceback (most recent call last):",
        '  File "/sgl/sglang/srt/managers/scheduler.py", line 1, in run',
        "RuntimeError: CUDA error: out of memory",
    )
    assert state.diagnosis is not None
    assert (state.diagnosis.code, state.diagnosis.clock) == ("cuda-oom", "00:00:07")
