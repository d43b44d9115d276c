"""Secrets never get through; what only sounds like one stays readable; typical lines cost next to nothing."""

from __future__ import annotations

import timeit

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eagletui.shell.masking import MASK, mask_argv, mask_text, secret_name

CANARY = "Canary7Zq9xK2mW4"
PIECES = (
    "api_key", "--api", "token", "cookie", "Authorization", "SecretStr(", "curl", "://", "?sig", "--user", "Bearer",
    "***", "b'", "u:", "-u", "-----BEGIN PRIVATE KEY-----",
)  # fmt: skip


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
        ("--api", CANARY),
        ("--api-k", CANARY),
        ("--api_k", CANARY),
        (f"--api-k={CANARY}",),
        (f"--api-ke={CANARY} {CANARY}",),
        ("--api-k", "a", CANARY),
        ("--admin-api", CANARY),
        ("--adm", CANARY),
        ("--hf-tok", CANARY),
        ("--hf-t", CANARY),
        ("--ssl-keyfile-pass", CANARY),
        ("--db-passw", CANARY),
        ("--db-pass", CANARY),
        ("bash", "-c", f"vllm serve --api-k {CANARY} --port 1"),
        ("bash", "-c", f"vllm serve --api='{CANARY} {CANARY}' --port 1"),
        (f"--ssl-keyfile-password=CAN ARY {CANARY}",),
        (f"--ssl-keyfile-password=a'b {CANARY}",),
        (f"--hf-token=a,b;{CANARY}",),
        (f"--api-key='a' {CANARY}",),
        ("--ssl-keyfile-password", f"a\nb {CANARY}"),
        ("--password", f"-a {CANARY}"),
        ("--password", f"-{CANARY}"),
        ("--password", f"--=\n{CANARY}"),
        ("env", f"PGPASSWORD=a b;{CANARY}"),
        ("env", f"HF_TOKEN=a\n{CANARY}"),
        ("curl", "-u", f"user:{CANARY}"),
        ("/usr/bin/curl", "-s", "--user", f"user:a b:{CANARY}"),
        ("curl", f"-uuser:{CANARY}"),
        ("curl", f"--user=user:{CANARY}"),
        ("wget", "--user", f"user:{CANARY}"),
        ("bash", "-c", f"curl -s -u user:{CANARY} http://host"),
        ("curl", "-H", f"Cookie: session=a b; x={CANARY}"),
        ("curl", "-H", f"x-api-key: a b,{CANARY}"),
        ("git", "clone", f"https://{CANARY}@host/x"),
        ("echo", f"-----BEGIN RSA PRIVATE KEY-----\n{CANARY}\n"),
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
        f"python -m sglang.launch_server --api-k {CANARY} --port 1",
        f"run --api {CANARY}",
        f"run --api-k={CANARY}",
        f"run --admin-api '{CANARY} {CANARY}'",
        f"run --hf-tok {CANARY}",
        f"https://{CANARY}@host/x",
        f"https://user:{CANARY}@host",
        f"https://user:a@{CANARY}@host",
        f"https://{CANARY}{CANARY}:x-oauth-basic@host/",
        f"https://{CANARY}:@host/",
        f"GET /x?token={CANARY}",
        f"GET /x?token=a,b;{CANARY}",
        f"GET /x?a=1&sig={CANARY}&b=2",
        f"GET /x?a=1&amp;sig={CANARY}",
        f"GET /x?a=1\\u0026sig={CANARY}",
        f"https://b.s3/x?X-Amz-Credential={CANARY}%2F2026&X-Amz-Date=1",
        f"https://b.s3/x?a=1&X-Amz-Signature={CANARY}",
        f"X-Amz-Signature={CANARY}",
        f"X-Amz-Credential={CANARY}/2026/us-east-1",
        f"https://h/#access_token={CANARY}",
        f"https://h/?access_token={CANARY}&key=a{CANARY}",
        f"PGPASSWORD={CANARY} psql",
        f"MYSQL_PWD={CANARY} mysql",
        f"DB_PASS={CANARY}",
        f"Cookie: session={CANARY}",
        f"cookie: a=1; session={CANARY}",
        f"Set-Cookie: a=1; session={CANARY}; Path=/",
        f"-H 'Cookie: a=\"1\"; session={CANARY}' -v",
        f"'set-cookie': 'a=1; b={CANARY}'",
        f"headers=[(b'cookie', b'a=1; b={CANARY}'), (b'authorization', b'Bearer {CANARY}')]",
        f"headers=[('x-api-key', '{CANARY}')]",
        f"curl -u user:{CANARY} http://host",
        f"curl -su 'user:{CANARY} {CANARY}' http://host",
        f"wget --user user:{CANARY}",
        f"Authorization: Digest username='x', response='{CANARY}'",
        f"Authorization: AWS4-HMAC-SHA256 Credential=a/b, SignedHeaders=host, Signature={CANARY}",
        f"Authorization: {CANARY}",
        f"x-api-key: {CANARY}",
        f"api_key=('{CANARY}', '{CANARY}'), port=1",
        f"api_key=['a', '{CANARY}'], port=1",
        f"api_key=['a', ('b]', [\"{CANARY}\"])], port=1",
        f"api_key=['a', '{CANARY}",
        f"api_keys={{'a': '{CANARY}', 'b': '{CANARY}'}}",
        f"api_key={{'a': {{'b': '{CANARY}'}}}}",
        f"api_key=SecretStr('{CANARY}')",
        f"x=SecretStr('{CANARY}')",
        f"x=pydantic.SecretStr('{CANARY}')",
        f"x=SecretBytes(b'{CANARY}')",
        f"api_key=b'{CANARY} {CANARY}'",
        f"api_key=frozenset({{'a', '{CANARY}'}})",
        f'{{"access_key_id":"{CANARY}"}}',
        f"aws_access_key_id = {CANARY}",
        f'{{"secret": "a b {CANARY}", "x": 1}}',
        f'{{"secret_access_key":"{CANARY}"}}',
        f"--ssl-keyfile-password='CAN ARY {CANARY}'",
        f"api_key='a\n{CANARY}', port=1",
        f"api_key='a\\\n{CANARY}', port=1",
        f'api_key="""a"\n{CANARY}""", port=1',
        f"api_key => {CANARY}",
        f"api_key := '{CANARY}'",
        f"api_key == {CANARY}",
        f"api_key -> {CANARY}",
        f"-----BEGIN PRIVATE KEY-----\n{CANARY}\n-----END PRIVATE KEY-----",
        f"-----BEGIN OPENSSH PRIVATE KEY-----\\n{CANARY}\\n{CANARY}",
        f"key='-----BEGIN EC PRIVATE KEY-----\n{CANARY}'",
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
        "gen throughput (token/s): 81, token usage: 0.01, #token: 5, max_total_tokens=5",
        "ssh://git@host/x and mailto:a@b, http://host:8000/v1?x=1&max_tokens=5&page=2",
        "api_key=[], api_keys={}, api_key=(None, None), port=1",
        "token: <|im_end|>, token=[1, 2], tokens: ['a', 'b'], keys=['a', 'b']",
        "key: value, sort_key=('a', 'b'), key=('a', 'b'), cache_key={'a': 1}",
        "PWD=/home/x OLDPWD=/tmp pwd: /srv/models",
        "docker run --user 1000:1000 -u 1000:1000 x",
        "sudo -u user:group ls; tar --hf-overrides {} --api-server-count 4 --tok x",
        "first pass: 5, passed: 3, bypass=1, passthrough=x, compass: n",
        "['api_key', 'port', 'token']",
        "-----BEGIN CERTIFICATE-----",
        "key => model.layers.0",
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
        ("--tokenizer", "x", "--tok", "y", "--api-server-count", "4", "--hf-overrides", "{}"),
        ("--hf-config-path", "/x", "--ssl-keyfil", "/etc/k", "--attention-backend", "fa3"),
        ("docker", "run", "--user", "1000:1000", "-u", "a:b", "-v", "/a:/b"),
        ("--api-key=", "max_total_tokens=5", "PWD=/home/x"),
        ("curl", "-v", "http://127.0.0.1:30000/v1?x=1"),
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
    | st.text(st.sampled_from("ab'\"\\ =:([{)]},;\n-*?&@/"), max_size=12).map(lambda end: "api_key=" + end)
    | st.lists(
        st.sampled_from([*PIECES, *"=:@'\"\\([{)]},; \n*a"]),
        max_size=14,
    ).map("".join)
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
        *(
            part * (300_000 // len(part))
            for part in (
                "api_key=",
                "key=",
                "key=\\'",
                "max_tokens=",
                "token=<",
                "token=(",
                "tokens=[",
                "key=(",
                "api_key=(",
                "--api ",
                "--api-k",
                "--a",
                "://a:",
                "://a@",
                "?sig=",
                "?a=",
                "&a",
                "X-",
                "x-amz-",
                "curl -u ",
                "curl -u a:",
                " -uuuuuuuu",
                "--user a",
                "-----BEGIN PRIVATE KEY-----",
                "-----BEGIN ",
                "Cookie: ",
                "cookie:'",
                "'cookie:",
                "SecretStr(",
                "SecretStr(***",
                "api_key='***'(",
                "api_key=***",
                "bearer ",
                "authorization: bearer ",
                "api_key=None,",
                "api_key=[None,",
                "api_key=\n",
                "pwd=/",
                "eyJ",
                "eyJaaaaaa.",
                "hf_",
                "sk-",
                "token='",
                "api_key:=\\'",
                "('cookie', b",
                "PWD=(",
                "api_key=[],",
                "api_key=[[",
                "x.SecretStr(]",
                "cookie: \n",
                "key='key=\"",
            )
        ),
        "'" * 100_000 + "token",
        "://" + "a:" * 50_000 + "@",
    ):
        assert timeit.timeit(lambda text=text: mask_text(text), number=1) < 20.0  # type: ignore[misc]
