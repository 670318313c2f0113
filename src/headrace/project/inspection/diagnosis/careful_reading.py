"""Reads a storage that may be torn, or belong to somebody else: what cannot be read is noted, and the rest is read."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from deltalake.exceptions import DeltaError

from headrace.assistant.doctor.facts import Unread
from headrace.errors import PipelineError, Problems, problems_of
from headrace.settings.storage import StorageLayout
from headrace.storage.listed_storage import reading_storage

_Read = TypeVar("_Read")
_Default = TypeVar("_Default")
# A missing permission, a damaged file or table, a value of another version of Headrace.
_FAILURES = (
    *(OSError, PipelineError, Problems, DeltaError),
    *(ValueError, LookupError, TypeError, AttributeError, ArithmeticError),
)


class CarefulReading:
    """Reads one part after the other, and remembers those that cannot be read."""

    def __init__(self) -> None:
        self.unread: list[Unread] = []

    def read(self, part: str, read: Callable[[], _Read], default: _Default) -> _Read | _Default:
        """What *read* returns, or the default if it cannot be read.

        Args:
            part: what is read, in a few words.
            read: reads it.
            default: stands for nothing.
        """
        try:
            return read()
        except _FAILURES as error:
            self.unread.append(_unread(part, error))
            return default


def _unread(part: str, error: Exception) -> Unread:
    if isinstance(error, OSError) and error.filename is not None:
        return Unread(part, error.strerror or type(error).__name__, str(error.filename))
    problem = problems_of(error)[0] if isinstance(error, (PipelineError, Problems)) else None
    text = str(error) if problem is None else problem.message
    if problem is not None and problem.detail and problem.detail not in text:
        # The message says what, and the detail why.
        text += f": {problem.detail.splitlines()[0].rstrip('.')}"
    hint = "" if problem is None else problem.hint or ""
    return Unread(part, (text.splitlines() or [type(error).__name__])[0], next_step=hint)


@contextmanager
def reading_carefully(layout: StorageLayout) -> Iterator[CarefulReading]:
    """A careful reading, of one look at a storage in a bucket."""
    with reading_storage(layout):
        yield CarefulReading()
