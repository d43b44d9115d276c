"""What a line says of a failure: the tables of rules, row by row, and that each of their needs is looked for."""

# ruff: noqa: E501 - lines of logs stand as they are printed

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eagletui.engines.rulebook import STEMS, RuleBook, RuleError, add_rules, built_in, rule_book, rules_of
from eagletui.logs.advice import CODES, Facts, advice_for, summary_of

WARNINGS = {
    "slow-load",
    "jit-compiling",
    "requests-retracted",
    "health-check-failed",
    "kv-transfer-failed",
    "request-error",
}

LINES: list[tuple[str, str]] = [
    ("Watchdog timeout (self.watchdog_timeout=300)", "cause watchdog-timeout fatal"),
    ("Scheduler watchdog timeout (self.watchdog_timeout=300, self.soft=False)", "cause watchdog-timeout fatal"),
    ("Scheduler watchdog timeout (self.watchdog_timeout=300, self.soft=True)", ""),
    ("Received sigquit from a child process. It usually means the child failed.", "echo fatal"),
    ("SIGQUIT received. signum=None, frame=None. It usually means one child failed.", "echo fatal"),
    ("Subprocess scheduler_0 (pid=980) crashed with exit code -9. Triggering SIGQUIT for cleanup...", "echo fatal"),
    ("Child process unexpectedly failed with an exit code 1. pid=2", "echo fatal"),
    ("Rank 0 scheduler is dead. Please check if there are relevant logs.", "echo fatal"),
    ("Initialization failed. warmup error: Traceback (most recent call last):", "wrapper warmup-failed fatal"),
    ("Initialization failed. Please see the error messages above.", "echo fatal"),
    ("[Errno 98] error while attempting to bind on address ('127.0.0.1', 30020): address already in use", "cause port-in-use fatal"),
    ("sglang serve: error: unrecognized arguments: --no-such-flag 3", "cause bad-flag fatal"),
    ("launch_server.py: error: argument --tp: invalid int value: 'x'", "cause bad-flag fatal"),
    ("error: unrecognized arguments: --x", "cause bad-flag fatal"),
    ("./entrypoint.sh: line 48: 28 Killed python3 -m sglang.launch_server", "echo fatal"),
    ("Killed", "echo fatal"),
    ("Killed by nobody", ""),
    ("Segmentation fault (core dumped)", "echo fatal"),
    ("Fatal Python error: Segmentation fault", "wrapper segfault fatal"),
    ("EngineCore failed to start.", "echo fatal"),
    ("WorkerProc initialization failed due to an exception in a background process.", "echo fatal"),
    ("Engine core initialization failed. See root cause above. Failed core proc(s): {}", "echo fatal"),
    ("[Tue Mar  3 02:05:11 2026] Out of memory: Killed process 4411 (python3) total-vm:1kB", "cause host-oom"),
    ("Memory cgroup out of memory: Killed process 90 (sglang::schedul)", "cause host-oom"),
    ("[Fri Apr  5 21:29:39 2024] NVRM: Xid (PCI:0000:a1:00): 79, pid='<unknown>', GPU has fallen off the bus.", "cause gpu-lost"),
    ("NVRM: Xid (PCI:0000:3b:00): 31, pid=77, name=python3, Ch 00000008, intr 00000000. MMU Fault", "wrapper illegal-memory-access"),
    ("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.75 GiB.", "cause cuda-oom"),
    ("RuntimeError: CUDA error: out of memory", "cause cuda-oom"),
    ("Cuda failure 2 'out of memory'", "cause cuda-oom"),
    ("CUDA graphs can take additional 1~3 GiB memory per GPU. If you are running out of memory, consider decreasing `gpu_memory_utilization`", ""),
    ("misc/shmutils.cc:87 NCCL WARN Error: failed to extend /dev/shm/nccl-Ew to 33030532 bytes, error: No space left on device (28)", "cause shm-exhausted"),
    ("Error while creating shared memory segment /dev/shm/nccl-2XX1bb (size 9637888)", "cause shm-exhausted"),
    ("No available shared memory broadcast block found in 60 seconds.", "warning jit-compiling"),
    ("OSError: [Errno 28] No space left on device: '/root/.cache/torch'", "cause disk-full"),
    ("OSError: [Errno 28] No space left on device: '/psm_1a2b'", "cause shm-exhausted"),
    ("[Rank 1] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=9141, OpType=_ALLGATHER_BASE)", "cause nccl-timeout"),
    ("RuntimeError: [gloo/transport/tcp/pair.cc:534] Connection closed by peer [10.0.0.2]:24611", "echo nccl-error"),
    ("torch.distributed.DistBackendError: NCCL error in: ProcessGroupNCCL.cpp:3690, unhandled system error", "wrapper nccl-error"),
    ("RuntimeError: CUDA error: an illegal memory access was encountered", "cause illegal-memory-access"),
    ("CUDA Error: no kernel image is available for execution on the device (209) handler.cuh: line 170", "cause no-kernel-image"),
    ("Indexing.cu:1553: k: block: [0,0,0], thread: [0,0,0] Assertion `srcIndex < srcSelectDimSize` failed.", "cause device-assert"),
    ("Failed to initialize NVML: Driver/library version mismatch", "cause driver-mismatch"),
    ("Setup Custom allreduce failed with CUDART error: peer access is not supported between these two devices", ""),
    ("Health check failed. Server couldn't get a response from detokenizer for last 20 seconds.", "warning health-check-failed"),
    ("KV cache pool is full. Retract requests. #retracted_reqs: 3, #new_token_ratio: 0.5500 -> 0.6200", "warning requests-retracted"),
    ("Testing retraction.", ""),
    ("Decode transfer failed for request rank=1 decode_req.req.rid='x' with exception KVTransferError(bootstrap_room=1): y", "warning kv-transfer-failed"),
    ("Ignore import error when loading sglang.srt.models.grok: no module", "suspect import-error"),
    ("Registering 0 cuda graph addresses", "cause hidden-error"),
    ("Registering 1679 cuda graph addresses", ""),
    ("bash: line 1: sglang: command not found", "cause never-started fatal"),
    ("nohup: failed to run command 'pyhton3': No such file or directory", "cause never-started fatal"),
    ("/usr/bin/python3: No module named sglang", "cause import-error fatal"),
    ("terminate called after throwing an instance of 'c10::DistBackendError'", "wrapper nccl-error fatal"),
    ('INFO:     127.0.0.1:1 - "GET /error/404?crash=1 HTTP/1.1" 200 OK', ""),
    ("Using default HuggingFace chat template with detected content format: string", ""),
    ("", ""),
]  # fmt: skip

EXCEPTIONS: list[tuple[str, str]] = [
    ("ModuleNotFoundError: No module named 'sgl_kernel'", "import-error"),
    ("ImportError: libcudart.so.12: cannot open shared object file: No such file or directory", "import-error"),
    ("ImportError: /x/_C.so: undefined symbol: _ZN3c105ErrorC2E", "import-error"),
    ("PermissionError: [Errno 13] Permission denied: '/data/hub/x'", "permission-denied"),
    ("FileNotFoundError: [Errno 2] No such file or directory: '/models/k/config.json'", "model-not-found"),
    ("OSError: /models/none is not a local folder and is not a valid model identifier listed on 'https://hf.co'", "model-not-found"),
    ("OSError: /m does not appear to have a file named config.json.", "model-not-found"),
    ("huggingface_hub.errors.GatedRepoError: 401 Client Error.", "hub-auth"),
    ("OSError: You are trying to access a gated repo.", "hub-auth"),
    ("OSError: We couldn't connect to 'https://huggingface.co' to load the files", "hub-unreachable"),
    ("socket.gaierror: [Errno -3] Temporary failure in name resolution", "hub-unreachable"),
    ("ValueError: Model architectures ['X'] are not supported for now. Supported architectures: dict_keys(['A'])", "unsupported-architecture"),
    ("ValueError: Unsupported architectures: ChatGLMForConditionalGeneration. Supported list: ['A']", "unsupported-architecture"),
    ("ValueError: The checkpoint you are trying to load has model type `k3` but Transformers does not recognize this architecture.", "unsupported-architecture"),
    ("safetensors_rust.SafetensorError: Error while deserializing header: MetadataIncompleteBuffer", "weights-corrupt"),
    ("RuntimeError: PytorchStreamReader failed reading zip archive: failed finding central directory", "weights-corrupt"),
    ("ValueError: Total number of attention heads (28) must be divisible by tensor parallel size (8).", "invalid-config"),
    ("pydantic_core._pydantic_core.ValidationError: 1 validation error for ModelConfig", "invalid-config"),
    ("AssertionError: this backend stores its KV cache as uint8", ""),
    ("RuntimeError: Not enough memory. Please try to increase --mem-fraction-static.", "kv-cache-too-small"),
    ("ValueError: No available memory for the cache blocks. Try increasing `gpu_memory_utilization` when initializing the engine.", "kv-cache-too-small"),
    ("ValueError: The model's max seq len (131072) is larger than the maximum number of tokens that can be stored in KV cache (81920).", "kv-cache-too-small"),
    ("ValueError: To serve at least one request with the models's max seq len (40960), (5.6 GiB KV cache is needed, which is larger than the available KV cache memory (1.2 GiB).", "kv-cache-too-small"),
    ("torch.distributed.DistNetworkError: The client socket has timed out after 600000ms while trying to connect to (172.17.0.9, 50437).", "rendezvous-timeout"),
    ("torch.distributed.DistStoreError: Timed out after 1801 seconds waiting for clients. 1/2 clients joined.", "rendezvous-timeout"),
    ("ValueError: rpc_port at 30107 is not available in 30 seconds. rpc_port is used by a process already.", "port-in-use"),
    ("Exception: Capture cuda graph failed: CUDA out of memory. Tried to allocate 130.00 MiB.", "cuda-oom"),
    ("Exception: Capture cuda graph failed: Ninja build failed. Ninja output:", "kernel-build-failed"),
    ("Exception: Capture cuda graph failed: something new", "graph-capture-failed"),
    ("RuntimeError: CUDA error: operation not permitted when stream is capturing", "graph-capture-failed"),
    ("RuntimeError: No CUDA GPUs are available", "cuda-error"),
    ("torch.AcceleratorError: CUDA error: unspecified launch failure", "cuda-error"),
    ("RuntimeError: The NVIDIA driver on your system is too old (found version 11040).", "driver-mismatch"),
    ("RuntimeError: shape '[2, 8, -1]' is invalid for input of size [/7]", ""),
    ("MemoryError", "host-oom"),
    ("RuntimeError: unable to open shared memory object </torch_1_2> in read-write mode", "shm-exhausted"),
    ("KeyError: 'model.layers.3.mlp.gate_up_proj.weight'", "weights-corrupt"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "meaning"), LINES)
def test_lines(text: str, meaning: str) -> None:
    found = built_in().find(text, phase="serving") if built_in().may_fit(text) else None
    told = "" if found is None else " ".join(
        word for word in (found.rule.role, found.rule.code, "fatal" if found.fatal else "") if word
    )  # fmt: skip
    assert told == meaning


@pytest.mark.parametrize(("text", "code"), EXCEPTIONS)
def test_exceptions(text: str, code: str) -> None:
    found = built_in().find(text, exception=True, phase="weights")
    assert (found.rule.code if found is not None else "") == code


def test_the_tables_can_be_used() -> None:
    for rule in built_in().rules:
        assert rule.code in CODES | WARNINGS or (not rule.code and rule.role == "echo"), rule
        assert rule.pattern
        groups = re.compile(rule.match).groups
        assert len(set(re.findall(r"\{(\d+)\}", rule.say))) <= groups, rule
        assert all(int(number) < groups for number in re.findall(r"\{(\d+)\}", rule.say)), rule
    assert {rule.code for rule in built_in().rules} >= CODES - {
        "worker-killed", "python-exception", "request-killed-server", "died-silently", "stalled", "waiting-for-input",
    }  # fmt: skip


def test_nothing_that_fits_is_passed_by() -> None:
    """Every literal that a rule for any line needs holds a stem of the gate."""
    book = built_in()
    for rule in book.rules:
        if rule.where == "any":
            assert all(book.may_fit(need) for need in rule.needs), rule
    assert set(STEMS) >= {stem for stem in book.stems if len(stem) < 5}


def test_every_code_has_words() -> None:
    for code in CODES:
        assert summary_of(code), code
        assert advice_for(code, Facts("sglang", {})), code


def test_a_users_rule_comes_first() -> None:
    mine = rules_of(
        {
            "rule": [
                {
                    "code": "our-filer",
                    "needs": "stale file handle",
                    "match": "stale file handle",
                    "say": "The filer is gone",
                }
            ]
        },
        "mine",
    )
    try:
        add_rules(mine)
        found = rule_book().find("OSError: stale file handle")
        assert found is not None
        assert (found.rule.code, found.said) == ("our-filer", "The filer is gone")
        assert rule_book().may_fit("OSError: stale file handle")
    finally:
        add_rules([])
    assert rule_book() is built_in()


@pytest.mark.parametrize(
    ("row", "complaint"),
    [
        ({"code": "x", "needs": "a"}, "mine, rule 1: match is missing"),
        ({"code": "x", "match": "("}, "needs is missing"),
        ({"code": "x", "match": "(", "needs": "a"}, "match is no regular expression"),
        ({"code": "x", "match": "a", "needs": "a", "role": "boss"}, "role 'boss' is none of cause, wrapper"),
        ({"code": "x", "match": "a", "needs": "a", "fatal": "yes"}, "fatal is neither true nor false"),
        ({"code": "x", "match": "a", "needs": [""]}, "needs is no text"),
        ({"code": "x", "match": "a", "needs": "a", "colour": "red"}, "colour is no key of a rule"),
        ({"match": "a", "needs": "a"}, "code is missing"),
    ],
)
def test_a_bad_rule_is_told(row: dict[str, object], complaint: str) -> None:
    with pytest.raises(RuleError, match=re.escape(complaint)):
        rules_of({"rule": [row]}, "mine")


def test_a_rule_without_groups_says_what_it_can() -> None:
    book = RuleBook(rules_of({"rule": [{"code": "x", "match": "a(b)?", "needs": "a", "say": "{0}|{5}"}]}, "mine"))
    found = book.find("a")
    assert found is not None
    assert found.said == ""


@given(st.text(max_size=60), st.sampled_from(built_in().stems), st.text(max_size=60), st.booleans())
def test_a_shape_that_is_known_hides_no_line(before: str, stem: str, after: str, holds: bool) -> None:
    book, text = built_in(), before + (stem if holds else "") + after
    for one in (text, text + "7", "42" + text):
        assert book.may_fit(one) == any(stem in one for stem in book.stems)
