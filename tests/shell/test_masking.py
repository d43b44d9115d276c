"""Secrets never get through; what only sounds like one stays readable; typical lines cost next to nothing."""

from __future__ import annotations

import timeit

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eagletui.shell.masking import MASK, mask_argv, mask_text, secret_name

CANARY = "Canary7Zq9xK2mW4"


@pytest.mark.parametrize(
    "argv",
    [
        ("--api-key", CANARY),
        ("--api-key", "a", CANARY),
        ("--api_key", CANARY),
        (f"--api-key={CANARY}",),
        ("--admin-api-key", CANARY),
        ("--hf-token", CANARY),
        ("--token", CANARY),
        (f"--ssl-keyfile-password={CANARY}",),
        ("--ssl-keyfile-password", CANARY),
        ("--torch-key", CANARY),
        ("env", f"HF_TOKEN={CANARY}", "python"),
        ("env", f"SGLANG_API_KEY={CANARY}", "python"),
        ("env", f"AWS_SECRET_ACCESS_KEY={CANARY}"),
        ("env", f"MY_KEY_2={CANARY}"),
        ("bash", "-c", f"export X_API_KEY={CANARY}; run"),
        ("bash", "-c", f"export X_API_KEY='{CANARY} {CANARY}'; run"),
        ("bash", "-c", f"python -m sglang.launch_server --api-key {CANARY} --port 1"),
        ("curl", "-H", f"Authorization: Bearer {CANARY}"),
        ("curl", "-H", f"X-Api-Key: {CANARY}"),
        ("--config", f'{{"api_key": "{CANARY}", "port": 1}}'),
        ("--proxy", f"http://user:{CANARY}@proxy:3128"),
        ("--x", f"hf_{CANARY}{CANARY}"),
        ("--x", f"sk-{CANARY}"),
        ("--x", f"sk-proj-{CANARY}"),
        ("--x", f"ghp_{CANARY}"),
        ("--db-password", CANARY),
        ("--password", "123456"),
    ],
)
def test_secrets_in_a_command_line_are_masked(argv: tuple[str, ...]) -> None:
    masked = mask_argv(argv)
    assert CANARY not in " ".join(masked)
    assert "123456" not in " ".join(masked)
    assert MASK in " ".join(masked)
    assert len(masked) == len(argv)
    assert mask_argv(masked) == masked


@pytest.mark.parametrize(
    "text",
    [
        f"server_args=ServerArgs(model_path='x', api_key='{CANARY}', port=1)",
        f"server_args={{'model_path': 'x', 'api_key': '{CANARY}', 'port': 30000}}",
        f'{{"hf_token": "{CANARY}"}}',
        f'"{{\\"api_key\\": \\"{CANARY}\\"}}"',
        f"api_key='{CANARY}",
        f"args: Namespace(api_key=['{CANARY}'])",
        f"Authorization: Bearer {CANARY}",
        f"'authorization': 'Bearer {CANARY}'",
        f"Authorization: Basic {CANARY}",
        f"got bearer {CANARY} from client",
        f"export HF_TOKEN={CANARY}",
        f"HUGGING_FACE_HUB_TOKEN = '{CANARY}'",
        f"https://user:{CANARY}@host/x.git",
        f"redis://:{CANARY}@host",
        f"token hf_{CANARY}abcdefgh used",
        "key AKIAABCDEFGHIJKLMNOP",
        f"jwt eyJhbGciOiJI.{CANARY}.sig",
        f"slack xoxb-123-{CANARY}",
        f"password: {CANARY}",
        f"dbCredential={CANARY}",
        f"GET /v1/models?api_key={CANARY}&x=1",
        f"GET /v1/models?key={CANARY} HTTP/1.1",
    ],
)
def test_secrets_in_text_are_masked(text: str) -> None:
    masked = mask_text(text)
    assert CANARY not in masked
    assert "AKIAABCDEFGHIJKLMNOP" not in masked
    assert MASK in masked
    assert mask_text(masked) == masked


@pytest.mark.parametrize(
    "text",
    [
        "Decode batch. #running-req: 1, #token: 5, token usage: 0.01, gen throughput (token/s): 81.2, #queue-req: 0",
        "Prefill batch. #new-seq: 1, #new-token: 7, #cached-token: 0, token usage: 0.00",
        "max_total_num_tokens=734840, chunked_prefill_size=8192, max_prefill_tokens=16384",
        "server_args=ServerArgs(tokenizer_path='/models/tokenizer', tokenizer_mode='auto', skip_tokenizer_init=False)",
        "api_key=None, admin_api_key=None, hf_token=None",
        "api_key='', port=1",
        "bos_token='<s>' eos_token_id=2 pad_token='<pad>'",
        "num_key_value_heads=8, head_dim=128",
        "Unexpected key: model.layers.0.weight",
        "TOKENIZERS_PARALLELISM=false SGLANG_MAX_TOKENS=5",
        'INFO:     127.0.0.1:4410 - "POST /v1/chat/completions HTTP/1.1" 200 OK',
        "loading /models/tokenizer/tokenizer.json and hf_quant_config.json, hf_transfer",
        "num_tokens_per_req=1, avail mem=38.05 GB",
        "http://127.0.0.1:30000/v1 and git@host:x",
        "scikit sk-learn, task-specific, risk-averse-behaviour",
    ],
)
def test_what_only_sounds_like_a_secret_stays(text: str) -> None:
    assert mask_text(text) == text


@pytest.mark.parametrize(
    "argv",
    [
        ("--tokenizer", "x", "--max-total-tokens", "5"),
        ("--tokenizer-path", "/models/tokenizer", "--skip-tokenizer-init", "--port", "1"),
        ("--chunked-prefill-size", "8", "--max-prefill-tokens", "16"),
        ("--speculative-num-draft-tokens", "5"),
        ("--ssl-keyfile", "/etc/key.pem"),
        ("--model-path", "/models/a; rm -rf ~"),
    ],
)
def test_ordinary_arguments_stay(argv: tuple[str, ...]) -> None:
    assert mask_argv(argv) == argv


def test_a_flag_without_a_value_hides_no_other_flag() -> None:
    assert mask_argv(("--api-key", "--port", "30000")) == ("--api-key", "--port", "30000")
    assert mask_argv(("--hf-token", "x", "model")) == ("--hf-token", MASK, "model")


@pytest.mark.parametrize(("name", "secret"), [("HF_TOKEN", True), ("apiKey", True), ("max_tokens", False), ("", False)])
def test_names_are_judged_by_their_words(name: str, secret: bool) -> None:
    assert secret_name(name) is secret


@given(
    st.text(max_size=200)
    | st.from_regex(r"(api_key|token|--password)[ =:'\"\\]{1,4}[\w'\"\\* -]{0,20}", fullmatch=True)
)
@settings(max_examples=200)
def test_masking_is_total_and_stable(text: str) -> None:
    masked = mask_text(text)
    assert mask_text(masked) == masked
    assert mask_argv((text, text))[1:] is not None


def test_a_hostile_line_takes_no_long_time() -> None:
    for text in (
        "key" * 50_000,
        "key-" * 40_000,
        "api_key=" * 20_000,
        "'" * 100_000 + "token",
        "://" + "a:" * 50_000 + "@",
    ):
        assert timeit.timeit(lambda text=text: mask_text(text), number=1) < 2.0  # type: ignore[misc]


def test_a_typical_line_costs_about_a_microsecond() -> None:
    line = "[2026-11-29 23:39:51 TP0] Capture target decode cuda graph begin. backend=full, avail mem=38.05 GB, bs=160"
    best = min(timeit.repeat(lambda: mask_text(line), number=2000, repeat=5)) / 2000
    assert best < 8e-6  # the budget is 1 µs on an idle machine; a loaded one is given room
