"""``cloudFiles.useNotifications`` on a local disk: the kernel tells which folders have changed."""

from __future__ import annotations

import warnings
from pathlib import Path
from threading import Lock
from typing import Any

from watchdog.events import FileSystemEvent, FileSystemEventHandler
from watchdog.observers import Observer

from headrace.errors import PipelineError

# Seconds after which every folder is asked for its time all the same: what other machines write to a shared disk is
# not told, nor what a kernel drops whose queue is full.
BACKSTOP_S = 60.0
_NS = 1_000_000_000


class FolderWatch(FileSystemEventHandler):
    """Folders below one folder in which something came, went or changed."""

    def __init__(self, base: str) -> None:
        """Begin to watch.

        Raises:
            PipelineError: ``AUTO_LOADER.WATCH``: the kernel has no watches left for so many folders.
        """
        # A folder that is made while its parent is looked through is met twice; watchdog 7.1 warns, and handles it.
        warnings.filterwarnings("ignore", message="Callback with id", category=RuntimeWarning)
        self._changed = set[str]()
        self._lock = Lock()
        self._asked_ns: int | None = None
        self._observer: Any = Observer()
        self._observer.schedule(self, base, recursive=True)
        try:
            self._observer.start()
        except OSError as error:
            raise PipelineError("AUTO_LOADER.WATCH", path=base, reason=error.strerror or str(error)) from error

    def on_any_event(self, event: FileSystemEvent) -> None:
        """Note the folders of an event; the reading of a file is none that matters."""
        if event.event_type in ("opened", "closed_no_write"):
            return
        for path in filter(None, map(str, (event.src_path, event.dest_path))):
            # A folder is told as changed beside what came or went in it.
            within = {path} if event.is_directory else set[str]()
            above = set[str]() if within and event.event_type == "modified" else {str(Path(path).parent)}
            with self._lock:
                self._changed |= within | above

    def changed(self, now_ns: int) -> set[str] | None:
        """Folders with changes since the last call; None when all are to be asked: at first, and once a minute."""
        with self._lock:
            changed, self._changed = self._changed, set()
        if self._asked_ns is None or not 0 <= now_ns - self._asked_ns < BACKSTOP_S * _NS:
            self._asked_ns = now_ns
            return None
        return changed

    def close(self) -> None:
        """Watch no more."""
        self._observer.stop()
        self._observer.join()
