"""Whether a file stream has anything to read, and how much, without starting it or writing anything."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from contextlib import closing, suppress
from datetime import UTC, datetime
from typing import Any

from headrace.autoloader.changed_files import find_changes, recorded_changes
from headrace.autoloader.discovery import Clock
from headrace.autoloader.discovery_modes import open_discovery
from headrace.autoloader.ledger.positions import LedgerState, Offset, position_problem
from headrace.autoloader.ledger.relocation import has_moved
from headrace.autoloader.ledger.stored_ledgers import open_ledger
from headrace.autoloader.source import Source
from headrace.errors import PipelineError
from headrace.model.outcome import FilesBacklog
from headrace.stores.paths import storage_path


def auto_loader_changes(source: Source, offset: Mapping[str, Any] | None, now: Callable[[], float]) -> str | None:
    """Why the stream must be started, or None if all existing files were read.

    Args:
        source: the stream's source.
        offset: the offset in its checkpoint; None if it has read nothing.
        now: returns the time in seconds since 1970.
    """
    try:
        if offset is None:
            return "new files" if any(True for _ in source.tree.files()) else None
        at = Offset.of(offset)
        ledger = open_ledger(storage_path(source.ledgers), at.ledger, read_only=True)
    except PipelineError as error:
        # The flow is started, and only this flow fails.
        return error.message
    try:
        problem = position_problem(LedgerState.of(ledger), at.number)
        unread = ledger.backlog(at.number).files
        if problem is not None:
            return problem.message
        if has_moved(ledger, source.tree):
            return "its files are in another folder now"
        if unread:
            return f"{unread} file{'s' if unread > 1 else ''} found and not read"
        clock = Clock(now_ns=lambda: int(now() * 1e9), sleep_s=_never)
        if open_discovery(source, ledger, clock, keeps_polling=False).has_new_files():
            return "new files"
        if source.options.allow_overwrites:
            return None
        later = find_changes(ledger, source.tree.store, at.number, now_ms=clock.now_ns() // 1_000_000)
        return "files have changed since they were read" if any(True for _ in later) else None
    except PipelineError as error:
        return error.message
    finally:
        ledger.close()


def auto_loader_backlog(source: Source, offset: Any) -> FilesBacklog | None:
    """The files that a stream has found and not read; None if its offset belongs to no existing ledger.

    Args:
        source: the stream's source.
        offset: the offset, from Spark's progress (as text) or from a checkpoint.
    """
    if isinstance(offset, str):
        with suppress(ValueError):
            offset = json.loads(offset)
    if not isinstance(offset, Mapping) or not {"ledger", "number"} <= offset.keys():
        return None
    at = Offset.of(offset)
    try:
        ledger = open_ledger(storage_path(source.ledgers), at.ledger, read_only=True)
        try:
            unread = ledger.backlog(at.number)
        finally:
            ledger.close()
    except PipelineError:
        # An unknown backlog must not fail an update.
        return None
    oldest = None if unread.oldest_found_ms is None else datetime.fromtimestamp(unread.oldest_found_ms / 1000, UTC)
    return FilesBacklog(source.path, unread.files, unread.size, oldest)


def files_changed_since(source: Source, offset: Any, since_s: float) -> tuple[str, ...]:
    """Paths of files whose change after reading was detected since a time."""
    if isinstance(offset, str):
        with suppress(ValueError):
            offset = json.loads(offset)
    if not isinstance(offset, Mapping) or not {"ledger", "number"} <= offset.keys():
        return ()
    try:
        with closing(open_ledger(storage_path(source.ledgers), str(offset["ledger"]), read_only=True)) as ledger:
            return tuple(recorded_changes(ledger, int(since_s * 1000)))
    except PipelineError:
        # The flow itself reports the problem with its ledger.
        return ()


def _never(seconds: float) -> None:
    """Do not sleep."""
