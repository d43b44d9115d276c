"""Starts of vLLM, V0 and V1, that failed as people met them, rebuilt: what is named as the cause."""

# ruff: noqa: E501 - lines of logs stand as they were printed

from __future__ import annotations

from pathlib import Path

import pytest

from tests.logs.examined import Told, faults
from tests.logs.vllm_lines import (
    bare,
    begun,
    compiled,
    launched,
    loaded,
    log,
    profiled,
    start_failed,
    told_by,
    worker_died,
)  # fmt: skip

CRASHED = "crashed"
OOM = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.16 GiB. GPU 1 has a total capacity of 79.11 GiB of which 705.06 MiB is free. Process 71 has 78.42 GiB memory in use."
V0 = """
V 0 api_server.py:712| vLLM API server version 0.6.6
V 0 api_server.py:713| args: Namespace(host=None, port=8000, model='/models/Qwen2.5-7B-Instruct', tensor_parallel_size=2, seed=0)
V 9 llm_engine.py:234| Initializing an LLM engine (v0.6.6) with config: model='/models/Qwen2.5-7B-Instruct', speculative_config=None, tensor_parallel_size=2
V 12 model_runner.py:1094| Starting to load model /models/Qwen2.5-7B-Instruct..."""


def main_failed(error: str) -> str:
    """The API server's own exception."""
    return bare(
        "A",
        'Traceback (most recent call last):\n  File "/usr/local/bin/vllm", line 10, in <module>\n    sys.exit(main())\n  File "/usr/local/lib/python3.12/dist-packages/vllm/engine/arg_utils.py", line 1200, in create_engine_config\n    raise\n'
        + error,
    )


DEATHS: list[tuple[str, bytes, str, Told]] = [
    (
        "no memory while weights load",
        log(begun(), worker_died("W1", 30, OOM)),
        "",
        Told(CRASHED, "weights", "cuda-oom", "TP1", "CUDA out of memory"),
    ),
    (
        "no memory in the profile run",
        log(loaded(), worker_died("W0", 60, OOM)),
        "--exit-code 1",
        Told(CRASHED, "weights", "cuda-oom", "TP0", "CUDA out of memory"),
    ),
    (
        "no memory with many requests in the sampler's warm-up",
        log(
            profiled(),
            worker_died(
                "W0",
                80,
                "RuntimeError: CUDA out of memory occurred when warming up sampler with 1024 dummy requests. Please try lowering `max_num_seqs` or `gpu_memory_utilization` when initializing the engine.",
            ),
        ),
        "",
        Told(CRASHED, "kv-cache", "cuda-oom", "TP0"),
    ),
    (
        "no memory in the capture",
        log(
            profiled(),
            "Capturing CUDA graphs (decode, FULL):  43%|####3     | 15/35 [00:02<00:02,  8.31it/s]",
            worker_died("W1", 80, OOM),
        ),
        "",
        Told(CRASHED, "graphs", "cuda-oom", "TP1"),
    ),
    (
        "memory held by another process",
        log(
            begun(),
            worker_died(
                "W0",
                23,
                "ValueError: Free memory on device (17.21/79.11 GiB) on startup is less than desired GPU memory utilization (0.9, 71.2 GiB). Decrease GPU memory utilization or reduce GPU memory used by other processes.",
            ),
        ),
        "",
        Told(CRASHED, "weights", "cuda-oom", "TP0", "Free memory on device"),
    ),
    (
        "memory held by another process, newer words with the device's name",
        log(
            begun(),
            worker_died(
                "W0",
                23,
                "ValueError: Free memory on device cuda:1 (17.21/79.11 GiB) on startup is less than desired GPU memory utilization (0.9, 71.2 GiB). Decrease GPU memory utilization or reduce GPU memory used by other processes.",
            ),
        ),
        "",
        Told(CRASHED, "weights", "cuda-oom", "TP0", "Free memory on device"),
    ),
    (
        "memory changed while profiling",
        log(
            loaded(),
            worker_died(
                "W0",
                50,
                "AssertionError: Error in memory profiling. Initial free memory 40.1 GiB, current free memory 52.3 GiB. This happens when other processes sharing the same container release GPU memory while vLLM is profiling during initialization. To fix this, ensure consistent GPU memory allocation or isolate vLLM in its own container.",
            ),
        ),
        "",
        Told(CRASHED, "weights", "python-exception", "TP0", "memory profiling"),
    ),
    (
        "no memory for cache blocks",
        log(
            compiled(),
            "W0 72 gpu_worker.py:298| Available KV cache memory: -3.22 GiB",
            start_failed(
                73,
                "ValueError: No available memory for the cache blocks. Try increasing `gpu_memory_utilization` when initializing the engine.",
            ),
        ),
        "",
        Told(CRASHED, "kv-cache", "kv-cache-too-small", None, "No available memory"),
    ),
    (
        "longest request does not fit",
        log(
            compiled(),
            "W0 72 gpu_worker.py:298| Available KV cache memory: 2.22 GiB",
            start_failed(
                73,
                "ValueError: To serve at least one request with the models's max seq len (131072), (16.00 GiB KV cache is needed, which is larger than the available KV cache memory (2.22 GiB). Based on the available memory, the estimated maximum model length is 18160. Try increasing `gpu_memory_utilization` or decreasing `max_model_len` when initializing the engine.",
            ),
        ),
        "",
        Told(CRASHED, "kv-cache", "kv-cache-too-small", None, "max seq len"),
    ),
    (
        "longest request does not fit, V0",
        log(
            V0,
            'V 20 model_runner.py:1099| Loading model weights took 7.1216 GB\nV 24 gpu_executor.py:76| # GPU blocks: 1500, # CPU blocks: 4681\nTraceback (most recent call last):\n  File "<frozen runpy>", line 198, in _run_module_as_main\n  File "/opt/vllm/worker/worker.py", line 1, in x\n    raise ValueError(\nValueError: The model\'s max seq len (32768) is larger than the maximum number of tokens that can be stored in KV cache (24000). Try increasing `gpu_memory_utilization` or decreasing `max_model_len` when initializing the engine.',
        ),
        "",
        Told(CRASHED, "kv-cache", "kv-cache-too-small"),
    ),
    (
        "NCCL in a worker, in V1 before process names",
        log(
            "v 0 api_server.py:1043| vLLM API server version 0.8.5\nv 0 api_server.py:1044| args: Namespace(port=8000, model='/m/Qwen3-32B', tensor_parallel_size=2)\nv 9 core.py:58| Initializing a V1 LLM engine (v0.8.5) with config: model='/m/Qwen3-32B'",
            "(VllmWorker rank=1 pid=5102) INFO 11-03 09:00:12 [utils.py:1055] Found nccl from library libnccl.so.2",
            "\n".join(
                "(VllmWorker rank=1 pid=5102) ERROR 11-03 09:00:14 [multiproc_executor.py:435] " + line
                for line in (
                    "WorkerProc hit an exception.",
                    "Traceback (most recent call last):",
                    '  File "/opt/vllm/distributed/device_communicators/pynccl.py", line 99, in __init__',
                    "    self.nccl.ncclCommInitRank(",
                    "RuntimeError: NCCL error: unhandled system error (run with NCCL_DEBUG=INFO for details)",
                )
            ),
            told_by(
                "v",
                15,
                "core.py:396",
                'EngineCore failed to start.\nTraceback (most recent call last):\n  File "/opt/vllm/v1/engine/core.py", line 387, in run_engine_core\n    x()\nException: WorkerProc initialization failed due to an exception in a background process. See stack trace for root cause.',
            ),
        ),
        "",
        Told(CRASHED, "distributed", "nccl-error", "1", "NCCL error"),
    ),
    (
        "unsupported architecture",
        log(
            launched(),
            main_failed(
                "pydantic_core._pydantic_core.ValidationError: 1 validation error for ModelConfig\n  Value error, Model architectures ['Qwen9ForCausalLM'] are not supported for now. Supported architectures: dict_keys(['AquilaModel']) [type=value_error, input_value=ArgsKwargs((), {'model': ...}), input_type=ArgsKwargs]\n    For further information visit https://errors.pydantic.dev/2.11/v/value_error"
            ),
        ),
        "",
        Told(CRASHED, "launch", "unsupported-architecture", None, "Qwen9ForCausalLM"),
    ),
    (
        "transformers does not know it",
        log(
            launched(),
            main_failed(
                "pydantic_core._pydantic_core.ValidationError: 1 validation error for ModelConfig\n  Value error, The checkpoint you are trying to load has model type `glm9_moe` but Transformers does not recognize this architecture. This could be because of an issue with the checkpoint, or because your version of Transformers is out of date. [type=value_error, input_value=ArgsKwargs((), {}), input_type=ArgsKwargs]"
            ),
        ),
        "",
        Told(CRASHED, "launch", "unsupported-architecture", None, "glm9_moe"),
    ),
    (
        "a length beyond the model's",
        log(
            launched(),
            main_failed(
                "pydantic_core._pydantic_core.ValidationError: 1 validation error for ModelConfig\n  Value error, User-specified max_model_len (131072) is greater than the derived max_model_len (max_position_embeddings=40960 or model_max_length=None in model's config.json). To allow overriding this maximum, set the env var VLLM_ALLOW_LONG_MAX_MODEL_LEN=1 [type=value_error, input_value=ArgsKwargs((), {}), input_type=ArgsKwargs]"
            ),
        ),
        "",
        Told(CRASHED, "launch", "invalid-config", None, "max_model_len"),
    ),
    (
        "another quantization",
        log(
            launched(),
            main_failed(
                "ValueError: Quantization method specified in the model config (awq) does not match the quantization method specified in the `quantization` argument (gptq)."
            ),
        ),
        "",
        Told(CRASHED, "launch", "invalid-config", None, "does not match"),
    ),
    (
        "a GPU too old for a format",
        log(
            begun(),
            worker_died(
                "W0",
                23,
                "ValueError: The quantization method fp8 is not supported for the current GPU. Minimum capability: 89. Current capability: 75.",
            ),
        ),
        "",
        Told(CRASHED, "weights", "invalid-config", "TP0"),
    ),
    (
        "bfloat16 on an old GPU",
        log(
            begun(),
            worker_died(
                "W0",
                23,
                "ValueError: Bfloat16 is only supported on GPUs with compute capability of at least 8.0. Your Tesla T4 GPU has compute capability 7.5. You can use float16 instead by explicitly setting the `dtype` flag in CLI, for example: --dtype=half.",
            ),
        ),
        "",
        Told(CRASHED, "weights", "invalid-config", "TP0"),
    ),
    (
        "more ranks than GPUs",
        log(
            launched(),
            start_failed(
                16,
                "ValueError: World size (8) is larger than the number of available GPUs (2) in this node. If this is intentional and you are using multi-node inference, set distributed_executor_backend='ray'",
            ),
        ),
        "",
        Told(CRASHED, "launch", "invalid-config", None, "World size"),
    ),
    (
        "a flag that it does not know",
        b"usage: vllm serve [model_tag] [options]\nvllm serve: error: unrecognized arguments: --enable-flash\n",
        "--exit-code 2",
        Told(CRASHED, "launch", "bad-flag", None, "--enable-flash"),
    ),
    (
        "a flag's value, by the API server",
        log(
            bare(
                "A",
                "usage: vllm serve [model_tag] [options]\nvllm serve: error: argument --max-model-len: invalid human_readable_int_or_auto value: '32 k'",
            )
        ),
        "--exit-code 2",
        Told(CRASHED, "launch", "bad-flag", None, "--max-model-len"),
    ),
    (
        "a gated model",
        log(
            launched(),
            main_failed(
                "OSError: You are trying to access a gated repo.\nMake sure to have access to it at https://huggingface.co/meta-llama/Llama-3.1-8B.\n401 Client Error. (Request ID: Root=1-6)"
            ),
        ),
        "",
        Told(CRASHED, "launch", "hub-auth", None, "gated"),
    ),
    (
        "offline without a cache",
        log(
            launched(),
            main_failed(
                "huggingface_hub.errors.LocalEntryNotFoundError: Cannot find an appropriate cached snapshot folder for the specified revision on the local disk and outgoing traffic has been disabled. To enable repo look-ups and downloads online, set 'HF_HUB_OFFLINE=0' as environment variable."
            ),
        ),
        "",
        Told(CRASHED, "launch", "hub-unreachable"),
    ),
    (
        "no such folder",
        log(
            launched(),
            main_failed(
                "OSError: Can't load the configuration of '/models/Qwen3-9B'. If you were trying to load it from 'https://huggingface.co/models', make sure you don't have a local directory with the same name. Otherwise, make sure '/models/Qwen3-9B' is the correct path to a directory containing a config.json file"
            ),
        ),
        "",
        Told(CRASHED, "launch", "model-not-found"),
    ),
    (
        "no tokenizer",
        log(
            launched(),
            main_failed(
                "OSError: Can't load tokenizer for '/models/Qwen3-8B'. If you were trying to load it from 'https://huggingface.co/models', make sure you don't have a local directory with the same name."
            ),
        ),
        "",
        Told(CRASHED, "launch", "model-not-found"),
    ),
    (
        "port taken before anything else",
        log(launched(), main_failed("OSError: [Errno 98] Address already in use")),
        "--exit-code 1",
        Told(CRASHED, "launch", "port-in-use", None, "Errno 98"),
    ),
    (
        "a Ray worker that died",
        log(
            V0,
            "(RayWorkerWrapper pid=9102, ip=10.0.0.6) INFO 11-03 09:00:13 model_runner.py:1094] Starting to load model /models/Qwen2.5-7B-Instruct...",
            '(RayWorkerWrapper pid=9102, ip=10.0.0.6) ERROR 11-03 09:00:14 worker_base.py:581] Error executing method load_model. This might cause deadlock in distributed execution.\n(RayWorkerWrapper pid=9102, ip=10.0.0.6) ERROR 11-03 09:00:14 worker_base.py:581] Traceback (most recent call last):\n(RayWorkerWrapper pid=9102, ip=10.0.0.6) ERROR 11-03 09:00:14 worker_base.py:581]   File "/opt/vllm/worker/worker.py", line 155, in load_model\n(RayWorkerWrapper pid=9102, ip=10.0.0.6) ERROR 11-03 09:00:14 worker_base.py:581] OSError: No such device or address (os error 6)',
            'Traceback (most recent call last):\n  File "<frozen runpy>", line 198, in _run_module_as_main\nray.exceptions.RayTaskError(OSError): ray::RayWorkerWrapper.execute_method() (pid=9102, ip=10.0.0.6)',
        ),
        "",
        Told(CRASHED, "weights", "python-exception", None, "No such device"),
    ),
    (
        "a Ray worker that was killed",
        log(
            begun(),
            bare(
                "E",
                "(raylet) A worker died or was killed while executing a task by an unexpected system error. Worker PID: 442 Worker exit type: SYSTEM_ERROR Worker exit detail: Worker unexpectedly exits with a connection error code 2. End of file. Some common causes include: (1) the process was killed by the OOM killer due to high memory usage, (2) ray stop --force was called, or (3) the worker crashed unexpectedly due to SIGSEGV or another unexpected error.",
            ),
            start_failed(40, "ray.exceptions.ActorDiedError: The actor died unexpectedly before finishing this task."),
        ),
        "",
        Told(CRASHED, "weights", "died-silently"),
    ),
    (
        "no compiler for a JIT build",
        log(
            compiled(),
            worker_died(
                "W0",
                75,
                "RuntimeError: Ninja build failed. Ninja output:\n[1/2] /usr/local/cuda/bin/nvcc -c x.cu\nFAILED: x.cuda.o\n/bin/sh: 1: /usr/local/cuda/bin/nvcc: not found\nninja: build stopped: subcommand failed.",
            ),
        ),
        "",
        Told(CRASHED, "compile", "kernel-build-failed", "TP0"),
    ),
    (
        "inductor fails",
        log(
            loaded(),
            worker_died(
                "W0",
                60,
                "torch._inductor.exc.InductorError: RuntimeError: Failed to find C compiler. Please specify via CC environment variable or set triton.knobs.build.impl.",
            ),
        ),
        "",
        Told(CRASHED, "weights", "kernel-build-failed", "TP0"),
    ),
    (
        "a backend compiler fails",
        log(
            loaded(),
            worker_died(
                "W0",
                60,
                "torch._dynamo.exc.BackendCompilerFailed: backend='<vllm.compilation.backends.VllmBackend object at 0x7>' raised:\nPermissionError: [Errno 13] Permission denied: '/root/.triton'",
            ),
        ),
        "",
        Told(CRASHED, "weights", "permission-denied", "TP0", ".triton"),
    ),
    (
        "ptxas does not know the GPU",
        log(
            loaded(),
            worker_died(
                "W0",
                60,
                "triton.runtime.errors.PTXASError: PTXAS error: Internal Triton PTX codegen error\n`ptxas` stderr:\nptxas fatal   : Value 'sm_121a' is not defined for option 'gpu-name'",
            ),
        ),
        "",
        Told(CRASHED, "weights", "kernel-build-failed", "TP0"),
    ),
    (
        "no kernels for the GPU",
        log(
            begun(),
            worker_died(
                "W0", 30, "torch.AcceleratorError: CUDA error: no kernel image is available for execution on the device"
            ),
        ),
        "",
        Told(CRASHED, "weights", "no-kernel-image", "TP0"),
    ),
    (
        "a broken extension",
        b'Traceback (most recent call last):\n  File "/usr/local/bin/vllm", line 4, in <module>\n    from vllm.entrypoints.cli.main import main\n  File "/usr/local/lib/python3.12/dist-packages/vllm/_custom_ops.py", line 14, in <module>\n    import vllm._C\nImportError: /usr/local/lib/python3.12/dist-packages/vllm/_C.abi3.so: undefined symbol: _ZN3c104cuda9SetDeviceEab\n',
        "--exit-code 1",
        Told(CRASHED, "launch", "import-error", None, "undefined symbol"),
    ),
    (
        "a half checkpoint",
        log(
            begun(),
            worker_died(
                "W0",
                30,
                "safetensors_rust.SafetensorError: Error while deserializing header: incomplete metadata, file not fully covered",
            ),
        ),
        "",
        Told(CRASHED, "weights", "weights-corrupt", "TP0"),
    ),
    (
        "weights of another model",
        log(begun(), worker_died("W0", 30, "KeyError: 'layers.0.mlp.experts.w2_weight_scale_inv'")),
        "",
        Told(CRASHED, "weights", "weights-corrupt", "TP0"),
    ),
    (
        "no driver",
        log(
            launched(),
            main_failed(
                "RuntimeError: Failed to infer device type, please set the environment variable `VLLM_LOGGING_LEVEL=DEBUG` to turn on verbose logging to help debug the issue."
            ),
        ),
        "",
        Told(CRASHED, "launch", "cuda-error", None, "infer device type"),
    ),
]


@pytest.mark.parametrize(("name", "text", "args", "told"), DEATHS, ids=[row[0] for row in DEATHS])
def test_a_death_is_explained(name: str, text: bytes, args: str, told: Told, tmp_path: Path) -> None:
    assert not faults(text, args, told, tmp_path), name
