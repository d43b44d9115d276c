"""Following a log that a container's runtime or the journal keeps, over links that break. Sans-IO, with the face of `follower.Follower`.

After a break the tool is asked for what came after the last line's mark. A container's mark is a time, which several lines can share: those that
were read already are told by their number.
"""

from __future__ import annotations

from eagletui.logs.follower import BREAK_S, RETRY_S, Found, Fresh, Part, Run, Step, Wait
from eagletui.shell.follow import FileHead
from eagletui.shell.kept import RUNTIMES, Kept, KeptDecoder, kept_log
from eagletui.shell.poll import FileWord

_NO_TOOL = 127


class KeptFollower:
    """Reads the log of `keeper`: "docker ID" (podman, nerdctl), "unit NAME" or "user-unit NAME". `hint` is how to go on where that is not possible."""

    def __init__(self, keeper: str, hint: str) -> None:
        self._kind, _, self._name = keeper.partition(" ")
        self._in_container = self._kind in RUNTIMES
        self.name = f"{'container' if self._in_container else 'unit'} {self._name}"
        self.path = self.name
        self.offset = 0
        self.pid = 0
        self.error: str | None = None
        self.head: FileHead | None = None
        self.streaming = True
        self._hint = hint
        self._decoder = KeptDecoder(self._kind)
        self._mark = ""
        self._same = 0
        self._to_skip = 0
        self._tries = 0
        self._began = False

    def next_run(self, keeper: int = 0) -> Run:  # noqa: ARG002 - one shape for all followers
        """The run that comes next: always a stream."""
        self._decoder = KeptDecoder(self._kind)
        # A time is given back with the lines that have it; a cursor only with what comes after it.
        self._to_skip = self._same if self._in_container else 0
        self.head = None
        return Run(Step.FOLLOW, kept_log(self._kind, self._name, self._mark))

    def finished(self, output: bytes, status: int | None) -> list[Found]:  # noqa: ARG002 - one shape for all followers
        """No run of this follower ends by itself."""
        return []

    def took(self, chunk: bytes) -> list[Found]:
        """A chunk of the stream came."""
        out: list[Found] = []
        for kept in self._decoder.decode(chunk):
            if self._is_new(kept):
                if not self._began:
                    self._began = True
                    out.append(Fresh(""))
                self._tries = 0
                self.error = None
                self.offset += len(kept.line)
                _add(out, kept)
        if out and self.head is None:
            self.head = FileHead(None, None, 0, 0.0, 0)
        return out

    def _is_new(self, kept: Kept) -> bool:
        if kept.mark != self._mark:
            self._mark, self._same, self._to_skip = kept.mark, 1, 0
            return True
        if self._to_skip:
            self._to_skip -= 1
            return False
        self._same += 1
        return True

    def ended(self, status: int | None) -> list[Found]:
        """The tool ended: with its container, its lease, or a complaint."""
        self._decoder.flush()
        said = self._decoder.complaint
        if status == _NO_TOOL:
            said = f"this login has no {self._kind if self._in_container else 'journalctl'}"
        if said and not self._began:
            self.error = f"The log of {self.name} cannot be read: {said}. {self._hint}"
        wait = (BREAK_S, *RETRY_S)[min(self._tries, len(RETRY_S))]
        self._tries += 1
        return [Wait(wait, self.error)]

    def looked(self, word: FileWord, read_to: int | None) -> list[Found]:  # noqa: ARG002 - one shape for all followers
        """It has no name to look at."""
        return []


def _add(out: list[Found], kept: Kept) -> None:
    """Lines of one second are one part."""
    last = out[-1] if out else None
    if (
        isinstance(last, Part)
        and (last.at is None) == (kept.at is None)
        and abs((last.at or 0.0) - (kept.at or 0.0)) < 1.0
    ):
        out[-1] = Part(last.data + kept.line, at=last.at)
    else:
        out.append(Part(kept.line, at=kept.at))
