"""When a server is not stopped or launched at all, or only when the person insists; what is asked; and what others have on the node. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from eagletui.engines.shapes import holds_no_port, launch_of
from eagletui.gpus.model import GpuReport
from eagletui.history.launches import PastLaunch, kept_command, kind_of
from eagletui.launching.keepers import Keeper
from eagletui.launching.plan import Holder, Kept, Question, Refusal
from eagletui.launching.recipe import Recipe
from eagletui.launching.records import Kept as Lying
from eagletui.launching.words import age, plain
from eagletui.logs.advice import summary_of
from eagletui.servers.model import Inventory, Process, Server
from eagletui.servers.record import Kind, Record
from eagletui.shell.masking import mask_argv

SAME_CRASHES = 2
"""Times in a row that the same launch ended by the same cause: a third would as well."""
CERTAIN = {
    "bad-flag": "the engine does not know one of its flags",
    "unsupported-architecture": "this engine does not know the model's architecture",
    "driver-mismatch": "the driver and its libraries are of two versions, which only the node's owner mends (a reboot, as a rule)",
    "no-kernel-image": "this build has no code for these GPUs",
}
"""Causes that the same command meets each time: one crash is enough."""
SHOWN = 3
"""Names in a sentence; the rest is counted."""
_VERB: dict[Kind, str] = {"start": "start", "stop": "stop", "restart": "restart"}


@dataclass(frozen=True, slots=True)
class Past:
    """How an earlier launch of the very same command ended. `code`: of the diagnosis, None where it became ready or nobody knows."""

    code: str | None
    ready: bool


def read_only(node: str, *, is_read_only: bool) -> Refusal | None:
    """The configuration says that the node is only looked at."""
    if not is_read_only:
        return None
    text = f"{node} is only looked at (read_only = true in the configuration): nothing is stopped or started there"
    return Refusal("read-only", text)


def name_typed(node: str, kind: Kind, *, confirms: bool) -> Question | None:
    """A production node's name has to be typed."""
    if not confirms:
        return None
    return Question("confirm-name", f"{node} is a production node. Type its name to {_VERB[kind]} there", typed=node)


def kept_by_script(kept: Kept) -> Question | None:
    """Somebody waits for the server, and may start it anew."""
    if kept.kind != "script":
        return None
    who = plain(kept.name) or "a script"
    where = (
        "" if kept.pid is None else f" (pid {kept.pid}{'' if kept.since_s is None else ', for ' + age(kept.since_s)})"
    )
    return Question("kept-by-script", f"It is kept by {who}{where}, which may start it again. Stop it all the same?")


def several(servers: Sequence[Server]) -> Refusal:
    """Which one is meant is the person's to say."""
    listed = ", ".join(f"port {one.port} (pid {one.pid}, {one.engine})" for one in servers)
    return Refusal("several-servers", f"there are {len(servers)} servers: name one with --port or --profile: {listed}")


_COMPILERS = frozenset({"nvcc", "ptxas", "cicc", "cudafe++", "ninja", "cmake", "gcc", "g++", "cc", "c++", "cc1", "cc1plus"})  # fmt: skip


def ends_with_it(server: Server | None) -> tuple[str, ...]:
    """What ends with a server and does not look like a part of it: a shell that became the server (`train.sh & exec python -m …`) leaves its other jobs
    below it, and nothing but their looks tells them from what the server started. They are named before anything is stopped.
    """
    if server is None:
        return ()
    told = [
        f"{_cut(plain(' '.join(mask_argv(member.process.argv))))} (pid {member.process.pid})"
        for member in server.family
        if member.role == "other" and not member.process.gone and _is_strange(member.process, server)
    ]
    if not told:
        return ()
    more = f" and {len(told) - SHOWN} more" if len(told) > SHOWN else ""
    return (
        f"with the server ends what runs below it and is not the engine's by its looks: {', '.join(told[:SHOWN])}{more}",
    )


def _is_strange(process: Process, server: Server) -> bool:
    argv = process.argv
    if not argv or argv == server.launcher.argv or launch_of(argv) is not None or holds_no_port(argv):
        return False
    return argv[0].rpartition("/")[2] not in _COMPILERS and not any("multiprocessing" in word for word in argv)


def _cut(text: str) -> str:
    return text if len(text) <= 60 else text[:59] + "…"


def may_yet_start(lying: Sequence[Lying], ports: Collection[int]) -> Refusal | None:
    """A launch for one of these ports whose keeper lives and has not started its process (a node that is very busy): a second one would be two servers."""
    for one in lying:
        record = one.record
        if not one.begun or not one.keeper_alive or record.process is not None or record.exit_status is not None:
            continue
        if record.keeper is not None and (record.port is None or record.port in ports):
            text = f"an earlier launch may yet start its server: its keeper (pid {record.keeper[0]}) lives. Look again soon; if it hangs, end it"
            return Refusal("launch-pending", text)
    return None


def another_launcher(keeper: Keeper | None, recipe: Recipe | None) -> list[Refusal]:
    """What runs in a unit or a container that exists starts there again, and nowhere beside it."""
    if keeper is None or not keeper.stops or recipe is None:
        return []
    if (recipe.launcher, recipe.handle) == (keeper.declared.launcher, keeper.declared.handle):
        return []
    text = (
        f"{keeper.named} keeps the server, and what would run is launched by {plain(recipe.launcher)}: two that know nothing of each other."
        " Restart it without another profile or launcher; or stop it, and start the other then"
    )
    return [Refusal("container" if keeper.holds_others else "systemd-unit", text)]


# What cannot help


def pasts_of(
    command: Sequence[str], engine: str, launches: Sequence[PastLaunch], records: Sequence[Record]
) -> tuple[Past, ...]:
    """How launches of this command ended, newest first: by the history, and by the records on the node where that knows none. Another value of any
    flag makes another command: what was changed to mend it may mend it.
    """
    kept, fingerprint = kept_command(command), kind_of(engine, command, None, None).fingerprint
    told = tuple(
        Past(one.diagnosis, one.outcome == "ready")
        for one in launches
        if one.fingerprint == fingerprint and one.command == kept and one.outcome in {"ready", "crashed"}
    )
    if told:
        return told
    return tuple(
        Past(one.diagnosis, one.ready_s is not None)
        for one in sorted(records, key=lambda record: record.id, reverse=True)
        if one.command == kept and one.kind != "stop" and (one.ready_s is not None or one.diagnosis is not None)
    )


def cannot_help(pasts: Sequence[Past]) -> Refusal | None:
    """The same command failed by the same cause as often as is enough. `pasts` newest first."""
    if not pasts or pasts[0].ready or pasts[0].code is None:
        return None
    code = pasts[0].code
    if code in CERTAIN:
        return _of_no_help(f"this very command ended with {code}: {CERTAIN[code]}")
    row = 0
    for past in pasts:
        if past.ready or past.code != code:
            break
        row += 1
    if row < SAME_CRASHES:
        return None
    return _of_no_help(f"this very command crashed {row} times in a row with {code} ({summary_of(code)})")


def gpus_forbid(report: GpuReport, indexes: Collection[int] | None) -> Refusal | None:
    """The driver does not work, or a GPU that the launch would use is lost. `indexes` None: all."""
    error = report.error
    if error is not None and error.code == "driver-mismatch":
        return _of_no_help(f"nvidia-smi says {plain(error.text)!r}: {CERTAIN['driver-mismatch']}")
    lost = [gpu.index for gpu in report.gpus if gpu.state == "lost" and (indexes is None or gpu.index in indexes)]
    if not lost:
        return None
    names = f"GPU {lost[0]} is" if len(lost) == 1 else f"GPUs {', '.join(map(str, lost))} are"
    return _of_no_help(f"{names} lost (fallen off the bus): no launch gets it back, a reboot may")


def _of_no_help(why: str) -> Refusal:
    return Refusal("cannot-help", f"It would not help: {why}. --again does it all the same", again=True)


# What others have on the node


def others(inventory: Inventory, chosen: Server | None, holders: Sequence[Holder]) -> tuple[str, ...]:
    """Sentences on what somebody else, or another server of ours, has here."""
    return (*_other_servers(inventory, chosen), *_others_memory(holders))


def _other_servers(inventory: Inventory, chosen: Server | None) -> Iterator[str]:
    for one in inventory.servers:
        if chosen is not None and one.launcher.pid == chosen.launcher.pid:
            continue
        whose = "" if one.ours else f" of {plain(one.user or 'another user')}"
        port = "" if one.port is None else f" on port {one.port}"
        model = "" if one.model is None else f" ({plain(one.model)})"
        yield f"Another server{whose} runs here: {one.engine}{port}{model}, pid {one.pid}. It is left alone."


def _others_memory(holders: Sequence[Holder]) -> Iterator[str]:
    foreign = [one for one in holders if one.whose in {"others", "unknown"}]
    by_user: dict[str, list[Holder]] = {}
    for one in foreign:
        by_user.setdefault(one.user or "", []).append(one)
    for user, held in by_user.items():
        total = sum(one.mem_mib or 0 for one in held)
        gpus = sorted({one.gpu for one in held})
        named = ", ".join(str(index) for index in gpus)
        pids = ", ".join(str(one.pid) for one in held[:SHOWN]) + (" …" if len(held) > SHOWN else "")
        who = plain(user) if user else "Somebody who cannot be seen from here"
        yield f"{who} holds {total / 1024:.1f} GiB on GPU {named} (pid {pids}). Nothing of it is touched."
