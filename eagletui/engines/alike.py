"""Which flags make two launches alike: those that change what is loaded, compiled or captured, and so how long a start
takes. Pure tables.

Not among them: where it listens and logs, who may use it, how requests are parsed and scheduled, and how much memory
the pool gets (`--mem-fraction-static`, `--gpu-memory-utilization`): that changes the size of an allocation, and people
who tune it start often.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence

from eagletui.engines.shapes import Launch, flags_of, is_switch

_SAME: dict[str, dict[str, str]] = {
    "sglang": {
        "model-path": "model", "model": "model",
        "tensor-parallel-size": "tp", "tp-size": "tp", "pipeline-parallel-size": "pp", "pp-size": "pp",
        "data-parallel-size": "dp", "dp-size": "dp", "expert-parallel-size": "ep", "ep-size": "ep",
        "nnodes": "nodes", "speculative-algo": "speculative-algorithm",
        "speculative-draft-model": "speculative-draft-model-path",
    },
    "vllm": {
        "model": "model", "tensor-parallel-size": "tp", "pipeline-parallel-size": "pp", "data-parallel-size": "dp",
        "nnodes": "nodes", "q": "quantization", "sc": "speculative-config", "cc": "compilation-config",
        "O": "compilation-config",
    },
}  # fmt: skip
"""Names of one flag, by the one that is kept."""
_COUNT: dict[str, re.Pattern[str]] = {
    "sglang": re.compile(
        r"\A(?:model|tp|pp|dp|ep|nodes|dtype|revision|config|context-length|load-format|max-running-requests|page-size"
        r"|enable-dp-attention|enable-dp-lm-head|moe-dense-tp-size|attn-cp-size|attention-context-parallel-size"
        r"|disaggregation-mode|json-model-override-args|hybrid-kvcache-ratio|chunked-prefill-size|skip-server-warmup"
        r"|warmups|enable-multimodal|language-only|encoder-only|enable-memory-saver|num-continuous-decode-steps)\Z"
        r"|cuda-graph|torch-compile|torchao|quantization|kv-cache-dtype|speculative-|model-loader|lora|offload"
        r"|deepgemm|flashinfer|two-batch-overlap|all-reduce|allreduce|\A(?!grammar)[a-z0-9-]*-backend\Z|\Amoe-"
    ),
    "vllm": re.compile(
        r"\A(?:model|tp|pp|dp|nodes|dtype|revision|config|max-model-len|load-format|max-num-seqs|max-num-batched-tokens"
        r"|block-size|enforce-eager|enable-expert-parallel|hf-overrides|runner|task|convert|compilation-config|O[0-3]"
        r"|num-speculative-tokens|optimization-level|kv-transfer-config|enable-sleep-mode|mamba-[a-z-]*)\Z"
        r"|cuda-?graph|compilation|quantization|kv-cache-dtype|speculative|model-loader|lora|offload|all-reduce"
        r"|\A[a-z0-9-]*-backend\Z|\Amoe-|limit-mm-per-prompt"
    ),
}
"""Flags that count, by what is in their names: versions add more of a kind than a list would know."""
_PARALLEL = frozenset({"tp", "pp", "dp", "ep", "nodes"})
_PATHS = frozenset({"model", "speculative-draft-model-path"})
_NUMBER = re.compile(r"\A-[0-9.]+\Z")
MAX_VALUE = 4_000
"""Characters of one flag's value; the rest of a longer one is dropped."""


def _told(args: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Flags with their values; several (`--cuda-graph-bs 1 2 4`) are joined by blanks, a flag without one has ""."""
    name, values = "", list[str]()
    for word in args:
        if word.startswith("-") and word != "-" and not _NUMBER.match(word):
            if name:
                yield name, " ".join(values)
            name, equals, value = word.lstrip("-").partition("=")
            name, values = name.replace("_", "-"), [value] if equals else []
        elif name and not is_switch(name):
            values.append(word)
    if name:
        yield name, " ".join(values)


def _plain(name: str, value: str) -> str:
    """One way to write a value that may be written in several."""
    if name in _PARALLEL:
        return value.partition(" ")[0][:MAX_VALUE]  # what follows the number is vLLM's model
    if value[:1] in {"{", "["}:
        try:
            return json.dumps(json.loads(value), sort_keys=True)[:MAX_VALUE]
        except (ValueError, RecursionError):
            return value[:MAX_VALUE]
    return (value.rstrip("/") or value)[:MAX_VALUE] if name in _PATHS else value[:MAX_VALUE]


def what_counts(launch: Launch) -> tuple[tuple[str, str], ...]:
    """What a command line says of what is loaded and compiled: (flag, value) by flag, a switch with the value "".

    Two launches of an engine for which this is equal load and compile the same, as far as their arguments tell. Values
    are as given: not masked.
    """
    same, counts = _SAME[launch.engine], _COUNT[launch.engine]
    found: dict[str, str] = {}
    for told, value in _told(launch.args):
        name = same.get(told, told)
        if counts.search(name):
            found[name] = _plain(name, value)
    model = flags_of(launch).model  # vLLM's may stand without a flag
    if model:
        found["model"] = _plain("model", model)
    return tuple(sorted((name, value) for name, value in found.items() if not (name in _PARALLEL and value == "1")))
