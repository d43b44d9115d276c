"""`explain` for a person: a compact report with the timeline and, where something failed, the card. Plain lines: it is read in
pipes and issues, too."""

from __future__ import annotations

from collections.abc import Iterator
from textwrap import wrap

from eagletui.cli.explain_model import LaunchModel, MetricsModel, ServerModel, build
from eagletui.logs.explain import Explanation
from eagletui.logs.state import SHOWN_NAMES
from eagletui.monitor.diagnosis_model import DiagnosisModel, plain
from eagletui.monitor.phase_model import PhaseModel
from eagletui.ui.format import UNKNOWN, duration

WIDTH = 100
BAR = 32
EARLIER = 20
"""Earlier launches of one server that are listed, a line each."""


def explain_text(told: Explanation, name: str) -> str:
    """The report."""
    model = build(told)
    size = f"{model.bytes / 1_000_000:.1f} MB" if model.bytes >= 1_000_000 else f"{model.bytes:,} bytes"
    lines = [f"{plain(name)}: {model.lines:,} lines, {size}"]
    if not model.servers:
        lines += [
            "",
            *_paragraph(
                "Nothing in it is known: no line of SGLang's or vLLM's was recognised. --engine names whose log it is.",
                "",
            ),
        ]
    for server in model.servers:
        lines += _server(server, several=len(model.servers) > 1)
    return "\n".join(lines)


def _server(server: ServerModel, *, several: bool) -> Iterator[str]:
    if several:
        yield ""
        yield f"— {server.id or '(no prefix)'} —"
    *earlier, current = server.launches
    if len(earlier) > EARLIER:
        yield f"{len(earlier) - EARLIER} launches before these"
    for number, launch in enumerate(earlier, 1):
        if number > len(earlier) - EARLIER:
            yield _one_line(number, launch)
    yield ""
    yield from _launch(server, current, len(server.launches))


def _one_line(number: int, launch: LaunchModel) -> str:
    why = f"  {launch.diagnosis.code}: {launch.diagnosis.summary}" if launch.diagnosis is not None else ""
    ready = f"  ready in {duration(launch.ready_s)}" if launch.ready_s is not None else ""
    return f"launch {number}  {launch.started or UNKNOWN}  {launch.state.upper()}{ready}{why}"[:WIDTH]


def _launch(server: ServerModel, launch: LaunchModel, count: int) -> Iterator[str]:
    head = [launch.state.upper()]
    if launch.phase is not None and launch.phase != "serving":
        head.append(f"in {SHOWN_NAMES[launch.phase]}")
    if launch.ready_s is not None:
        head.append(f"ready in {duration(launch.ready_s)}")
    head.append(server.engine or "engine unknown")
    if count > 1:
        head.append(f"launch {count} of {count}")
    if launch.started is not None:
        head.append(f"begun {launch.started.replace('T', ' ')}")
    yield " · ".join(head)
    yield from _arguments(launch)
    if launch.diagnosis is not None:
        yield ""
        yield from _card(launch.diagnosis)
    timeline = list(_timeline(launch))
    if timeline:
        yield ""
        yield from timeline
    figures = list(_figures(launch.metrics))
    if figures:
        yield ""
        yield from figures
    if launch.warnings:
        yield ""
        for warning in launch.warnings:
            times = f" ({warning.count} times)" if warning.count > 1 else ""
            yield f"warning  {warning.code}{times}, line {warning.line}: {warning.text}"[: WIDTH + 40]


def _arguments(launch: LaunchModel) -> Iterator[str]:
    args = launch.args
    words = [
        f"{label} {value}"
        for label, keys in (
            ("model", ("model_path", "model")),
            ("TP", ("tp_size",)),
            ("DP", ("dp_size", "data_parallel_size")),
            ("port", ("port",)),
        )
        for value in (next((args[key] for key in keys if args.get(key) is not None), None),)
        if value is not None and not (label == "DP" and value == 1)
    ]
    if words:
        yield "  ".join(words)


def _card(found: DiagnosisModel) -> Iterator[str]:
    where = [SHOWN_NAMES[found.phase]] if found.phase else []
    where += [found.rank] if found.rank else []
    yield f"{found.code}" + (f" · {', '.join(where)}" if where else "")
    yield from _paragraph(found.summary, "  ")
    for one in found.evidence:
        number = f"{one.line:>7}" if one.line else f"{'–':>7}"
        first, *rest = wrap(one.text, WIDTH - 10, max_lines=3, placeholder=" …") or [""]
        yield f"{number} │ {first}"
        yield from (f"{'':>7} │ {line}" for line in rest)
    if found.advice:
        yield from _paragraph(found.advice, "  → ")


def _paragraph(text: str, lead: str) -> list[str]:
    return wrap(text, WIDTH, initial_indent=lead, subsequent_indent=" " * len(lead))


def _timeline(launch: LaunchModel) -> Iterator[str]:
    whole = [phase for phase in launch.phases if phase.rank is None]
    longest = max((phase.seconds or 0.0 for phase in whole), default=0.0)
    for phase in whole:
        bar = "━" * max(1, round(BAR * phase.seconds / longest)) if phase.seconds and longest else ""
        if phase.seconds is None and phase.name == launch.phase:
            bar = _counted(launch)
        yield f"  {SHOWN_NAMES[phase.name]:<14} {duration(phase.seconds):>8}  {bar}".rstrip()
        ranks = [one for one in launch.phases if one.name == phase.name and one.rank is not None]
        if ranks:
            yield f"  {'':<14} {'':>8}  {_spread(ranks)}"


_UNITS = {"shards": ("weights", "draft-weights"), "graphs": ("graphs",), "kernels": ("compile", "graphs")}


def _counted(launch: LaunchModel) -> str:
    """The bar of the phase it is in; the last one seen may be of an earlier phase."""
    bar = launch.progress
    return f"{bar.done}/{bar.total} {bar.unit}" if bar is not None and launch.phase in _UNITS.get(bar.unit, ()) else ""


def _spread(ranks: list[PhaseModel]) -> str:
    slow, fast = (pick(ranks, key=lambda one: one.seconds or 0.0) for pick in (max, min))
    return f"slowest {slow.rank} {duration(slow.seconds)}, fastest {fast.rank} {duration(fast.seconds)}"


def _figures(metrics: MetricsModel) -> Iterator[str]:
    rate = metrics.gen_tok_s
    if rate is None:
        return
    yield f"  generation     last {rate.last:g}, mean {rate.mean:g}, max {rate.max:g} tok/s  ({metrics.decode_samples} lines)"
    if metrics.accept_len is not None:
        accept = metrics.accept_len
        yield f"  accept length  last {accept.last:g}, mean {accept.mean:g}, max {accept.max:g}"
    if metrics.running is not None and metrics.queued is not None:
        yield f"  requests       running {metrics.running.last} (max {metrics.running.max}), queued {metrics.queued.last} (max {metrics.queued.max})"
