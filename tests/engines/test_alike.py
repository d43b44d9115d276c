"""Which flags make two launches alike."""

from __future__ import annotations

import shlex

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eagletui.engines.alike import what_counts
from eagletui.engines.shapes import Launch, launch_of


def of(line: str) -> dict[str, str]:
    launch = launch_of(shlex.split(line))
    assert launch is not None
    return dict(what_counts(launch))


SGLANG = "python3 -m sglang.launch_server"


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (f"{SGLANG} --model-path /m/ --tp 8 --port 1", f"{SGLANG} --tensor-parallel-size=8 --model /m --port 2"),
        (f"{SGLANG} --model-path /m --api-key a --host ::", f"{SGLANG} --model-path /m --log-level info --dp 1"),
        (f"{SGLANG} --model-path /m --mem-fraction-static 0.9", f"{SGLANG} --model-path /m --pp-size 1"),
        (f"{SGLANG} --model-path /m --tool-call-parser x", f"{SGLANG} --model-path /m --grammar-backend none"),
        (
            f'{SGLANG} --model-path /m --model-loader-extra-config \'{{"a": 1, "b":2}}\'',
            'sglang serve --model-path /m --model_loader_extra_config \'{"b":2,"a":1}\'',
        ),
        (
            "vllm serve /m -q fp8 --port 9",
            "python3 -m vllm.entrypoints.openai.api_server --model /m --quantization fp8",
        ),
        ("vllm serve --tensor-parallel-size 2 /m", "vllm serve /m --tensor_parallel_size 2 --api-key k"),
        ("vllm serve --enforce-eager /m", "vllm serve /m --enforce-eager --gpu-memory-utilization 0.5"),
    ],
)
def test_the_same_is_loaded_and_compiled(one: str, other: str) -> None:
    assert of(one) == of(other)


BASE = f"{SGLANG} --model-path /m --tp 8"


@pytest.mark.parametrize(
    "more",
    [
        "--tp 4", "--pp 2", "--dp 2", "--ep 8", "--nnodes 2", "--dtype half", "--quantization fp8", "--kv-cache-dtype fp8_e5m2",
        "--speculative-algorithm EAGLE3", "--speculative-draft-model-path /d", "--speculative-num-steps 3", "--load-format dummy",
        "--attention-backend fa3", "--disable-cuda-graph", "--cuda-graph-max-bs 64", "--cuda-graph-bs 1 2 4", "--context-length 8192",
        "--enable-torch-compile", "--model-loader-extra-config {}", "--enable-dp-attention", "--moe-a2a-backend deepep", "--lora-paths a=/b",
        "--model-path /other",
    ],
)  # fmt: skip
def test_something_else_is_loaded_or_compiled(more: str) -> None:
    assert of(f"{BASE} {more}") != of(BASE)


@pytest.mark.parametrize(
    "more",
    ["--dtype half", "--enforce-eager", "--max-model-len 9", "-O3", "-O 3", "--compilation-config {}", "--speculative-config {}", "--max-num-seqs 8"],
)  # fmt: skip
def test_so_with_vllm(more: str) -> None:
    assert of(f"vllm serve /m {more}") != of("vllm serve /m")


def test_all_values_of_a_flag_count() -> None:
    assert of(f"{BASE} --cuda-graph-bs 1 2 4") != of(f"{BASE} --cuda-graph-bs 1 2 8")
    assert of(f"{BASE} --cuda-graph-bs 1 2 4 --port 1")["cuda-graph-bs"] == "1 2 4"
    assert of(f"{BASE} --speculative-x -1") != of(f"{BASE} --speculative-x -2")


@given(st.lists(st.text(max_size=20), max_size=12), st.sampled_from(["sglang", "vllm"]))
def test_any_words(words: list[str], engine: str) -> None:
    found = what_counts(Launch("sglang" if engine == "sglang" else "vllm", tuple(words)))
    assert list(found) == sorted(found)
