"""``cloudFiles.useNotifications`` on a local disk: the kernel reports which folders changed."""

from __future__ import annotations

import warnings
from pathlib import Path
from threading import Lock
from typing import Any

from watchdog.events import FileSystemEvent, FileSystemEventHandler
from watchdog.observers import Observer

from headrace.errors import PipelineError

# All folders are checked at this interval too: the kernel does not report what other machines write to a shared disk,
# and drops events when its queue is full.
FULL_CHECK_INTERVAL_S = 60.0
_NS = 1_000_000_000


class FolderWatch(FileSystemEventHandler):
    """Collects the folders below a base folder in which entries were added, removed or changed."""

    def __init__(self, base: str) -> None:
        """Start watching.

        Raises:
            PipelineError: ``AUTO_LOADER.WATCH``: the kernel has too few watches for this many folders.
        """
        # A folder that is created while its parent is scanned is found twice; watchdog 7.1 warns, and handles it.
        warnings.filterwarnings("ignore", message="Callback with id", category=RuntimeWarning)
        self._changed = set[str]()
        self._lock = Lock()
        self._last_full_check_ns: int | None = None
        self._observer: Any = Observer()
        self._observer.schedule(self, base, recursive=True)
        try:
            self._observer.start()
        except OSError as error:
            raise PipelineError("AUTO_LOADER.WATCH", path=base, reason=error.strerror or str(error)) from error

    def on_any_event(self, event: FileSystemEvent) -> None:
        """Note the folders of an event; ignore reads."""
        if event.event_type in ("opened", "closed_no_write"):
            return
        for path in filter(None, map(str, (event.src_path, event.dest_path))):
            # An event of an entry is reported together with one of its folder.
            folders = {path} if event.is_directory else set[str]()
            parents = set[str]() if folders and event.event_type == "modified" else {str(Path(path).parent)}
            with self._lock:
                self._changed |= folders | parents

    def changed_folders(self, now_ns: int) -> set[str] | None:
        """Folders that changed since the last call; None to check all folders: at first, and once a minute."""
        with self._lock:
            changed_folders, self._changed = self._changed, set()
        if self._last_full_check_ns is None or not 0 <= now_ns - self._last_full_check_ns < FULL_CHECK_INTERVAL_S * _NS:
            self._last_full_check_ns = now_ns
            return None
        return changed_folders

    def close(self) -> None:
        """Stop watching."""
        self._observer.stop()
        self._observer.join()
