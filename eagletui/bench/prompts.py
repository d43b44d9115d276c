"""What is asked: seeded prompts of a given length, or a person's own from a JSONL file. Pure, but for reading that file."""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from eagletui.bench.load import Load
from eagletui.errors import UsageError

FIRST_ID, LAST_ID = 10, 249
"""Token ids that are drawn: every vocabulary has them, and the special ones of most stand before or far behind."""
TOKENS_A_WORD = 1.35
"""What a word of the list takes with the vocabularies of today, before anything was measured."""
MOST_BYTES = 256 << 20
_TEXT = (
    "the of and to in is that it was for on are as with his they at be this from have or by one had not but what all were when we there can an your "
    "which their said if do will each about how up out them then she many some so these would other into has more her two like him see time could no "
    "make than first been its who now people my made over did down only way find use may water long little very after words called just where most know "
    "get through back much before go good new write our used me man too any day same right look think also around another came come work three word "
    "must because does part even place well such here take why things help put years different away again off went old number great tell men say small "
    "every found still between name should home big give air line set own under read last never us left end along while might next sound below saw "
    "something thought both few those always looked show large often together asked house world going want school important until form food keep "
    "children feet land side without boy once animals life enough took sometimes four head above kind began almost live page got earth need far hand"
)
_WORDS = _TEXT.split()


@dataclass(frozen=True, slots=True)
class Prompt:
    """One request's. `text` or `ids` (token ids), or a person's `body`, taken as it is. `output_len`: tokens asked for."""

    output_len: int
    text: str = ""
    ids: tuple[int, ...] = ()
    body: dict[str, Any] | None = None


class Prompts:
    """Those of a load: the same seed gives the same ones, on every machine. `tokens_a_word` is corrected by what the server counts (`learn`)."""

    def __init__(self, load: Load, own: Sequence[Prompt] = ()) -> None:
        self._load = load
        self._own = own
        self._tokens_a_word = TOKENS_A_WORD
        self._fixed = 0.0

    def prompt(self, repeat: int, index: int, *, as_ids: bool) -> Prompt:
        """Of one request. A repeat asks otherwise than the one before, so that no answer is found in a cache. `repeat` -1: the warm-up's."""
        load = self._load
        if self._own:
            return self._own[(max(repeat, 0) * load.requests + index) % len(self._own)]
        drawn = random.Random(f"{load.seed}/{repeat}/{index}")  # noqa: S311 - a load, no secret
        input_len, output_len = (_within(drawn, wanted, load.spread) for wanted in (load.input_len, load.output_len))
        if as_ids:
            return Prompt(output_len, ids=tuple(drawn.randint(FIRST_ID, LAST_ID) for _ in range(input_len)))
        words = max(1, round((input_len - self._fixed) / self._tokens_a_word))
        return Prompt(output_len, text=" ".join(drawn.choices(_WORDS, k=words)))

    def learn(self, short: tuple[int, int], long: tuple[int, int]) -> None:
        """Two texts as (words, tokens that the server counted): what a word takes, and what every prompt takes beside (a chat's template)."""
        words, tokens = long[0] - short[0], long[1] - short[1]
        if words > 0 and tokens > 0:
            self._tokens_a_word = tokens / words
            self._fixed = max(0.0, short[1] - self._tokens_a_word * short[0])

    def words(self, count: int) -> str:
        """A text of so many words, for learning."""
        return " ".join(random.Random(f"{self._load.seed}/learn").choices(_WORDS, k=count))  # noqa: S311 - see above


def _within(drawn: random.Random, wanted: int, spread: float) -> int:
    return max(1, drawn.randint(max(1, round(wanted * (1 - spread))), wanted)) if spread else wanted


def read_prompts(path: Path, output_len: int) -> tuple[tuple[Prompt, ...], str]:
    """A JSONL file of prompts, and the SHA-256 of its content: a line is a text, or an object with `prompt` (a text, or token ids), `messages`, or
    `text`, and where the answer's length is given `output_len` or `max_tokens`. Raises UsageError with file and line."""
    try:
        if path.stat().st_size > MOST_BYTES:
            raise UsageError(f"{path} is larger than {MOST_BYTES >> 20} MiB: write the prompts of one run into it")
        data = path.read_bytes()
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}") from None
    found: list[Prompt] = []
    for number, line in enumerate(data.splitlines(), 1):
        if not line.strip():
            continue
        try:
            value = json.loads(line)
        except ValueError as error:
            raise UsageError(f"{path}:{number}: it is no JSON ({error})") from None
        prompt = _of_line(value, output_len)
        if prompt is None:
            raise UsageError(f'{path}:{number}: write {{"prompt": "…"}}, {{"messages": […]}} or a text in quotes')
        found.append(prompt)
    if not found:
        raise UsageError(f"{path} holds no prompt")
    return tuple(found), hashlib.sha256(data).hexdigest()


def _of_line(value: Any, output_len: int) -> Prompt | None:
    if isinstance(value, str):
        return Prompt(output_len, text=value)
    if not isinstance(value, dict):
        return None
    length = next((value[key] for key in ("output_len", "max_tokens") if isinstance(value.get(key), int)), output_len)
    messages, prompt = value.get("messages"), value.get("prompt", value.get("text"))
    if isinstance(messages, list) and messages:
        return Prompt(length, body={"messages": messages})
    if isinstance(prompt, str):
        return Prompt(length, text=prompt)
    if isinstance(prompt, list) and prompt and all(isinstance(one, int) for one in prompt):
        return Prompt(length, ids=tuple(prompt))
    return None
