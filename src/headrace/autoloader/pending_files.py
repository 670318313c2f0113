"""Whether a stream of files has anything to read, and how much: found without starting it and without writing."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

from headrace.autoloader.changed_files import changes, changes_noted
from headrace.autoloader.discovery import Clock
from headrace.autoloader.discovery_modes import discovery_of
from headrace.autoloader.ledger import Ledger
from headrace.autoloader.positions import LedgerState, Offset, position_problem
from headrace.autoloader.relocation import has_moved
from headrace.autoloader.source import Source
from headrace.errors import PipelineError
from headrace.model.outcome import FilesBacklog


def news_of_auto_loader(source: Source, offset: Mapping[str, Any] | None, now: Callable[[], float]) -> str | None:
    """Why the stream is to be started, or None when every file that is there was read.

    Args:
        source: what it reads.
        offset: how far it has read, as its checkpoint says; None when it has read nothing.
        now: the time, in seconds since 1970.
    """
    try:
        if offset is None:
            return "new files" if any(True for _ in source.tree.files()) else None
        at = Offset.of(offset)
        ledger = Ledger.open(Path(source.ledgers), at.ledger, read_only=True)
    except PipelineError as error:
        # The flow is started, and fails with it alone.
        return error.message
    try:
        problem = position_problem(LedgerState.of(ledger), at.number)
        left = ledger.extent(at.number).files
        if problem is not None:
            return problem.message
        if has_moved(ledger, source.tree):
            return "its files lie in another folder now"
        if left:
            return f"{left} file{'s' if left > 1 else ''} found and not read"
        clock = Clock(now_ns=lambda: int(now() * 1e9), sleep_s=_never)
        if discovery_of(source, ledger, clock, stays=False).finds_any():
            return "new files"
        if source.options.overwrites:
            return None
        later = changes(ledger, source.tree.store, at.number, now_ms=clock.now_ns() // 1_000_000)
        return "files have changed since they were read" if any(True for _ in later) else None
    except PipelineError as error:
        return error.message
    finally:
        ledger.close()


def backlog_of_auto_loader(source: Source, offset: Any) -> FilesBacklog | None:
    """The files that a stream has found and not read; None where its position is not one of a ledger that is there.

    Args:
        source: what it reads.
        offset: how far it has read, as Spark's progress (as text) or a checkpoint says.
    """
    if isinstance(offset, str):
        with suppress(ValueError):
            offset = json.loads(offset)
    if not isinstance(offset, Mapping) or not {"ledger", "number"} <= offset.keys():
        return None
    at = Offset.of(offset)
    try:
        ledger = Ledger.open(Path(source.ledgers), at.ledger, read_only=True)
        try:
            left = ledger.extent(at.number)
        finally:
            ledger.close()
    except PipelineError:
        # Nobody's update fails for a number that could not be had.
        return None
    return FilesBacklog(source.path, left.files, left.size)


def changed_after(source: Source, offset: Any, since_s: float) -> tuple[str, ...]:
    """Paths of files that were found, since a time, to have changed after they were read."""
    if isinstance(offset, str):
        with suppress(ValueError):
            offset = json.loads(offset)
    if not isinstance(offset, Mapping) or not {"ledger", "number"} <= offset.keys():
        return ()
    try:
        with closing(Ledger.open(Path(source.ledgers), str(offset["ledger"]), read_only=True)) as ledger:
            return tuple(changes_noted(ledger, int(since_s * 1000)))
    except PipelineError:
        # The flow says itself what is the matter with its ledger.
        return ()


def _never(seconds: float) -> None:
    """Nothing is waited for."""
