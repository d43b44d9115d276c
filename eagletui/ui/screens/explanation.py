"""All that is known of a launch, as rows: the cause, what to do, the evidence, the timeline, warnings, arguments. Pure, over a snapshot."""

from __future__ import annotations

from dataclasses import dataclass

from eagletui.logs.state import SHOWN_NAMES, Diagnosis, Phase, Quote
from eagletui.monitor.snapshot import Snapshot
from eagletui.servers.model import State
from eagletui.shell.masking import mask_text
from eagletui.ui import format as fmt
from eagletui.ui.panes.card import diagnosis_of, number_cells, number_words, quote_text, summary_lines, where_words
from eagletui.ui.panes.checklist import NAME_CELLS, TIME_CELLS, spread_forms
from eagletui.ui.panes.estimate_words import beyond, late_words, promise, starts_words, usual_of
from eagletui.ui.panes.pane import LEVEL_OF_STATE, is_undecided, word_and_role
from eagletui.ui.widgets.lines import EMPTY, Line, Span, clean, cut, fit, width_of, wrap

TEXT_CELLS = 110
"""Sentences are no wider: longer rows are hard to read."""
QUOTE_ROWS = 12
WARNING_ROWS = 3
EARLIER_ROWS = 8
MIN_TEXT_CELLS = 10
MANY = 40
"""More rows than any sentence of ours or argument has."""
CODE_CELLS = 22
MIN_CHART_CELLS = 16
NOTED = (
    "model_path", "model", "served_model_name", "tokenizer_path", "revision", "tp_size", "tensor_parallel_size", "dp_size", "data_parallel_size",
    "pp_size", "pipeline_parallel_size", "ep_size", "enable_expert_parallel", "nnodes", "node_rank", "host", "port", "dtype", "quantization",
    "kv_cache_dtype", "load_format", "context_length", "max_model_len", "mem_fraction_static", "gpu_memory_utilization", "max_total_tokens",
    "max_running_requests", "max_num_seqs", "max_num_batched_tokens", "chunked_prefill_size", "cuda_graph_max_bs", "disable_cuda_graph",
    "enforce_eager", "attention_backend", "trust_remote_code", "enable_torch_compile", "speculative_algorithm", "speculative_config",
    "speculative_draft_model_path", "speculative_num_steps", "speculative_eagle_topk", "speculative_num_draft_tokens", "disaggregation_mode",
)  # fmt: skip
"""Arguments that decide whether and how fast a server starts. Others are not shown: the list has hundreds, keys among them."""


@dataclass(frozen=True, slots=True)
class Row:
    """A row of the explanation; `quote`: the line of the log that it leads to."""

    line: Line = EMPTY
    quote: Quote | None = None


def explanation(snapshot: Snapshot, now: float, width: int) -> list[Row]:
    """Everything, for a place `width` cells wide."""
    diagnosis = diagnosis_of(snapshot)
    parts = [_verdict(snapshot, diagnosis, now, width)]
    if diagnosis is not None and diagnosis.advice:
        parts.append([_title("What to do"), *_sentence(diagnosis.advice, "text", width)])
    if diagnosis is not None and diagnosis.evidence:
        parts.append([_title("Evidence"), *_evidence(snapshot, diagnosis, width)])
    elif snapshot.startup.error_text and snapshot.verdict.state is State.CRASHED:
        parts.append([_title("Its last words"), *_sentence(snapshot.startup.error_text, "text", width)])
    if snapshot.startup.phases:
        parts.append([_title("Timeline"), *_timeline(snapshot, now, width)])
    if snapshot.startup.warnings:
        parts.append([_title("Warnings"), *_warnings(snapshot, width)])
    if snapshot.log.before:
        parts.append([_title("Earlier starts"), *_earlier(snapshot, width)])
    if arguments := _arguments(snapshot, width):
        parts.append([_title("Arguments of note"), *arguments])
    if snapshot.log.path:
        parts.append([_title("Log"), *_log(snapshot, width)])
    rows: list[Row] = []
    for part in parts:
        rows += [Row(), *part] if rows else part
    return rows


def _title(words: str) -> Row:
    return Row(((words, "accent bold"),))


def _sentence(text: str, role: str, width: int) -> list[Row]:
    return [Row((("  ", role), (row, role))) for row in wrap(mask_text(text), min(TEXT_CELLS, width) - 2, MANY)]


def _verdict(snapshot: Snapshot, diagnosis: Diagnosis | None, now: float, width: int) -> list[Row]:
    word, role = word_and_role(snapshot.verdict)
    state = snapshot.verdict.state
    rows: list[Row] = []
    if diagnosis is not None:
        rows += [Row(line) for line in summary_lines(diagnosis, LEVEL_OF_STATE[state], min(TEXT_CELLS, width), MANY)]
        rows.append(Row(((where_words(snapshot, diagnosis, now, width), "dim"),)))
        if mask_text(snapshot.verdict.reason.text).casefold() != mask_text(diagnosis.summary).casefold():
            # One row: as a rule it quotes what stands below.
            rows.append(Row(((cut(clean(f"{word}: {mask_text(snapshot.verdict.reason.text)}"), width), "dim"),)))
        return rows
    if is_undecided(snapshot.verdict):
        return [Row((("It was not looked at yet.", "dim"),))]
    said = mask_text(snapshot.verdict.reason.text)
    rows += [
        Row(((row, f"{role} bold" if not at else role),))
        for at, row in enumerate(wrap(f"{word}: {said}", min(TEXT_CELLS, width), MANY))
    ]
    if state is State.CRASHED:
        rows.append(Row((("The cause is still being gathered." if snapshot.diagnosis is None else "", "dim"),)))
    elif state in (State.READY, State.STARTING):
        warned = len(snapshot.startup.warnings)
        nothing = "Nothing is wrong." if state is State.READY else "Nothing is wrong so far."
        rows.append(
            Row((((nothing if not warned else f"It goes on, with {fmt.plural(warned, 'kind')} of warning."), "dim"),))
        )
    return rows


def _evidence(snapshot: Snapshot, diagnosis: Diagnosis, width: int) -> list[Row]:
    rows: list[Row] = []
    cells = number_cells(snapshot, (quote.line for quote in diagnosis.evidence))
    for quote in diagnosis.evidence:
        number = number_words(quote.line, cells)
        for at, row in enumerate(wrap(quote_text(quote), width - len(number) - 2, QUOTE_ROWS)):
            head = number if not at else " " * len(number)
            rows.append(Row((("  ", "text"), (head, "dim"), (row, "text")), quote))
    return rows


def _timeline(snapshot: Snapshot, now: float, width: int) -> list[Row]:
    startup, estimate = snapshot.startup, snapshot.estimate
    phases = [phase for phase in startup.phases if phase.name != "serving"]
    # What was running when it died ended then.
    since = snapshot.verdict.since
    until = since if snapshot.verdict.state is State.CRASHED and since is not None else now
    spans = [_spent(phase, until) for phase in phases]
    total = sum(spans)
    compare = 9 if estimate is not None else 0
    chart = width - 4 - NAME_CELLS - TIME_CELLS - compare - 2
    rows: list[Row] = []
    begun = 0.0
    for phase, spent in zip(phases, spans, strict=True):
        running = phase.status == "running"
        ended = running and snapshot.verdict.state is State.CRASHED
        mark: Span = ("✗ ", "error") if ended else ("▸ ", "warning") if running else ("✓ ", "ok")
        known = phase.seconds is not None or phase.began_at is not None
        took = fmt.duration(spent) if known else fmt.UNKNOWN
        line: list[Span] = [
            ("  ", "text"), mark, (SHOWN_NAMES[phase.name].ljust(NAME_CELLS), "text"), (took.rjust(TIME_CELLS), "text"),
            (f" {beyond(spent if known else None, usual_of(estimate, phase))}".ljust(compare)[:compare], "warning"),
        ]  # fmt: skip
        if chart >= MIN_CHART_CELLS and total > 0:
            line += [
                ("  ", "text"),
                *_span_bar(phase, begun, spent, total, min(chart, TEXT_CELLS), "error" if ended else mark[1]),
            ]
        rows.append(Row(tuple(line)))
        indent = " " * (width - chart)
        rows += [Row(((indent, "dim"), (row, "dim"))) for row in _about(phase, min(TEXT_CELLS, chart))]
        begun += spent
    rows += _sums(snapshot, now, width)
    return rows


def _spent(phase: Phase, now: float) -> float:
    if phase.seconds is not None:
        return phase.seconds
    return max(0.0, now - phase.began_at) if phase.began_at is not None else 0.0


def _span_bar(phase: Phase, begun: float, spent: float, total: float, cells: int, role: str) -> Line:
    """When the phase was, on one scale for all; its silences are drawn as such."""
    first = min(cells - 1, int(begun / total * cells))
    size = max(1, min(cells - first, round((begun + spent) / total * cells) - first))
    drawn = ["━"] * size
    for gap in phase.gaps:
        if spent > 0:
            start = int(gap.after_s / spent * size)
            for at in range(start, min(size, max(start + 1, round((gap.after_s + gap.seconds) / spent * size)))):
                drawn[at] = "┄"
    role = "util" if role == "ok" else role
    out: list[Span] = [(" " * first, "text")]
    for cell in drawn:
        kind = "dim" if cell == "┄" else role
        if out[-1][1] == kind:
            out[-1] = (out[-1][0] + cell, kind)
        else:
            out.append((cell, kind))
    return tuple(out)


def _about(phase: Phase, width: int) -> list[str]:
    """What there is to say of a phase beside its time."""
    rows: list[str] = []
    room = max(20, width)
    words = [*([phase.detail] if phase.detail else []), *spread_forms(phase)[:1]]
    words += [f"silent {fmt.duration(gap.seconds)} from {fmt.duration(gap.after_s)} on" for gap in phase.gaps]
    if words:
        rows += wrap(mask_text(" · ".join(words)), room, MANY)
    if spread_forms(phase):
        rows += wrap(" · ".join(f"{rank} {fmt.duration(seconds)}" for rank, seconds in phase.ranks), room, MANY)
    return rows


def _sums(snapshot: Snapshot, now: float, width: int) -> list[Row]:
    estimate, ready_s = snapshot.estimate, snapshot.startup.ready_s
    words: list[Span] = []
    if ready_s is not None:
        words.append((f"ready after {fmt.duration(ready_s)}", "text"))
    elif snapshot.verdict.state is State.STARTING and estimate is not None:
        words.append((promise(snapshot, now) or late_words(snapshot, now), "text"))
    if estimate is not None:
        said = f"usually {fmt.duration(estimate.total_s)} ({starts_words(estimate)})"
        words += [(" · ", "dim"), (said, "dim")] if words else [(said, "dim")]
    return [Row(fit((("    ", "text"), *words), width))] if words else []


def _warnings(snapshot: Snapshot, width: int) -> list[Row]:
    rows: list[Row] = []
    cells = number_cells(snapshot, (warned.line for warned in snapshot.startup.warnings))
    for warned in snapshot.startup.warnings:
        quote = Quote(warned.line, warned.text) if warned.line else None
        head: Line = (
            ("  ", "text"), (f"{fmt.count(warned.count):>6} × ", "dim"), (cut(warned.code, CODE_CELLS - 1).ljust(CODE_CELLS), "warning"),
            (number_words(warned.line, cells), "dim"),
        )  # fmt: skip
        used = width_of(head)
        for at, row in enumerate(wrap(mask_text(warned.text), max(MIN_TEXT_CELLS, width - used), WARNING_ROWS)):
            rows.append(Row((*(head if not at else ((" " * used, "text"),)), (row, "text")), quote))
    return rows


def _arguments(snapshot: Snapshot, width: int) -> list[Row]:
    args = snapshot.startup.args
    known = [(name, args[name]) for name in NOTED if args.get(name) not in (None, "", False)]
    same = args.get("model_path", args.get("model"))
    known = [(name, value) for name, value in known if not _is_plain(name, value, same)]
    if not known:
        return []
    cells = max(len(name) for name, _ in known) + 2
    rows: list[Row] = []
    for name, value in known:
        for at, row in enumerate(wrap(mask_text(f"{value}"), max(20, width - cells - 2), 3)):
            rows.append(Row((("  ", "text"), ((name if not at else "").ljust(cells), "dim"), (row, "text"))))
    return rows


def _earlier(snapshot: Snapshot, width: int) -> list[Row]:
    """How launches of the same kind ended, the newest first, with the arguments of note that were others then."""
    now = snapshot.startup.args
    told: list[tuple[Span, str, int]] = []
    for before in reversed(snapshot.log.before):
        how = "ready" if before.ready else before.code or "ended before it was ready"
        if before.ready and before.code:
            how += f", then {before.code}"
        well = before.ready and not before.code
        others = [name for name in NOTED if name in before.args and name in now and before.args[name] != now[name]]
        differs = mask_text(" · ".join(f"{name} {before.args[name]}" for name in others))
        mark: Span = ("✓ ", "ok") if well else ("✗ ", "error")
        words = f"{how}  {differs}".rstrip()
        if told and told[-1][:2] == (mark, words):
            told[-1] = (mark, words, told[-1][2] + 1)
        else:
            told.append((mark, words, 1))
    rows = [
        Row(fit((("  ", "text"), mark, (words, "text"), (f"  {count} times" if count > 1 else "", "dim")), width))
        for mark, words, count in told[:EARLIER_ROWS]
    ]
    left = sum(count for _, _, count in told[EARLIER_ROWS:])
    return [*rows, *([Row((("    ", "dim"), (f"and {left} before", "dim")))] if left else [])]


def _is_plain(name: str, value: object, model: object) -> bool:
    """Whether an argument says nothing: a size of one, or the model's name again."""
    if name.endswith("_size") or name == "nnodes":
        return value == 1
    return value == model and name not in ("model_path", "model")


def _log(snapshot: Snapshot, width: int) -> list[Row]:
    store = snapshot.log.store
    counts = " · ".join(
        (fmt.plural(store.end, "line"), fmt.plural(store.warnings, "warning"), fmt.plural(store.errors, "error"))
    )
    return [*_sentence(snapshot.log.path or "", "text", width), Row((("  ", "dim"), (counts, "dim")))]
