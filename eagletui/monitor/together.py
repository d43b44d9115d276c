"""Tasks that live and fail together."""

from __future__ import annotations

import asyncio
import sys
from types import TracebackType


class Together(asyncio.TaskGroup):
    """A TaskGroup that leaves no trace in the task that waits for it.

    Before Python 3.13 it cancels that task once when a member fails while it is waited for, and never takes the cancellation
    back: `cancelling()` stays above zero for good. Whoever asks it takes a failure for the end, and before 3.11.3
    `asyncio.timeout` ends the task instead of raising TimeoutError.
    """

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """See TaskGroup."""
        task = asyncio.current_task()
        settled, cancelled = self._cancelled_its_task, task.cancelling() if task is not None else 0
        try:
            await super().__aexit__(kind, error, trace)
        finally:
            left = sys.version_info < (3, 13) and self._cancelled_its_task and not settled
            if left and task is not None and task.cancelling() > cancelled:
                task.uncancel()

    @property
    def _cancelled_its_task(self) -> bool:
        return bool(getattr(self, "_parent_cancel_requested", False))
