"""The GPUs that the new launch needs: its own, not only those of the old server. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from eagletui.gpus.model import Gpu, GpuReport
from eagletui.launching.checks.asked import Asked
from eagletui.launching.plan import Check, Holder
from eagletui.launching.words import plain

IDLE_MIB = 512
"""Memory that a GPU may have in use without anybody's work: the driver's own, a context that is going away."""
UNSEEN_SHARE = 0.02
"""Of a GPU's memory: what is in use beyond the processes that are told is somebody's whom we cannot see."""
FRACTION = {"sglang": 0.85, "vllm": 0.9}
"""Of a GPU's memory that an engine claims when its flags do not say (SGLang chooses 0.8 to 0.9, vLLM 0.9 or 0.92)."""
BALANCE = 0.9
"""SGLang refuses to start when one of its GPUs has less than this share of the free memory of another."""
VISIBLE = "CUDA_VISIBLE_DEVICES"
_ORDER = "CUDA_DEVICE_ORDER"
_OTHERS = ("HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "ASCEND_RT_VISIBLE_DEVICES")
_BROKEN = {
    "driver-mismatch": (
        "The NVIDIA driver in the kernel and its library are of two versions: nothing can use the GPUs until that is mended.",
        "Reboot the node, or reload the driver (its owner does that). Running servers go on until then, new ones do not start.",
    ),
    "no-driver": (
        "nvidia-smi cannot reach the NVIDIA driver.",
        "Is it loaded? On the node: cat /proc/driver/nvidia/version",
    ),
    "no-permission": ("This login may not use the NVIDIA driver.", "May it read /dev/nvidia*? Ask the node's owner."),
    "nvml-error": ("nvidia-smi cannot start its library.", "On the node: nvidia-smi; dmesg | grep -i nvrm"),
    "no-devices": ("nvidia-smi finds no GPU.", "On the node: nvidia-smi -L; lspci | grep -i nvidia"),
}


@dataclass(frozen=True, slots=True)
class Chosen:
    """The GPUs of a launch. `visible`: how many it could see (None: cannot be told), `fault`: why some cannot be chosen."""

    gpus: tuple[Gpu, ...] = ()
    visible: int | None = None
    fault: str | None = None


def visible_gpus(gpus: Sequence[Gpu], variable: str | None) -> Chosen:
    """As CUDA reads CUDA_VISIBLE_DEVICES: indexes or begins of uuids, and the first that is none ends the list. None: all of them."""
    if variable is None:
        return Chosen(tuple(gpus), len(gpus))
    found: list[Gpu] = []
    for word in (part.strip() for part in variable.split(",")):
        if word.startswith("MIG-"):
            return Chosen((), None)
        if word.isascii() and word.isdigit():
            match = [gpu for gpu in gpus if gpu.index == int(word[:6])]
        else:
            match = [gpu for gpu in gpus if word.startswith("GPU-") and (gpu.uuid or "").startswith(word)]
        if len(match) != 1 or match[0] in found:
            fault = f"it has {plain(word)}, which is no GPU of this node" if word else None
            return Chosen(
                tuple(found), len(found), fault if not match else f"it names {plain(word)} twice or not clearly"
            )
        found.append(match[0])
    return Chosen(tuple(found), len(found))


def chosen_gpus(asked: Asked, gpus: Sequence[Gpu], env: Mapping[str, str]) -> Chosen:
    """Those of the visible ones that the launch takes."""
    seen = visible_gpus(gpus, env.get(VISIBLE))
    need = asked.gpus or 0
    places = [asked.first_gpu + n * asked.gpu_step for n in range(need)]
    return Chosen(tuple(seen.gpus[place] for place in places if place < len(seen.gpus)), seen.visible, seen.fault)


def check_driver(report: GpuReport, need: int | None) -> Check:
    """`gpu.driver`: the GPUs can be asked at all."""
    name, error = "gpu.driver", report.error
    if error is not None and error.code in _BROKEN:
        text, todo = _BROKEN[error.code]
        return Check(name, "fail" if need != 0 else "warn", text, todo)
    if error is not None and error.code == "no-tool":
        return Check(name, "unknown", "The node has no nvidia-smi: its GPUs are not looked at.")
    if error is not None and error.code == "timeout" and not report.gpus:
        text = "nvidia-smi does not answer: the driver may hang, and a new server with it."
        return Check(name, "warn", text, "On the node: dmesg | grep -i -e nvrm -e xid")
    if not report.gpus:
        return Check(name, "unknown", "nvidia-smi told of no GPUs.")
    return Check(name, "ok", "The NVIDIA driver answers.")


def _trouble(report: GpuReport, chosen: Chosen, env: Mapping[str, str]) -> Check | None:
    """What is wrong with GPUs that are there."""
    name = "gpu.count"
    sick = [str(gpu.index) for gpu in chosen.gpus if gpu.state != "ok"]
    lost = [str(gpu.index) for gpu in report.gpus if gpu.state != "ok"]
    if sick:
        text = f"GPU {', '.join(sick)} of the launch is lost or in error: a start on it fails."
        todo = f"Choose others ({VISIBLE}), or have the node's owner reset or reboot it."
        return Check(name, "fail", text, todo)
    if lost:
        text = f"GPU {', '.join(lost)} is lost or in error. The launch does not use it, but CUDA may refuse to start on such a node."
        return Check(name, "warn", text, f"Leave it out of {VISIBLE}; have the node's owner look at it.")
    mixed = len({gpu.name for gpu in report.gpus}) > 1 and env.get(_ORDER) != "PCI_BUS_ID"
    if mixed and VISIBLE in env and not env[VISIBLE].startswith("GPU-"):
        text = "This node has GPUs of several kinds: CUDA may count them in another order than nvidia-smi, by which they were looked at."
        return Check(name, "warn", text, f"Set {_ORDER}=PCI_BUS_ID in the profile's environment.")
    return None


def check_count(asked: Asked, report: GpuReport, env: Mapping[str, str]) -> Check:
    """`gpu.count`: as many as the launch's ranks need, and not lost."""
    name, need = "gpu.count", asked.gpus
    if need == 0:
        return Check(name, "ok", "The launch needs no GPU.")
    if need is None or any(env.get(other) for other in _OTHERS):
        return Check(name, "unknown", "How many GPUs the launch needs cannot be told from its arguments.")
    chosen = chosen_gpus(asked, report.gpus, env)
    if chosen.visible is None:
        return Check(name, "unknown", f"The launch runs on MIG instances ({VISIBLE}), which are not counted.")
    if len(chosen.gpus) < need:
        where = f"{VISIBLE}={plain(env[VISIBLE])}" if VISIBLE in env else "this node"
        why = f": {chosen.fault}" if chosen.fault else ""
        text = f"The launch needs {need} GPUs, and {where} gives {chosen.visible}{why}."
        return Check(name, "fail", text, f"Lower tp/pp/dp, or correct {VISIBLE} in the profile.")
    used = ", ".join(str(gpu.index) for gpu in chosen.gpus)
    return _trouble(report, chosen, env) or Check(name, "ok", f"{need} of {len(report.gpus)} GPUs: {used}.")


@dataclass(frozen=True, slots=True)
class Foreign:
    """Memory of one GPU that will still be in use when the old server is gone: MiB, and whose it is as a clause."""

    gpu: Gpu
    mib: int
    whose: tuple[str, ...]


def foreign_memory(gpu: Gpu, family: Collection[int], users: Mapping[int, str]) -> Foreign:
    """What is not the family's. `users`: names by pid, where they are known."""
    others = [process for process in gpu.processes if process.pid not in family]
    told = sum(process.mem_mib or 0 for process in gpu.processes)
    unseen = max(0, (gpu.mem_used_mib or 0) - told)
    if unseen <= max(IDLE_MIB, UNSEEN_SHARE * (gpu.mem_total_mib or 0)):
        unseen = 0
    whose = [
        f"{plain((process.name or 'a process').rsplit('/', 1)[-1])[:40]} (pid {process.pid}"
        f"{', ' + plain(users[process.pid]) if process.pid in users else ''})"
        for process in others
    ]
    whose += ["somebody whom this login cannot see"] if unseen else []
    return Foreign(gpu, sum(process.mem_mib or 0 for process in others) + unseen, tuple(whose))


def _gib(mib: int) -> str:
    return f"{mib / 1024:.1f} GiB"


def _too_little(asked: Asked, rows: Sequence[Foreign]) -> list[Foreign]:
    """GPUs on which the engine refuses to start with what is left."""
    fraction = asked.fraction or FRACTION.get(asked.engine or "", 0.9)
    short = []
    for row in rows:
        total = row.gpu.mem_total_mib or 0
        # SGLang keeps (1 - fraction) of the whole free beside what it claims; vLLM wants its fraction of the whole at once.
        refused = row.mib >= fraction * total if asked.engine == "sglang" else total - row.mib < fraction * total
        if total and row.mib > IDLE_MIB and refused:
            short.append(row)
    if not short and asked.engine == "sglang" and asked.tp > 1:
        free = {row.gpu.index: (row.gpu.mem_total_mib or 0) - row.mib for row in rows}
        most = max(free.values(), default=0)
        short = [row for row in rows if row.mib > IDLE_MIB and free[row.gpu.index] < BALANCE * most]
    return short


def check_memory(
    asked: Asked, report: GpuReport, env: Mapping[str, str], family: Collection[int], holders: Sequence[Holder] = ()
) -> Check:
    """`gpu.memory`: nobody else holds memory of the GPUs that the launch needs. The family's own comes back with its stop."""
    name = "gpu.memory"
    if asked.gpus == 0:
        return Check(name, "ok", "The launch needs no GPU memory.")
    gpus = tuple(gpu for gpu in chosen_gpus(asked, report.gpus, env).gpus if gpu.mem_used_mib is not None)
    if not gpus or any(gpu.mig_enabled for gpu in gpus):
        return Check(name, "unknown", "How much GPU memory will be free for the launch cannot be told.")
    blind = bool(family) and not any(gpu.processes for gpu in report.gpus)
    if blind and any((gpu.mem_used_mib or 0) > IDLE_MIB for gpu in gpus):
        text = "nvidia-smi shows no processes here (a container?): whether others hold memory of these GPUs is known only after the stop."
        return Check(name, "unknown", text)
    users = {holder.pid: holder.user for holder in holders if holder.user is not None}
    rows = [foreign_memory(gpu, family, users) for gpu in gpus]
    taken = [row for row in rows if row.mib > IDLE_MIB]
    if not taken:
        return Check(name, "ok", "Nobody else holds memory of the launch's GPUs.")
    short = _too_little(asked, rows)
    shown = short or taken
    who = "; ".join(f"GPU {row.gpu.index}: {_gib(row.mib)}, {', '.join(row.whose[:3])}" for row in shown[:8])
    if short:
        text = f"Too little GPU memory will be free, as others hold some: {who}."
        return Check(name, "fail", text, f"Ask them, choose other GPUs ({VISIBLE}), or claim less memory.")
    return Check(
        name, "warn", f"Others hold memory of the launch's GPUs: {who}.", f"Ask them, or choose other GPUs ({VISIBLE})."
    )


def checks_of_gpus(
    asked: Asked, report: GpuReport, env: Mapping[str, str], family: Collection[int], holders: Sequence[Holder] = ()
) -> tuple[Check, ...]:
    """Driver, number, memory; the latter two only where the GPUs could be asked."""
    driver = check_driver(report, asked.gpus)
    if not report.gpus and asked.gpus != 0:
        return (driver,)
    return driver, check_count(asked, report, env), check_memory(asked, report, env, family, holders)
