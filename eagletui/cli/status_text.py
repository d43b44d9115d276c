"""The `status` object as text for a person. Everything from the node is made printable first."""

from __future__ import annotations

from collections.abc import Iterator

from eagletui.monitor.report import GpuModel, ServerModel, StatusModel
from eagletui.ui.format import UNKNOWN, duration, gib, latency, number, seconds


def plain(text: str) -> str:
    """One line without control characters: escape sequences of a node must not reach the terminal."""
    return "".join(c if c.isprintable() else "\ufffd" for c in text)


def _server(server: ServerModel) -> Iterator[str]:
    where = f"port {server.port}" if server.port is not None else "no port"
    yield (
        f"{server.state.upper():<9} {server.engine}  {plain(server.model or UNKNOWN)}  {where}  pid {server.pid}"
        f"  user {plain(server.user or UNKNOWN)}  up {duration(server.uptime_s)}"
    )
    yield f"          {plain(server.reason.text)}"
    if server.health is not None:
        told = str(server.health.status) if server.health.status is not None else plain(server.health.error or UNKNOWN)
        took = f" in {latency(server.health.latency_ms)}" if server.health.latency_ms is not None else ""
        yield f"          {server.health.path} {told}{took}"
    tokens = server.throughput
    if tokens is not None:
        old = f"  ({seconds(tokens.age_s)} ago)" if tokens.stale else ""
        yield (
            f"          {number(tokens.gen_tok_s, 1)} tok/s  accept {number(tokens.accept_len, 2)}"
            f"  running {number(tokens.running)}  queued {number(tokens.queued)}{old}"
        )
    if server.launch is not None:
        names = [plain(one) for one in (server.launch.profile, server.launch.variant) if one is not None]
        profile = f"  profile {' / '.join(names)}" if names else ""
        yield f"          launched by {server.launch.by}{profile}  ({plain(server.launch.id)})"
    grown = f", grew {seconds(server.log_age_s)} ago" if server.log_age_s is not None else ""
    yield f"          log {plain(server.log or UNKNOWN)}{grown}"


def _gpu(gpu: GpuModel) -> str:
    if gpu.state != "ok":
        return f"{gpu.index:>4}  {gpu.state}"
    used = f"{gib(gpu.mem_used_mib)} / {gib(gpu.mem_total_mib)}"
    trouble = [*gpu.throttle, *([f"{gpu.ecc_uncorrected} ECC errors"] if gpu.ecc_uncorrected else [])]
    return (
        f"{gpu.index:>4}  {number(gpu.util_pct):>4}  {used:>15}  {number(gpu.temp_c):>3}  {number(gpu.power_w):>4}"
        f"  {plain(gpu.name or UNKNOWN)}{'  ▲ ' + ', '.join(trouble) if trouble else ''}"
    )


def status_text(model: StatusModel, port: int | None) -> str:
    """A few lines; unknown is `–`."""
    link = "link down" if model.link.state == "down" else f"link {latency(model.link.latency_ms)}"
    lines = [f"{plain(model.node)}  {link}"]
    if model.link.state == "down":
        return lines[0]
    for server in model.servers:
        lines += _server(server)
    if not model.servers:
        lines.append(f"ABSENT    no server on port {port}" if port else "ABSENT    no server found")
    lines += [
        f"ORPHAN    pid {o.pid}  {plain(o.name)}  user {plain(o.user or UNKNOWN)}  {gib(o.gpu_mem_mib)} GiB"
        for o in model.orphans
    ]
    if model.gpus:
        lines += [
            "",
            f"{'GPU':>4}  {'util':>4}  {'memory GiB':>15}  {'°C':>3}  {'W':>4}",
            *(_gpu(gpu) for gpu in model.gpus),
        ]
    if model.gpu_error is not None:
        lines.append(f"GPUs      {plain(model.gpu_error.text)} ({model.gpu_error.code})")
    return "\n".join(lines)
