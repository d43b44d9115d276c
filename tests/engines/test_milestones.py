"""What each milestone line of FORMATS.md sections 3, 6 and 8 is taken for, and that the registry is lazy."""

from __future__ import annotations

import subprocess
import sys

import pytest

from eagletui.engines.spec import ENGINES, detail_in, elapsed_in, load_engine

SGLANG = load_engine("sglang")
VLLM = load_engine("vllm")

ROWS: list[tuple[str, str | None]] = [
    ("server_args=ServerArgs(model_path='/m')", "args "),
    ("Init torch distributed begin.", "begin distributed"),
    ("Init nccl begin.", "begin distributed"),
    ("Init torch distributed ends. elapsed=2.31 s, mem usage=1.12 GB", "end distributed"),
    ("NCCL/RCCL/HCCL warmup completed in 1.234s (tp_size=8, pp_size=1, ep_size=1)", "within distributed"),
    ("sglang is using nccl==2.26.2", "within distributed"),
    ("Load weight begin. avail mem=93.52 GB", "begin weights"),
    ("Load weight end. type=DeepseekV3ForCausalLM, dtype=torch.bfloat16, avail mem=13.97 GB, mem usage=79.54 GB.", "end weights"),
    ("KV Cache is allocated. #tokens: 69931, KV size: 4.58 GB", "within kv-cache"),
    ("SWA KV Cache is allocated. #tokens: 1, K size: 1 GB", "within kv-cache"),
    ("KV Cache VA upper bound. dtype: x, #tokens: 3", "within kv-cache"),
    ("Mamba Cache is allocated. x", "within kv-cache"),
    ("Memory pool end. avail mem=11.87 GB", "end kv-cache"),
    ("Capture cuda graph begin. This can take up to several minutes.", "begin graphs"),
    ("Capture cpu graph begin. This can take up to several minutes.", "begin graphs"),
    ("Capture target decode cuda graph begin. backend=full", "begin graphs"),
    ("Capture target prefill CUDA graph begin. backend=x", "begin graphs"),
    ("Capture draft extend cuda graph begin (step 0). x", "begin graphs"),
    ("Capture piecewise CUDA graph begin. avail mem=1", "begin graphs"),
    ("Capture Frozen-KV MTP draft cuda graph begin.", "begin graphs"),
    ("Capture cuda graph end. Time elapsed: 5.37 s. mem usage=1.44 GB. avail mem=38.05 GB.", "end graphs"),
    ("Capture target decode cuda graph end. bs=[1, 2, 4], elapsed=91.20 s, mem usage=1.44 GB", "end graphs"),
    ("Capture cuda graph bs [1, 2, 4, 8]", "within graphs"),
    ("Registering 1679 cuda graph addresses", "within graphs"),
    ("max_total_num_tokens=734840, chunked_prefill_size=8192", "begin warmup"),
    ("Running FlashInfer autotune with cache: /x", "begin compile"),
    ("FlashInfer autotune completed.", "end compile"),
    ("Entering DeepGEMM JIT Pre-Compile session. It may take a long time", "begin compile"),
    ("Try DeepGEMM JIT Compiling for <GEMM_NT_F8F8BF16> N=6144", "within compile"),
    ("Start of prefill disaggregation mode warmup ...", "begin warmup"),
    ("Application startup complete.", "begin warmup"),
    ("The server is fired up and ready to roll!", "ready "),
    ("Engine startup timings (s): load_weight=0.10, kv_cache_allocation=0.47", "timings "),
    ("SIGTERM received. signum=None frame=None. Draining requests and shutting down...", "stopping "),
    ("Gracefully exiting... Remaining number of requests 16.", "stopping "),
    ("kill_process_tree called: parent_pid=1, include_parent=True, pid=1", "gone "),
    ("Scheduler watchdog timeout (self.watchdog_timeout=300, self.soft=True)", None),
    ("Killed by nobody", None),
    ("Shutting down", "stopping "),
    ("Application shutdown complete.", "stopped "),
    ("Using default HuggingFace chat template with detected content format: string", None),
    ("Health check failed. Server couldn't get a response from detokenizer", None),
    ("", None),
]  # fmt: skip

VLLM_ROWS: list[tuple[str, str | None]] = [
    ("vLLM API server version 0.6.2", "launch "),
    ("args: Namespace(host=None, port=8000)", "args "),
    ("non-default args: {'port': 8100}", "args "),
    ("Initializing a V1 LLM engine (v0.32.0) with config: model='tinyv'", "begin launch"),
    ("world_size=1 rank=0 local_rank=0 distributed_init_method=x", "begin distributed"),
    ("rank 0 in world size 1 is assigned as DP rank 0", "end distributed"),
    ("Starting to load model tinyv...", "begin weights"),
    ("Loading weights took 5.52 seconds", "end weights"),
    ("Loading model weights took 12.5523 GB", "end weights"),
    ("Loading drafter model...", "begin draft-weights"),
    ("Model loading took 7.64 GiB and 32.969258 seconds", "within weights"),
    ("Using cache directory: /root/.cache/vllm/torch_compile_cache/HASH/rank_0_0/backbone for vLLM's torch.compile", "within compile"),
    ("Dynamo bytecode transform time: 6.07 s", "within compile"),
    ("Compiling a graph for general shape takes 24.53 s", "within compile"),
    ("torch.compile takes 19.69 s in total", "end compile"),
    ("Available KV cache memory: 33.31 GiB", "within kv-cache"),
    ("GPU KV cache size: 1,587,648 tokens", "within kv-cache"),
    ("# GPU blocks: 4109, # CPU blocks: 2048", "within kv-cache"),
    ("Capturing the model for CUDA graphs. This may lead to unexpected consequences", "begin graphs"),
    ("Graph capturing finished in 14 secs.", "end graphs"),
    ("Application startup complete.", "ready "),
    ("Route: /health, Methods: GET", None),
]  # fmt: skip


@pytest.mark.parametrize(("text", "meaning"), ROWS)
def test_sglang(text: str, meaning: str | None) -> None:
    mark = SGLANG.mark(text)
    assert (f"{mark.act} {mark.phase}" if mark else None) == meaning


@pytest.mark.parametrize(("text", "meaning"), VLLM_ROWS)
def test_vllm(text: str, meaning: str | None) -> None:
    mark = VLLM.mark(text)
    assert (f"{mark.act} {mark.phase}" if mark else None) == meaning


@pytest.mark.parametrize(
    ("text", "value"),
    [("Load weight end. elapsed=97.41 s, type=X", 97.41), ("Capture cuda graph end. Time elapsed: 5.37 s. mem", 5.37),
     ("Load weight end. Committed real weights after CUDA graph capture in 38.20 s (capture overlap window 92.31 s)", 38.2),
     ("Loading weights took 5.52 seconds", 5.52), ("torch.compile takes 19.69 s in total", 19.69), ("Graph capturing finished in 14 secs.", 14.0),
     ("Loading model weights took 12.5523 GB", None), ("Memory pool end. avail mem=11.87 GB", None)],
)  # fmt: skip
def test_elapsed(text: str, value: float | None) -> None:
    assert elapsed_in(text) == value


def test_details() -> None:
    text = "Load weight end. elapsed=0.54 s, type=LlamaForCausalLM, avail mem=136.82 GB, mem usage=1.49 GB."
    assert detail_in(SGLANG, text) == ("weights", "LlamaForCausalLM, 1.49 GB")
    assert detail_in(VLLM, "GPU KV cache size: 1,587,648 tokens") == ("kv-cache", "1,587,648 tokens")
    assert detail_in(SGLANG, "Load weight begin.") is None


def test_names_are_listed_without_importing() -> None:
    code = "import sys, eagletui.engines.spec as s; print(sorted(s.ENGINES)); print('eagletui.engines.vllm' in sys.modules)"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert out.stdout.split("\n")[:2] == [str(sorted(ENGINES)), "False"]


def test_unknown_engine() -> None:
    with pytest.raises(KeyError):
        load_engine("nope")
