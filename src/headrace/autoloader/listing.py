"""Finding new files in a store of objects: by listing it, or by what a queue tells, and listing now and then.

An object of S3 or Google's is there whole or not at all. In stores whose files grow (HDFS and Azure's), one counts as
written when it was not changed for a second; an empty one has not been written yet, wherever it is.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import islice

from headrace.autoloader.discovery import EMPTY_S, FULL_LOOK, SETTLED_S, WAIT_S, Clock, is_due
from headrace.autoloader.ledger import Ledger
from headrace.autoloader.object_notifications import ObjectQueue
from headrace.autoloader.seen_files import SeenFiles
from headrace.autoloader.stores.store import FoundFile
from headrace.autoloader.tree import Tree

# A stream without end lists no sooner than this after its last listing, and not more than a tenth of its time.
LISTING_S = 5.0
_SHARE = 10
_RECORDED_AT_ONCE = 50_000
# Messages that one look takes from a queue at least, if there are so many; what comes meanwhile is for the next look.
_MESSAGES_A_LOOK = 1000
_NS = 1_000_000_000
_TREE = "tree"
_GROWING = ("abfs:", "abfss:", "hdfs:")

Finds = list[tuple[str, FoundFile]]


class ListingDiscovery:
    """New objects below a path, recorded in a ledger; *queue*, if any, is the one that tells of them."""

    def __init__(
        self, ledger: Ledger, tree: Tree, *, full_look_s: float, clock: Clock, queue: ObjectQueue | None = None
    ) -> None:
        self._ledger = ledger
        self._tree = tree
        self._full_look_s = full_look_s
        self._clock = clock
        self._queue = queue
        # Of what was told before for other names, or by another queue, nobody tells again.
        self._told_for = f"{tree.digest} {queue.name if queue else ''}"
        self._seen = SeenFiles(ledger)
        self._next_ns = self._pause_ns = 0
        self._settles_s = SETTLED_S if tree.base.startswith(_GROWING) else 0.0
        self._young = set[str]()

    @property
    def waits_for(self) -> tuple[str, ...]:
        """Paths of files that may still grow."""
        return tuple(sorted(self._young))

    def look(self) -> int:
        """Record what is new; how many objects that were. Without a queue, some seconds after the last time at most."""
        if self._queue is not None and not self._is_due():
            return self._told(self._queue)
        left_ns = self._next_ns - self._clock.now_ns()
        # A clock that was put back would have it wait for as long as that was.
        return self._listed() if self._queue is not None or not 0 < left_ns <= self._pause_ns else 0

    def look_until_settled(self) -> int:
        """As :meth:`look`, whenever the last time was, and again while files may grow, for half a minute at most."""
        began_ns = self._clock.now_ns()
        new = self._told(self._queue) if self._queue is not None and not self._is_due() else self._listed()
        while self._young and self._clock.now_ns() - began_ns < WAIT_S * _NS:
            self._clock.sleep_s(SETTLED_S)
            new += self._listed()
        return new

    def finds_any(self) -> bool:
        """Whether a look would find something; nothing is recorded."""
        if self._queue is not None and not self._is_due():
            return self._queue.waiting() > 0
        return any(True for _ in self._new(self._there()))

    def close(self) -> None:
        """Nothing is kept open."""

    def _is_due(self) -> bool:
        due = is_due(self._ledger, self._clock.now_ns(), self._full_look_s)
        return due or self._ledger.about(_TREE) != self._told_for

    def _listed(self) -> int:
        began_ns = self._clock.now_ns()
        self._young.clear()
        new = 0
        files = self._there()
        while some := list(islice(files, _RECORDED_AT_ONCE)):
            new += self._record(list(self._new(some)))
        self._ledger.note(FULL_LOOK, str(began_ns / _NS))
        self._ledger.note(_TREE, self._told_for)
        took_ns = self._clock.now_ns() - began_ns
        self._pause_ns = max(int(LISTING_S * _NS), _SHARE * took_ns)
        self._next_ns = self._clock.now_ns() + self._pause_ns
        return new

    def _told(self, queue: ObjectQueue) -> int:
        """Record what the queue tells of; a message is done with once the ledger has its object."""
        new, left = 0, max(queue.waiting(), _MESSAGES_A_LOOK)
        while left > 0 and (notices := queue.received()) is not None:
            left -= max(len(notices), 1)
            places = (path.rpartition("/") for path in sorted({path for notice in notices for path in notice.paths}))
            meant = [(folder, name) for folder, _, name in places if self._tree.has_file(folder, name)]
            with ThreadPoolExecutor(max_workers=max(len(meant), 1)) as pool:
                found = list(pool.map(lambda place: self._tree.store.stat("/".join(place)), meant))
            finds = [(folder, file) for (folder, _), file in zip(meant, found, strict=True) if file is not None]
            new += self._record(list(self._new(self._of_now(finds))))
            queue.done(notices)
        return new

    def _there(self) -> Iterator[tuple[str, FoundFile]]:
        return self._of_now(self._tree.files())

    def _of_now(self, files: Iterable[tuple[str, FoundFile]]) -> Iterator[tuple[str, FoundFile]]:
        """Those that are meant, and whole."""
        now_ns, selection = self._clock.now_ns(), self._tree.selection
        for folder, file in files:
            wait_s = self._settles_s if file.size or selection.empty_files else EMPTY_S
            if not selection.admits_time(file.mtime_ns, now_ns):
                continue
            if now_ns - file.mtime_ns >= wait_s * _NS:
                yield folder, file
            elif file.size:
                self._young.add(f"{folder}/{file.name}")

    def _new(self, files: Iterable[tuple[str, FoundFile]]) -> Iterator[tuple[str, FoundFile]]:
        """Those that the ledger does not have."""
        by_folder: dict[str, dict[str, FoundFile]] = {}
        for folder, file in files:
            by_folder.setdefault(folder, {})[file.name] = file
        for folder, some in by_folder.items():
            if self._tree.selection.overwrites:
                yield from ((folder, file) for file in self._seen.unknown_or_changed(folder, some.values()))
            else:
                yield from ((folder, some[name]) for name in self._seen.unknown(folder, some))

    def _record(self, finds: Finds) -> int:
        finds.sort(key=lambda found: (found[1].mtime_ns, found[0], found[1].name))
        now_ms = self._clock.now_ns() // 1_000_000
        return self._seen.record(finds, {}, now_ms=now_ms, overwrites=self._tree.selection.overwrites)
