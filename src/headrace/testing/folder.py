"""The folder of a project in a test: writes files, reads rows of its tables."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from headrace.autoloader.discovery import STABLE_AFTER_S
from headrace.model.rows import json_value
from headrace.settings.settings import Settings
from headrace.testing.result import rows_at, table_path
from headrace.testing.rows import SortedRows

# The age of new files in tests: old enough that no update waits for them to be complete.
_LANDED_AGO_NS = int(2 * STABLE_AFTER_S * 1_000_000_000)


class ProjectFolder:
    """A project's files and its storage.

    Args:
        settings: the project's, with the storage of the test.
        copied: True if the folder is the test's own copy, in which it may replace data.
    """

    def __init__(self, settings: Settings, *, copied: bool) -> None:
        self.settings = settings
        self._copied = copied
        self._landed: set[Path] = set()

    @property
    def folder(self) -> Path:
        """The project's folder; write into it as you like."""
        return self.settings.root

    def land(self, path: str, rows: Iterable[Mapping[str, Any] | str]) -> Path:
        """Write a file of JSON lines atomically, for sources that read files.

        Its modification time is two seconds ago, so Auto Loader does not wait for it to become stable.

        Args:
            path: relative to the project. The first file of a test in a folder replaces the folder's contents.
            rows: dictionaries, or lines as they are.
        """
        file = self.folder / path
        if file.parent not in self._landed and file.parent != self.folder and self._copied:
            shutil.rmtree(file.parent, ignore_errors=True)
        self._landed.add(file.parent)
        file.parent.mkdir(parents=True, exist_ok=True)
        lines = [row if isinstance(row, str) else json.dumps(json_value(dict(row))) for row in rows]
        draft = file.with_name(f".{file.name}")
        draft.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
        times = draft.stat()
        os.utime(draft, ns=(times.st_atime_ns, times.st_mtime_ns - _LANDED_AGO_NS))
        draft.replace(file)
        return file

    def write(self, path: str, text: str) -> Path:
        """Write or change a file of the project."""
        file = self.folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
        return file

    def rows(self, name: str) -> SortedRows:
        """The current rows of a table; see :meth:`Result.rows`."""
        return rows_at(table_path(self.settings.layout, self.settings.naming, name))
