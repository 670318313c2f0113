"""Whether a stream of files has anything to read, found without starting it and without writing."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from headrace.autoloader.discovery import Clock
from headrace.autoloader.finding import discovery_of
from headrace.autoloader.ledger import Ledger
from headrace.autoloader.source import Source
from headrace.autoloader.stream import Offset
from headrace.errors import PipelineError


def news_of_auto_loader(source: Source, offset: Mapping[str, Any] | None, now: Callable[[], float]) -> str | None:
    """Why the stream is to be started, or None when every file that is there was read.

    Args:
        source: what it reads.
        offset: how far it has read, as its checkpoint says; None when it has read nothing.
        now: the time, in seconds since 1970.
    """
    if offset is None:
        return "new files" if any(True for _ in source.tree.files()) else None
    at = Offset.of(offset)
    try:
        ledger = Ledger.open(Path(source.ledgers), at.ledger, read_only=True)
    except PipelineError as error:
        return error.message
    try:
        left = ledger.extent(at.number).files
        if left:
            return f"{left} file{'s' if left > 1 else ''} found and not read"
        clock = Clock(now_ns=lambda: int(now() * 1e9), sleep_s=_never)
        return "new files" if discovery_of(source, ledger, clock, stays=False).finds_any() else None
    except PipelineError as error:
        return error.message
    finally:
        ledger.close()


def _never(seconds: float) -> None:
    """Nothing is waited for."""
