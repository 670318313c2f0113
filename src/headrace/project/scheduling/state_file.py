"""Where the state of a scheduler is stored: compared with what was read last, and put.

A scheduler writes only while it holds its lease, whose numbers grow. So a state with a greater number means that this
scheduler was replaced, and one with a lower number that a replaced one has written late: its decisions do not count.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Protocol

from headrace.atomic_write import replace_file
from headrace.errors import PipelineError
from headrace.schedules.state import State, UnreadableState, parse_state, state_text
from headrace.stores.object_path import ObjectPath
from headrace.stores.paths import StoragePath


class Replaced(Exception):
    """Another scheduler has taken over."""


class StateFile(Protocol):
    """The place of a state. All methods raise OSError if it cannot be read or written."""

    def read(self) -> State:
        """The stored state; the first state before anything is stored.

        Raises:
            PipelineError: SCHEDULE.STATE_UNREADABLE.
        """

    def write(self, state: State) -> None:
        """Replace the state that was read or written last.

        Raises:
            Replaced: a scheduler with a greater number has written it.
        """


def state_file(file: StoragePath) -> StateFile:
    """The state at a path."""
    return ObjectStateFile(file) if isinstance(file, ObjectPath) else DiskStateFile(file)


class DiskStateFile:
    """A file of a disk. The lease excludes other writers, but for one that lost it a moment ago."""

    def __init__(self, file: StoragePath) -> None:
        self._file = file

    def read(self) -> State:
        """See :class:`StateFile`."""
        try:
            return read_state(self._file)
        except FileNotFoundError:
            return State()

    def write(self, state: State) -> None:
        """See :class:`StateFile`."""
        self._file.parent.mkdir(parents=True, exist_ok=True)
        with suppress(FileNotFoundError):
            if _leader(self._file.read_bytes()) > state.leader:
                raise Replaced
        replace_file(self._file, state_text(state))


class ObjectStateFile:
    """An object; the store refuses a write if the object has changed since it was read."""

    def __init__(self, file: ObjectPath) -> None:
        self._file = file
        self._tag: str | None = None

    def read(self) -> State:
        """See :class:`StateFile`."""
        try:
            content, self._tag = self._file.store.get(self._file.key)
        except FileNotFoundError:
            self._tag = None
            return State()
        return _parsed(self._file, content)

    def write(self, state: State) -> None:
        """See :class:`StateFile`."""
        content = state_text(state).encode()
        while True:
            store, key = self._file.store, self._file.key
            if self._tag is None:
                tag = store.put_if_absent(key, content, replaceable=True)
            else:
                tag = store.put_if_tag(key, content, self._tag)
            if tag is not None:
                self._tag = tag
                return
            # A scheduler with a lower number was late, or the object is gone.
            try:
                found, self._tag = store.get(key)
            except FileNotFoundError:
                self._tag = None
                continue
            if _leader(found) > state.leader:
                raise Replaced


def read_state(file: StoragePath) -> State:
    """The state in a file.

    Raises:
        FileNotFoundError: no state is stored yet.
        PipelineError: SCHEDULE.STATE_UNREADABLE.
    """
    return _parsed(file, file.read_bytes())


def _parsed(file: StoragePath, content: bytes) -> State:
    try:
        return parse_state(content)
    except UnreadableState as error:
        raise PipelineError("SCHEDULE.STATE_UNREADABLE", file=file, reason=str(error)) from error


def _leader(content: bytes) -> int:
    try:
        return parse_state(content).leader
    except UnreadableState:
        return 0
