"""A generation request of the simulated engine: what it asks for, and the JSON it is answered with. Pure."""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterator
from typing import Any, Final

from eagletui.demo import shape

GENERATING: Final = ("/v1/completions", "/v1/chat/completions", "/generate")
DEFAULT_TOKENS: Final = {"/v1/completions": 16, "/v1/chat/completions": 128, "/generate": 128}
"""Tokens that are generated when the request names no limit."""
EOS_LEAST: Final = 60
EOS_SPREAD: Final = 50
"""An answer ends by itself after 60 to 109 tokens, so that a request lasts about a second; `ignore_eos` is obeyed."""
WORDS: Final = (
    "the", "quick", "eagle", "drafts", "five", "words", "and", "keeps", "two", "of", "them", "while", "the", "node",
    "hums", "along", "at", "its", "own", "pace",
)  # fmt: skip


class RefusedError(Exception):
    """The request does not fit: the sentence for the client."""


def _count(value: object, name: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise RefusedError(f"{name} must be an integer.")
    if value < 0:
        raise RefusedError(f"{name} must be at least 0, got {value}.")
    return value


def _prompt_tokens(value: object) -> int:
    """About one token for four characters; a list of numbers is tokens."""
    if isinstance(value, str):
        return max(1, len(value) // 4)
    if isinstance(value, list):
        numbers = sum(isinstance(one, int) for one in value)
        return max(1, numbers + sum(_prompt_tokens(one) for one in value if not isinstance(one, int)))
    if isinstance(value, dict):
        return 4 + _prompt_tokens(value.get("content", ""))
    return 1


class Job:
    """One request for `tokens` tokens, of which `done` are there. Raises RefusedError for a body that does not fit."""

    def __init__(self, path: str, body: bytes) -> None:
        try:
            asked = json.loads(body)
        except (ValueError, RecursionError):
            asked = None
        if not isinstance(asked, dict):
            raise RefusedError("The body is no JSON object.")
        self.path = path
        self.chat = path == "/v1/chat/completions"
        self.native = path == "/generate"
        self.stream = asked.get("stream") is True
        self.model = asked["model"] if isinstance(asked.get("model"), str) else shape.MODEL
        options = asked.get("stream_options")
        self.usage_at_end = not self.native and isinstance(options, dict) and options.get("include_usage") is True
        prompt = self._prompt(asked)
        self.prompt_tokens = _prompt_tokens(prompt)
        self._seed = zlib.crc32(repr(prompt).encode("utf-8", "replace"))
        self.id = f"{self._seed:08x}" * 4
        self.tokens, self._by_limit = self._limit(asked)
        self.done = 0

    def _prompt(self, asked: dict[str, Any]) -> object:
        names = ("messages",) if self.chat else ("text", "input_ids") if self.native else ("prompt",)
        for name in names:
            if asked.get(name):
                return asked[name]
        raise RefusedError(f"[{{'type': 'missing', 'loc': ('body', '{names[0]}'), 'msg': 'Field required'}}]")

    def _limit(self, asked: dict[str, Any]) -> tuple[int, bool]:
        """Tokens it will get, and whether that is its limit (else it ends by itself)."""
        params = asked.get("sampling_params") if self.native else asked
        params = params if isinstance(params, dict) else {}
        names = ("max_new_tokens",) if self.native else ("max_completion_tokens", "max_tokens")
        limit = DEFAULT_TOKENS[self.path]
        for name in names:
            if params.get(name) is not None:
                limit = _count(params[name], name)
                break
        if self.prompt_tokens + limit > shape.CONTEXT_LENGTH:
            raise RefusedError(
                "Requested token count exceeds the model's maximum context length of "
                f"{shape.CONTEXT_LENGTH} tokens. You requested a total of {self.prompt_tokens + limit} tokens: "
                f"{self.prompt_tokens} tokens from the input messages and {limit} tokens for the completion. "
                "Please reduce the number of tokens in the input messages or the completion to fit within the limit."
            )
        ends = EOS_LEAST + self._seed % EOS_SPREAD
        return (limit, True) if params.get("ignore_eos") is True or limit <= ends else (ends, False)

    def _text(self, start: int, end: int) -> str:
        return "".join(" " + WORDS[(self._seed + n) % len(WORDS)] for n in range(start, end))

    @property
    def _finish(self) -> str | None:
        if self.done < self.tokens:
            return None
        return "length" if self._by_limit else "stop"

    def _usage(self) -> dict[str, object]:
        return {
            "prompt_tokens": self.prompt_tokens,
            "total_tokens": self.prompt_tokens + self.done,
            "completion_tokens": self.done,
            "prompt_tokens_details": None,
            "reasoning_tokens": 0,
        }

    def _envelope(self, now: float, choices: list[dict[str, object]], *, chunk: bool) -> dict[str, object]:
        kind = "text_completion" if not self.chat else "chat.completion.chunk" if chunk else "chat.completion"
        return {"id": self.id, "object": kind, "created": int(now), "model": self.model, "choices": choices}

    def _native(self) -> dict[str, object]:
        reason = self._finish
        finish = {"type": reason, "length": self.done} if reason == "length" else {"type": reason} if reason else None
        meta = {
            "id": self.id, "finish_reason": finish, "prompt_tokens": self.prompt_tokens, "weight_version": "default",
            "completion_tokens": self.done, "cached_tokens": 0, "dp_rank": None,
        }  # fmt: skip
        ids = [1000 + (self._seed + n) % len(WORDS) for n in range(self.done)]
        return {"text": self._text(0, self.done), "output_ids": ids, "meta_info": meta}

    def events(self, tokens: int, first: bool, now: float) -> Iterator[bytes]:
        """The events of a step that gave `tokens` (`done` counts them already)."""
        if self.native:
            yield _compact(self._native())
            return
        text = self._text(self.done - tokens, self.done)
        rest = {"logprobs": None, "finish_reason": self._finish, "matched_stop": None}
        if not self.chat:
            choice: dict[str, object] = {"index": 0, "text": text, **rest}
            yield _compact({**self._envelope(now, [choice], chunk=True), "usage": None})
            return
        if first:
            start = {"index": 0, "delta": {"role": "assistant", "content": "", "reasoning_content": None}}
            yield _compact(self._envelope(now, [{**start, **rest, "finish_reason": None}], chunk=True))
        yield _compact(self._envelope(now, [{"index": 0, "delta": {"content": text}, **rest}], chunk=True))

    def last(self, now: float) -> bytes:
        """The event with the usage, after the others."""
        return _compact({**self._envelope(now, [], chunk=True), "usage": self._usage()})

    def whole(self, now: float) -> bytes:
        """The answer without a stream."""
        if self.native:
            return _compact(self._native())
        rest = {"logprobs": None, "finish_reason": self._finish, "matched_stop": None}
        text = self._text(0, self.done)
        message = {"role": "assistant", "content": text, "reasoning_content": None, "tool_calls": None}
        said: dict[str, object] = {"message": message} if self.chat else {"text": text}
        envelope = self._envelope(now, [{"index": 0, **said, **rest}], chunk=False)
        return _compact({**envelope, "usage": self._usage(), "metadata": {"weight_version": "default"}})


def _compact(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()
