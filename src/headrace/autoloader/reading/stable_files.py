"""Whether a file is, once it was read, still what it was when it was found."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime

from headrace.autoloader.reading.splits import Split
from headrace.autoloader.stores.paths import store_of
from headrace.errors import PipelineError

_NS = 1_000_000_000


def is_same(path: str, before: tuple[int, int], now: tuple[int, int]) -> bool:
    """Whether sizes and times are those of one file; stores of objects tell times to the second at least."""
    step = 1 if path.startswith("/") else _NS
    return before[0] == now[0] and before[1] // step == now[1] // step


@contextmanager
def same_file(split: Split) -> Iterator[None]:
    """Around the reading of a part of a file, which ends with an error where the file has changed since it was found.

    It is looked at after it was read, because then all that was read is of one file. One that has gone was read whole,
    or else has raised.

    Raises:
        PipelineError: ``AUTO_LOADER.FILE_CHANGED``, whatever else the contents have raised.
    """
    try:
        yield
    except Exception:
        check_unchanged(split)
        raise
    check_unchanged(split)


def check_unchanged(split: Split) -> None:
    """Compare a file with what was found.

    Raises:
        PipelineError: ``AUTO_LOADER.FILE_CHANGED``.
    """
    now = store_of(split.path).stat(split.path)
    if now is not None and not is_same(split.path, (split.size, split.mtime_ns), (now.size, now.mtime_ns)):
        found, later = _said(split.size, split.mtime_ns), _said(now.size, now.mtime_ns)
        raise PipelineError("AUTO_LOADER.FILE_CHANGED", path=split.path, found=found, now=later)


def _said(size: int, mtime_ns: int) -> str:
    moment = datetime.fromtimestamp(mtime_ns / _NS, UTC)
    return f"{size} bytes of {moment:%Y-%m-%d %H:%M:%S.%f} UTC"
