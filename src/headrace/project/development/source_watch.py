"""Wakes up when a file of the author may have changed: by the kernel, and from time to time in any case."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

from watchdog.events import FileSystemEvent, FileSystemEventHandler
from watchdog.observers import Observer

# The kernel does not report what other machines write, new folders, and nothing once it has too many watches.
_WITH_KERNEL_S, _WITHOUT_S = 2.0, 0.5
_READS = ("opened", "closed_no_write")
_MOST_FOLDERS = 500


class SourceWatch(FileSystemEventHandler):
    """Watches the folders of source files, without those below them."""

    def __init__(self) -> None:
        self._woken = threading.Event()
        self._watches: dict[str, Any] = {}
        self._observer: Any = Observer()
        try:
            self._observer.start()
        except OSError:
            self._observer = None

    def watch(self, files: Iterable[str]) -> None:
        """Watch the folders of some files, and no others."""
        if self._observer is None:
            return
        folders = {str(Path(file).parent) for file in files}
        if len(folders) > _MOST_FOLDERS:
            folders = set()
        for folder in [one for one in self._watches if one not in folders]:
            # It may be gone.
            with suppress(KeyError, OSError):
                self._observer.unschedule(self._watches.pop(folder))
        for folder in folders - self._watches.keys():
            # Too many watches, or no folder any more: it is looked at from time to time.
            with suppress(OSError):
                self._watches[folder] = self._observer.schedule(self, folder, recursive=False)

    def on_any_event(self, event: FileSystemEvent) -> None:
        """Something has changed in one of the folders."""
        if event.event_type not in _READS:
            self._woken.set()

    def wake(self) -> None:
        """End the wait."""
        self._woken.set()

    def wait(self) -> None:
        """Until something may have changed."""
        self._woken.wait(_WITH_KERNEL_S if self._watches else _WITHOUT_S)
        self._woken.clear()

    def close(self) -> None:
        """Stop watching."""
        if self._observer is not None:
            self._observer.stop()
            self._observer.join()
