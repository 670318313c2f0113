"""Find new files in an object store: list it, or read a queue of notifications and list it now and then.

S3 and Google Cloud Storage write objects atomically. In stores whose files can be appended to (HDFS and Azure), a file
is stable when it has not changed for a second. An empty file counts as not yet written in every store.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import islice

from headrace.autoloader.discovery import EMPTY_AFTER_S, LAST_FULL_LISTING, MAX_WAIT_S, STABLE_AFTER_S, Clock, is_due
from headrace.autoloader.ledger.ledger import Ledger
from headrace.autoloader.ledger.seen_files import SeenFiles
from headrace.autoloader.object_notifications import ObjectQueue
from headrace.autoloader.stores.store import FoundFile
from headrace.autoloader.tree import Tree

# A continuous stream waits at least this long between two listings, and at least ten times as long as one takes.
MIN_LISTING_INTERVAL_S = 5.0
_PAUSE_FACTOR = 10
_RECORD_BATCH = 50_000
# A poll reads at least this many messages, if the queue has them. Messages that arrive meanwhile are for the next poll.
_MIN_MESSAGES_PER_POLL = 1000
_NS = 1_000_000_000
_TREE = "tree"
_APPENDABLE_SCHEMES = ("abfs:", "abfss:", "hdfs:")

FilesInFolders = list[tuple[str, FoundFile]]


class ListingDiscovery:
    """Finds new objects below a path and records them in a ledger; *queue*, if any, reports new objects."""

    def __init__(
        self,
        ledger: Ledger,
        tree: Tree,
        *,
        full_listing_interval_s: float,
        clock: Clock,
        queue: ObjectQueue | None = None,
    ) -> None:
        self._ledger = ledger
        self._tree = tree
        self._full_listing_interval_s = full_listing_interval_s
        self._clock = clock
        self._queue = queue
        # Objects that were reported for other names, or by another queue, are not reported again: list them.
        self._scope = f"{tree.digest} {queue.name if queue else ''}"
        self._seen = SeenFiles(ledger)
        self._next_ns = self._pause_ns = 0
        self._stable_after_s = STABLE_AFTER_S if tree.base.startswith(_APPENDABLE_SCHEMES) else 0.0
        self._unstable = set[str]()

    @property
    def unstable_files(self) -> tuple[str, ...]:
        """Paths of files that may still be appended to."""
        return tuple(sorted(self._unstable))

    def poll(self) -> int:
        """Record new objects and return how many. Without a queue, listings are at least some seconds apart."""
        if self._queue is not None and not self._is_full_listing_due():
            return self._receive(self._queue)
        pause_left_ns = self._next_ns - self._clock.now_ns()
        # If the clock was set back, a pause longer than the planned one must not delay the listing.
        return self._list() if self._queue is not None or not 0 < pause_left_ns <= self._pause_ns else 0

    def poll_until_stable(self) -> int:
        """Poll without a pause, and again while files may be appended to, for half a minute at most."""
        began_ns = self._clock.now_ns()
        queue = None if self._is_full_listing_due() else self._queue
        new = self._list() if queue is None else self._receive(queue)
        while self._unstable and self._clock.now_ns() - began_ns < MAX_WAIT_S * _NS:
            self._clock.sleep_s(STABLE_AFTER_S)
            new += self._list()
        return new

    def has_new_files(self) -> bool:
        """Whether a poll would find new objects; records nothing."""
        if self._queue is not None and not self._is_full_listing_due():
            return self._queue.count() > 0
        return any(True for _ in self._unseen(self._all_files()))

    def close(self) -> None:
        """Do nothing: a listing keeps nothing open."""

    def _is_full_listing_due(self) -> bool:
        due = is_due(self._ledger, self._clock.now_ns(), self._full_listing_interval_s)
        return due or self._ledger.get_note(_TREE) != self._scope

    def _list(self) -> int:
        began_ns = self._clock.now_ns()
        self._unstable.clear()
        new = 0
        files = self._all_files()
        while batch := list(islice(files, _RECORD_BATCH)):
            new += self._record(list(self._unseen(batch)))
        self._ledger.set_note(LAST_FULL_LISTING, str(began_ns / _NS))
        self._ledger.set_note(_TREE, self._scope)
        took_ns = self._clock.now_ns() - began_ns
        self._pause_ns = max(int(MIN_LISTING_INTERVAL_S * _NS), _PAUSE_FACTOR * took_ns)
        self._next_ns = self._clock.now_ns() + self._pause_ns
        return new

    def _receive(self, queue: ObjectQueue) -> int:
        """Record the objects that the queue reports; delete a message once the ledger has its objects."""
        new, remaining = 0, max(queue.count(), _MIN_MESSAGES_PER_POLL)
        while remaining > 0 and (notifications := queue.receive()) is not None:
            remaining -= max(len(notifications), 1)
            paths = sorted({path for notification in notifications for path in notification.paths})
            splits = (path.rpartition("/") for path in paths)
            selected = [(folder, name) for folder, _, name in splits if self._tree.has_file(folder, name)]
            with ThreadPoolExecutor(max_workers=max(len(selected), 1)) as pool:
                stats = list(pool.map(lambda parts: self._tree.store.stat("/".join(parts)), selected))
            found = [(folder, file) for (folder, _), file in zip(selected, stats, strict=True) if file is not None]
            new += self._record(list(self._unseen(self._stable_files(found))))
            queue.delete(notifications)
        return new

    def _all_files(self) -> Iterator[tuple[str, FoundFile]]:
        return self._stable_files(self._tree.files())

    def _stable_files(self, files: Iterable[tuple[str, FoundFile]]) -> Iterator[tuple[str, FoundFile]]:
        """Those that are selected and stable."""
        now_ns, selection = self._clock.now_ns(), self._tree.selection
        for folder, file in files:
            wait_s = self._stable_after_s if file.size or selection.empty_files else EMPTY_AFTER_S
            if not selection.admits_time(file.mtime_ns, now_ns):
                continue
            if now_ns - file.mtime_ns >= wait_s * _NS:
                yield folder, file
            elif file.size:
                self._unstable.add(f"{folder}/{file.name}")

    def _unseen(self, files: Iterable[tuple[str, FoundFile]]) -> Iterator[tuple[str, FoundFile]]:
        """Those that the ledger does not have."""
        by_folder: dict[str, dict[str, FoundFile]] = {}
        for folder, file in files:
            by_folder.setdefault(folder, {})[file.name] = file
        for folder, named in by_folder.items():
            if self._tree.selection.allow_overwrites:
                yield from ((folder, file) for file in self._seen.unknown_or_changed(folder, named.values()))
            else:
                yield from ((folder, named[name]) for name in self._seen.unknown(folder, named))

    def _record(self, found: FilesInFolders) -> int:
        found.sort(key=lambda entry: (entry[1].mtime_ns, entry[0], entry[1].name))
        now_ms = self._clock.now_ns() // 1_000_000
        return self._seen.record(found, {}, now_ms=now_ms, allow_overwrites=self._tree.selection.allow_overwrites)
