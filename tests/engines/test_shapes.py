"""Launchers by whole arguments, titles as recorded, flags as the engines read them."""

from __future__ import annotations

import shlex

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eagletui.engines.shapes import Launch, flags_of, holds_no_port, launch_of, short_model, title_of


@pytest.mark.parametrize(
    ("line", "engine"),
    [
        ("python -m sglang.launch_server --port 1", "sglang"),
        ("/opt/venv/bin/python3.12 -m sglang.launch_server --port 1", "sglang"),
        ("python3 -u -X faulthandler -W ignore -E -I -s -O -m sglang.launch_server --port 1", "sglang"),
        ("python3 -Xdev -Wignore -um sglang.launch_server --port 1", "sglang"),
        ("python -msglang.launch_server --port 1", "sglang"),
        ("python -umsglang.launch_server --port 1", "sglang"),
        ("python --check-hash-based-pycs never -m sglang.launch_server --port 1", "sglang"),
        ("pypy3 -m sglang.launch_server --port 1", "sglang"),
        ("python3.13t -m sglang.launch_server --port 1", "sglang"),
        ("python -m sglang.cli.main serve --port 1", "sglang"),
        ("python -m sglang_router.launch_server --port 1", "sglang"),
        ("python /opt/lib/python3.11/site-packages/sglang/launch_server.py --port 1", "sglang"),
        ("python sglang/launch_server.py --port 1", "sglang"),
        ("python /opt/bin/sglang serve --port 1", "sglang"),
        ("sglang serve --port 1", "sglang"),
        ("python -m vllm.entrypoints.openai.api_server --port 1", "vllm"),
        ("python -m vllm.entrypoints.api_server --port 1", "vllm"),
        ("python -m vllm.entrypoints.cli.main serve --port 1", "vllm"),
        ("/opt/vllm/bin/python3.11 /opt/vllm/bin/vllm serve --port 1", "vllm"),
        ("/opt/bin/vllm serve --port 1", "vllm"),
    ],
)
def test_launchers(line: str, engine: str) -> None:
    launch = launch_of(shlex.split(line))
    assert launch is not None
    assert (launch.engine, launch.args) == (engine, ("--port", "1"))


@pytest.mark.parametrize(
    "line",
    [
        "",
        "python",
        "python -m",
        "python -",
        "python - sglang.launch_server",
        "grep -r sglang.launch_server /opt",
        "vim sglang/launch_server.py",
        "less /opt/sglang/launch_server.py",
        "bash -c 'python -m sglang.launch_server'",
        "sh -c 'exec python -m sglang.launch_server'",
        "ssh host 'python -m sglang.launch_server'",
        "ssh host python -m sglang.launch_server",
        "sudo python -m sglang.launch_server",
        "srun python -m sglang.launch_server",
        "env X=1 python -m sglang.launch_server",
        "nohup python -m sglang.launch_server",
        "setsid python -m sglang.launch_server",
        "timeout 5 python -m sglang.launch_server",
        "numactl -N 0 python -m sglang.launch_server",
        "docker run image python -m sglang.launch_server",
        "uv run python -m sglang.launch_server",
        "python /opt/conda/bin/conda run -n x python -m sglang.launch_server",
        "tail -f sglang.launch_server.log",
        "python -c 'import sglang.launch_server'",
        "python -uc 'x' -m sglang.launch_server",
        "python -m sglang.bench_serving --port 1",
        "python -m sglang.launch_server_extra",
        "python -m pytest -m sglang.launch_server",
        "python /usr/bin/eagletui start node -- python -m sglang.launch_server",
        "eagletui connect sglang",
        "python my_sglang/launch_server.py.bak",
        "vllm bench serve",
        "vllm",
        "python -m vllm.entrypoints.cli.main bench",
        "/opt/bin/vllm-serve serve",
        "sglang::scheduler_TP0",
    ],
)
def test_what_is_no_launcher(line: str) -> None:
    assert launch_of(shlex.split(line)) is None


@pytest.mark.parametrize(
    ("title", "role", "rank"),
    [
        ("sglang::scheduler", "scheduler", None),
        ("sglang::scheduler_TP0", "scheduler", "TP0"),
        ("sglang::scheduler_DP0_TP10_EP0", "scheduler", "DP0_TP10_EP0"),
        ("sglang::detokenizer", "detokenizer", None),
        ("sglang::detokenizer_router", "other", None),
        ("sglang::data_parallel_controller", "other", None),
        ("sglang::tokenizer_worker:123", "other", None),
        ("sglang::schedul", "scheduler", None),
        ("sglang::detoken", "detokenizer", None),
        ("VLLM::EngineCore", "scheduler", None),
        ("VLLM::EngineCor", "scheduler", None),
        ("VLLM::EngineCore_DP1", "scheduler", "DP1"),
        ("VLLM::Worker", "scheduler", None),
        ("VLLM::Worker_TP0", "scheduler", "TP0"),
        ("VLLM::Worker_DP0_TP1_EP1", "scheduler", "DP0_TP1_EP1"),
    ],
)
def test_titles(title: str, role: str, rank: str | None) -> None:
    for found in (title_of((title,)), title_of((title,), "python"), title_of((), title)):
        assert found is not None
        assert (found.role, found.rank, found.name) == (role, rank, title)


@pytest.mark.parametrize(
    "text", ["", "sglang", "sglang:", "grep sglang::scheduler", "xsglang::scheduler", "python", "::"]
)
def test_what_is_no_title(text: str) -> None:
    assert title_of((text,)) is None


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("--tp 8", ("TP 8",)),
        ("--tp-size=8 --dp 2", ("TP 8", "DP 2")),
        ("--tensor-parallel-size 2 --dp-size 1", ("TP 2",)),
        (
            (
                "--tp 2 --speculative-algorithm EAGLE3 --speculative-draft-model-path /d --speculative-num-steps 2 "
                "--speculative-eagle-topk 4 --speculative-num-draft-tokens 5"
            ),
            ("TP 2", "EAGLE3 steps 2 topk 4 draft 5"),
        ),
        ("--tp eight", ()),
        ("", ()),
    ],
)
def test_main_settings_of_sglang(line: str, words: tuple[str, ...]) -> None:
    assert flags_of(Launch("sglang", tuple(shlex.split(line)))).words == words


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("m -tp 8 -pp 2", ("TP 8", "PP 2")),
        ("m --tensor_parallel_size 4", ("TP 4",)),
        ("""m --speculative-config '{"method": "eagle3", "num_speculative_tokens": 3}'""", ("EAGLE3 draft 3",)),
        ("m --speculative-config.method ngram --speculative-config.num_speculative_tokens 4", ("NGRAM draft 4",)),
        ("m --speculative-config {broken", ("speculative",)),
        ("m --speculative-config [1]", ("speculative",)),
    ],
)
def test_main_settings_of_vllm(line: str, words: tuple[str, ...]) -> None:
    assert flags_of(Launch("vllm", tuple(shlex.split(line)))).words == words


@pytest.mark.parametrize(
    ("engine", "line", "model", "port"),
    [
        ("sglang", "--model-path /models/x --port 30001", "/models/x", 30001),
        ("sglang", "--model=/models/x --port=5", "/models/x", 5),
        ("sglang", "--port 1 --port 2", None, 2),
        ("sglang", "--port x --model-path 'a; rm -rf ~'", "a; rm -rf ~", None),
        ("sglang", "--port 99999", None, None),
        ("sglang", "--port", None, None),
        ("sglang", "--port --tp 2", None, None),
        ("vllm", "tinyv --port 8100 --enforce-eager", "tinyv", 8100),
        ("vllm", "--port 8100 --enforce-eager org/m", "org/m", 8100),
        ("vllm", "--model org/m", "org/m", None),
        ("vllm", "--max-model-len 4096", None, None),
    ],
)
def test_model_and_port(engine: str, line: str, model: str | None, port: int | None) -> None:
    flags = flags_of(Launch("vllm" if engine == "vllm" else "sglang", tuple(shlex.split(line))))
    assert (flags.model, flags.port) == (model, port)


def test_short_names_of_models() -> None:
    assert short_model("/models/DeepSeek-V3/") == "DeepSeek-V3"
    assert short_model("org/name") == "name"
    assert short_model("/") == "/"


def test_compile_workers_are_not_looked_at() -> None:
    assert holds_no_port(("python3", "/opt/lib/torch/_inductor/compile_worker/__main__.py", "--kind=fork"))
    assert not holds_no_port(("python3", "-m", "sglang.launch_server"))


@given(
    st.lists(
        st.sampled_from(["python", "-m", "-X", "--", "-", "serve", "vllm", "--port", "-um", "{", "", "sglang"])
        | st.text()
    )
)
@settings(max_examples=100)
def test_reading_arguments_is_total(argv: list[str]) -> None:
    launch = launch_of(argv)
    flags_of(launch if launch is not None else Launch("vllm", tuple(argv)))
    title_of(argv, "".join(argv[:1]))
