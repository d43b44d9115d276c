"""The questions of one login at one machine: what is asked, how often, and a record of it for the sentence when it
failed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path

from eagletui.errors import LoginCancelledError
from eagletui.nodes.prompter import Field, Nobody, Prompter, Question, clean_lines
from eagletui.nodes.ssh_config import HostSettings

PROMPTS_LIMIT = 10
"""Fields of one keyboard-interactive round that are asked. OpenSSH's servers send one or two."""
ROUNDS_LIMIT = 20
"""Keyboard-interactive rounds a login: a server that asks for ever is left."""


class Asking:
    """Asks for one login. `pause` is told True when a question opens and False when it is closed: no deadline may cut a
    person short.

    `answered`: a person's answer was used. `unasked`: words for what nobody could be asked. `interrupted`: a question
    is open, or was when the server left. `cancelled`: the person stopped the login. `expired`: the server wants a new password.
    """

    def __init__(
        self, settings: HostSettings, prompter: Prompter, *, on_the_way_to: str = "", pause: Callable[[bool], None]
    ) -> None:
        self._settings = settings
        self._prompter: Prompter = Nobody() if settings.batch else prompter
        self._login = login_words(settings, on_the_way_to)
        self._pause = pause
        self._banner: tuple[str, ...] = ()
        self._passwords = 0
        self._challenges = 0
        self._rounds = 0
        self._challenged = True
        self._gave_up: set[str] = set()
        self._excessive = False
        self._open: asyncio.Future[Sequence[str] | None] | None = None
        self.answered = False
        self.unasked: list[str] = []
        self.interrupted = False
        self.cancelled = False
        self.expired = False

    @property
    def can_ask(self) -> bool:
        """Whether a question makes sense now."""
        return self._prompter.can_ask and not self.cancelled

    @property
    def refused(self) -> tuple[str, ...]:
        """What a person gave in vain, in words for the sentence."""
        words = []
        if self._passwords:
            given = self._passwords - ("password" in self._gave_up)
            words.append("no password was accepted" if given else "no password was given")
        if self._excessive:
            words.append(
                f"it asks more than a login needs (over {PROMPTS_LIMIT} answers at once, or {ROUNDS_LIMIT} times)"
            )
        elif self._challenges and self._challenged and "challenge" not in self._gave_up:
            words.append("the answers to its questions were not accepted")
        elif "challenge" in self._gave_up and not self.unasked:
            words.append("its questions were not answered")
        return tuple(words)

    @property
    def needs_person(self) -> bool:
        """Whether the login may work with a person there."""
        return bool(self.unasked) and not self._settings.batch

    def banner(self, text: str) -> None:
        """The server's greeting, shown above the first question."""
        self._banner = clean_lines(text)

    async def _ask(self, what: str, question: Question) -> Sequence[str] | None:
        if not self._prompter.can_ask:
            if what not in self.unasked:
                self.unasked.append(what)
            return None
        if self.cancelled:
            return None
        self._banner = ()
        self._pause(True)
        self.interrupted = True
        self._open = asyncio.ensure_future(self._prompter.ask(question))
        try:
            answers = await self._open
        except LoginCancelledError:
            # Not raised here: this runs inside the SSH library, which would take it for a fault of its own.
            self.cancelled = True
            answers = None
        finally:
            self._pause(False)
        self.interrupted = False
        return answers

    async def aclose(self) -> None:
        """Take back a question that is open, and wait until its terminal is as it was. Never raises."""
        if self._open is not None and not self._open.done():
            self._open.cancel()
            await asyncio.wait((self._open,))

    async def passphrase(self, path: Path, *, wrong: bool) -> str | None:
        """The passphrase of a key file; None: that key is passed over."""
        told = (
            *((f"That passphrase does not open {path}.",) if wrong else ()),
            "An empty answer passes this key over.",
        )
        answers = await self._ask(
            f"the passphrase of {path}",
            Question(self._login, (Field(f"Passphrase of {path}"),), told=told, said=self._banner),
        )
        if not answers or not answers[0]:
            return None
        self.answered = True
        return answers[0]

    async def password(self) -> str | None:
        """The password of the account; None: no (further) one."""
        if "password" in self._gave_up or self._passwords >= self._settings.password_prompts:
            return None
        told = ("That password was not accepted.",) if self._passwords else ()
        if self._prompter.can_ask:
            self._passwords += 1
        answers = await self._ask(
            "a password",
            Question(self._login, (Field(f"Password of {self._settings.user}"),), told=told, said=self._banner),
        )
        if not answers or not answers[0]:
            self._gave_up.add("password")
            return None
        self.answered = True
        return answers[0]

    def may_be_challenged(self) -> bool:
        """Whether to begin keyboard-interactive (again). Counts it."""
        if not self._prompter.can_ask:
            if "answers to its questions" not in self.unasked:
                self.unasked.append("answers to its questions")
            return False
        # A server that failed the method without a question will not ask the next time either.
        if (
            self.cancelled
            or "challenge" in self._gave_up
            or not self._challenged
            or self._challenges >= self._settings.password_prompts
        ):
            return False
        self._challenges += 1
        self._challenged = False
        return True

    async def challenge(self, name: str, instruction: str, prompts: Sequence[tuple[str, bool]]) -> Sequence[str] | None:
        """One round of keyboard-interactive: the prompts with whether each answer may be seen. None: give up."""
        again = self._challenges > 1 and not self._challenged
        self._challenged = True
        self._rounds += 1
        if self._rounds > ROUNDS_LIMIT or len(prompts) > PROMPTS_LIMIT:
            self._excessive = True
            self._gave_up.add("challenge")
            return None
        said = (*self._banner, *clean_lines(name), *clean_lines(instruction))
        if not prompts:
            # Only something to read: it is shown above the next question.
            self._banner = said
            return ()
        # sshd puts what PAM has to say before the first prompt, with newlines: the last line is the prompt.
        texts = [clean_lines(label) for label, _ in prompts]
        said += tuple(line for lines in texts for line in lines[:-1])
        fields = tuple(
            Field(lines[-1] if lines else "", secret=not echo, by_server=True)
            for lines, (_, echo) in zip(texts, prompts, strict=True)
        )
        told = ("The answers were not accepted.",) if again else ()
        answers = await self._ask("answers to its questions", Question(self._login, fields, told=told, said=said))
        if answers is None:
            self._gave_up.add("challenge")
            return None
        self.answered = True
        return answers


def login_words(settings: HostSettings, on_the_way_to: str = "") -> str:
    """The login as each question names it: user@host:port, the name it goes by, and what it is a jump host for."""
    words = f"{settings.user}@{settings.address}"
    if settings.name != settings.host:
        words += f", {settings.name}"
    return words + (f", on the way to {on_the_way_to}" if on_the_way_to else "")
