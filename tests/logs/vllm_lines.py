"""Logs of vLLM written short: `A 12 file.py:1| text` is a record of V1's API server 12 seconds after the log's begin.

`E` is its engine core, `W0` and `W1` are its workers, `V` is a record of V0 (no process, no brackets), `v` one of V1 before 0.10 (no
process). Other lines stand as they are.
"""

# ruff: noqa: E501 - lines of logs stand as they were printed

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

BEGIN = datetime(2025, 11, 3, 9, 0, 0, tzinfo=UTC)
_SHORT = re.compile(r"(?P<who>[AEVv]|[EW][0-9]) (?P<seconds>[0-9]+)(?P<level>[!?]?) (?P<where>[\w.]+:[0-9]+)\| ?")
_LEVELS = {"": "INFO", "?": "WARNING", "!": "ERROR"}


def _prefix(found: re.Match[str]) -> str:
    who = found["who"]
    moment = BEGIN + timedelta(seconds=int(found["seconds"]))
    record = f"{_LEVELS[found['level']]} {moment:%m-%d %H:%M:%S} "
    if who == "V":
        return record + found["where"] + "] "
    return process(who) + record + f"[{found['where']}] "


def process(who: str) -> str:
    """The prefix of a process."""
    if who == "v":
        return ""
    if who == "A":
        return "(APIServer pid=701) "
    if who == "E":
        return "(EngineCore_DP0 pid=810) "
    return f"(EngineCore_DP{who[1]} pid=81{who[1]}) " if who[0] == "E" else f"(Worker_TP{who[1]} pid=90{who[1]}) "


def log(*parts: str) -> bytes:
    """The bytes of a log of these parts."""
    lines = "\n".join(part.strip("\n") for part in parts).split("\n")
    return ("\n".join(_SHORT.sub(_prefix, line, count=1) for line in lines) + "\n").encode()


def told_by(who: str, at: int, where: str, text: str, level: str = "!") -> str:
    """Several lines as one record of a process: each has the prefix."""
    return "\n".join(f"{who} {at}{level} {where}| {line}" for line in text.strip("\n").split("\n"))


def bare(who: str, text: str) -> str:
    """Several lines of a process that no logger wrote."""
    return "\n".join(process(who) + line for line in text.strip("\n").split("\n"))


def launched(version: str = "0.11.2", extra: str = "") -> str:
    """Its version and its arguments."""
    return f"""
A 0 api_server.py:1977| vLLM API server version {version}
A 0 utils.py:233| non-default args: {{'model_tag': 'Qwen/Qwen3-8B', 'port': 8001, 'model': 'Qwen/Qwen3-8B', 'tensor_parallel_size': 2{extra}}}
A 6 model.py:547| Resolved architecture: Qwen3ForCausalLM
A 6 model.py:1510| Using max model len 40960
A 6 scheduler.py:205| Chunked prefill is enabled with max_num_batched_tokens=2048."""


def begun() -> str:
    """To the begin of its weights, at 22 s."""
    return (
        launched()
        + """
E 14 core.py:93| Initializing a V1 LLM engine (v0.11.2) with config: model='Qwen/Qwen3-8B', speculative_config=None, tokenizer='Qwen/Qwen3-8B', tensor_parallel_size=2, data_parallel_size=1
W0 20 pynccl.py:111| vLLM is using nccl==2.27.5
W1 20 pynccl.py:111| vLLM is using nccl==2.27.5
W0 21 parallel_state.py:1208| rank 0 in world size 2 is assigned as DP rank 0, PP rank 0, TP rank 0, EP rank 0
W1 21 parallel_state.py:1208| rank 1 in world size 2 is assigned as DP rank 0, PP rank 0, TP rank 1, EP rank 1
W0 22 gpu_model_runner.py:2602| Starting to load model Qwen/Qwen3-8B...
W1 22 gpu_model_runner.py:2602| Starting to load model Qwen/Qwen3-8B..."""
    )


def loaded() -> str:
    """To the end of its weights, at 40 s."""
    return (
        begun()
        + """
(Worker_TP0 pid=900)
Loading safetensors checkpoint shards:   0% Completed | 0/5 [00:00<?, ?it/s]
Loading safetensors checkpoint shards:  60% Completed | 3/5 [00:08<00:06,  3.10s/it]
Loading safetensors checkpoint shards: 100% Completed | 5/5 [00:15<00:00,  3.10s/it]
(Worker_TP0 pid=900)
W0 38 default_loader.py:267| Loading weights took 15.61 seconds
W1 38 default_loader.py:267| Loading weights took 15.70 seconds
W0 39 gpu_model_runner.py:2653| Model loading took 7.6369 GiB and 16.41 seconds
W1 39 gpu_model_runner.py:2653| Model loading took 7.6369 GiB and 16.50 seconds"""
    )


def compiled() -> str:
    """To the end of torch.compile, at 70 s."""
    return (
        loaded()
        + """
W0 48 backends.py:548| Using cache directory: /root/.cache/vllm/torch_compile_cache/a1b2c3/rank_0_0/backbone for vLLM's torch.compile
W0 48 backends.py:559| Dynamo bytecode transform time: 8.07 s
W0 68 backends.py:215| Compiling a graph for dynamic shape takes 19.53 s
W0 70 monitor.py:34| torch.compile takes 27.60 s in total"""
    )


def profiled() -> str:
    """To the size of its cache, at 73 s."""
    return (
        compiled()
        + """
W0 72 gpu_worker.py:298| Available KV cache memory: 63.31 GiB
E 73 kv_cache_utils.py:1087| GPU KV cache size: 921,648 tokens
E 73 kv_cache_utils.py:1091| Maximum concurrency for 40,960 tokens per request: 22.50x"""
    )


def served() -> str:
    """To its ready line, at 90 s."""
    return (
        profiled()
        + """
Capturing CUDA graphs (mixed prefill-decode, PIECEWISE):   0%|          | 0/67 [00:00<?, ?it/s]
Capturing CUDA graphs (mixed prefill-decode, PIECEWISE): 100%|##########| 67/67 [00:08<00:00,  8.11it/s]
Capturing CUDA graphs (decode, FULL): 100%|##########| 35/35 [00:04<00:00,  8.31it/s]
W0 86 gpu_model_runner.py:3480| Graph capturing finished in 13 secs, took 0.91 GiB
E 87 core.py:210| init engine (profile, create kv cache, warmup model) took 48.02 seconds
A 89 api_server.py:1634| Supported_tasks: ['generate']
A 89 api_server.py:1912| Starting vLLM API server 0 on http://0.0.0.0:8001
A 89 launcher.py:34| Available routes are:
A 89 launcher.py:42| Route: /health, Methods: GET
(APIServer pid=701) INFO:     Started server process [701]
(APIServer pid=701) INFO:     Waiting for application startup.
(APIServer pid=701) INFO:     Application startup complete."""
    )


def throughput(at: int, running: int, tok_s: float, waiting: int = 0, engine: str = "000", prompt: float = 0.0) -> str:
    """A line of its own figures."""
    return (
        f"A {at} loggers.py:127| Engine {engine}: Avg prompt throughput: {prompt:.1f} tokens/s, Avg generation throughput: {tok_s:.1f} "
        f"tokens/s, Running: {running} reqs, Waiting: {waiting} reqs, GPU KV cache usage: 1.5%, Prefix cache hit rate: 0.0%"
    )


TRACE = """Traceback (most recent call last):
  File "/usr/local/lib/python3.12/dist-packages/vllm/v1/{file}", line 571, in {name}
    self.work()
{error}"""


def worker_died(who: str, at: int, error: str, name: str = "__init__") -> str:
    """How a worker's exception in a start is told: by itself, then by the engine core, then by the API server."""
    return "\n".join(
        (
            told_by(who, at, "multiproc_executor.py:597", "WorkerProc failed to start.\n" + TRACE.format(file="executor/multiproc_executor.py", name=name, error=error)),
            start_failed(at + 2, "Exception: WorkerProc initialization failed due to an exception in a background process. See stack trace for root cause."),
        )
    )  # fmt: skip


def start_failed(at: int, error: str) -> str:
    """How the engine core's exception in a start is told, by itself and by the API server."""
    return "\n".join(
        (
            told_by("E", at, "core.py:708", "EngineCore failed to start.\n" + TRACE.format(file="engine/core.py", name="run_engine_core", error=error)),
            bare("E", "Process EngineCore_DP0:\n" + TRACE.format(file="engine/core.py", name="run_engine_core", error=error)),
            bare("A", TRACE.format(file="utils.py", name="wait_for_engine_startup", error="RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {}").replace("Traceback (most recent call last):", 'Traceback (most recent call last):\n  File "/usr/local/bin/vllm", line 10, in <module>\n    sys.exit(main())')),
        )
    )  # fmt: skip


def step_failed(at: int, error: str, worker: str = "W1") -> str:
    """How a running server dies of a worker's exception: the request gets 500, and the API server shuts down."""
    dead = "vllm.v1.engine.exceptions.EngineDeadError: EngineCore encountered an issue. See stack trace (above) for the root cause."
    return "\n".join(
        (
            told_by(worker, at, "multiproc_executor.py:671", "WorkerProc hit an exception.\n" + TRACE.format(file="worker/gpu_model_runner.py", name="execute_model", error=error)),
            told_by("E", at, "core.py:710", "EngineCore encountered a fatal error.\n" + TRACE.format(file="engine/core.py", name="run_engine_core", error=f"RuntimeError: Worker failed with error '{error.splitlines()[0]}', please check the stack trace above for the root cause")),
            told_by("A", at, "async_llm.py:480", "AsyncLLM output_handler failed.\n" + TRACE.format(file="engine/async_llm.py", name="output_handler", error=dead)),
            '(APIServer pid=701) INFO:     10.0.0.9:53100 - "POST /v1/chat/completions HTTP/1.1" 500 Internal Server Error',
            bare("A", "INFO:     Shutting down\nINFO:     Waiting for application shutdown.\nINFO:     Application shutdown complete.\nINFO:     Finished server process [701]"),
        )
    )  # fmt: skip
