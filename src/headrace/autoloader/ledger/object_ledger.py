"""A ledger in an object store: a SQLite file of this machine as cache of the segments in the store.

The segments are what counts. The cache is changed first, and :meth:`ObjectLedger.flush` writes what has changed as the
next segment. A cache that is missing, damaged, older or newer than the segments, or of another storage, is made again.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

from headrace.autoloader.ledger import replication
from headrace.autoloader.ledger.connection import check_integrity, connect
from headrace.autoloader.ledger.ledger import CHANGED, ID, SCHEMA, SUFFIX, Ledger
from headrace.autoloader.ledger.segments import SegmentLog, StoredSegments
from headrace.errors import PipelineError
from headrace.stores.local_caches import cache_folder
from headrace.stores.object_path import ObjectPath
from headrace.stores.snapshot_store import uncached

# A snapshot is written when there are so many segments after the last one, and it is worth its size; or twice as many.
SEGMENTS_BEFORE_SNAPSHOT = 100
_SNAPSHOT_RATIO = 4
# How often to list again if segments are replaced by a snapshot while they are read.
_ATTEMPTS = 5
_CACHE_FORMAT = "1"
_CACHE = "create table if not exists cache (key text primary key, value text not null) without rowid"


@dataclass(frozen=True)
class _CacheState:
    """What a cache has: the ledger of which folder, up to which segment; a new generation whenever it was refreshed."""

    folder: str = ""
    format: str = ""
    number: int = 0
    segment_id: str = ""
    tag: str = ""
    generation: str = ""

    @classmethod
    def of(cls, connection: sqlite3.Connection) -> _CacheState:
        stored = dict(connection.execute("select key, value from cache"))
        known = {key: stored[key] for key in cls.__dataclass_fields__ if key in stored}
        return cls(**{**known, "number": int(known.get("number", 0))})

    def store(self, connection: sqlite3.Connection) -> None:
        rows = [(key, str(value)) for key, value in vars(self).items()]
        connection.executemany("insert or replace into cache values (?, ?)", rows)

    def is_of(self, folder: ObjectPath) -> bool:
        return (self.folder, self.format) == (str(folder), _CACHE_FORMAT)


class ObjectLedger(Ledger):
    """An open ledger in an object store."""

    def __init__(self, file: Path, connection: sqlite3.Connection, log: SegmentLog) -> None:
        super().__init__(file, connection, str(log.folder))
        # What a power loss takes from the cache is in segments; it must only stay whole.
        connection.execute("pragma synchronous = normal")
        self._log = log
        self._generation = _CacheState.of(connection).generation

    @classmethod
    def create_in(cls, root: ObjectPath) -> ObjectLedger:
        """Create a ledger with a unique id."""
        ledger_id = uuid4().hex
        log = _log(root, ledger_id)
        file, connection = _open_cache(log.folder, ledger_id)
        _CacheState(str(log.folder), _CACHE_FORMAT, generation=uuid4().hex).store(connection)
        ledger = cls(file, connection, log)
        replication.note_changes(connection)
        ledger.set_note(ID, ledger_id)
        ledger.flush()
        return ledger

    @classmethod
    def open_in(cls, root: ObjectPath, ledger_id: str, *, read_only: bool) -> ObjectLedger:
        """Open the ledger that an offset names.

        Raises:
            PipelineError: ``AUTO_LOADER.LEDGER_MISSING``, ``AUTO_LOADER.LEDGER_DAMAGED``,
                ``AUTO_LOADER.LEDGER_OF_ANOTHER``: of the segments; ``AUTO_LOADER.LEDGER_FAILS``: the store or the cache
                does not answer.
        """
        log = _log(root, ledger_id)
        with _translating_store_errors(log.folder):
            if not log.listing().exists:
                raise PipelineError("AUTO_LOADER.LEDGER_MISSING", ledger=ledger_id, root=str(root))
            file, connection = _open_cache(log.folder, ledger_id)
            try:
                _refresh(connection, log)
                ledger = cls(file, connection, log)
            except BaseException:
                connection.close()
                raise
        if not read_only:
            replication.note_changes(connection)
        return ledger

    def flush(self) -> None:
        """Write what has changed as the next segment.

        Raises:
            PipelineError: ``AUTO_LOADER.LEDGER_TAKEN``: another process has written it; ``AUTO_LOADER.LEDGER_FAILS``.
        """
        with _transaction(self.connection), _translating_store_errors(self._log.folder):
            self._publish()
        super().flush()

    def remove(self) -> None:
        """Delete a ledger that no offset names."""
        super().remove()
        with _translating_store_errors(self._log.folder):
            self._log.delete()

    def _publish(self) -> None:
        state = _CacheState.of(self.connection)
        if state.generation == self._generation and not replication.has_changes(self.connection):
            return
        segment = replication.changes(self.connection, self.id, (state.number, state.segment_id))
        # If the cache was made again from the store, it lacks what this process has found.
        tag = self._log.append(segment) if state.generation == self._generation else None
        if tag is None:
            raise PipelineError("AUTO_LOADER.LEDGER_TAKEN", file=self.place, number=segment.number)
        self.connection.execute("delete from unpublished")
        _CacheState(state.folder, state.format, segment.number, segment.id, tag, state.generation).store(
            self.connection
        )
        if _is_snapshot_due(self._log.listing()):
            self._log.write_snapshot(replication.all_rows(self.connection, self.id, (segment.number, segment.id)))


def _log(root: ObjectPath, ledger_id: str) -> SegmentLog:
    return SegmentLog(uncached(root) / f"{ledger_id}{SUFFIX}", ledger_id)


def _is_snapshot_due(stored: StoredSegments) -> bool:
    later = [meta.size_bytes for number, meta in stored.segments.items() if number > stored.snapshot_number]
    is_worth_it = stored.snapshot is None or sum(later) * _SNAPSHOT_RATIO >= stored.snapshot.size_bytes
    return len(later) >= SEGMENTS_BEFORE_SNAPSHOT * (1 if is_worth_it else 2)


def _open_cache(folder: ObjectPath, ledger_id: str) -> tuple[Path, sqlite3.Connection]:
    """The cache's file and an open connection; a damaged file is replaced by an empty cache."""
    file = cache_folder(folder) / "ledgers" / f"{ledger_id}{SUFFIX}"
    file.parent.mkdir(parents=True, exist_ok=True)
    try:
        return file, _connect(file)
    except PipelineError as error:
        if error.code != "AUTO_LOADER.LEDGER_DAMAGED":
            raise
    for part in file.parent.glob(f"{file.name}*"):
        part.unlink(missing_ok=True)
    return file, _connect(file)


def _connect(file: Path) -> sqlite3.Connection:
    connection = connect(file, "rwc")
    try:
        connection.execute("pragma journal_mode = wal")
        for statement in (SCHEMA, CHANGED.format(""), f"{_CACHE};", f"{replication.UNPUBLISHED};"):
            connection.executescript(statement)
        check_integrity(connection, file)
        _CacheState.of(connection)
    except BaseException:
        connection.close()
        raise
    return connection


def _refresh(connection: sqlite3.Connection, log: SegmentLog) -> None:
    """Bring a cache to the state of the newest segment; what it has found itself stays if no segment is newer."""
    if _is_current(_CacheState.of(connection), log, log.listing()):
        return
    for attempt in range(_ATTEMPTS):
        # No process of this machine writes a segment meanwhile.
        with _transaction(connection):
            state, stored = _CacheState.of(connection), log.listing()
            if _is_current(state, log, stored):
                return
            try:
                _apply_segments(connection, log, state, stored)
            except FileNotFoundError:
                if attempt == _ATTEMPTS - 1:
                    raise
            else:
                return


def _is_current(state: _CacheState, log: SegmentLog, stored: StoredSegments) -> bool:
    return state.is_of(log.folder) and state.number == stored.last and state.tag == stored.tag(stored.last)


def _apply_segments(
    connection: sqlite3.Connection, log: SegmentLog, state: _CacheState, stored: StoredSegments
) -> None:
    number, segment_id = state.number, state.segment_id
    continues = state.is_of(log.folder) and stored.snapshot_number <= number < stored.last
    if not continues or state.tag != stored.tag(number) or replication.has_changes(connection):
        number, segment_id = 0, ""
    segments = log.read_after(number, segment_id, stored)
    if not number:
        replication.clear(connection)
    replication.apply(connection, segments)
    # What was applied is in a segment.
    connection.execute("delete from unpublished")
    newest, tag = segments[-1], stored.tag(stored.last) or ""
    _CacheState(str(log.folder), _CACHE_FORMAT, newest.number, newest.id, tag, uuid4().hex).store(connection)


@contextmanager
def _transaction(connection: sqlite3.Connection) -> Iterator[None]:
    connection.execute("begin immediate")
    try:
        yield
    except BaseException:
        connection.execute("rollback")
        raise
    connection.execute("commit")


@contextmanager
def _translating_store_errors(folder: ObjectPath) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise PipelineError("AUTO_LOADER.LEDGER_FAILS", file=folder, reason=str(error)) from error
