"""The files that a stream of Spark's file source has not read, by a listing of its folders."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from headrace.checkpoints.offsets import files_seen
from headrace.graph.analysis import Source
from headrace.model.outcome import SourceLag
from headrace.storage.file_listing import listed_files
from headrace.stores.paths import StoragePath

# A listing costs as much as Spark's own, and the list of files that were seen grows.
_INTERVAL_S = 60.0
_MAX_FILES = 10_000


class UnreadFiles:
    """Lists the files of one source, at most once a minute; never again once there are more than 10,000.

    Args:
        source: of the kind ``FILES``.
        number: of the source in the checkpoint.
        checkpoint: of the stream.
        now: the time in seconds since 1970.
    """

    def __init__(self, source: Source, number: int, checkpoint: StoragePath, now: Callable[[], float]) -> None:
        self._source = source
        self._number = number
        self._checkpoint = checkpoint
        self._now = now
        self._listed_at = float("-inf")
        self._lag: SourceLag | None = None
        self._is_too_large = False

    def lag(self, *, last: bool) -> SourceLag | None:
        """The files that were not listed for a batch so far; None if unknown."""
        now = self._now()
        if self._is_too_large or (not last and now - self._listed_at < _INTERVAL_S):
            return self._lag
        self._listed_at = now
        try:
            listed = listed_files(self._source.detail)
            if len(listed) > _MAX_FILES:
                self._is_too_large, self._lag = True, None
                return None
            stats = [Path(path).stat() for path in listed - files_seen(self._checkpoint, self._number)]
        except OSError:
            # A file may be gone since it was listed. Spark reports other errors, if they matter.
            self._lag = None
            return None
        oldest_s = max((now - found.st_mtime for found in stats), default=0.0)
        size = sum(found.st_size for found in stats)
        self._lag = SourceLag(
            self._source.name, "files", files=len(stats), size=size, seconds=round(max(oldest_s, 0.0), 3)
        )
        return self._lag
