"""Oddities around SGLang's records: prefixes, several servers and launches, bars glued and nested, what repeats."""

# ruff: noqa: E501 - lines of logs stand as they were printed

from __future__ import annotations

from pathlib import Path

import pytest

from tests.logs.examined import Told, faults
from tests.logs.stamped import ARGS, begun, captured, decode, each, loaded, log, prefill, raised, served, sigquit

CRASHED, READY, STARTING, STALLED = "crashed", "ready", "starting", "stalled"
OOM = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.16 GiB. GPU 3 has a total capacity of 79.11 GiB of which 705.06 MiB is free."


def before(prefix: str, text: str) -> str:
    """Each line behind an outer prefix."""
    return "\n".join(prefix + line for line in log(text).decode().split("\n"))


BUILDKITE = before(
    "  | [2025-09-01T08:00:00Z] ",
    captured()
    + "\n@50| INFO:     Application startup complete.\n@50| ERROR:    [Errno 98] error while attempting to bind on address ('0.0.0.0', 30000): address already in use\n@50| INFO:     Waiting for application shutdown.\n@50| INFO:     Application shutdown complete.",
)
ODD: list[tuple[str, str, str, Told]] = [
    ("buildkite: a bind error after the startup line, in another zone", BUILDKITE, "", Told(CRASHED, "warmup", "port-in-use", None, "30000")),
    ("podman's prefix", before("[sglang]     | ", served() + "\n" + decode(60)), "", Told(READY, "serving", more=(("ready_s", 55.0),))),
    ("Kubernetes node file", before("2025-09-01T10:00:00.123456789+08:00 stderr F ", served() + "\n" + raised(70, "TP0", OOM) + sigquit(70)), "", Told(CRASHED, "serving", "cuda-oom", "TP0", "CUDA out of memory")),
    ("kubectl --timestamps", before("2025-09-01T10:00:00.123456789Z ", served() + "\n" + raised(70, "TP0", OOM) + sigquit(70)), "", Told(CRASHED, "serving", "cuda-oom", "TP0", "CUDA out of memory")),
    ("journald", before("Sep 01 10:00:00 gpu-a python3[4711]: ", served() + "\n" + raised(70, "TP0", OOM) + sigquit(70)), "", Told(CRASHED, "serving", "cuda-oom", "TP0", "CUDA out of memory")),
    ("Ray tells what repeats", before("(SGLangEngine pid=23902) ", begun(2) + "\n" + raised(14, "TP0", OOM) + sigquit(15) + " [repeated 2x across cluster]"), "", Told(CRASHED, "weights", "cuda-oom", "TP0", "CUDA out of memory")),
    ("Ray, and the exception itself is told to repeat", before("(SGLangEngine pid=23902, ip=10.0.0.5) ", begun(2) + "\n" + raised(14, "TP0", OOM.replace("free.", "free. [repeated 5x across cluster]")) + sigquit(15)), "", Told(CRASHED, "weights", "cuda-oom", "TP0", "CUDA out of memory")),
    ("uvicorn without a time, 0.2", "server_args=ServerArgs(model_path='m', tp_size=1, port=30000)\n[10:00:05 TP0] Init nccl begin.\n[10:00:06 TP0] Load weight begin. avail mem=78.5 GB\n[10:00:16 TP0] Load weight end. type=LlamaForCausalLM, dtype=torch.bfloat16, avail mem=62.1 GB\n[10:00:17 TP0] Memory pool end. avail mem=8.1 GB\n[10:00:17 TP0] Capture cuda graph begin. This can take up to several minutes.\n[10:00:25 TP0] max_total_num_tokens=443000, max_prefill_tokens=16384, max_running_requests=4097, context_len=8192\nINFO:     Started server process [18]\nINFO:     Waiting for application startup.\nINFO:     Application startup complete.\nINFO:     Uvicorn running on http://0.0.0.0:30000 (Press CTRL+C to quit)\nINFO:     127.0.0.1:53212 - \"GET /get_model_info HTTP/1.1\" 200 OK\n[10:00:27 TP0] Prefill batch. #new-seq: 1, #new-token: 7, #cached-token: 0, cache hit rate: 0.00%, #running-req: 0, #queue-req: 0\nThe server is fired up and ready to roll!\n[10:01:27 TP0] Decode batch. #running-req: 2, #token: 234, token usage: 0.00, gen throughput (token/s): 47.64, #queue-req: 0", "", Told(READY, "serving", more=(("metrics", {"decode_samples": 1, "gen_tok_s": {"last": 47.6}}), ("phases", {"$has": {"name": "weights", "seconds": 10.0}})))),
    ("a prefix with an odd word among the ranks", begun().replace("TP0|", "TP0|") + "\n[2025-09-01 10:00:30 DisaggregationMode.DECODE TP0] Load weight end. type=Qwen3ForCausalLM, dtype=torch.bfloat16, avail mem=62.91 GB, mem usage=15.30 GB.", "", Told(STARTING, "kv-cache", more=(("phases", {"$has": {"name": "weights", "seconds": 20.0}}),))),
    ("0.5.12's bar of prefill shapes after the decode graphs", captured() + "\n@49 TP0| Capture piecewise CUDA graph begin. avail mem=12.00 GB\nCapturing num tokens (num_tokens=4096 avail_mem=11.20 GB):  10%|#         | 5/48 [00:03<00:30,  1.40it/s]", "", Told(STARTING, "graphs", more=(("progress", {"done": 5, "total": 48}),))),
    ("multi-thread bar", begun(8) + "\nMulti-thread loading shards:  12% Completed | 20/163 [00:40<04:45,  2.00s/it]", "--idle 60", Told(STARTING, "weights", more=(("progress", {"done": 20, "total": 163, "unit": "shards"}),))),
    ("pt checkpoint", begun() + "\nLoading pt checkpoint shards:  50% Completed | 1/2 [00:40<00:40, 40.00s/it]", "--idle 60", Told(STARTING, "weights", more=(("progress", {"done": 1, "total": 2}),))),
    ("a launch after a crash is judged by itself", begun() + "\n" + raised(14, "TP0", OOM) + sigquit(14) + "\n" + served().replace("@", "@1").replace("model@1", "model@"), "", Told(READY, "serving")),
    ("a crash after a good launch", served() + "\n" + decode(60) + "\nKilled\n@200| " + ARGS.format(tp=1, dp=1) + "\n@210 TP0| Load weight begin. avail mem=10.00 GB\n" + raised(214, "TP0", OOM) + sigquit(214), "--exit-code 137", Told(CRASHED, "weights", "cuda-oom", "TP0", "CUDA out of memory")),
    ("nothing but a traceback", "Traceback (most recent call last):\n  File \"/x/sglang/launch_server.py\", line 14, in <module>\n    launch_server(server_args)\n  File \"/x/sglang/srt/server.py\", line 400, in launch_server\n    raise ValueError('x')\nTypeError: unhashable type: 'dict'\n", "--exit-code 1", Told(CRASHED, "launch", "python-exception", None, "unhashable")),
    ("only the shell speaks", "+ exec python3 -m sglang.launch_server --model-path /m\nSegmentation fault (core dumped)", "--exit-code 139", Told(CRASHED, "launch", "segfault", None, "Segmentation fault")),
    ("a time-out's exit status", served(), "--exit-code 124", Told(CRASHED, "serving", "died-silently")),
    ("an exit status of -11 and nothing said", served(), "--exit-code -11", Told(CRASHED, "serving", "segfault")),
    ("an exit status of 134 and nothing said", served(), "--exit-code 134", Told(CRASHED, "serving", "aborted")),
    ("an exit status of 135 and nothing said", begun(), "--exit-code 135", Told(CRASHED, "weights", "shm-exhausted")),
    ("an exit status of -3 and nothing said", begun(), "--exit-code -3", Told(CRASHED, "weights", "died-silently")),
    ("an exit status of 131 and a peer that is gone", begun(2) + "\n" + raised(14, "TP0", "RuntimeError: [../third_party/gloo/gloo/transport/tcp/pair.cc:534] Connection closed by peer [10.0.0.4]:31377"), "--exit-code 131", Told(CRASHED, "weights", "nccl-error", "TP0", "closed by peer")),
    ("an exit status of 1 and nothing said", begun(), "--exit-code 1", Told(CRASHED, "weights", "died-silently")),
    ("an exit status of 0", served(), "--exit-code 0", Told("stopped", "serving")),
    ("container limit: the orchestrator's word", begun(2) + "\ncommand terminated with exit code 137\nReason: OOMKilled", "--exit-code 137", Told(CRASHED, "weights", "host-oom", None, "OOMKilled")),
    ("a CUDA OOM while answering, the server lives on", served() + "\n@70| Error in request: CUDA out of memory. Tried to allocate 20.00 MiB\n" + decode(75) + "\n" + decode(200), "", Told(READY, "serving")),
    ("a deprecation with a traceback-like word", served() + "\n/x/sglang/srt/utils.py:930: UserWarning: The given buffer is not writable\n  warnings.warn(\n@60| WARNING:  Invalid HTTP request received.\n" + decode(75), "", Told(READY, "serving")),
    ("busy prefill for a minute is no stall", served() + "\n" + "\n".join(prefill(60 + 10 * n, 0, 3, 8192) for n in range(6)), "--idle 20", Told(READY, "serving")),
    ("prefill of a long prompt, queue, silent for 5 minutes", served() + "\n" + prefill(60, 3, 5, 8192), "--idle 300", Told(STALLED, "serving", "stalled")),
    ("a node that is not the first has no ready line", "\n".join([begun(2), each(2, "@30 TP{r}| Load weight end. type=X, dtype=torch.bfloat16, avail mem=62.91 GB, mem usage=15.30 GB."), each(2, "@48 TP{r}| Capture cuda graph end. Time elapsed: 14.81 s. mem usage=0.44 GB. avail mem=12.86 GB."), "@50| Dummy health check server started in background thread at 0.0.0.0:30000"]), "--idle 3600", Told(READY, "serving")),
    ("Ascend: npu graph, hccl", loaded() + "\n@33 TP0| Capture npu graph begin. This can take up to several minutes. avail mem=13.30 GB\n@43 TP0| Capture npu graph end. Time elapsed: 9.80 s. mem usage=0.44 GB. avail mem=12.86 GB.\n@44| The server is fired up and ready to roll!", "", Told(READY, "serving", more=(("phases", {"$has": {"name": "graphs", "seconds": 9.8}}),))),
    ("Ascend: NPU out of memory", begun() + "\n" + raised(14, "TP0", "RuntimeError: NPU out of memory. Tried to allocate 2.00 GiB (NPU 0; 60.97 GiB total capacity; 58.66 GiB already allocated; 1.02 GiB free)"), "", Told(CRASHED, "weights", "cuda-oom", "TP0", "NPU out of memory")),
    ("ROCm: HIP out of memory", begun() + "\n" + raised(14, "TP0", "torch.OutOfMemoryError: HIP out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 191.98 GiB"), "", Told(CRASHED, "weights", "cuda-oom", "TP0", "HIP out of memory")),
    ("ROCm: a memory access fault", served() + "\n" + decode(60) + "\nMemory access fault by GPU node-3 (Agent handle: 0x55) on address 0x7f6fe0000000. Reason: Unknown.\nGPU core dump failed\n@61| Subprocess scheduler_0 (pid=980) crashed with exit code -6. Triggering SIGQUIT for cleanup...", "", Told(CRASHED, "serving", "illegal-memory-access", None, "Memory access fault")),
    ("HSA aborts", served() + "\n:0:rocdevice.cpp            :2982: 20127 us: Callback: Queue 0x7f aborting with error : HSA_STATUS_ERROR_EXCEPTION: An HSAIL operation resulted in a hardware exception. code: 0x1016\n@61| Subprocess scheduler_0 (pid=980) crashed with exit code -6. Triggering SIGQUIT for cleanup...", "", Told(CRASHED, "serving", "cuda-error", None, "HSA_STATUS_ERROR")),
    ("a LoRA that is not there", captured() + "\n" + raised(49, "TP0", "ValueError: LoRA adapter path /loras/a does not exist", "load_lora_adapter"), "", Told(CRASHED, "graphs", "model-not-found", "TP0", "/loras/a")),
    ("triton has no compiler", loaded() + "\n@33 TP0| Capture cuda graph begin. This can take up to several minutes.\n" + raised(36, "TP0", "RuntimeError: Failed to find C compiler. Please specify via CC environment variable or set triton.knobs.build.impl.", "capture"), "", Told(CRASHED, "graphs", "kernel-build-failed", "TP0", "C compiler")),
    ("triton: out of resources", loaded() + "\n@33 TP0| Capture cuda graph begin. This can take up to several minutes.\n" + raised(36, "TP0", "triton.runtime.errors.OutOfResources: out of resource: shared memory, Required: 147456, Hardware limit: 101376. Reducing block sizes or `num_stages` may help.", "capture"), "", Told(CRASHED, "graphs", "kernel-build-failed", "TP0", "out of resource")),
    ("ptxas does not know the GPU", loaded() + "\n@33 TP0| Capture cuda graph begin. This can take up to several minutes.\n" + raised(36, "TP0", "triton.runtime.errors.PTXASError: PTXAS error: Internal Triton PTX codegen error\n`ptxas` stderr:\nptxas fatal   : Value 'sm_121a' is not defined for option 'gpu-name'", "capture"), "", Told(CRASHED, "graphs", "kernel-build-failed", "TP0", "ptxas fatal")),
    ("a cublas that has no memory", captured() + "\n" + raised(49, "TP0", "RuntimeError: CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`", "capture"), "", Told(CRASHED, "graphs", "cuda-oom", "TP0", "ALLOC_FAILED")),
    ("fabric manager is not running", "@0| " + ARGS.format(tp=8, dp=1) + "\n" + raised(5, "TP0", "RuntimeError: Unexpected error from cudaGetDeviceCount(). Did you run some cuda functions before calling NumCudaDevices() that might have already set an error? Error 802: system not yet initialized"), "", Told(CRASHED, "launch", "cuda-error", "TP0", "802")),
    ("an uncorrectable ECC error", served() + "\n" + raised(70, "TP6", "RuntimeError: CUDA error: uncorrectable ECC error encountered\nCUDA kernel errors might be asynchronously reported at some other API call, so the stacktrace below might be incorrect."), "", Told(CRASHED, "serving", "cuda-error", "TP6", "ECC")),
    ("too many open files", served() + "\n" + raised(70, "TP0", "OSError: [Errno 24] Too many open files"), "", Told(CRASHED, "serving", "request-killed-server", "TP0", "Too many open files")),
    ("a node that is not the first loses a scheduler", begun(2) + "\n@50| Dummy health check server started in background thread at 0.0.0.0:30000\n@90| Scheduler or DataParallelController 848532 terminated with -9", "", Told(CRASHED, "serving", "worker-killed", None, "terminated with -9")),
    ("a child's wait status of 9", begun(2) + "\n@60| Child process unexpectedly failed with an exit code 9. pid=4711", "", Told(CRASHED, "weights", "worker-killed", None, "exit code 9")),
    ("a child's wait status of 256", begun(2) + "\n@60| Child process unexpectedly failed with an exit code 256. pid=4711", "", Told(CRASHED, "weights", "died-silently", None, "exit code 256")),
    ("c10d's watchdog itself hangs", served(8) + "\n[rank6]:[E901 10:09:49.384372190 ProcessGroupNCCL.cpp:1743] [PG ID 0 PG GUID 0(default_pg) Rank 6] ProcessGroupNCCL's watchdog got stuck for 480 seconds without making progress in monitoring enqueued collectives.\n" + sigquit(600), "", Told(CRASHED, "serving", "nccl-timeout", "6", "got stuck")),
    ("a warning of a store whose peer is gone", served(8) + "\n[rank3]:[W901 10:01:11.9 TCPStore.cpp:125] [c10d] recvValue failed on SocketImpl(fd=95, addr=[a]:1, remote=[b]:2): failed to recv, got 0 bytes\n" + decode(80) + "\n" + decode(200), "", Told(READY, "serving")),
    ("triton's word for a kernel of another GPU", begun(2) + "\n" + raised(61, "TP1", "RuntimeError: Triton Error [CUDA]: device kernel image is invalid"), "", Told(CRASHED, "weights", "no-kernel-image", "TP1", "kernel image is invalid")),
    ("DeepGEMM's compiler fails", loaded() + "\n@33 TP0| Entering DeepGEMM JIT Pre-Compile session. It may take a long time.\n" + raised(61, "TP0", "RuntimeError: Assertion error (/deepgemm/jit/compiler.hpp:112): NVCC compilation failed"), "", Told(CRASHED, "compile", "kernel-build-failed", "TP0", "NVCC compilation failed", warns=("jit-compiling",))),
    ("the daemon refuses the container", 'docker: Error response from daemon: could not select device driver "" with capabilities: [[gpu]].', "--exit-code 125", Told(CRASHED, "launch", "never-started", None, "could not select device driver")),
    ("Slurm's time limit", served() + "\nslurmstepd: error: *** JOB 991 ON node12 CANCELLED AT 2025-09-01T12:00:00 DUE TO TIME LIMIT ***", "", Told("stopped", "serving")),
    ("Slurm's word for the OOM killer", begun() + "\nslurmstepd: error: Detected 1 oom_kill event in StepId=1.0. Some of the step tasks have been OOM Killed.", "--exit-code 137", Told(CRASHED, "weights", "host-oom", None, "oom_kill event")),
    ("a prompt behind compose's prefix, which ends every line", before("sglang-1  | ", "@0| " + ARGS.format(tp=1, dp=1) + "\nDo you wish to run the custom code? [y/N] ") + "\n", "", Told(STALLED, "launch", "waiting-for-input", None, "[y/N]")),
    ("a prompt before anything else", "The repository for x contains custom code which must be executed to correctly load the model.\nDo you wish to run the custom code? [y/N] ", "", Told(STALLED, "launch", "waiting-for-input", None, "[y/N]")),
    ("a prompt that was answered", "@0| " + ARGS.format(tp=1, dp=1) + "\nDo you wish to run the custom code? [y/N] y\n@9 TP0| Load weight begin. avail mem=78.40 GB", "", Told(STARTING, "weights")),
    ("an address that is not this machine's", captured() + "\n@49| ERROR:    [Errno 99] error while attempting to bind on address ('10.9.9.9', 8000): cannot assign requested address", "--exit-code 1", Told(CRASHED, "graphs", "invalid-config", None, "10.9.9.9")),
    ("a port of the system's", captured() + "\n@49| ERROR:    [Errno 13] error while attempting to bind on address ('0.0.0.0', 80): permission denied", "--exit-code 1", Told(CRASHED, "graphs", "permission-denied", None, "'0.0.0.0', 80")),
    ("two pools: the fuller one's share", served() + "\n@60 TP0| Decode batch [1234], #running-req: 12, #full token: 1, full token usage: 0.10, #swa token: 1, swa token usage: 0.20, cuda graph: True, gen throughput (token/s): 171.01, #queue-req: 7, ", "", Told(READY, "serving", more=(("metrics", {"token_usage": {"last": 0.2}, "queued": {"last": 7}}),))),
]  # fmt: skip


@pytest.mark.parametrize(("text", "args", "told"), [case[1:] for case in ODD], ids=[case[0] for case in ODD])
def test_an_oddity_gets_its_right_answer(text: str, args: str, told: Told, tmp_path: Path) -> None:
    wrong = faults(log(text), args, told, tmp_path)
    assert not wrong, "\n".join(wrong)
