"""The files that a schema is inferred from: the newest ones, without those that cannot be read."""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from headrace.autoloader.ledger.ledger import join_path
from headrace.autoloader.reading.opening import CorruptFile, UnsupportedCompression
from headrace.autoloader.reading.splits import Split
from headrace.autoloader.tree import Tree
from headrace.errors import PipelineError

# The vendor samples 1,000 files or 50 GB, on a cluster. A field that the sample lacks is added by schema evolution.
SAMPLE_FILES = 1000
SAMPLE_BYTES = 1024**3
# Permanent errors of a file. Errors of object stores have no types, and may be temporary.
_PERMANENT_ERRORS = (PermissionError, IsADirectoryError, UnsupportedCompression)


def newest_files(tree: Tree, now_ns: int, max_files: int = SAMPLE_FILES) -> list[Split]:
    """The most recently modified files of a tree, newest first, each as one split."""
    selection = tree.selection
    found = (
        Split(join_path(folder, file.name), file.size, file.mtime_ns, 0, file.size)
        for folder, file in tree.files()
        if selection.admits_time(file.mtime_ns, now_ns)
    )
    return heapq.nlargest(max_files, found, key=lambda split: (split.mtime_ns, split.path))


class Sample:
    """Files to infer a schema from, and the errors of those that are corrupt."""

    def __init__(self, files: Sequence[Split]) -> None:
        self._files = files
        self.corrupt: list[tuple[str, str]] = []

    def __iter__(self) -> Iterator[Split]:
        return iter(self._files)

    @contextmanager
    def skipping_unreadable(self, path: str) -> Iterator[None]:
        """Skip a file that no longer exists or is corrupt: the stream reports it when it reads the file.

        Raises:
            PipelineError: ``AUTO_LOADER.SAMPLE``: the file cannot be accessed, so its columns are unknown;
                ``AUTO_LOADER.SAMPLE_BROKEN_OFF``: its store fails to return it now.
        """
        try:
            yield
        except FileNotFoundError:
            return
        except CorruptFile as error:
            self.corrupt.append((path, str(error).rstrip(".")))
        except OSError as error:
            code = "AUTO_LOADER.SAMPLE" if isinstance(error, _PERMANENT_ERRORS) else "AUTO_LOADER.SAMPLE_BROKEN_OFF"
            raise PipelineError(code, path=path, reason=str(error).rstrip(".")) from error
