"""SGLang logs that look worse than they are, stops on request, and silences: what must not be told, and what must."""

# ruff: noqa: E501 - lines of logs stand as they were printed

from __future__ import annotations

from pathlib import Path

import pytest

from tests.logs.examined import Told, faults
from tests.logs.stamped import ARGS, begun, captured, decode, loaded, log, prefill, raised, served

READY, STARTING, STALLED, STOPPED = "ready", "starting", "stalled", "stopped"
REQUEST_500 = """@70| INFO:     10.0.0.7:48276 - "POST /v1/chat/completions HTTP/1.1" 500 Internal Server Error
@70| ERROR:    Exception in ASGI application
Traceback (most recent call last):
  File "/usr/lib/python3.10/site-packages/uvicorn/protocols/http/httptools_impl.py", line 409, in run_asgi
    result = await app(
  File "/sgl-workspace/sglang/python/sglang/srt/openai_api/adapter.py", line 1011, in v1_chat_generate_request
    prompt = tokenizer.apply_chat_template(messages)
jinja2.exceptions.TemplateError: Conversation roles must alternate user/assistant/user/assistant/...
"""
SCARY_START = """/usr/local/lib/python3.10/dist-packages/torch/cuda/__init__.py:63: FutureWarning: The pynvml package is deprecated. Please install nvidia-ml-py instead. If you did not install pynvml directly, please report this to the maintainers of the package that installed pynvml for you.
  import pynvml  # type: ignore[import]
Skipping import of cpp extensions due to incompatible torch version 2.9.1+cu128 for torchao version 0.15.0
E0000 00:00:1756720800.123456    4711 cuda_dnn.cc:8310] Unable to register cuDNN factory: Attempting to register factory for plugin cuDNN when one has already been registered
WARNING: All log messages before absl::InitializeLog() is called are written to STDERR
/bin/sh: 1: ldconfig: not found
W0901 10:00:00.734000 4711 torch/utils/cpp_extension.py:2425] TORCH_CUDA_ARCH_LIST is not set, all archs for visible cards are included for compilation.
"""
SCARY_WITHIN = """@9 TP0| Ignore import error when loading sglang.srt.models.glm_ocr. cannot import name 'GlmOcrConfig' from 'transformers'
@9 TP0| Ignore import error when loading sglang.srt.models.midashenglm. libcudart.so.11.0: cannot open shared object file: No such file or directory
@9 TP1| Setup Custom allreduce failed with [Errno 2] No such file or directory. To silence this warning, specify --disable-custom-all-reduce explicitly.
@9 TP0| Custom allreduce is disabled because your platform lacks GPU P2P capability or P2P test failed. To silence this warning, specify disable_custom_all_reduce=True explicitly.
gpu-a:4711:4802 [0] NCCL WARN NET/IB : Unable to open device mlx5_3
gpu-a:4711:4802 [0] misc/ibvwrap.cc:94 NCCL WARN Call to ibv_open_device failed
gpu-a:4711:4711 [0] NCCL INFO NET/Plugin: Could not find: libnccl-net.so. Using internal network plugin.
@9 TP0| MLA optimization is turned on. Use triton backend.
[rank0]:[W901 10:00:09.134567 ProcessGroupNCCL.cpp:4843] Warning: using GPU 0 to perform barrier as devices used by this process are currently unknown. This can potentially cause a hang if this rank to GPU mapping is incorrect.
@9 TP0| Outlines backend is deprecated. Failed to import xgrammar, falling back.
@10 TP0| Failed to import amdsmi with No module named 'amdsmi'
@10 TP0| Failed to load generation config of /models/Qwen3-8B: [Errno 2] No such file or directory: '/models/Qwen3-8B/generation_config.json'"""
AUTOTUNE = """@32 TP0| Running FlashInfer autotune...
@33 TP0| 2025-09-01 10:00:33,123 - INFO - autotuner.py:256 - flashinfer.jit: [Autotuner]: Autotuning process starts ...
@33 TP0| [Autotuner]: Skipping tactic <flashinfer.fused_moe.core.MoERunner> 14, due to failure while profiling: [TensorRT-LLM][ERROR] Assertion failed: CUDA error: out of memory
@34 TP0| [Autotuner]: Failed to profile tactic 3: CUDA out of memory. Tried to allocate 2.00 GiB. Falling back to default tactic
@35 TP0| FlashInfer autotune completed."""
ABORTED_CLIENT = """@70| INFO:     10.0.0.7:48276 - "POST /generate HTTP/1.1" 200 OK
Task exception was never retrieved
future: <Task finished name='Task-812' coro=<TokenizerManager.abort() done> exception=ClientConnectionResetError('Cannot write to closing transport')>
Traceback (most recent call last):
  File "/usr/lib/python3.10/site-packages/aiohttp/http_writer.py", line 73, in _write
    raise ClientConnectionResetError("Cannot write to closing transport")
aiohttp.client_exceptions.ClientConnectionResetError: Cannot write to closing transport
@71| INFO:     10.0.0.7:48276 - "POST /v1/completions HTTP/1.1" 400 Bad Request
@71| INFO:     10.0.0.7:48277 - "GET /favicon.ico HTTP/1.1" 404 Not Found"""
STOP = """@90| SIGTERM received. signum=None frame=None. Draining requests and shutting down...
@90| Gracefully exiting... Remaining number of requests 0. Remaining requests remaining_rids=[]
@91| kill_process_tree called: parent_pid=4711, include_parent=True, pid=4711"""
UVICORN_STOP = """@90| INFO:     Shutting down
@90| INFO:     Waiting for application shutdown.
@90| INFO:     Application shutdown complete.
@90| INFO:     Finished server process [4711]"""

WELL: list[tuple[str, str, str, Told]] = [
    ("a start full of harmless words", SCARY_START + begun(2) + "\n" + SCARY_WITHIN + "\n" + served(2).split("\n", 7)[7] + "\n" + decode(60), "", Told(READY, "serving")),
    ("tactics that do not fit are skipped", loaded() + "\n" + AUTOTUNE + "\n" + captured().removeprefix(loaded()) + served().removeprefix(captured()) + "\n" + decode(60), "", Told(READY, "serving")),
    ("a client went away, another asked wrongly", served() + "\n" + ABORTED_CLIENT + "\n" + decode(72), "", Told(READY, "serving")),
    ("a request that the front end refuses", served() + "\n" + REQUEST_500 + "\n" + decode(75), "", Told(READY, "serving", warns=("request-error",))),
    ("testing retraction is a test", served() + "\n@60 TP0| Testing retraction. #retracted_reqs: 2, #new_token_ratio: 0.5500 -> 0.6200\n" + decode(61), "", Told(READY, "serving")),
    ("retracted under load", served() + "\n" + decode(60, 90) + "\n@61 TP0| KV cache pool is full. Retract requests. #retracted_reqs: 3, #new_token_ratio: 0.5500 -> 0.6200\n" + decode(62, 87), "", Told(READY, "serving", warns=("requests-retracted",))),
    ("retracted in 0.3's words", served() + "\n@61 TP0| Decode out of memory happened. #retracted_reqs: 3, #new_token_ratio: 0.5500 -> 0.6200\n" + decode(62, 87), "", Told(READY, "serving", warns=("requests-retracted",))),
    ("a soft watchdog of a part that is not the scheduler", served() + "\n@80| DetokenizerManager watchdog timeout (self.watchdog_timeout=300, self.soft=True)\n" + decode(90), "", Told(READY, "serving")),
    ("asked to stop", served() + "\n" + STOP, "--exit-code -9", Told(STOPPED, "serving")),
    ("asked to stop, uvicorn's words", served() + "\n" + UVICORN_STOP, "--exit-code 0", Told(STOPPED, "serving")),
    ("Ctrl+C with a traceback of the launcher", served() + '\n^C@90| INFO:     Shutting down\n@90| INFO:     Waiting for application shutdown.\n@90| INFO:     Application shutdown complete.\n@90| INFO:     Finished server process [4711]\nTraceback (most recent call last):\n  File "/usr/lib/python3.12/asyncio/runners.py", line 118, in run\n    return self._loop.run_until_complete(task)\nasyncio.exceptions.CancelledError\n\nDuring handling of the above exception, another exception occurred:\n\nTraceback (most recent call last):\n  File "/usr/lib/python3.12/runpy.py", line 198, in _run_module_as_main\n    return _run_code(code)\nKeyboardInterrupt\n', "--exit-code 130", Told(STOPPED, "serving")),
    ("asked to stop, and its requests end in exceptions", served() + "\n" + decode(80, 4) + "\n" + UVICORN_STOP.replace("@90", "@89").split("\n")[0] + '\n@90| ERROR:    Exception in ASGI application\nTraceback (most recent call last):\n  File "/x/uvicorn/httptools_impl.py", line 409, in run_asgi\n    result = await app(\nasyncio.exceptions.CancelledError\n' + UVICORN_STOP.split("\n", 1)[1], "--exit-code 143", Told(STOPPED, "serving")),
    ("ended by a signal while it loads, exit -15", begun(2), "--exit-code -15", Told(STOPPED, "weights")),
    ("its log ends in mid bar", begun(2) + "\nLoading safetensors checkpoint shards:  25% Completed | 1/4 [00:30<01:30, 30.2", "", Told(STARTING, "weights")),
    ("a bar of one rank behind another's, the slowest counts", begun(2) + "\nLoading safetensors checkpoint shards:  75% Completed | 3/4 [00:12<00:04,  4.2s/it]\rLoading safetensors checkpoint shards:  75% Completed | 3/4 [00:12<00:04,  4.2s/it]", "", Told(STARTING, "weights", more=(("progress", {"done": 3, "total": 4, "unit": "shards"}),))),
    ("0.3's bar of graphs has no name", loaded() + "\n@33 TP0| Capture cuda graph begin. This can take up to several minutes.\n 39%|###9      | 9/23 [00:08<00:12,  1.13it/s]", "", Told(STARTING, "graphs", more=(("progress", {"done": 9, "total": 23, "unit": "graphs"}),))),
    ("kernels are compiled while graphs are captured", loaded() + "\n@33 TP0| Capture cuda graph begin. This can take up to several minutes. avail mem=13.30 GB\n2025-09-01 10:00:35,890 - INFO - flashinfer.jit: Loading JIT ops: batch_prefill_with_kv_cache_dtype_q_bf16\n", "--idle 200", Told(STARTING, "graphs")),
    ("weights: 4 minutes before the first bar", begun(8), "--idle 240", Told(STARTING, "weights")),
    ("weights: 6 minutes before the first bar", begun(8), "--idle 360", Told(STALLED, "weights", "stalled")),
    ("distributed: 6 minutes", "\n".join(begun(8).split("\n")[:9]), "--idle 360", Told(STALLED, "distributed", "stalled")),
    ("graphs: 2 of 23 for 10 minutes", loaded() + "\n@33 TP0| Capture cuda graph begin. This can take up to several minutes. avail mem=13.30 GB\nCapturing batches (bs=152 avail_mem=9.72 GB):   9%|9         | 2/23 [00:01<00:10,  1.93it/s]", "--idle 600", Told(STALLED, "graphs", "stalled")),
    ("memory pool: 3 minutes of silence", begun() + "\n@30 TP0| Load weight end. type=Qwen3ForCausalLM, dtype=torch.bfloat16, avail mem=62.91 GB, mem usage=15.30 GB.", "--idle 180", Told(STALLED, "kv-cache", "stalled")),
    ("DeepGEMM: 20 minutes", loaded() + "\n@33 TP0| Entering DeepGEMM JIT Pre-Compile session. It may take a long time (typically 10-20 mins) if you have not run `sglang.compile_deep_gemm`.\n@34 TP0| Try DeepGEMM JIT Compiling for <GEMM_NT_F8F8BF16> N=6144, K=2560, num_groups=1 with all Ms. It only takes a little time (typically 1 sec) if you have run `python3 -m sglang.compile_deep_gemm`.", "--idle 1200", Told(STARTING, "compile", warns=("jit-compiling",))),
    ("DeepGEMM: 40 minutes", loaded() + "\n@33 TP0| Entering DeepGEMM JIT Pre-Compile session. It may take a long time.", "--idle 2400", Told(STALLED, "compile", "stalled", warns=("jit-compiling",))),
    ("warm-up: 11 minutes", captured() + "\n@49 TP0| max_total_num_tokens=350000, chunked_prefill_size=8192\n@50| INFO:     Application startup complete.", "--idle 660", Told(STALLED, "warmup", "stalled")),
    ("idle for hours", served() + "\n" + decode(60) + '\n@61| INFO:     10.0.0.7:48276 - "POST /generate HTTP/1.1" 200 OK', "--idle 7200", Told(READY, "serving")),
    ("serving, a queue and no token for 2 minutes", served() + "\n" + decode(60, 30, 900.0, 12), "--idle 120", Told(STALLED, "serving", "stalled")),
    ("it asks whether to trust code, and stands there", "@0| " + ARGS.format(tp=1, dp=1) + "\nThe repository for /models/x contains custom code which must be executed to correctly load the model. You can inspect the repository content at https://hf.co//models/x.\nYou can avoid this prompt in future by passing the argument `trust_remote_code=True`.\n\nDo you wish to run the custom code? [y/N] ", "", Told(STALLED, "launch", "waiting-for-input")),
    ("the draft's second load", served(1).replace("@49 TP0|", "@49 TP0| Load weight begin. avail mem=12.80 GB\n@54 TP0| Load weight end. type=LlamaForCausalLMEagle3, dtype=torch.bfloat16, avail mem=11.00 GB, mem usage=1.80 GB.\n@54 TP0|").replace("@50", "@55").replace("@51", "@56").replace("@55|", "@57|"), "", Told(READY, "serving", more=(("phases", {"$has": {"name": "draft-weights", "seconds": {"$approx": 5, "$tol": 0.6}}}), ("ready_s", 57.0)))),
    ("of two data ranks the rates are added, of tensor ranks not", served(2, 2) + "\n" + "\n".join([decode(60, 4, 100.0, rank="DP0 TP0"), decode(60, 5, 120.0, rank="DP1 TP0"), decode(61, 6, 130.0, rank="DP0 TP0"), decode(61, 5, 125.0, rank="DP1 TP0")]), "", Told(READY, "serving", more=(("metrics", {"decode_samples": 4, "gen_tok_s": {"last": {"$approx": 255.0}}, "running": {"last": 11}}),))),
    ("tail -F tells of a new file between the records", served() + "\ntail: '/var/log/sglang.log' has become inaccessible: No such file or directory\ntail: '/var/log/sglang.log' has appeared;  following new file\n" + decode(80), "", Told(READY, "serving")),
    ("health answers 503 before it is ready", captured() + '\n@48| INFO:     127.0.0.1:50000 - "GET /health HTTP/1.1" 503 Service Unavailable' + served().removeprefix(captured()), "", Told(READY, "serving")),
    ("a request with an image that cannot be fetched", served() + "\n" + raised(70, "TP0", "requests.exceptions.ConnectTimeout: HTTPConnectionPool(host='10.1.1.1', port=80): Max retries exceeded with url: /a.png", "load_image", "x").replace("@70 TP0| x hit an exception: ", "@70| Error in request: ").replace("run_scheduler_process", "generate_request") + decode(75), "", Told(READY, "serving", warns=("request-error",))),
    ("an invalid grammar is refused for its request alone", served() + "\n@70 TP0| Hit invalid json_schema: json_schema='{\"type\": \"strng\"}', e=RuntimeError('[10:01:10] /project/cpp/json_schema_converter.cc:1432: Unsupported type \"strng\"')\n" + decode(75), "", Told(READY, "serving")),
    ("transfers fail, the server goes on", served() + "\n@60 TP0| Decode transfer failed for request rank=0 decode_req.req.rid='7' decode_req.req.bootstrap_room=4 with exception KVTransferError(bootstrap_room=4): Failed to get kvcache from prefill instance, it might be dead\n" + decode(75), "", Told(READY, "serving", warns=("kv-transfer-failed",))),
    ("kernels of flashinfer built inside a capture, 20 minutes", loaded() + "\n@33 TP0| Capture cuda graph begin. This can take up to several minutes.\n2025-09-01 10:00:40,123 - INFO - flashinfer.jit: Loading JIT ops: batch_prefill_x", "--idle 1200", Told(STARTING, "graphs")),
    ("kernels that were built explain no silence", loaded() + "\n@33 TP0| Capture cuda graph begin. This can take up to several minutes.\n2025-09-01 10:00:40,123 - INFO - flashinfer.jit: Loading JIT ops: batch_prefill_x\n2025-09-01 10:00:50,123 - INFO - flashinfer.jit: Finished loading JIT ops: batch_prefill_x", "--idle 1200", Told(STALLED, "graphs", "stalled")),
    ("DeepGEMM at the first request, with a queue", served() + "\n" + prefill(60, 0, 3) + "\n@61 TP0| Entering DeepGEMM JIT Pre-Compile session. It may take a long time.", "--idle 300", Told(READY, "serving", warns=("jit-compiling",))),
    ("piecewise graphs' bar", captured() + "\n@49 TP0| Capture piecewise CUDA graph begin. avail mem=12.00 GB\nCompiling num tokens (num_tokens=4096):  10%|#         | 5/48 [00:03<00:30,  1.40it/s]", "--idle 60", Told(STARTING, "graphs", more=(("progress", {"done": 5, "total": 48}),))),
    ("Ctrl+C while it loads", begun(2) + '\n^CTraceback (most recent call last):\n  File "/usr/lib/python3.10/runpy.py", line 196, in _run_module_as_main\n    return x\n  File "/x/sglang/srt/entrypoints/engine.py", line 600, in _launch\n    data = reader.recv()\nKeyboardInterrupt', "", Told(STOPPED, "weights")),
]  # fmt: skip


@pytest.mark.parametrize(("text", "args", "told"), [case[1:] for case in WELL], ids=[case[0] for case in WELL])
def test_what_is_well_is_told_as_well(text: str, args: str, told: Told, tmp_path: Path) -> None:
    wrong = faults(log(text), args, told, tmp_path)
    assert not wrong, "\n".join(wrong)
