"""Logs of vLLM, V0 and V1, as people met them, rebuilt: what is named as the cause, and what is no failure."""

# ruff: noqa: E501 - lines of logs stand as they were printed

from __future__ import annotations

from pathlib import Path

import pytest

from tests.logs.examined import Told, faults
from tests.logs.vllm_lines import (
    bare,
    begun,
    log,
    served,
    step_failed,
    throughput,
    told_by,
)  # fmt: skip

CRASHED, READY = "crashed", "ready"
OOM = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.16 GiB. GPU 1 has a total capacity of 79.11 GiB of which 705.06 MiB is free. Process 71 has 78.42 GiB memory in use."
V0 = """
V 0 api_server.py:712| vLLM API server version 0.6.6
V 0 api_server.py:713| args: Namespace(host=None, port=8000, model='/models/Qwen2.5-7B-Instruct', tensor_parallel_size=2, seed=0)
V 9 llm_engine.py:234| Initializing an LLM engine (v0.6.6) with config: model='/models/Qwen2.5-7B-Instruct', speculative_config=None, tensor_parallel_size=2
V 12 model_runner.py:1094| Starting to load model /models/Qwen2.5-7B-Instruct..."""
V0_SERVED = (
    V0
    + """
V 20 model_runner.py:1099| Loading model weights took 7.1216 GB
V 24 gpu_executor.py:76| # GPU blocks: 9000, # CPU blocks: 4681
V 40 model_runner.py:1535| Graph capturing finished in 14 secs, took 0.24 GiB
INFO:     Started server process [1]
INFO:     Waiting for application startup.
INFO:     Application startup complete.
INFO:     Uvicorn running on http://0.0.0.0:8000 (Press CTRL+C to quit)"""
)
STOPPED = bare(
    "A",
    "INFO:     Waiting for application shutdown.\nINFO:     Application shutdown complete.\nINFO:     Finished server process [701]",
)


DEATHS: list[tuple[str, bytes, str, Told]] = [
    (
        "illegal access in a request",
        log(
            served(),
            throughput(100, 4, 210.0),
            step_failed(105, "torch.AcceleratorError: CUDA error: an illegal memory access was encountered"),
        ),
        "",
        Told(CRASHED, "serving", "illegal-memory-access", "TP1"),
    ),
    (
        "an assertion in a request",
        log(served(), throughput(100, 4, 210.0), step_failed(105, "AssertionError: num_scheduled_tokens > 0")),
        "",
        Told(CRASHED, "serving", "request-killed-server", None, "AssertionError"),
    ),
    (
        "a step that timed out",
        log(
            served(),
            throughput(100, 4, 210.0),
            "E 160 shm_broadcast.py:466| No available shared memory broadcast block found in 60 seconds. This typically happens when some processes are hanging or doing some time-consuming work (e.g. compilation).",
            told_by(
                "E",
                400,
                "core.py:710",
                'EngineCore encountered a fatal error.\nTraceback (most recent call last):\n  File "/opt/vllm/v1/engine/core.py", line 701, in run_engine_core\n    x()\nTimeoutError: RPC call to sample_tokens timed out.',
            ),
            told_by(
                "A",
                400,
                "async_llm.py:480",
                'AsyncLLM output_handler failed.\nTraceback (most recent call last):\n  File "/opt/vllm/v1/engine/async_llm.py", line 438, in output_handler\n    x()\nvllm.v1.engine.exceptions.EngineDeadError: EngineCore encountered an issue. See stack trace (above) for the root cause.',
            ),
        ),
        "",
        Told(CRASHED, "serving", "watchdog-timeout", None, "sample_tokens timed out", warns=("jit-compiling",)),
    ),
    (
        "a worker that died without a word",
        log(
            served(),
            "E 120! multiproc_executor.py:230| Worker proc VllmWorker-1 died unexpectedly, shutting down executor.",
            told_by(
                "A",
                121,
                "async_llm.py:480",
                'AsyncLLM output_handler failed.\nTraceback (most recent call last):\n  File "/opt/vllm/v1/engine/async_llm.py", line 438, in output_handler\n    x()\nvllm.v1.engine.exceptions.EngineDeadError: EngineCore encountered an issue. See stack trace (above) for the root cause.',
            ),
        ),
        "--exit-code 1",
        Told(CRASHED, "serving", "died-silently", None, "died unexpectedly"),
    ),
    (
        "a core killed by the kernel, told by journald",
        b"".join(
            b"Nov 03 09:00:00 gpu7 vllm[700]: " + line + b"\n"
            for line in log(served(), throughput(100, 4, 210.0)).split(b"\n")[:-1]
        )
        + b"Nov 03 09:02:00 gpu7 kernel: Out of memory: Killed process 810 (VLLM::EngineCor) total-vm:190000000kB, anon-rss:120000000kB\n"
        + b"Nov 03 09:02:01 gpu7 vllm[700]: (APIServer pid=701) ERROR 11-03 09:02:01 [core_client.py:564] Engine core proc EngineCore_DP0 died unexpectedly, shutting down client.\n",
        "",
        Told(CRASHED, "serving", "host-oom", None, "Killed process 810"),
    ),
    (
        "port taken after the ready line",
        log(
            served(),
            bare(
                "A",
                "ERROR:    [Errno 98] error while attempting to bind on address ('0.0.0.0', 8001): address already in use\nINFO:     Waiting for application shutdown.\nINFO:     Application shutdown complete.",
            ),
        ),
        "--exit-code 1",
        Told(CRASHED, "warmup", "port-in-use", None, "8001"),
    ),
    (
        "V0's engine process dies in a request",
        log(
            V0_SERVED,
            'ERROR 11-03 09:01:40 engine.py:139] RuntimeError(\'Error in model execution: CUDA error: device-side assert triggered\')\nERROR 11-03 09:01:40 engine.py:139] Traceback (most recent call last):\nERROR 11-03 09:01:40 engine.py:139]   File "/opt/vllm/engine/multiprocessing/engine.py", line 137, in start\nERROR 11-03 09:01:40 engine.py:139] RuntimeError: Error in model execution: CUDA error: device-side assert triggered\nINFO:     10.0.0.1:4410 - "POST /v1/completions HTTP/1.1" 500 Internal Server Error\nCRITICAL 11-03 09:01:41 launcher.py:101] MQLLMEngine is already dead, terminating server process\nINFO:     Shutting down\nINFO:     Waiting for application shutdown.\nINFO:     Application shutdown complete.\nINFO:     Finished server process [1]',
        ),
        "",
        Told(CRASHED, "serving", "device-assert"),
    ),
    (
        "a V0 rank's collective times out",
        log(
            V0_SERVED,
            "[rank1]:[E1103 09:20:00.123456789 ProcessGroupNCCL.cpp:616] [Rank 1] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=4, OpType=ALLREDUCE, NumelIn=1, NumelOut=1, Timeout(ms)=600000) ran for 600010 milliseconds before timing out.\nERROR 11-03 09:20:01 multiproc_worker_utils.py:123] Worker VllmWorkerProcess pid 3021 died, exit code: -6\nINFO 11-03 09:20:01 multiproc_worker_utils.py:127] Killing local vLLM worker processes",
        ),
        "",
        Told(CRASHED, "serving", "nccl-timeout", "1"),
    ),
]

WELL: list[tuple[str, bytes, str, Told]] = [
    (
        "ready",
        log(served()),
        "",
        Told(
            READY,
            "serving",
            more=(("args", {"port": 8001, "tp_size": 2, "model_path": "Qwen/Qwen3-8B"}), ("ready_s", 89.0)),
        ),
    ),
    (
        "idle for an hour",
        log(served(), throughput(100, 1, 40.0), throughput(110, 0, 12.0), throughput(120, 0, 0.0)),
        "--idle 3600",
        Told(READY, "serving"),
    ),
    (
        "busy",
        log(served(), *(throughput(100 + 10 * i, 8, 555.0, prompt=76.0) for i in range(9))),
        "--idle 4",
        Told(
            READY,
            "serving",
            more=(("metrics", {"decode_samples": 9, "running": {"last": 8}, "gen_tok_s": {"last": 555.0}}),),
        ),
    ),
    (
        "hangs",
        log(served(), throughput(100, 8, 555.0), *(throughput(110 + 10 * i, 8, 0.0) for i in range(20))),
        "--idle 8",
        Told("stalled", "serving", "stalled"),
    ),
    (
        "a long prompt is no hang",
        log(served(), *(throughput(100 + 10 * i, 1, 0.0, prompt=8100.0) for i in range(12))),
        "--idle 8",
        Told(READY, "serving"),
    ),
    (
        "two data ranks",
        log(
            served(),
            throughput(100, 4, 200.0),
            throughput(100, 3, 150.0, engine="001"),
            throughput(110, 4, 210.0),
            throughput(110, 3, 160.0, engine="001"),
        ),
        "",
        Told(READY, "serving", more=(("metrics", {"gen_tok_s": {"last": 370.0}, "running": {"last": 7}}),)),
    ),
    (
        "SIGINT, told as shutdown",
        log(
            served(),
            "^C(EngineCore_DP0 pid=810) INFO 11-03 09:02:00 [core.py:1155] [shutdown] EngineCore: trigger received signal=SIGINT\nW0 120 multiproc_executor.py:905| [shutdown] WorkerProc: terminated by shutdown signal\nA 120 launcher.py:100| [shutdown] API server: shutdown triggered\nA 120 launcher.py:116| [shutdown] API server: stopping engine client mode=abort timeout=0s",
            told_by(
                "A",
                121,
                "async_llm.py:704",
                'AsyncLLM output_handler failed.\nTraceback (most recent call last):\n  File "/opt/vllm/v1/engine/async_llm.py", line 650, in output_handler\n    x()\nvllm.v1.engine.exceptions.EngineDeadError: EngineCore encountered an issue. See stack trace (above) for the root cause.',
            ),
            STOPPED,
        ),
        "--exit-code 0",
        Told("stopped", "serving"),
    ),
    (
        "SIGTERM under load",
        log(
            served(),
            throughput(100, 4, 200.0),
            bare(
                "A",
                'INFO:     Shutting down\nINFO:     Waiting for connections to close. (CTRL+C to force quit)\nERROR:    Exception in ASGI application\nTraceback (most recent call last):\n  File "/opt/starlette/responses.py", line 265, in __call__\n    await wrap()\nasyncio.exceptions.CancelledError: Cancelled by cancel scope 7f10',
            ),
            STOPPED,
        ),
        "--exit-code -15",
        Told("stopped", "serving"),
    ),
    (
        "Ctrl+C while it loads",
        log(
            begun(),
            bare(
                "E",
                "Process EngineCore_DP0:\n"
                'Traceback (most recent call last):\n  File "/opt/vllm/v1/engine/core.py", line 57, in run_engine_core\n    x()\nKeyboardInterrupt',
            ),
            bare(
                "A",
                'Traceback (most recent call last):\n  File "/usr/local/bin/vllm", line 10, in <module>\n    sys.exit(main())\nKeyboardInterrupt: terminated',
            ),
        ),
        "--exit-code 130",
        Told("stopped", "weights"),
    ),
    (
        "preemption",
        log(
            served(),
            "A 99? scheduler.py:1057| Sequence group cmpl-7 is preempted by PreemptionMode.RECOMPUTE mode because there is not enough KV cache space. This can affect the end-to-end performance. total_num_cumulative_preemption=1",
            throughput(100, 8, 500.0),
        ),
        "",
        Told(READY, "serving", warns=("requests-retracted",)),
    ),
    (
        "a request that is refused",
        log(
            served(),
            told_by(
                "A",
                99,
                "serving_chat.py:240",
                'Error in preprocessing prompt inputs\nTraceback (most recent call last):\n  File "/opt/vllm/entrypoints/openai/serving_chat.py", line 210, in create_chat_completion\n    x()\njinja2.exceptions.UndefinedError: list object has no element 0',
            ),
            throughput(100, 8, 500.0),
        ),
        "",
        Told(READY, "serving", warns=("request-error",)),
    ),
    (
        "a grammar that cannot be compiled",
        log(
            served(),
            told_by(
                "E",
                99,
                "backend_xgrammar.py:161",
                "Failed to advance FSM for request chatcmpl-9 for tokens 1234. Please file an issue.",
            ),
            throughput(100, 8, 500.0),
        ),
        "",
        Told(READY, "serving"),
    ),
    (
        "sleep and wake",
        log(
            served(),
            "W0 100 gpu_worker.py:106| Sleep mode freed 60.11 GiB memory, 1.20 GiB memory is still in use.\nE 100 executor_base.py:189| It took 1.2 seconds to fall asleep.\nE 200 executor_base.py:205| It took 0.3 seconds to wake up tags {'weights', 'kv_cache'}.",
        ),
        "--idle 600",
        Told(READY, "serving"),
    ),
    (
        "a draft model",
        log(
            begun(),
            "W0 38 default_loader.py:267| Loading weights took 15.61 seconds\nW1 38 default_loader.py:267| Loading weights took 15.61 seconds\nW0 39 gpu_model_runner.py:2530| Loading drafter model...\nW1 39 gpu_model_runner.py:2530| Loading drafter model...\nLoading pt checkpoint shards: 100% Completed | 1/1 [00:01<00:00,  1.10s/it]\nW0 41 default_loader.py:267| Loading weights took 1.21 seconds\nW1 41 default_loader.py:267| Loading weights took 1.21 seconds",
        ),
        "--idle 5",
        Told("starting", "draft-weights", more=(("phases", {"$has": {"name": "draft-weights"}}),)),
    ),
    (
        "messages of Triton, flashinfer and MoE that alarm nobody",
        log(
            begun(),
            "W0 23? fused_moe.py:886| Using default MoE config. Performance might be sub-optimal! Config file not found at ['/opt/vllm/configs/E=128,N=384,device_name=NVIDIA_H200.json']\nW0 23? topk_topp_sampler.py:58| FlashInfer is not available. Falling back to the PyTorch-native implementation of top-p & top-k sampling. For the best performance, please install FlashInfer.\nW0 23? custom_all_reduce.py:154| Custom allreduce is disabled because your platform lacks GPU P2P capability or P2P test failed. To silence this warning, specify disable_custom_all_reduce=True explicitly.\nW0 23! symm_mem.py:89| SymmMemCommunicator: Device capability 8.6 not supported, communicator is not available.\nW0 24? marlin_utils.py:1| Your GPU does not have native support for FP4 computation but FP4 quantization is being used.",
        ),
        "--idle 5",
        Told("starting", "weights"),
    ),
]


@pytest.mark.parametrize(("name", "text", "args", "told"), DEATHS, ids=[row[0] for row in DEATHS])
def test_a_death_is_explained(name: str, text: bytes, args: str, told: Told, tmp_path: Path) -> None:
    assert not faults(text, args, told, tmp_path), name


@pytest.mark.parametrize(("name", "text", "args", "told"), WELL, ids=[row[0] for row in WELL])
def test_what_is_no_failure_is_told_as_none(name: str, text: bytes, args: str, told: Told, tmp_path: Path) -> None:
    assert not faults(text, args, told, tmp_path), name
