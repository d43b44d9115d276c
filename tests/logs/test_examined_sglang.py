"""Deaths of SGLang as people met them, rebuilt: which cause is named, of which rank, in which phase."""

# ruff: noqa: E501 - lines of logs stand as they were printed

from __future__ import annotations

from pathlib import Path

import pytest

from tests.logs.examined import Told, faults
from tests.logs.stamped import ARGS, begun, captured, decode, each, loaded, log, prefill, raised, served, sigquit

CRASHED = "crashed"
OOM = (
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.16 GiB. GPU 3 has a total capacity of 79.11 GiB of which "
    "705.06 MiB is free. Process 71423 has 78.42 GiB memory in use."
)
CAPTURE_HINTS = """Possible solutions:
1. set --mem-fraction-static to a smaller value (e.g., 0.8 or 0.7)
2. set --cuda-graph-max-bs to a smaller value (e.g., 16)
3. disable torch compile by not using --enable-torch-compile
4. disable CUDA graph by --disable-cuda-graph. (Not recommended. Huge performance loss)
Open an issue on GitHub https://github.com/sgl-project/sglang/issues/new/choose"""
GONE_PEER = (
    "RuntimeError: [../third_party/gloo/gloo/transport/tcp/pair.cc:534] Connection closed by peer [10.0.0.4]:31377"
)
CUDA_TAIL = """CUDA kernel errors might be asynchronously reported at some other API call, so the stacktrace below might be incorrect.
For debugging consider passing CUDA_LAUNCH_BLOCKING=1
Compile with `TORCH_USE_CUDA_DSA` to enable device-side assertions."""

DEATHS: list[tuple[str, str, str, Told]] = [
    (
        "sigquit before the exception that sent it",
        "\n".join([begun(4), sigquit(15), raised(15, "TP2", OOM), sigquit(15)]),
        "",
        Told(CRASHED, "weights", "cuda-oom", "TP2", "CUDA out of memory"),
    ),
    (
        "exceptions of four ranks mixed line by line by one pipe, each record after the bar",
        begun(4) + "\n" + raised(15, "TP1", OOM) + "\nLoading safetensors checkpoint shards:  50% Completed | 2/4 [00:09<00:09,  4.61s/it]"
        + raised(16, "TP3", GONE_PEER) + "\n" + sigquit(16) + "\nKilled",
        "--exit-code 137",
        Told(CRASHED, "weights", "cuda-oom", "TP1", "CUDA out of memory"),
    ),
    (
        "not enough memory, with its number",
        begun(2) + "\n" + each(2, "@30 TP{r}| Load weight end. type=Gemma3ForConditionalGeneration, dtype=torch.bfloat16, avail mem=6.10 GB, mem usage=16.91 GB.")
        + "\n" + raised(31, "TP0", "RuntimeError: Not enough memory. Please try to increase --mem-fraction-static. Current value: mem_fraction_static=0.8") + sigquit(31),
        "--exit-code -9",
        Told(CRASHED, "kv-cache", "kv-cache-too-small", "TP0", "Not enough memory"),
    ),
    (
        "the memory capacity is unbalanced",
        "@0| " + ARGS.format(tp=2, dp=1) + "\n" + each(2, "@8 TP{r}| Init torch distributed begin.") + "\n"
        + raised(12, "TP1", "ValueError: The memory capacity is unbalanced. Some GPUs may be occupied by other processes. min_per_gpu_memory=8.88, local_gpu_memory=77.9, local_gpu_memory * 0.9=70.1"),
        "",
        Told(CRASHED, "distributed", "cuda-oom", "TP1", "memory capacity is unbalanced"),
    ),
    (
        "prefill out of memory is the pool's, in serving",
        served() + "\n" + decode(60, 20) + "\n"
        + raised(70, "TP0", "RuntimeError: Prefill out of memory. Try to lower your batch size.\nTry to allocate 8192 tokens.\nAvailable tokens: 5120 (available_size=5120 + evictable_size=0)", "alloc_for_extend")
        + sigquit(70),
        "--exit-code -9",
        Told(CRASHED, "serving", "request-killed-server", "TP0", "Prefill out of memory"),
    ),
    (
        "out of request slots",
        served() + "\n" + decode(60, 4) + "\n"
        + raised(70, "TP0", "RuntimeError: alloc_req_slots runs out of memory. Please set a smaller number for `--max-running-requests`. self.req_to_token_pool.available_size()=1, num_reqs=2, ", "alloc_req_slots") + sigquit(70),
        "",
        Told(CRASHED, "serving", "request-killed-server", "TP0", "alloc_req_slots runs out of memory"),
    ),
    (
        "a leak in the token pool ends an idle server",
        served(2) + "\n" + decode(60) + "\n"
        + raised(95, "TP0", "ValueError: token_to_kv_pool_allocator memory leak detected! available_size=3189424, protected_size=0, self.max_total_num_tokens=3185200", "check_memory")
        + sigquit(95) + "\n./run.sh: line 22: 103525 Killed                  python -m sglang.launch_server --host 0.0.0.0",
        "--exit-code 137",
        Told(CRASHED, "serving", "request-killed-server", "TP0", "memory leak detected"),
    ),
    (
        "an illegal access, seen by the overlap thread, then by NCCL's watchdog",
        served(2) + "\n" + decode(60) + "\n"
        + raised(70, "TP1", "RuntimeError: CUDA error: an illegal memory access was encountered\n" + CUDA_TAIL, "forward_thread_func_", "TpModelWorkerClient")
        + "[rank0]:[E901 10:01:11.916910323 ProcessGroupNCCL.cpp:1895] [PG ID 2 PG GUID 3 Rank 0] Process group watchdog thread terminated with exception: CUDA error: an illegal memory access was encountered\n"
        + sigquit(71) + "\nFatal Python error: Aborted\n",
        "--exit-code -6",
        Told(CRASHED, "serving", "illegal-memory-access", "TP1", "illegal memory access"),
    ),
    (
        "an illegal access only in the words of NCCL's watchdog",
        served(4) + "\n" + decode(60) + "\n"
        + "[rank2]:[E901 10:01:11.916910323 ProcessGroupNCCL.cpp:1895] [PG ID 2 PG GUID 3 Rank 2] Process group watchdog thread terminated with exception: CUDA error: an illegal memory access was encountered\n"
        + CUDA_TAIL + "\n\nException raised from c10_cuda_check_implementation at /pytorch/c10/cuda/CUDAException.cpp:43 (most recent call first):\n"
        "frame #0: c10::Error::Error(c10::SourceLocation, std::string) + 0x96 (0x7f in libc10.so)\n\n"
        "terminate called after throwing an instance of 'c10::DistBackendError'\n  what():  [PG ID 2 PG GUID 3 Rank 2] Process group watchdog thread terminated with exception: CUDA error: an illegal memory access was encountered\n"
        + 'Fatal Python error: Aborted\n\nThread 0x00007ee43dfff640 (most recent call first):\n  File "/usr/lib/python3.10/threading.py", line 953 in run\n' + sigquit(72),
        "",
        Told(CRASHED, "serving", "illegal-memory-access", "rank2", "illegal memory access"),
    ),
    (
        "a collective of ten minutes",
        served(8) + "\n" + decode(60, 4)
        + "\n[rank5]:[E901 10:11:37.121617583 ProcessGroupNCCL.cpp:616] [Rank 5] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=5653, OpType=ALLREDUCE, NumelIn=58720256, NumelOut=58720256, Timeout(ms)=600000) ran for 600028 milliseconds before timing out.\n"
        "[rank5]:[E901 10:11:38.121617583 ProcessGroupNCCL.cpp:1785] [PG ID 2 PG GUID 3 Rank 5] Exception (either an error or timeout) detected by watchdog at work: 5653, last enqueued NCCL work: 5653, last completed NCCL work: 5652.\n"
        "[rank5]:[E901 10:11:38.131617583 ProcessGroupNCCL.cpp:630] Some NCCL operations have failed or timed out. Due to the asynchronous nature of CUDA kernels, subsequent GPU operations might run on corrupted/incomplete data. To avoid data inconsistency, we are taking the entire process down.\n"
        "terminate called after throwing an instance of 'c10::DistBackendError'\n" + sigquit(699),
        "",
        Told(CRASHED, "serving", "nccl-timeout", "rank5", "collective operation timeout"),
    ),
    (
        "the engine's watchdog, then its own dump, then the kill",
        served(8) + "\n" + decode(60, 40) + "\n" + each(8, "@370 TP{r}| Watchdog timeout (self.watchdog_timeout=300)") + "\n"
        + "@370 TP0| self.cur_batch.batch_size()=40, self.cur_batch.reqs=[Req(rid=ab12, input_ids=[1, 2, 3])]\n"
        + each(8, "@371 TP{r}| Pyspy failed to dump PID 17{r}. Error: /bin/dash: 1: py-spy: not found") + "\n" + sigquit(376),
        "--exit-code 137",
        Told(CRASHED, "serving", "watchdog-timeout", "TP", "Watchdog timeout"),
    ),
    (
        "the scheduler's watchdog in 0.5.9's words, of the warm-up",
        captured() + "\n@49 TP0| max_total_num_tokens=350000, chunked_prefill_size=8192\n@50| INFO:     Uvicorn running on http://0.0.0.0:30000 (Press CTRL+C to quit)\n"
        "@51 TP0| Prefill batch, #new-seq: 1, #new-token: 6, #cached-token: 0, token usage: 0.00, #running-req: 0, #queue-req: 0\n"
        "@360 TP0| Scheduler watchdog timeout (self.watchdog_timeout=300, self.soft=False)\n" + sigquit(365),
        "",
        Told(CRASHED, "warmup", "watchdog-timeout", "TP0", "watchdog timeout"),
    ),
    (
        "ninja in capture: the header is what is missing",
        loaded() + "\n@33 TP0| Capture cuda graph begin. This can take up to several minutes. avail mem=13.30 GB\n"
        "Capturing batches (avail_mem=7.76 GB):   0%|          | 0/23 [00:00<?, ?it/s]\n"
        + "@35 TP0| Scheduler hit an exception: Traceback (most recent call last):\n"
        '  File "/venv/lib/python3.11/site-packages/torch/utils/cpp_extension.py", line 2104, in _run_ninja_build\n    subprocess.run(\n'
        "subprocess.CalledProcessError: Command '['ninja', '-v']' returned non-zero exit status 1.\n\n"
        "The above exception was the direct cause of the following exception:\n\nTraceback (most recent call last):\n"
        '  File "/venv/lib/python3.11/site-packages/sglang/srt/model_executor/cuda_graph_runner.py", line 267, in __init__\n    self.capture()\n'
        "RuntimeError: Error building extension 'batch_decode_bf16': [1/4] nvcc -std=c++17 -c decode.cu\nfatal error: cuda_fp8.h: No such file or directory\nninja: build stopped: subcommand failed.\n\n"
        "During handling of the above exception, another exception occurred:\n\nTraceback (most recent call last):\n"
        '  File "/venv/lib/python3.11/site-packages/sglang/srt/managers/scheduler.py", line 2010, in run_scheduler_process\n    scheduler = Scheduler(server_args, port_args, gpu_id, tp_rank, dp_rank)\n'
        "Exception: Capture cuda graph failed: Error building extension 'batch_decode_bf16'\n" + CAPTURE_HINTS + "\n\n" + sigquit(35),
        "--exit-code -9",
        Told(CRASHED, "graphs", "kernel-build-failed", "TP0", "Error building extension"),
    ),
    (
        "capture itself: an operation that no graph may hold",
        loaded(2) + "\n" + each(2, "@33 TP{r}| Capture cuda graph begin. This can take up to several minutes. avail mem=13.30 GB") + "\n"
        + raised(35, "TP1", "Exception: Capture CUDA graph failed: CUDA error: operation not permitted when stream is capturing\n" + CUDA_TAIL + "\n" + CAPTURE_HINTS) + sigquit(35),
        "",
        Told(CRASHED, "graphs", "graph-capture-failed", "TP1", "not permitted when stream is capturing"),
    ),
    (
        "capture failed from something else: the assertion is what is known",
        loaded() + "\n@33 TP0| Capture cuda graph begin. This can take up to several minutes. avail mem=13.30 GB\n"
        + raised(35, "TP0", "Exception: Capture cuda graph failed: too many resources requested for launch\n" + CAPTURE_HINTS) + sigquit(35),
        "",
        Told(CRASHED, "graphs", "graph-capture-failed", "TP0", "too many resources"),
    ),
    (
        "the draft model runs out of memory after the first was captured",
        captured(2) + "\n" + each(2, "@49 TP{r}| Init torch distributed begin.") + "\n" + each(2, "@49 TP{r}| Load weight begin. avail mem=2.20 GB") + "\n"
        + raised(51, "TP0", OOM) + sigquit(51),
        "",
        Told(CRASHED, "draft-weights", "cuda-oom", "TP0", "CUDA out of memory"),
    ),
    (
        "ranks of two nodes that never met",
        "@0| " + ARGS.format(tp=16, dp=1) + "\n" + each(8, "@8 TP{r}| Init torch distributed begin.") + "\n"
        "[rank1]:[W901 10:30:01.823833318 socket.cpp:460] [c10d] waitForInput: poll for socket SocketImpl(fd=100, addr=[node-1]:43590, remote=[node-0]:20000) returned 0, likely a timeout\n"
        "[rank1]:[W901 10:30:01.824135523 socket.cpp:485] [c10d] waitForInput: socket SocketImpl(fd=100, addr=[node-1]:43590, remote=[node-0]:20000) timed out after 1800000ms\n"
        + raised(1801, "TP1", "torch.distributed.DistStoreError: wait timeout after 1800000ms, keys: /default_pg/0//cpu//1/0/1", "init_torch_distributed") + sigquit(1801),
        "",
        Told(CRASHED, "distributed", "rendezvous-timeout", "TP1", "timeout after 1800000ms"),
    ),
    (
        "the first node is not there",
        "@0| " + ARGS.format(tp=16, dp=1) + "\n" + each(2, "@8 TP{r}| Init torch distributed begin.") + "\n"
        "[W901 10:05:01.823833318 socket.cpp:752] [c10d] The client socket has failed to connect to [gpu-a]:20000 (errno: 111 - Connection refused).\n"
        + raised(610, "TP8", "torch.distributed.DistNetworkError: The client socket has timed out after 600000ms while trying to connect to (gpu-a, 20000).", "init_torch_distributed"),
        "",
        Told(CRASHED, "distributed", "rendezvous-timeout", "TP8", "timed out"),
    ),
    (
        "the ranks' own port is taken",
        "@0| " + ARGS.format(tp=1, dp=8) + "\n@8 DP3 TP0| Init torch distributed begin.\n"
        + raised(9, "DP3 TP0", "torch.distributed.DistNetworkError: The server socket has failed to listen on any local network address. port: 18103, useIpv6: false, code: -98, name: EADDRINUSE, message: address already in use", "init_torch_distributed")
        + "@9| Rank 3 scheduler died during initialization (exit code: 0). If exit code is -9 (SIGKILL), a common cause is the OS OOM killer. Run `dmesg -T | grep -i oom` to check.",
        "",
        Told(CRASHED, "distributed", "port-in-use", "DP3", "EADDRINUSE"),
    ),
    (
        "an address of ZeroMQ is taken",
        captured() + "\n" + raised(49, "TP0", "zmq.error.ZMQError: Address already in use (addr='tcp://*:5557')") + sigquit(49),
        "",
        Told(CRASHED, "graphs", "port-in-use", "TP0", "Address already in use"),
    ),
    (
        "DeepEP's ranks wait for each other",
        served(8) + "\n" + prefill(60, new=6145) + "\nDeepGEMM warmup:   2%|2         | 11/512 [01:09<57:05,  6.84s/it]"
        + raised(170, "TP1 EP1", "RuntimeError: DeepEP error: CPU recv timeout", "dispatch") + sigquit(171),
        "",
        Told(CRASHED, "serving", "nccl-timeout", "TP1", "DeepEP error", warns=("jit-compiling",)),
    ),
    (
        "a grammar aborts the process from C++",
        served() + '\n@60| INFO:     100.64.77.1:45364 - "GET /health HTTP/1.1" 200 OK\n' + decode(61)
        + "\nterminate called after throwing an instance of 'xgrammar::LoggingError'\n  what():  [10:01:02] /project/cpp/support/recursion_guard.h:33: RecursionGuard: Maximum recursion depth exceeded. Current depth: 1025, Max allowed: 1024\n\n"
        'Fatal Python error: Aborted\n\nThread 0x00007fe473fff640 (most recent call first):\n  File "/usr/local/lib/python3.10/dist-packages/xgrammar/compiler.py", line 135 in compile_json_schema\n  File "/sgl-workspace/sglang/python/sglang/srt/constrained/xgrammar_backend.py", line 182 in dispatch_json\n'
        + sigquit(63),
        "--exit-code -9",
        Told(CRASHED, "serving", "aborted", None, "terminate called"),
    ),
    (
        "host memory asked for the hierarchical cache is not there",
        loaded(2) + "\n" + each(2, "@33 TP{r}| Allocating 160.00 GB host memory for hierarchical KV cache.") + "\n"
        + raised(34, "TP0", "ValueError: Not enough host memory available. Requesting 160.00 GB but only have 92.87 GB free. Please reduce the size of the hierarchical cache.") + sigquit(34),
        "",
        Told(CRASHED, "kv-cache", "host-oom", "TP0", "Not enough host memory"),
    ),
    (
        "the kernel's word about a killed scheduler",
        begun(2) + "\nLoading safetensors checkpoint shards:  25% Completed | 1/4 [00:30<01:30, 30.21s/it]\n"
        "[Mon Sep  1 10:01:12 2025] Out of memory: Killed process 4711 (sglang::schedul) total-vm:210384512kB, anon-rss:190384512kB\n"
        "@75| Rank 1 scheduler died during initialization (exit code: -9). If exit code is -9 (SIGKILL), a common cause is the OS OOM killer. Run `dmesg -T | grep -i oom` to check.",
        "--exit-code 1",
        Told(CRASHED, "weights", "host-oom", None, "Out of memory: Killed process"),
    ),
    (
        "a scheduler's segfault told by its exit code alone",
        begun(2) + "\n@20| Subprocess scheduler_1 (pid=4713) crashed with exit code -11. Triggering SIGQUIT for cleanup...\n@20| SIGQUIT received. signum=None, frame=None. It usually means one child failed.",
        "",
        Told(CRASHED, "weights", "segfault", None, "exit code -11"),
    ),
    (
        "a bus error told by its exit code alone",
        begun(2) + "\n@20| Rank 0 scheduler is dead. Please check if there are relevant logs.\n@20| Exit code: -7\nTraceback (most recent call last):\n"
        '  File "/usr/lib/python3.10/runpy.py", line 196, in _run_module_as_main\n    return _run_code(code, main_globals, None,\n  File "/sgl/sglang/srt/entrypoints/engine.py", line 690, in _launch_subprocesses\n    data = scheduler_pipe_readers[i].recv()\nEOFError',
        "--exit-code 1",
        Told(CRASHED, "weights", "shm-exhausted", None, "Exit code: -7"),
    ),
    (
        "a request's own exception shortly before the death is not its cause",
        served(2) + "\n@70| ERROR:    Exception in ASGI application\nTraceback (most recent call last):\n"
        '  File "/sgl-workspace/sglang/python/sglang/srt/openai_api/adapter.py", line 1011, in v1_chat\n    prompt = apply()\n'
        "jinja2.exceptions.TemplateError: Conversation roles must alternate user/assistant\n" + decode(75) + "\n" + raised(80, "TP1", OOM) + sigquit(80),
        "",
        Told(CRASHED, "serving", "cuda-oom", "TP1", "CUDA out of memory", warns=("request-error",)),
    ),
]  # fmt: skip


@pytest.mark.parametrize(("text", "args", "told"), [case[1:] for case in DEATHS], ids=[case[0] for case in DEATHS])
def test_a_death_is_told_from_its_cause(text: str, args: str, told: Told, tmp_path: Path) -> None:
    wrong = faults(log(text), args, told, tmp_path)
    assert not wrong, "\n".join(wrong)
