"""`bench`: a load on a server, what it measured, and whether that is faster than the baseline."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
import time
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from eagletui.cli.options import NumberRange
from eagletui.errors import BenchError, EagletuiError, NodeError, UsageError

if TYPE_CHECKING:
    from eagletui.bench.load import Load
    from eagletui.bench.outcome import BenchProgress, Result
    from eagletui.bench.session import BenchSession, SessionRun
    from eagletui.cli.wait_output import LiveOutput, Output
    from eagletui.nodes.base import Node

FAILED = 19
CLOSING_S = 5.0
EVENTS_EVERY_S = 1.0
PLAIN_EVERY_S = 15.0
"""Without a terminal its progress is told this often."""
TICK_S = 0.25

_EPILOG = """Presets: quick (about 20 s), standard, and those of the configuration. Options change what a preset says.

Exit status: 0 measured, 14 no server, 16 several servers or refused, 19 requests failed (the result is printed all the same), 20 no link or nobody at
the address, 2 usage; 130 after ctrl+c, with what was measured until then."""


@dataclass(frozen=True, slots=True)
class Asked:
    """What the command line asked for."""

    node: str | None
    url: str | None
    port: int | None
    ssh_config: Path | None
    speed: float | None
    scenario: str | None
    key: str | None
    save: bool
    as_json: bool


@click.command(
    help="Benchmark the server on NODE (demo, local, or anything ssh accepts), or one by its address with --url.",
    epilog=_EPILOG,
)
@click.argument("node", required=False)
@click.option("--url", metavar="URL", help="A server by address (http://HOST:PORT), without a node.")
@click.option("--preset", metavar="NAME", default="quick", show_default=True, help="Where to begin from.")
@click.option("--requests", type=click.IntRange(1, 1_000_000), metavar="N", help="Requests of each repeat.")
@click.option("--input-len", type=click.IntRange(1, 10_000_000), metavar="N", help="Tokens of a prompt.")
@click.option("--output-len", type=click.IntRange(1, 1_000_000), metavar="N", help="Tokens of an answer.")
@click.option("--spread", type=NumberRange(0, 1), metavar="X", help="Draw lengths from (1 - X) of that up to it.")
@click.option("--concurrency", type=click.IntRange(1, 10_000), metavar="N", help="Requests at a time.")
@click.option(
    "--rate",
    type=NumberRange(0, 100_000, min_open=True),
    metavar="R",
    help="Begin R requests a second (Poisson) instead.",
)
@click.option("--repeats", type=click.IntRange(1, 1000), metavar="N", help="How often: two or more give an interval.")
@click.option("--warmup", type=click.IntRange(0, 100_000), metavar="N", help="Requests before that are not counted.")
@click.option("--seed", type=click.IntRange(0), metavar="N", help="Of prompts, lengths and arrivals.")
@click.option("--temperature", type=NumberRange(0, 10), metavar="T", help="Of the sampling.")
@click.option("--eos/--ignore-eos", "eos", default=None, help="Let answers end where the model ends them.")
@click.option(
    "--prompts",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help='A JSONL file: {"prompt": …} or {"messages": …} a line.',
)
@click.option(
    "--api",
    type=click.Choice(["completions", "chat", "generate"]),
    help="Which API; else the first that the server has.",
)
@click.option(
    "--runner", metavar="R", help="builtin: eagletui itself; bench_serving: SGLang's own, on NODE beside the server."
)
@click.option(
    "--api-key-env", metavar="NAME", help="Send the key in this variable (of a node's server its own is known)."
)
@click.option("--no-save", is_flag=True, help="Do not keep the run.")
@click.option("--port", type=click.IntRange(1, 65535), help="The server that listens on this port of NODE.")
@click.option(
    "-F",
    "ssh_config",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Another ssh configuration.",
)
@click.option("--speed", type=NumberRange(0, min_open=True), metavar="X", help="Of the demo node's time.")
@click.option("--scenario", metavar="NAME", help="A bad day of the demo node.")
@click.option("--json", "as_json", is_flag=True, help="Print events, one JSON object a line; the last is `result`.")
def bench(
    node: str | None, url: str | None, preset: str, eos: bool | None, prompts: Path | None, api_key_env: str | None, no_save: bool, port: int | None,
    ssh_config: Path | None, speed: float | None, scenario: str | None, as_json: bool, **changes: Any,
) -> int:  # fmt: skip
    """From the options to the exit status."""
    from eagletui.cli.options import check_target
    from eagletui.cli.wait_output import NobodyReads, output_for

    if (node is None) == (url is None):
        raise UsageError("name a node, or a server by --url; not both, not neither")
    if url is not None and (port is not None or ssh_config is not None):
        raise UsageError("--port and -F are of a node; an address has its port in it")
    if node is not None:
        check_target(node, speed, scenario, ssh_config)
    load = _load(preset, changes, eos, prompts)
    asked = Asked(node, url, port, ssh_config, speed, scenario, _key(api_key_env), not no_save, as_json)
    out = output_for(as_json=as_json)
    try:
        return asyncio.run(_run(asked, load, out))
    except NobodyReads as gone:
        return gone.exit_status


def _load(preset: str, changes: dict[str, Any], eos: bool | None, prompts: Path | None) -> Load:
    """The preset with what the options say instead. Raises UsageError."""
    from eagletui.bench.presets import preset_named
    from eagletui.bench.session import runner_named
    from eagletui.cli.configured import own_presets

    load = replace(
        preset_named(preset, own_presets()), **{name: value for name, value in changes.items() if value is not None}
    )
    runner_named(load.runner)
    if eos is not None:
        load = replace(load, ignore_eos=not eos)
    if load.rate is not None and changes.get("concurrency") is None:
        load = replace(load, concurrency=None)
    if prompts is not None:
        from eagletui.bench.prompts import read_prompts

        _, digest = read_prompts(prompts, load.output_len)
        load = replace(load, prompts=str(prompts), prompts_hash=digest)
    return load


def _key(variable: str | None) -> str | None:
    """Raises UsageError for a variable that is not set."""
    if variable is None:
        return None
    key = os.environ.get(variable)
    if not key:
        raise UsageError(f"--api-key-env: the variable {variable} is not set")
    return key


async def _run(asked: Asked, load: Load, out: Output) -> int:
    from eagletui.bench.kept import KeptRuns
    from eagletui.cli.keeping import history_of

    history = history_of(asked.node or "", asked.speed)
    kept = KeptRuns(history)
    async with _opened(asked, out) as session_of:
        return await _measured(session_of(kept, asked.save), load, out, asked)


@contextlib.asynccontextmanager
async def _opened(asked: Asked, out: Output) -> Any:
    """A function that makes the session, over a link that is open until it ends. Raises NodeError."""
    from eagletui.bench.session import BenchSession
    from eagletui.bench.sources import NodeSource, UrlSource

    if asked.url is not None:
        source = UrlSource(asked.url, asked.key)
        yield lambda kept, keeps: BenchSession(source, kept, keeps=keeps)
        return
    node, name = _node(asked), asked.node or ""
    later = asyncio.get_running_loop().call_later(1.0, out.connecting, name)
    try:
        await node.connect()
        later.cancel()
        on_node = NodeSource(node, name, asked.port, api_key=asked.key, record_of=await _records(node))
        yield lambda kept, keeps: BenchSession(on_node, kept, keeps=keeps)
    finally:
        later.cancel()
        with suppress(TimeoutError):
            async with asyncio.timeout(CLOSING_S):
                await node.aclose()


async def _records(node: Node) -> Any:
    """Which launch of ours a server is, by the records on the node."""
    from eagletui.monitor.launches import Launches

    launches = Launches(node, CLOSING_S)
    await launches.read()
    return launches.record_of


def _node(asked: Asked) -> Node:
    from eagletui.cli.options import open_chosen

    prompter = None
    if sys.stdin.isatty():
        from eagletui.cli.prompter import TerminalPrompter

        prompter = TerminalPrompter()
    return open_chosen(asked.node or "", asked.ssh_config, asked.speed, prompter, scenario=asked.scenario)


async def _measured(session: BenchSession, load: Load, out: Output, asked: Asked) -> int:
    """Run it, tell how it goes and what it comes to. ctrl+c ends it; what was measured is told."""
    from eagletui.cli.wait import told_to_end
    from eagletui.cli.wait_output import NobodyReads

    news = asyncio.Event()
    session.on_change = news.set
    run = session.begin(load)
    telling = _Telling(out)
    status = 0
    waiting = asyncio.create_task(run.wait())
    try:
        with told_to_end(news.set, out.descriptor) as ends:
            while not waiting.done():
                if ends and not status:
                    status = ends[0]
                    run.abort()
                with suppress(TimeoutError):
                    async with asyncio.timeout(TICK_S):
                        await news.wait()
                news.clear()
                telling.show(run.progress)
    except NobodyReads:  # what was measured is kept, and no task is left with an error that nobody asked for
        run.abort()
        await asyncio.gather(waiting, return_exceptions=True)
        raise
    try:
        result = await waiting
    except (BenchError, NodeError, EagletuiError) as error:
        telling.clear()
        if asked.as_json:
            _write_error(out, run, error, status or error.exit_status)
        if status:
            if not asked.as_json:
                click.echo(f"eagletui: {error}", err=True)
            return status
        raise
    telling.end(result, kept=run.kept)
    return status or (FAILED if result.failed else 0)


def _write_error(out: Output, run: SessionRun, error: EagletuiError, status: int) -> None:
    """The last event of a run that has no result."""
    import json

    from eagletui.cli.wait_output import STDOUT, write_all
    from eagletui.monitor.event_model import now_iso

    told = {
        "schema": "eagletui.event/1", "event": "error", "time": now_iso(), "run": run.run, "exit": status, "text": str(error),
    }  # fmt: skip
    write_all(STDOUT, (json.dumps(told, ensure_ascii=False) + "\n").encode())
    del out


class _Telling:
    """Events, or lines, or one line that is redrawn."""

    def __init__(self, out: Output) -> None:
        self._out = out
        self._at = time.monotonic() if self._every() > EVENTS_EVERY_S else float("-inf")
        self._stage = ""

    def _every(self) -> float:
        from eagletui.cli.wait_output import JsonOutput, LiveOutput

        return (
            EVENTS_EVERY_S
            if isinstance(self._out, JsonOutput)
            else 0.0
            if isinstance(self._out, LiveOutput)
            else PLAIN_EVERY_S
        )

    def show(self, progress: BenchProgress) -> None:
        """How it stands, as often as that is wanted."""
        from eagletui.cli.bench_text import live_line
        from eagletui.cli.wait_output import JsonOutput, LiveOutput, PlainOutput
        from eagletui.cli.wait_text import cut

        now = time.monotonic()
        if now - self._at < self._every() and (progress.stage == self._stage or not isinstance(self._out, JsonOutput)):
            return
        self._at, self._stage = now, progress.stage
        if isinstance(self._out, JsonOutput):
            from eagletui.cli.sweep_output import bench_event

            self._out.write(bench_event(progress).model_dump_json(by_alias=True))
        elif isinstance(self._out, LiveOutput):
            self._out.draw([], cut(live_line(progress), self._out.room()))
        elif isinstance(self._out, PlainOutput):
            self._out.say(live_line(progress).strip())

    def clear(self) -> None:
        """Nothing is redrawn any more."""
        from eagletui.cli.wait_output import LiveOutput

        if isinstance(self._out, LiveOutput):
            self._out.draw([], "")

    def end(self, result: Result, *, kept: bool) -> None:
        """What it came to."""
        from eagletui.bench.report import text_of
        from eagletui.cli.bench_text import result_lines
        from eagletui.cli.wait_output import STDERR, JsonOutput, LiveOutput, write_all

        if isinstance(self._out, JsonOutput):
            self._out.write(text_of(result))
            return
        live: LiveOutput | None = self._out if isinstance(self._out, LiveOutput) else None
        lines = list(result_lines(result, colour=live is not None and live.colour, kept=kept))
        if live is not None:
            live.draw(lines, "")
        else:
            write_all(STDERR, "".join(f"{line}\n" for line in lines).encode("utf-8", "replace"))
