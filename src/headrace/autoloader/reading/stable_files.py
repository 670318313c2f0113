"""Check that a file did not change between its discovery and the end of reading."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime

from headrace.autoloader.reading.splits import Split
from headrace.autoloader.stores.paths import store_of
from headrace.errors import PipelineError

_NS = 1_000_000_000


def is_unchanged(path: str, before: tuple[int, int], now: tuple[int, int]) -> bool:
    """Whether size and time are equal; times of object stores are compared in seconds."""
    step = 1 if path.startswith("/") else _NS
    return before[0] == now[0] and before[1] // step == now[1] // step


@contextmanager
def ensuring_unchanged(split: Split) -> Iterator[None]:
    """Fail if the file changes while the block reads a split.

    The check comes after reading, so that everything read is from one state of the file. A file that no longer exists
    was read completely, or reading has failed.

    Raises:
        PipelineError: ``AUTO_LOADER.FILE_CHANGED``, also instead of an error of the block.
    """
    try:
        yield
    except Exception:
        check_unchanged(split)
        raise
    check_unchanged(split)


def check_unchanged(split: Split) -> None:
    """Compare a file with its state at discovery.

    Raises:
        PipelineError: ``AUTO_LOADER.FILE_CHANGED``: it differs.
    """
    now = store_of(split.path).stat(split.path)
    if now is not None and not is_unchanged(split.path, (split.size, split.mtime_ns), (now.size, now.mtime_ns)):
        found, later = _describe(split.size, split.mtime_ns), _describe(now.size, now.mtime_ns)
        raise PipelineError("AUTO_LOADER.FILE_CHANGED", path=split.path, found=found, now=later)


def _describe(size: int, mtime_ns: int) -> str:
    moment = datetime.fromtimestamp(mtime_ns / _NS, UTC)
    return f"{size} bytes of {moment:%Y-%m-%d %H:%M:%S.%f} UTC"
