"""SGLang that never came up: arguments, packages, checkpoints, the hub, ports; and what its versions say differently."""

# ruff: noqa: E501 - lines of logs stand as they were printed

from __future__ import annotations

from pathlib import Path

import pytest

from tests.logs.examined import Told, faults
from tests.logs.stamped import ARGS, begun, captured, decode, each, loaded, log, raised, served, sigquit

CRASHED = "crashed"


def died(error: str, *frames: str) -> str:
    """An exception that ends the launcher itself."""
    places = "\n".join(f'  File "{frame}", line 44, in work\n    work()' for frame in frames)
    return f"""Traceback (most recent call last):
  File "/usr/lib/python3.12/runpy.py", line 198, in _run_module_as_main
    return _run_code(code, main_globals, None,
  File "/sgl-workspace/sglang/python/sglang/launch_server.py", line 30, in <module>
    run_server(server_args)
{places}
{error}
"""


USAGE = "usage: launch_server.py [-h] --model-path MODEL_PATH [--host HOST] [--port PORT]\n                        [--tp-size TP_SIZE]\n"
CHAIN = "\n\nDuring handling of the above exception, another exception occurred:\n\n"
CAUSED = "\n\nThe above exception was the direct cause of the following exception:\n\n"

STARTS: list[tuple[str, str, str, Told]] = [
    ("a choice that is none", USAGE + "launch_server.py: error: argument --attention-backend: invalid choice: 'fa5' (choose from 'triton', 'torch_native', 'flashinfer', 'fa3')", "--exit-code 2", Told(CRASHED, "launch", "bad-flag", None, "invalid choice")),
    ("a value that is missing", USAGE + "launch_server.py: error: argument --port: expected one argument", "--exit-code 2", Told(CRASHED, "launch", "bad-flag", None, "expected one argument")),
    ("no model", USAGE + "launch_server.py: error: the following arguments are required: --model-path/--model", "--exit-code 2", Told(CRASHED, "launch", "bad-flag", None, "are required")),
    ("a number that is none", USAGE + "launch_server.py: error: argument --tp-size/--tensor-parallel-size: invalid int value: 'two'", "--exit-code 2", Told(CRASHED, "launch", "bad-flag", None, "invalid int value")),
    ("tp does not divide the heads", begun(8).split("Load weight begin")[0].rsplit("\n", 1)[0] + "\n" + raised(12, "TP0", "ValueError: Total number of attention heads (28) must be divisible by tensor parallel size (8)."), "", Told(CRASHED, "distributed", "invalid-config", "TP0", "divisible")),
    ("an assertion of the arguments", died("AssertionError: dp_size must be 1 when PD disaggregation is off", "/sgl/sglang/srt/server_args.py"), "--exit-code 1", Told(CRASHED, "launch", "invalid-config", None, "must be 1")),
    ("a bare assertion while weights load", begun() + "\n" + raised(14, "TP0", "AssertionError", "weight_loader"), "", Told(CRASHED, "weights", "python-exception", "TP0", "AssertionError")),
    ("a block size that fp8 does not divide", begun(8) + "\n" + raised(12, "TP3", "ValueError: Weight output_partition_size = 576 is not divisible by weight quantization block_n = 128."), "", Told(CRASHED, "weights", "invalid-config", "TP3", "not divisible")),
    ("a quantization that is not the checkpoint's", died("ValueError: Quantization method specified in the model config (awq) does not match the quantization method specified in the `quantization` argument (fp8).", "/sgl/sglang/srt/configs/model_config.py"), "--exit-code 1", Told(CRASHED, "launch", "invalid-config", None, "does not match")),
    ("a GPU too old for the quantization", begun() + "\n" + raised(14, "TP0", "ValueError: The quantization method fp8 is not supported for the current GPU. Minimum capability: 80. Current capability: 75."), "", Told(CRASHED, "weights", "invalid-config", "TP0", "not supported for the current GPU")),
    ("a longer context than the model's", died("ValueError: User-specified context_length (131072) is greater than the derived context_length (32768). This may lead to incorrect model outputs or CUDA errors. Note that the derived context_length may differ from max_position_embeddings in the model's config.", "/sgl/sglang/srt/configs/model_config.py"), "--exit-code 1", Told(CRASHED, "launch", "invalid-config", None, "greater than the derived")),
    ("an attention backend without speculative decoding", died("ValueError: Currently ngram speculative decoding only supports greedy; incompatible with --enable-dp-attention", "/sgl/sglang/srt/server_args.py"), "--exit-code 1", Told(CRASHED, "launch", "invalid-config", None, "incompatible")),
    ("weights of another shape", begun() + "\nLoading safetensors checkpoint shards:   0% Completed | 0/4 [00:00<?, ?it/s]\n" + raised(14, "TP0", "AssertionError: Attempted to load weight (torch.Size([4096])) into parameter (torch.Size([2048]))", "default_weight_loader"), "", Told(CRASHED, "weights", "weights-corrupt", "TP0", "Attempted to load weight")),
    ("a size that does not match the tensor's", begun(2) + "\n" + raised(14, "TP1", "RuntimeError: The size of tensor a (5120) must match the size of tensor b (2560) at non-singleton dimension 1", "weight_loader"), "", Told(CRASHED, "weights", "weights-corrupt", "TP1", "size of tensor a")),
    ("a shard that was cut", begun(2) + "\n" + raised(14, "TP0", "safetensors_rust.SafetensorError: Error while deserializing header: MetadataIncompleteBuffer", "safetensors_weights_iterator"), "--exit-code 1", Told(CRASHED, "weights", "weights-corrupt", "TP0", "MetadataIncompleteBuffer")),
    ("a shard that is an LFS pointer", begun(2) + "\n" + raised(14, "TP0", "safetensors_rust.SafetensorError: Error while deserializing header: header too large", "safetensors_weights_iterator"), "", Told(CRASHED, "weights", "weights-corrupt", "TP0", "header too large")),
    ("a weight that the code does not know", begun() + "\n" + raised(14, "TP0", "KeyError: 'model.layers.0.mlp.gate_up_proj.weight_scale_inv'", "load_weights"), "", Told(CRASHED, "weights", "weights-corrupt", "TP0", "KeyError")),
    ("a shard is missing", begun() + "\n" + raised(14, "TP0", 'FileNotFoundError: No such file or directory: "/models/Qwen3-8B/model-00003-of-00005.safetensors"', "safetensors_weights_iterator"), "", Told(CRASHED, "weights", "model-not-found", "TP0", "model-00003")),
    ("no weights at all", begun() + "\n" + raised(14, "TP0", "RuntimeError: Cannot find any model weights with `/models/Qwen3-8B`", "_prepare_weights"), "", Told(CRASHED, "weights", "model-not-found", "TP0", "Cannot find any model weights")),
    ("a path that is none is asked of the hub", died("huggingface_hub.errors.HFValidationError: Repo id must be in the form 'repo_name' or 'namespace/repo_name': '/models/Qwen3-8'. Use `repo_type` argument if needed." + CHAIN + "Traceback (most recent call last):\n  File \"/x/transformers/utils/hub.py\", line 475, in cached_files\n    raise EnvironmentError(\nOSError: Incorrect path_or_model_id: '/models/Qwen3-8'. Please provide either the path to a local directory or the repo_id of a model on the Hub.", "/sgl/sglang/srt/hf_transformers_utils.py"), "--exit-code 1", Told(CRASHED, "launch", "model-not-found", None, "/models/Qwen3-8")),
    ("a name that the hub does not have", died("requests.exceptions.HTTPError: 404 Client Error: Not Found for url: https://huggingface.co/qwen/Qwen3-9B/resolve/main/config.json" + CAUSED + 'Traceback (most recent call last):\n  File "/x/huggingface_hub/utils/_http.py", line 475, in hf_raise\n    raise\nhuggingface_hub.errors.RepositoryNotFoundError: 404 Client Error. (Request ID: Root=1-68)\n\nRepository Not Found for url: https://huggingface.co/qwen/Qwen3-9B/resolve/main/config.json.\nPlease make sure you specified the correct `repo_id` and `repo_type`.\nIf you are trying to access a private or gated repo, make sure you are authenticated.', "/sgl/x.py"), "--exit-code 1", Told(CRASHED, "launch", "model-not-found", None, "404 Client Error")),
    ("too many requests to the hub", died("requests.exceptions.HTTPError: 429 Client Error: Too Many Requests for url: https://huggingface.co/api/models/q/resolve/main/config.json", "/sgl/x.py"), "--exit-code 1", Told(CRASHED, "launch", "hub-unreachable", None, "429 Client Error")),
    ("the hub's server fails", died("huggingface_hub.errors.HfHubHTTPError: 503 Server Error: Service Unavailable for url: https://huggingface.co/api/models/q/tree/main", "/sgl/x.py"), "--exit-code 1", Told(CRASHED, "launch", "hub-unreachable", None, "503 Server Error")),
    ("custom code, no terminal to ask", died("ValueError: The repository /models/x contains custom code which must be executed to correctly load the model. You can inspect the repository content at https://hf.co//models/x.\nPlease pass the argument `trust_remote_code=True` to allow custom code to be run.", "/x/transformers/dynamic_module_utils.py"), "--exit-code 1", Told(CRASHED, "launch", "trust-remote-code", None, "custom code")),
    ("a model type that transformers does not know", died("KeyError: 'qwen4'" + CHAIN + 'Traceback (most recent call last):\n  File "/x/transformers/configuration_auto.py", line 1133, in from_pretrained\n    raise ValueError(\nValueError: The checkpoint you are trying to load has model type `qwen4` but Transformers does not recognize this architecture. This could be because of an issue with the checkpoint, or because your version of Transformers is out of date.', "/sgl/x.py"), "--exit-code 1", Told(CRASHED, "launch", "unsupported-architecture", None, "qwen4")),
    ("a shared library that is missing", died("ImportError: libnvrtc.so.13: cannot open shared object file: No such file or directory", "/sgl/sgl_kernel/__init__.py"), "--exit-code 1", Told(CRASHED, "launch", "import-error", None, "libnvrtc")),
    ("a symbol of another torch", died("ImportError: /x/sgl_kernel/common_ops.abi3.so: undefined symbol: _ZN3c104cuda9SetDeviceEab", "/sgl/sgl_kernel/__init__.py"), "--exit-code 1", Told(CRASHED, "launch", "import-error", None, "undefined symbol")),
    ("a name that moved in transformers", died("ImportError: cannot import name 'is_flash_attn_2' from 'transformers.utils' (/x/transformers/utils/__init__.py)", "/sgl/x.py"), "--exit-code 1", Told(CRASHED, "launch", "import-error", None, "cannot import name")),
    ("a package too old", died("Exception: flashinfer_python is installed with version 0.2.3, which is less than the minimum required version 0.2.5. Please uninstall the old version and reinstall the latest version by following the instructions at https://docs.flashinfer.ai/installation.html.", "/sgl/sglang/srt/utils.py"), "--exit-code 1", Told(CRASHED, "launch", "import-error", None, "minimum required version")),
    ("sglang is not installed", "/usr/bin/python3: No module named sglang.launch_server; 'sglang' is a package and cannot be directly executed", "--exit-code 1", Told(CRASHED, "launch", "import-error", None, "No module named")),
    ("the program is not there", "bash: line 1: sglang: command not found", "--exit-code 127", Told(CRASHED, "launch", "never-started", None, "command not found")),
    ("the driver is older than CUDA", "@0| " + ARGS.format(tp=1, dp=1) + "\n" + raised(5, "TP0", "RuntimeError: The NVIDIA driver on your system is too old (found version 12020). Please update your GPU driver", "init_torch_distributed"), "", Told(CRASHED, "launch", "driver-mismatch", "TP0", "too old")),
    ("no GPU is visible", died("RuntimeError: No CUDA GPUs are available", "/sgl/x.py"), "--exit-code 1", Told(CRASHED, "launch", "cuda-error", None, "No CUDA GPUs")),
    ("fewer GPUs than ranks", "@0| " + ARGS.format(tp=8, dp=1) + "\n" + each(2, "@8 TP{r}| Init torch distributed begin.") + "\n" + raised(9, "TP4", "RuntimeError: CUDA error: invalid device ordinal\nCUDA kernel errors might be asynchronously reported at some other API call, so the stacktrace below might be incorrect."), "", Told(CRASHED, "distributed", "cuda-error", "TP4", "invalid device ordinal")),
    ("the port is taken, found before the load", "@0| " + ARGS.format(tp=1, dp=1) + "\n" + died("OSError: [Errno 98] Address already in use", "/sgl/sglang/srt/utils.py"), "--exit-code 1", Told(CRASHED, "launch", "port-in-use", None, "Address already in use")),
    ("the bind fails after the startup line", captured() + "\n@49 TP0| max_total_num_tokens=350000\n@50| INFO:     Started server process [4711]\n@50| INFO:     Waiting for application startup.\n@50| INFO:     Application startup complete.\n@50| ERROR:    [Errno 98] error while attempting to bind on address ('0.0.0.0', 30000): address already in use\n@50| INFO:     Waiting for application shutdown.\n@50| INFO:     Application shutdown complete.", "", Told(CRASHED, "warmup", "port-in-use", None, "30000")),
    ("the disk of the compile cache is full", loaded() + "\n@33 TP0| Capture cuda graph begin. This can take up to several minutes.\n" + raised(36, "TP0", "OSError: [Errno 28] No space left on device: '/root/.triton/cache/tmp.pid_4711'", "capture") + sigquit(36), "", Told(CRASHED, "graphs", "disk-full", "TP0", "/root/.triton")),
    ("NCCL without /dev/shm", "@0| " + ARGS.format(tp=2, dp=1) + "\n" + each(2, "@8 TP{r}| Init torch distributed begin.") + "\n" + raised(9, "TP0", "torch.distributed.DistBackendError: NCCL error in: /pytorch/torch/csrc/distributed/c10d/NCCLUtils.cpp:77, unhandled system error (run with NCCL_DEBUG=INFO for details), NCCL version 2.26.2\nncclSystemError: System call (e.g. socket, malloc) or external library call failed or device error.\nLast error:\nError while creating shared memory segment /dev/shm/nccl-mmzXaY (size 9637888), error: No space left on device (28)"), "", Told(CRASHED, "distributed", "shm-exhausted", "TP0", "/dev/shm")),
    ("the warm-up's answer is an error", captured() + "\n@49 TP0| max_total_num_tokens=350000\n@50| INFO:     Uvicorn running on http://0.0.0.0:30000 (Press CTRL+C to quit)\n@51| Initialization failed. warmup error: Traceback (most recent call last):\n  File \"/sgl/sglang/srt/entrypoints/http_server.py\", line 712, in _execute_server_warmup\n    assert res.status_code == 200, f\"{res=}, {res.text=}\"\nAssertionError: res=<Response [502]>, res.text='proxy'\n\nKilled", "--exit-code 137", Told(CRASHED, "warmup", "warmup-failed", None, "warmup error")),
    ("the tokenizer's own death in the words of 0.5", begun() + "\n@12| DetokenizerManager hit an exception: Traceback (most recent call last):\n  File \"/sgl/sglang/srt/managers/detokenizer_manager.py\", line 320, in run_detokenizer_process\n    manager = DetokenizerManager(server_args, port_args)\nOSError: Can't load tokenizer for '/models/Qwen3-8B'. If you were trying to load it from 'https://huggingface.co/models', make sure you don't have a local directory with the same name.\n\n" + sigquit(12), "", Told(CRASHED, "weights", "model-not-found", None, "Can't load tokenizer")),
    ("0.3: the rank's traceback is a record's own text", served() + "\n" + decode(60) + '\n@70 TP0| Traceback (most recent call last):\n  File "/x/sglang/srt/managers/scheduler.py", line 1196, in run_scheduler_process\n    scheduler.event_loop_normal()\nRuntimeError: Failed to allocate memory for batch_prefill_tmp_v with size 435814400 and alignment 16 in AlignedAllocator\n\nKilled', "--exit-code 137", Told(CRASHED, "serving", "request-killed-server", "TP0", "Failed to allocate memory")),
    ("0.2: an exception in the tensor parallel server", "server_args=ServerArgs(model_path='m', tp_size=1, port=30000)\n[gpu=0] Load weight begin. avail mem=78 GB\nThe server is fired up and ready to roll!\nException in ModelTpServer:\nTraceback (most recent call last):\n  File \"/x/sglang/srt/managers/tp_worker.py\", line 218, in exposed_step\n    self.forward_step()\nRuntimeError: CUDA error: an illegal memory access was encountered\n\nKilled", "", Told(CRASHED, "serving", "illegal-memory-access", None, "illegal memory access")),
    ("0.1: the router's first state is an exception", "server_args=ServerArgs(model_path='m', tp_size=1, port=30000)\nProcess Process-1:\nrouter init state: Traceback (most recent call last):\n  File \"/x/sglang/srt/managers/router/manager.py\", line 68, in start_router_process\n    model_client = ModelRpcClient(\nRuntimeError: Not enought memory. Please try to increase --mem-fraction-static.\n\ndetoken init state: init ok", "--exit-code 1", Told(CRASHED, "launch", "kv-cache-too-small", None, "memory")),
]  # fmt: skip


@pytest.mark.parametrize(("text", "args", "told"), [case[1:] for case in STARTS], ids=[case[0] for case in STARTS])
def test_a_start_that_failed_names_its_cause(text: str, args: str, told: Told, tmp_path: Path) -> None:
    wrong = faults(log(text), args, told, tmp_path)
    assert not wrong, "\n".join(wrong)
