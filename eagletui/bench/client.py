"""Requests of a run: how each API is asked, and what came back as a row. asyncio and httpx; knows no statistics."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final, cast

import httpx

from eagletui.bench.answer import Answer, quoted
from eagletui.bench.load import Api, Load
from eagletui.bench.outcome import Row
from eagletui.bench.prompts import Prompt

PATHS: Final[dict[Api, str]] = {
    "completions": "/v1/completions",
    "chat": "/v1/chat/completions",
    "generate": "/generate",
}
ORDER: Final[tuple[Api, ...]] = ("completions", "chat", "generate")
"""Which is tried, where none is asked for."""
SILENT_S: Final = 300.0
"""Without a byte for so long a request has failed: a queue of a busy server takes a minute or two."""
CONNECT_S: Final = 20.0
ERROR_BYTES: Final = 1 << 16
"""Read of an answer that is an error."""
_EXTRA: Final = ("ids", "ignore_eos", "continuous", "usage")
"""What servers may refuse, in the order in which it is left out. ids: prompts as token ids."""
_HINTS: Final[dict[str, tuple[str, ...]]] = {
    "ids": ("prompt", "token id", "input_ids"),
    "ignore_eos": ("ignore_eos",),
    "continuous": ("continuous_usage_stats",),
    "usage": ("stream_options", "include_usage"),
}
_LEFT_OUT: Final[dict[str, str]] = {
    "ids": "the server takes no token ids: prompts are texts, and as long as it counts them",
    "ignore_eos": "the server knows no ignore_eos: answers end where the model ends them",
    "usage": "the server refuses stream_options: without usage, chunks are counted as tokens",
}


@dataclass(slots=True)
class Manner:
    """How this server is asked, as it was found out. `without`: extras that it refused. `notes` for the reader."""

    api: Api
    fixed: bool
    """The person named the API: no other is tried."""
    engine: str | None = None
    model: str | None = None
    without: set[str] = field(default_factory=set)
    notes: list[str] = field(default_factory=list)

    @property
    def as_ids(self) -> bool:
        """Whether prompts are sent as token ids."""
        return self.api != "chat" and "ids" not in self.without

    def leave_out(self, said: str) -> bool:
        """One extra less, because the server refused a request with these words. False where there is none left to blame."""
        told = said.lower()
        left = [one for one in _EXTRA if one not in self.without and self._sends(one)]
        blamed = next((one for one in left if any(hint in told for hint in _HINTS[one])), None)
        if blamed is None:
            return False
        self.without.add(blamed)
        if blamed in _LEFT_OUT:
            self.notes.append(_LEFT_OUT[blamed])
        return True

    def _sends(self, extra: str) -> bool:
        return self.as_ids if extra == "ids" else extra == "ignore_eos" or self.api != "generate"

    def other_api(self, refused: Api) -> bool:
        """The next API, where the server has not the one that was asked. False where there is none. Several requests may find out at once."""
        if self.fixed:
            return False
        if self.api != refused:
            return True
        at = ORDER.index(self.api) + 1
        if at >= len(ORDER):
            return False
        self.api = ORDER[at]
        return True


def body_of(manner: Manner, load: Load, prompt: Prompt) -> dict[str, Any]:
    """A request's body."""
    if manner.api == "generate":
        given = {"input_ids": list(prompt.ids)} if prompt.ids else {"text": prompt.text}
        sampling: dict[str, Any] = {"max_new_tokens": prompt.output_len, "temperature": load.temperature}
        if load.ignore_eos and "ignore_eos" not in manner.without:
            sampling["ignore_eos"] = True
        return {**given, "sampling_params": sampling, "stream": True}
    body: dict[str, Any] = {"model": manner.model or "default"}
    if manner.api == "chat":
        body["messages"] = [{"role": "user", "content": prompt.text}]
    else:
        body["prompt"] = list(prompt.ids) or prompt.text
    body |= {"max_tokens": prompt.output_len, "temperature": load.temperature, "stream": True}
    if load.ignore_eos and "ignore_eos" not in manner.without:
        body["ignore_eos"] = True
    if "usage" not in manner.without:
        options = {"include_usage": True}
        if "continuous" not in manner.without:
            options["continuous_usage_stats"] = True
        body["stream_options"] = options
    if prompt.body is not None:
        body |= prompt.body
    return body


class Client:
    """Sends requests over one transport. `moment`: the loop's clock. Cancelling a request closes its connection, which ends it on the server."""

    def __init__(self, transport: httpx.AsyncBaseTransport, base_url: str, manner: Manner, api_key: str | None) -> None:
        self.manner = manner
        self._base = base_url.rstrip("/")
        headers = {"Accept": "text/event-stream", "Accept-Encoding": "identity", "User-Agent": "eagletui"}
        if api_key is not None:
            headers["Authorization"] = f"Bearer {api_key}"
        self._http = httpx.AsyncClient(
            transport=transport, headers=headers, follow_redirects=False, trust_env=False,
            timeout=httpx.Timeout(SILENT_S, connect=CONNECT_S, pool=None),
        )  # fmt: skip
        self.cached_tokens = 0
        """Of all prompts, as far as the server told."""
        self.accepted = [0, 0]
        """Tokens and verification steps, as `/generate` tells them."""

    async def ask(
        self, load: Load, prompt_of: Callable[[bool], Prompt], repeat: int, index: int, began: float, on_begin: Callable[[], None] | None = None
    ) -> Row:  # fmt: skip
        """One request to its end. `prompt_of(as_ids)` gives its prompt; `began`: the repeat's begin. Whether the link to its node is lost, the node tells."""
        while True:
            api = self.manner.api
            row, again = await self._asked(load, prompt_of(self.manner.as_ids), repeat, index, began, on_begin)
            if again is None:
                return row
            refused = (row.status in {404, 405} and self.manner.other_api(api)) or (
                row.status in {400, 422} and self.manner.leave_out(again)
            )
            if not refused:
                return row

    async def _asked(
        self, load: Load, prompt: Prompt, repeat: int, index: int, began: float, on_begin: Callable[[], None] | None
    ) -> tuple[Row, str | None]:
        """A row; and, where the server refused the request as such, what it said."""
        loop = asyncio.get_running_loop()
        content = json.dumps(body_of(self.manner, load, prompt)).encode()
        request = self._http.build_request(
            "POST", self._base + PATHS[self.manner.api], content=content, headers={"Content-Type": "application/json"}
        )
        if on_begin is not None:
            on_begin()
        sent = loop.time()
        answer = Answer()

        def row(status: int | None, error: str | None) -> Row:
            # From the moment it was written: what this machine needs for that is not the server's.
            first, last = answer.ends()
            return Row(
                repeat, index, sent - began,
                None if first is None else 1000 * (first - sent), None if last is None else 1000 * (last - sent),
                answer.prompt_tokens, answer.output_tokens, "chunks" if answer.tokens is None else "usage", status, error,
                () if error is not None else answer.gaps_ms(),
            )  # fmt: skip

        try:
            response = await self._http.send(request, stream=True)
        except httpx.HTTPError as error:
            return row(None, quoted(_reason(error))), None
        sent = response.extensions.get("sent", sent)
        status = response.status_code
        arrived = response.extensions.get("arrived", loop.time)
        try:
            if status != 200:
                text = await _text_of(response)
                if 300 <= status < 400:
                    where = response.headers.get("location", "nowhere")
                    return row(status, quoted(f"it points to {where}, which is not followed: name that address")), None
                return row(status, quoted(_told(text) or f"status {status} {response.reason_phrase}".strip())), text
            # As it comes: aiter_raw has layers of its own around each part.
            async for data in cast("httpx.AsyncByteStream", response.stream):
                answer.feed(data, arrived())
            answer.end(arrived())
        except httpx.HTTPError as error:
            told = answer.error or f"the stream broke after {answer.output_tokens} tokens: {_reason(error)}"
            return row(status, quoted(told)), None
        finally:
            await response.aclose()
        error_text = answer.why_bad()
        if error_text is None:
            self.cached_tokens += answer.cached_tokens or 0
            if answer.verified:
                self.accepted[0] += answer.output_tokens
                self.accepted[1] += answer.verified
        return row(status, error_text), None

    async def reach(self) -> str | None:
        """Why nobody answers there; None where somebody does, whatever it says."""
        try:
            await self._http.get(self._base + "/v1/models", timeout=CONNECT_S)
        except httpx.HTTPError as error:
            return quoted(_reason(error))
        return None

    async def get_json(self, path: str) -> Any:
        """What a GET answers as JSON, None where it does not."""
        try:
            answer = await self._http.get(self._base + path, timeout=CONNECT_S)
            return answer.json() if answer.status_code == 200 else None
        except (httpx.HTTPError, ValueError, RecursionError):
            return None

    async def aclose(self) -> None:
        """Close every connection."""
        await self._http.aclose()


def _reason(error: httpx.HTTPError) -> str:
    if isinstance(error, httpx.ConnectTimeout):
        return f"no connection within {CONNECT_S:.0f} s"
    if isinstance(error, httpx.TimeoutException):
        return f"nothing came for {SILENT_S:.0f} s"
    return str(error) or type(error).__name__


async def _text_of(response: httpx.Response) -> str:
    """The begin of an error's body; what breaks off is as good."""
    data = b""
    try:
        async for part in response.aiter_raw():
            data += part
            if len(data) > ERROR_BYTES:
                break
    except httpx.HTTPError:
        pass
    return data[:ERROR_BYTES].decode("utf-8", "replace")


def _told(text: str) -> str:
    """What an error's body says."""
    from eagletui.bench.answer import error_in

    try:
        found = error_in(json.loads(text))
    except (ValueError, RecursionError):
        return text.strip()
    return found or text.strip()
