"""The one error that tells most, out of what task groups raise."""

from __future__ import annotations

from collections.abc import Iterator

from eagletui.errors import EagletuiError, LinkLostError


def _leaves(error: BaseException) -> Iterator[BaseException]:
    if isinstance(error, BaseExceptionGroup):
        for inner in error.exceptions:
            yield from _leaves(inner)
    else:
        yield error


def plainest(error: BaseException) -> BaseException:
    """A lost link before what follows from it, then a failure with a sentence, then the first."""
    leaves = list(_leaves(error))
    for kind in (LinkLostError, EagletuiError):
        for leaf in leaves:
            if isinstance(leaf, kind):
                return leaf
    return leaves[0]
