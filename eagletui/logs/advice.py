"""What a diagnosis is called in a sentence, and what to do about it: ours, from the flags in force and the launches before,
never the program's own hints."""

# ruff: noqa: E501, S108 - sentences stand as they are shown; a path in one opens nothing

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from eagletui.logs.state import SHOWN_NAMES, PhaseName, Severity

_FRACTIONS = ("mem_fraction_static", "gpu_memory_utilization")
_LENGTHS = ("context_length", "max_model_len")
_BATCHES = ("cuda_graph_max_bs", "max_num_seqs", "max_running_requests")
_FLAG_OF = {"mem_fraction_static": "--mem-fraction-static", "gpu_memory_utilization": "--gpu-memory-utilization",
            "context_length": "--context-length", "max_model_len": "--max-model-len", "cuda_graph_max_bs": "--cuda-graph-max-bs",
            "max_num_seqs": "--max-num-seqs", "max_running_requests": "--max-running-requests"}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Before:
    """An earlier launch: how it ended and with which arguments."""

    code: str | None
    args: Mapping[str, object]
    ready: bool


@dataclass(frozen=True, slots=True)
class Facts:
    """What advice may take into account. `args`: what the server printed of its arguments; `groups`: what the line named."""

    engine: str
    args: Mapping[str, object]
    phase: PhaseName | None = None
    before: tuple[Before, ...] = ()
    groups: tuple[str, ...] = ()
    evidence: str = ""


def severity_of(code: str) -> Severity:
    """Whether it ended the server, or may still pass."""
    return "warning" if code in ("stalled", "waiting-for-input") else "critical"


def summary_of(code: str) -> str:
    """The code in a sentence, where nothing better was said."""
    return _CODES[code][0] if code in _CODES else "The server failed"


def advice_for(code: str, facts: Facts) -> str:
    """What to do, one or two sentences; "" for a code of the user's own."""
    made = _CODES[code][1] if code in _CODES else ""
    return made if isinstance(made, str) else made(facts)


def _number(args: Mapping[str, object], *names: str) -> tuple[str, float] | None:
    for name in names:
        value = args.get(name)
        if isinstance(value, int | float) and not isinstance(value, bool):
            return name, float(value)
    return None


def _flag(name: str) -> str:
    return _FLAG_OF.get(name, "--" + name.replace("_", "-"))


def _fraction_flag(facts: Facts) -> str:
    return "--gpu-memory-utilization" if facts.engine == "vllm" else "--mem-fraction-static"


def _failed_other_way(facts: Facts, code: str) -> float | None:
    """The memory fraction at which an earlier launch of the same kind failed by this code."""
    for earlier in reversed(facts.before):
        found = _number(earlier.args, *_FRACTIONS)
        if earlier.code == code and found is not None:
            return found[1]
    return None


def _smaller(facts: Facts) -> str:
    """Ways to need less memory that do not move it to and fro between weights and cache."""
    ways = []
    length = _number(facts.args, *_LENGTHS)
    if length is not None:
        ways.append(f"a shorter {_flag(length[0])} (now {length[1]:.0f})")
    else:
        ways.append("a shorter " + ("--max-model-len" if facts.engine == "vllm" else "--context-length"))
    batch = _number(facts.args, *_BATCHES)
    name = batch[0] if batch else ("max_num_seqs" if facts.engine == "vllm" else "cuda_graph_max_bs")
    ways.append(f"a smaller {_flag(name)}" + (f" (now {batch[1]:.0f})" if batch else ""))
    parallel = _number(facts.args, "tp_size", "tensor_parallel_size")
    ways.append("more GPUs" + (f" (TP is {parallel[1]:.0f})" if parallel else "") + ", or a smaller quantization")
    return ", ".join(ways[:-1]) + ", or " + ways[-1]


def _cuda_oom(facts: Facts) -> str:
    fraction = _number(facts.args, *_FRACTIONS)
    other = _failed_other_way(facts, "kv-cache-too-small")
    if other is not None:
        return f"At {other:g} an earlier launch had no room for its KV cache, so no fraction fits both: it takes {_smaller(facts)}."
    if facts.phase == "serving":
        return f"It ran out while serving: leave more room beside the KV cache with a lower {_fraction_flag(facts)}, or admit fewer requests at a time."
    if facts.phase in ("weights", "draft-weights", "launch", "distributed"):
        return f"The weights themselves do not fit: see that nothing else holds memory on these GPUs; else it takes {_smaller(facts)}."
    now = f" (now {fraction[1]:g})" if fraction else ""
    return f"Leave more room beside the KV cache: a lower {_fraction_flag(facts)}{now}, or {_smaller(facts)}."


def _kv_cache(facts: Facts) -> str:
    fraction = _number(facts.args, *_FRACTIONS)
    other = _failed_other_way(facts, "cuda-oom")
    if other is not None:
        return f"At {other:g} an earlier launch ran out of GPU memory, so raising the fraction will not help: it takes {_smaller(facts)}."
    if fraction is not None and fraction[1] < 0.6:
        return f"{_flag(fraction[0])} is only {fraction[1]:g}: the weights alone need more than that share. Set it to about 0.85, if nothing else uses these GPUs."
    return f"See that nothing else holds memory on these GPUs; else it takes {_smaller(facts)}."


def _port(facts: Facts) -> str:
    port = facts.args.get("port")
    if any(group.endswith("_port") for group in facts.groups):
        return "A process of an earlier server still holds this port, which is derived from --port: end it (it does not go away by waiting), or choose another --port."
    name = f"port {port}" if isinstance(port, int) else "the port"
    return f"Find who holds {name} on the node, and end that or choose another --port. What answers there now is not this server."


def _model(facts: Facts) -> str:
    path = facts.args.get("model_path") or facts.args.get("model")
    at = f" {path}" if isinstance(path, str) else ""
    return f"Check the path or name{at} on the node, as the server's user: a mount may be missing, or a download unfinished."


def _rendezvous(facts: Facts) -> str:
    address = facts.args.get("dist_init_addr")
    at = f" ({address})" if isinstance(address, str) else ""
    return f"Check that every node was started, and that the first one's address{at} is reachable from the others on the interface that NCCL and Gloo use."


def _nccl_timeout(facts: Facts) -> str:
    where = f" in {SHOWN_NAMES[facts.phase]}" if facts.phase else ""
    return f"One rank was late or stuck{where}: look at what the slowest rank did (kernels being compiled, a dead process, a slow disk) rather than at the network first."


def _import(facts: Facts) -> str:
    if "sgl_kernel" in facts.evidence or "flashinfer" in facts.evidence:
        return (
            "Install the version of that kernel package that this engine's release names, for this CUDA and this GPU."
        )
    return "Install or repair that package in the environment that starts the server; its version has to fit the engine's release."


def _cuda(facts: Facts) -> str:
    if any(words in facts.evidence for words in ("No accelerator", "No CUDA GPUs", "invalid device ordinal")):
        return "It sees no GPU, or fewer than it wants: check CUDA_VISIBLE_DEVICES, the container's --gpus, and what `nvidia-smi -L` lists there."
    return "See `nvidia-smi` and `dmesg -T` for the GPU's own trouble (Xid, ECC); run once with CUDA_LAUNCH_BLOCKING=1 to find the place."


def _warmup(facts: Facts) -> str:
    if facts.args.get("disaggregation_mode") in ("prefill", "decode"):
        return "A prefill or decode instance warms up together with its peer: see that the other side and the router are up."
    return "It loaded, and then could not answer its own first request: look at the exception below, and at proxies in its environment."


_CODES: dict[str, tuple[str, str | Callable[[Facts], str]]] = {
    "cuda-oom": ("A GPU has no memory left", _cuda_oom),
    "kv-cache-too-small": ("The weights fit, but no memory is left for the KV cache", _kv_cache),
    "host-oom": (
        "The kernel killed it for memory",
        "Give the machine or the container more memory, or load with fewer ranks at a time; a memory limit of the container counts too.",
    ),
    "shm-exhausted": (
        "/dev/shm is full or too small",
        "Enlarge it (docker: --shm-size=32g or --ipc=host; Kubernetes: an emptyDir with medium Memory on /dev/shm) and remove what crashed servers left there.",
    ),
    "disk-full": ("There is no space left on a disk", "Free space on the path that is named, or point its cache elsewhere."),
    "worker-killed": (
        "A process of the server was killed (SIGKILL)",
        "Nothing in the log says by whom. See `dmesg -T` and the container's memory limit for the OOM killer, and ask who else may end processes here.",
    ),
    "segfault": (
        "It crashed with a segmentation fault",
        "Look at the frame below: a library and the driver may not fit each other. Versions that were changed last are the first suspects.",
    ),
    "aborted": (
        "It aborted (SIGABRT)",
        "No better cause stands in the log. A core dump, or a run with CUDA_LAUNCH_BLOCKING=1, would say more.",
    ),
    "watchdog-timeout": (
        "The watchdog found no progress",
        "Something hung before that: look at what the ranks did then (py-spy), at a collective that one rank did not join, or at a very long prefill. A longer limit only hides it.",
    ),
    "nccl-error": (
        "A collective operation failed",
        "Look at the other nodes' logs of the same moment, at the network's cables and ports, and run once with NCCL_DEBUG=INFO.",
    ),
    "nccl-timeout": ("A collective operation did not end in time", _nccl_timeout),
    "rendezvous-timeout": ("The ranks never met", _rendezvous),
    "illegal-memory-access": (
        "A kernel touched memory that is not its own",
        "It is reported late, so the line it names may be wrong: run once with CUDA_LAUNCH_BLOCKING=1, and try another attention backend.",
    ),
    "device-assert": (
        "A check inside a GPU kernel failed",
        "The Python line that is named may be wrong; the first assertion counts. Usual causes: a token id beyond the vocabulary, or a position beyond the context length.",
    ),
    "no-kernel-image": (
        "A library holds no kernels for this GPU",
        "Install a build for this GPU's architecture, or build it there with TORCH_CUDA_ARCH_LIST set.",
    ),
    "cuda-error": ("CUDA failed", _cuda),
    "driver-mismatch": (
        "The NVIDIA driver does not fit the libraries",
        "Reboot the node if the driver was updated under it; else install a driver, or a build, that fit each other. A restart of the server will not help.",
    ),
    "gpu-lost": (
        "A GPU is gone: it has fallen off the bus",
        "The node needs a reboot, and the GPU a look at. A restart of the server will not help.",
    ),
    "model-not-found": ("The model is not there", _model),
    "weights-corrupt": (
        "The checkpoint cannot be read as what it should be",
        "Compare the files' sizes and checksums with the source, and fetch again what differs; a download may have been cut.",
    ),
    "unsupported-architecture": (
        "The model's architecture is not supported by this version",
        "Use a release of the engine that supports it, or check that the checkpoint's config.json is the right one.",
    ),
    "trust-remote-code": (
        "The checkpoint brings code of its own, which was not allowed to run",
        "Read the code in the repository; if you trust it, add --trust-remote-code.",
    ),
    "hub-auth": (
        "The hub refuses the model without a token that may read it",
        "Accept the model's terms on its page and give the server a token (HF_TOKEN) of that account.",
    ),
    "hub-unreachable": (
        "The hub cannot be reached",
        "Check the node's network, proxy and DNS; or fetch the model beforehand and give its local path.",
    ),
    "bad-flag": ("The command line is refused", "Correct the flag: `--help` of this version lists the valid ones."),
    "invalid-config": (
        "The engine refuses its configuration",
        "Change the value that is named, or one of those it does not go together with.",
    ),
    "import-error": ("A package or shared library is missing or broken", _import),
    "kernel-build-failed": (
        "A kernel could not be built",
        "Install the compiler that is missing (nvcc of the CUDA toolkit, ninja, gcc) or set CUDA_HOME; memory flags have nothing to do with it.",
    ),
    "graph-capture-failed": (
        "CUDA graphs could not be captured",
        "Find the operation that is named; start once without CUDA graphs to see whether the rest works.",
    ),
    "warmup-failed": ("The warm-up request failed", _warmup),
    "port-in-use": ("The port is held by another process", _port),
    "permission-denied": (
        "It lacks a permission",
        "Give the server's user access to the path that is named, or point it elsewhere.",
    ),
    "request-killed-server": (
        "A request took the whole server down",
        "Find which client's request it was and keep that kind away; a later release may catch it.",
    ),
    "python-exception": ("An exception ended it", "Look at the frame that is named; no known cause fits."),
    "waiting-for-input": (
        "It asks something on its standard input, and nobody answers",
        "Start it with the flag that answers (for custom code: --trust-remote-code), or without what needs a passphrase.",
    ),
    "hidden-error": (
        "An error was swallowed",
        "It will not go on by itself: restart it, without CUDA graphs once to see the error that was hidden.",
    ),
    "stalled": ("Nothing moves any more", "See whether all ranks are alive and what they do (py-spy dump); restart it if nothing moves."),
    "died-silently": (
        "It ended and left no reason in its log",
        "Look at the other nodes' logs and at `dmesg -T`; start it with its output in a file of its own.",
    ),
    "never-started": (
        "It never started",
        "See that the command is right, that its program is there, and that the log's folder may be written.",
    ),
}  # fmt: skip
CODES = frozenset(_CODES)
"""Every diagnosis code of LOGS.md."""
