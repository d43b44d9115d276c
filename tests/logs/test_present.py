"""What a person sees of a log: bars in place, probes folded, prefixes as columns."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eagletui.logs.present import SHOWN, Presenter, present
from eagletui.logs.reader import Reader
from eagletui.logs.store import LineKind, LineStore, StoredLine
from tests.logs.recorded import cut, recorded


def show(*chunks: bytes, end: bool = True, capacity: int = 100_000) -> LineStore:
    store = LineStore(capacity)
    presenter = Presenter(store)
    reader = Reader("sglang", presenter.add)
    for chunk in chunks:
        reader.feed(chunk, 0.0)
        present(reader, presenter)
    if end:
        reader.flush(0.0)
    return store


def lines(store: LineStore) -> list[StoredLine]:
    return [line for number in range(store.first, store.end) if (line := store.line(number)) is not None]


def text(*given_lines: str) -> bytes:
    return "".join(line + "\n" for line in given_lines).encode()


PROBE = '[2026-01-01 00:00:0{}] INFO:     127.0.0.1:5{} - "GET {} HTTP/1.1" {}'
WARMING = (
    "[2026-01-01 00:00:01] Prefill batch, #new-seq: 1, #new-token: 1, #cached-token: 0, #running-req: 0, #queue-req: 0"
)
SHARDS = "Loading safetensors checkpoint shards:  {}% Completed | {}/{} [00:04<00:18,  6.96it/s]"


def test_columns_come_off_the_front() -> None:
    store = show(
        text(
            "[2026-01-01 14:05:39 DP1 TP0] hello",
            "[2026-01-01 14:05:40] WARNING:  careful",
            "(EngineCore_DP0 pid=2) ERROR 01-01 14:05:41 [core.py:93]   failed\tso",
            "DEBUG:    deep",
            "",
        )
    )
    assert lines(store) == [
        StoredLine("hello", LineKind.PLAIN, "14:05:39", "DP1 TP0", number=1),
        StoredLine("careful", LineKind.WARNING, "14:05:40", "", "WARNING", number=2),
        StoredLine("[core.py:93]   failed   so", LineKind.ERROR, "14:05:41", "DP0", "ERROR", number=3),
        StoredLine("deep", LineKind.DEBUG, "", "", "DEBUG", number=4),
        StoredLine("", number=5),
    ]
    assert (store.warnings, store.errors) == (1, 1)


def test_a_quoted_line_is_found_by_its_own_number() -> None:
    store = LineStore(capacity=4)
    presenter = Presenter(store)
    reader = Reader("sglang", presenter.add)
    for channel, chunk in (
        (0, text("one", "two")),
        (1, text("one of stderr")),
        (0, text("three", "[2026-01-01 00:00:01] four[2026-01-01 00:00:02] glued")),
    ):
        presenter.channel = channel
        reader.feed(chunk, 0.0, channel)
    presenter.mark("log rotated")

    def quoted(number: int, channel: int = 0) -> list[str]:
        return [line.text for at in store.numbered(number, channel) if (line := store.line(at)) is not None]

    assert quoted(3) == ["three"]
    assert quoted(4) == ["four", "glued"]
    assert quoted(1, 1) == []  # it is no longer kept
    assert quoted(1) == []
    assert quoted(0) == []  # a line of ours has no number in the file
    assert store.counted
    presenter.skipped("1 MB before this was not read")
    assert not store.counted  # from here on numbers are not those of the file


def test_a_bar_moves_in_place_and_the_next_run_gets_its_own_line() -> None:
    store = show(
        ("\r" + SHARDS.format(0, 0, 64) + "\r" + SHARDS.format(50, 32, 64)).encode(),
        ("[2026-01-01 00:00:01 TP1] between\n\r" + SHARDS.format(100, 64, 64) + "\n").encode(),
        ("\r" + SHARDS.format(0, 0, 1) + "\r" + SHARDS.format(100, 1, 1) + "\n").encode(),
        ("\r" + SHARDS.format(0, 0, 1) + "\n").encode(),
    )
    assert [(line.text, line.kind) for line in lines(store)] == [
        (SHARDS.format(100, 64, 64), LineKind.PROGRESS),
        ("between", LineKind.PLAIN),
        (SHARDS.format(100, 1, 1), LineKind.PROGRESS),
        (SHARDS.format(0, 0, 1), LineKind.PROGRESS),
    ]


def test_bars_of_two_ranks_stay_apart_and_a_nameless_one_gets_its_name() -> None:
    store = show(
        text(
            f"(Worker_TP0 pid=1) {SHARDS.format(0, 0, 4)}",
            f"(Worker_TP1 pid=2) {SHARDS.format(0, 0, 4)}",
            f"(Worker_TP0 pid=1) {SHARDS.format(50, 2, 4)}",
            "  0%|          | 0/23 [00:00<?, ?it/s]",
            "Capturing batches (bs=48 avail_mem=11.89 GB):   4%|4| 1/23 [00:00<00:03,  6.26it/s]",
            "Capturing batches (bs=44 avail_mem=11.79 GB):   9%|8| 2/23 [00:00<00:02,  7.30it/s]",
        )
    )
    assert [(line.rank, line.text[:34]) for line in lines(store)] == [
        ("TP0", SHARDS.format(50, 2, 4)[:34]),
        ("TP1", SHARDS.format(0, 0, 4)[:34]),
        ("", "Capturing batches (bs=44 avail_mem"),
    ]


def test_our_probes_fold_also_around_the_token_that_they_cost() -> None:
    store = show(
        text(
            PROBE.format(1, 1, "/health", "503 Service Unavailable"),
            PROBE.format(2, 2, "/health", "200 OK"),
            WARMING,
            PROBE.format(3, 3, "/health_generate", "200 OK"),
            PROBE.format(3, 3, "/v1/loads?include=all", "200 OK"),
            PROBE.format(3, 4, "/nosuch", "404 Not Found"),
            PROBE.format(4, 5, "/metrics", "200 OK"),
            PROBE.format(5, 6, "/health", "200 OK").replace("GET", "POST"),
            PROBE.format(6, 7, "/health", "200 OK").replace("127.0.0.1", "10.0.0.9"),
        )
    )
    assert [(line.kind, line.count, line.time) for line in lines(store)] == [
        (LineKind.PROBE, 4, "00:00:03"),
        (LineKind.PLAIN, 1, "00:00:01"),
        (LineKind.PLAIN, 1, "00:00:03"),
        (LineKind.PROBE, 1, "00:00:04"),
        (LineKind.PLAIN, 1, "00:00:05"),
        (LineKind.PLAIN, 1, "00:00:06"),
    ]
    assert "/v1/loads" in lines(store)[0].text


def test_a_long_line_is_cut_and_its_size_told() -> None:
    store = show(text("[2026-01-01 00:00:00] server_args=ServerArgs(x='" + "y" * 19_000 + "')", "z" * 2_500_000))
    first, second = lines(store)
    assert first.text.endswith("… 19 KB")
    assert len(first.text) < SHOWN + 20
    assert second.text.endswith("… 2.5 MB")


def test_a_traceback_is_an_error_at_its_head_and_at_its_last_line() -> None:
    store = show(
        text(
            "[2026-01-01 00:00:00 TP0] Scheduler hit an exception: Traceback (most recent call last):",
            '  File "a.py", line 1, in f',
            "    g()",
            "ValueError: bad",
            "[2026-01-01 00:00:01] Received sigquit from a child process.",
        )
    )
    assert [line.kind.name for line in lines(store)] == ["ERROR", "PLAIN", "PLAIN", "ERROR", "ERROR"]


def test_the_unfinished_line_is_shown_in_place() -> None:
    store = LineStore()
    presenter = Presenter(store)
    reader = Reader("sglang", presenter.add)

    def feed(chunk: bytes) -> list[str]:
        reader.feed(chunk, 0.0)
        present(reader, presenter)
        return [line.text for line in lines(store)]

    assert feed(b"one\nDo you wish [y/N]") == ["one", "Do you wish [y/N]"]
    assert feed(b" y") == ["one", "Do you wish [y/N] y"]
    assert feed(b"es\n") == ["one", "Do you wish [y/N] yes"]
    probe = PROBE.format(1, 1, "/health", "200 OK").encode()
    assert len(feed(probe + b"\n" + probe[:40])) == 4
    assert feed(probe[40:] + b"\n")[2:] == [probe.decode()[32:]]
    assert lines(store)[2].count == 2
    assert feed(b"[2026-01-01 00:00:00] ERROR:    half")[3:] == ["half"]
    assert store.errors == 0
    feed(b"\n")
    assert store.errors == 1


@pytest.mark.parametrize("name", ["h200-tp2-eagle3", "h200-pty-ctrl-c", "cpu-life", "vllm-startup"])
def test_recordings_look_the_same_however_they_are_cut(name: str) -> None:
    data = recorded(f"{name}.log")
    whole = show(data)
    parts = show(*cut(data, 5, 2_000))
    assert lines(parts) == lines(whole)
    assert (parts.errors, parts.warnings) == (whole.errors, whole.warnings)
    for line in lines(whole):
        assert not any(ord(c) < 32 or c == "\x1b" for c in line.text)


def test_a_recorded_start_is_short_to_read() -> None:
    store = show(recorded("h200-tp2-eagle3.log"))
    bars = [line for line in lines(store) if line.kind is LineKind.PROGRESS]
    assert [line.text.split("%")[0].split("(")[0].strip() for line in bars] == [
        "Multi-thread loading shards: 100", "Multi-thread loading shards: 100", "Capturing num tokens", "Capturing batches",
        "Capturing num tokens", "Capturing batches", "Capturing batches",
    ]  # fmt: skip
    probes = [line for line in lines(store) if line.kind is LineKind.PROBE]
    assert max(line.count for line in probes) > 20


def test_a_mark_stands_before_the_line_that_is_being_written() -> None:
    """A rotation is noticed in the midst of a line: its end belongs to its begin."""
    store = LineStore()
    presenter = Presenter(store)
    reader = Reader("sglang", presenter.add)
    for chunk, marker in ((b"one\ntwo, as far as ", "renamed"), (b"it ", "renamed again"), (b"came\nthree", None)):
        reader.feed(chunk, 0.0)
        present(reader, presenter)
        if marker:
            presenter.mark(marker)
    assert [line.text for line in lines(store)] == [
        "one",
        "renamed",
        "renamed again",
        "two, as far as it came",
        "three",
    ]


def test_marks_begin_afresh() -> None:
    store = LineStore()
    presenter = Presenter(store)
    reader = Reader("sglang", presenter.add)
    probe = (PROBE.format(1, 1, "/health", "200 OK") + "\n").encode()
    reader.feed(probe, 0.0)
    presenter.mark("the log was replaced", "00:00:02")
    reader.feed(probe, 0.0)
    assert [line.kind for line in lines(store)] == [LineKind.PROBE, LineKind.MARKER, LineKind.PROBE]


@settings(max_examples=50, deadline=None)
@given(st.lists(st.sampled_from([
    (SHARDS.format(0, 0, 4) + "\r"), SHARDS.format(50, 2, 4) + "\n", PROBE.format(1, 1, "/health", "200 OK") + "\n", WARMING + "\n", "x\n", "y", "\n", "\t\n",
    "[2026-01-01 00:00:01] ERROR:    e\n", "  0%|  | 0/4 [00:00<?, ?it/s]\r",
]), max_size=20), st.integers(1, 60))  # fmt: skip
def test_any_chunking_shows_the_same_in_a_small_store(pieces: list[str], size: int) -> None:
    data = "".join(pieces).encode()
    for capacity in (3, 1000):
        whole = show(data, capacity=capacity)
        parts = show(*(data[i : i + size] for i in range(0, len(data), size)), capacity=capacity)
        if capacity > 100:
            assert lines(parts) == lines(whole)
            assert (parts.errors, parts.end) == (whole.errors, whole.end)
