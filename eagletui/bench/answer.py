"""One answer of a completions API as it streams in: when its tokens came, how many, and whether it ended well. Pure, incremental, total.

Read are OpenAI's completions and chat streams as SGLang and vLLM send them, SGLang's own `/generate`, and whatever else comes in the place of one: a
plain JSON object, an error object within a status 200 in any wrapping, a proxy's page. Tokens are counted from `usage` (SGLang's `meta_info`);
without it, chunks that carry text are.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from eagletui.shell.masking import mask_text, shown

QUOTED = 300
"""Characters of an error that are kept."""
MOST = 1 << 22
"""Bytes of one event, or of an answer that is no stream: more is no completion."""
_FIELDS = (b"data:", b"event:", b"id:", b"retry:", b":")
_scan = json.JSONDecoder().raw_decode
"""json.loads looks for an encoding and for white space before it does this: half of its time for what is as small as an event."""
_DONE = b"[DONE]"
_TOLD = ("message", "msg", "detail", "error_message", "errors", "description")


def quoted(text: str) -> str:
    """What a server said, in one line, masked and cut."""
    told = mask_text(shown(" ".join(text[: 8 * QUOTED].split())))
    return told if len(told) <= QUOTED else told[: QUOTED - 1] + "…"


def error_in(value: object) -> str | None:
    """The message of an error object in any wrapping, None where it is none."""
    if isinstance(value, list):
        return error_in(value[0]) if value else None
    if not isinstance(value, dict):
        return None
    error = value.get("error")
    if error:
        return _message(error)
    if value.get("object") == "error":
        return _message(value)
    if not any(key in value for key in ("choices", "meta_info", "usage", "text")) and any(
        value.get(key) for key in _TOLD
    ):
        return _message(value)
    return None


def _message(value: object) -> str:
    if isinstance(value, dict):
        for key in ("message", "msg", "detail", "error"):
            if value.get(key):
                return _message(value[key])
    if isinstance(value, list) and value:
        return _message(value[0])
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)


def _is_stream(data: bytes) -> bool | None:
    """Whether an answer that begins so is a stream of events; None: too little came to tell."""
    begin = data.lstrip()[:6]
    if begin.startswith(_FIELDS):
        return True
    return None if any(field.startswith(begin) for field in _FIELDS) else False


class Answer:
    """`first_at`, `last_at`: of the first and the last token (the caller's clock). `tokens`, `prompt_tokens`, `cached_tokens`: as the server counts,
    None where it did not. `chunks`: that carried text. `error`: what it said instead of an answer. `finished`: it said that it is at its end."""

    __slots__ = (
        "_counts", "_data", "_kind", "_rest", "_seen_at", "_stream", "_text_size", "_times", "cached_tokens", "chunks", "done", "error",
        "finished", "first_at", "last_at", "plain", "prompt_tokens", "tokens", "verified",
    )  # fmt: skip

    def __init__(self) -> None:
        self.first_at: float | None = None
        self.last_at: float | None = None
        self.tokens: int | None = None
        self.prompt_tokens: int | None = None
        self.cached_tokens: int | None = None
        self.verified: int | None = None
        self.chunks = 0
        self.error: str | None = None
        self.finished = False
        self.done = False
        self.plain = False
        self._stream: bool | None = None
        self._rest = b""
        self._data: list[bytes] = []
        self._kind = b""
        self._text_size = 0
        self._seen_at: float | None = None
        self._times: list[float] = []
        self._counts: list[int | None] = []

    def feed(self, data: bytes, at: float) -> None:
        """The next bytes, which came at `at` (seconds)."""
        if self._rest:
            data, self._rest = self._rest + data, b""
        if self._stream is None:
            self._stream = _is_stream(data)
        if not self._stream:
            self._rest = data
        else:
            self._lines(data, at)
        if len(self._rest) > MOST:
            self.error, self._rest = self.error or "its answer has no end", b""

    def _lines(self, data: bytes, at: float) -> None:
        lines = data.split(b"\n")
        self._rest = lines.pop()
        for raw in lines:
            line = raw[:-1] if raw[-1:] == b"\r" else raw
            if line[:5] == b"data:":
                self._data.append(line[6:] if line[5:6] == b" " else line[5:])
            elif not line:
                if self._data:
                    self._event(at)
            elif line[:6] == b"event:":
                self._kind = line[6:].strip()

    def end(self, at: float) -> None:
        """No more comes: what stands there without an end of line counts, too."""
        rest, self._rest = self._rest, b""
        if not self._stream:
            self._whole(rest, at)
            return
        self._lines(rest + b"\n\n", at)

    def _whole(self, body: bytes, at: float) -> None:
        text = body.decode("utf-8", "replace").strip()
        if not text:
            return
        try:
            value = json.loads(text)
        except (ValueError, RecursionError):
            self.error = self.error or f"it answered with no stream: {text}"
            return
        self.plain = True
        self._told(value, at)

    def _event(self, at: float) -> None:
        payload = self._data[0] if len(self._data) == 1 else b"\n".join(self._data)
        kind, self._kind = self._kind, b""
        self._data.clear()
        if payload.strip() == _DONE:
            self.done = True
            return
        text = payload.decode("utf-8", "replace").strip()
        try:
            value, end = _scan(text)
        except (ValueError, RecursionError):
            end = -1
        if end != len(text):
            told = text
            self.error = self.error or (told if kind == b"error" else f"an event of its stream is no JSON: {told}")
            return
        self._told(value, at)
        if kind == b"error" and self.error is None:
            self.error = _message(value)

    def _told(self, value: Any, at: float) -> None:
        choices = value.get("choices") if isinstance(value, dict) else None
        if not choices and self.error is None and (error := error_in(value)) is not None:
            self.error = error
            return
        if not isinstance(value, dict):
            return
        if "error" in value and value["error"] and self.error is None:
            self.error = _message(value["error"])
            return
        running = self._usage(value.get("usage"))
        if "meta_info" in value:
            running = self._native(value, at) or running
        elif choices and isinstance(choices, list) and isinstance(choices[0], dict):
            self._choice(choices[0], running, at)

    def _usage(self, usage: object) -> int | None:
        if not isinstance(usage, dict):
            return None
        count = usage.get("completion_tokens")
        if not isinstance(count, int) or count < 0:
            count = None
        else:
            self.tokens = count
        prompt = usage.get("prompt_tokens")
        if isinstance(prompt, int) and prompt >= 0:
            self.prompt_tokens = prompt
        details = usage.get("prompt_tokens_details")
        if isinstance(details, dict) and isinstance(cached := details.get("cached_tokens"), int):
            self.cached_tokens = cached
        return count

    def _choice(self, choice: dict[str, Any], running: int | None, at: float) -> None:
        delta = choice.get("delta")
        if delta is None:
            delta = choice.get("message")
        carries = bool(choice.get("text"))
        if isinstance(delta, dict):
            carries = bool(
                delta.get("content")
                or delta.get("reasoning_content")
                or delta.get("reasoning")
                or delta.get("tool_calls")
            )
        # A token without a text (a special one, a part of a character) is told by the running count alone; a role-only chunk is none.
        counted = running is not None and running > (self._counts[-1] or 0 if self._counts else 0)
        if carries or (counted and not (isinstance(delta, dict) and delta.get("role"))):
            self._token(running, at)
        reason = choice.get("finish_reason")
        if reason is not None:
            self._finish(reason, at)

    def _native(self, value: dict[str, Any], at: float) -> int | None:
        meta = value["meta_info"]
        if not isinstance(meta, dict):
            return None
        count = self._usage(meta)
        if isinstance(cached := meta.get("cached_tokens"), int):
            self.cached_tokens = cached
        if isinstance(verified := meta.get("spec_verify_ct"), int):
            self.verified = verified
        size = len(value["text"]) if isinstance(value.get("text"), str) else 0
        before = self._counts[-1] if self._counts else 0
        if (count is not None and count > (before or 0)) or (count is None and size != self._text_size):
            self._token(count, at)
        self._text_size = size
        if (reason := meta.get("finish_reason")) is not None:
            self._finish(reason, at)
        return count

    def _token(self, running: int | None, at: float) -> None:
        self.chunks += 1
        if self.first_at is None:
            self.first_at = at
        self.last_at = at
        self._times.append(at)
        self._counts.append(running)

    def _finish(self, reason: object, at: float) -> None:
        self.finished = True
        self._seen_at = at
        kind = reason.get("type") if isinstance(reason, dict) else reason
        if kind in {"abort", "error"} and self.error is None:
            said = reason.get("message") if isinstance(reason, dict) else None
            self.error = f"the server ended it: {said or kind}"

    def why_bad(self) -> str | None:
        """What is wrong with it, after `end`: a sentence, quoted and masked; None for a good one."""
        if self.error is not None:
            return quoted(self.error)
        if not self.output_tokens:
            return "the answer was empty"
        if not (self.finished or self.done or self.plain):
            return f"the stream ended after {self.output_tokens} tokens without an end"
        return None

    @property
    def output_tokens(self) -> int:
        """By `usage`, else chunks."""
        return self.chunks if self.tokens is None else self.tokens

    def ends(self) -> tuple[float | None, float | None]:
        """When the first and the last token came. Tokens without a text (special ones) are told by the end alone; a plain answer has no first one."""
        if self.plain:
            return None, self._seen_at or self.last_at
        if self.first_at is None:
            return self._seen_at, self._seen_at
        return self.first_at, max(self.last_at or self.first_at, self._seen_at or 0.0)

    def gaps_ms(self) -> Sequence[float]:
        """Inter-token latencies in ms, one a token after those of the first chunk. A chunk of several tokens is
        as many equal parts of the time since the one before;
        where only the sum is known it is spread evenly over the chunks."""
        times, total = self._times, self.output_tokens
        if self.plain or len(times) < 2 or total < 2:
            return ()
        known = [count for count in self._counts if count is not None]
        if len(known) == len(times):
            counts = known
        else:
            share = (total - 1) / (len(times) - 1)
            counts = [1 + round(at * share) for at in range(len(times))]
        gaps: list[float] = []
        before, had = times[0], counts[0]
        for at, count in zip(times[1:], counts[1:], strict=True):
            new = count - had
            if new > 0:
                gaps += [1000 * (at - before) / new] * new
                before, had = at, count
        return gaps
