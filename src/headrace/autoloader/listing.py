"""Finding new files in a store of objects: by listing it, or by what a queue tells, and listing now and then.

An object is there whole or not at all, so that nothing waits until it has settled.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice

from headrace.autoloader.discovery import Clock
from headrace.autoloader.ledger import Ledger
from headrace.autoloader.notices import ObjectQueue
from headrace.autoloader.seen_files import SeenFiles
from headrace.autoloader.stores.store import FoundFile
from headrace.autoloader.tree import Tree
from headrace.errors import PipelineError

# A stream without end lists no sooner than this after its last listing, and not more than a tenth of its time.
LISTING_S = 5.0
_SHARE = 10
_RECORDED_AT_ONCE = 50_000
_NS = 1_000_000_000
_FULL_LOOK = "full_look_s"

Finds = list[tuple[str, FoundFile]]


class ListingDiscovery:
    """New objects below a path, recorded in a ledger."""

    # Nothing settles here.
    waits_for: tuple[str, ...] = ()

    def __init__(
        self, ledger: Ledger, tree: Tree, *, full_look_s: float, clock: Clock, queue: ObjectQueue | None = None
    ) -> None:
        self._ledger = ledger
        self._tree = tree
        self._full_look_s = full_look_s
        self._clock = clock
        self._queue = queue
        self._seen = SeenFiles(ledger)
        self._next_ns = 0

    def look(self) -> int:
        """Record what is new; how many objects that were. Without a queue, some seconds after the last time at most."""
        if self._queue is not None and not self._is_due():
            return self._told(self._queue)
        return self._listed() if self._queue is not None or self._clock.now_ns() >= self._next_ns else 0

    def look_until_settled(self) -> int:
        """As :meth:`look`, whenever the last time was."""
        return self._told(self._queue) if self._queue is not None and not self._is_due() else self._listed()

    def finds_any(self) -> bool:
        """Whether a look would find something; nothing is recorded."""
        if self._queue is not None and not self._is_due():
            return self._queue.has_any()
        return any(self._new(self._there()))

    def close(self) -> None:
        """Nothing is kept open."""

    def _is_due(self) -> bool:
        return self._clock.now_ns() / _NS - float(self._ledger.about(_FULL_LOOK) or 0) >= self._full_look_s

    def _listed(self) -> int:
        began_ns = self._clock.now_ns()
        new = 0
        files = self._there()
        while some := list(islice(files, _RECORDED_AT_ONCE)):
            new += self._record(list(self._new(some)))
        self._ledger.note(_FULL_LOOK, str(began_ns / _NS))
        took_ns = self._clock.now_ns() - began_ns
        self._next_ns = self._clock.now_ns() + max(int(LISTING_S * _NS), _SHARE * took_ns)
        return new

    def _told(self, queue: ObjectQueue) -> int:
        """Record what the queue tells of; a message is done with once the ledger has its object."""
        new = 0
        while notices := queue.received():
            finds: Finds = []
            for path in sorted({path for notice in notices for path in notice.paths}):
                folder, _, name = path.rpartition("/")
                if self._tree.has_file(folder, name) and (file := self._stat(path)) is not None:
                    finds.append((folder, file))
            new += self._record(list(self._new(self._of_now(finds))))
            queue.done(notices)
        return new

    def _stat(self, path: str) -> FoundFile | None:
        try:
            return self._tree.store.stat(path)
        except OSError as error:
            raise PipelineError("AUTO_LOADER.STORE_FAILS", path=path, reason=str(error)) from error

    def _there(self) -> Iterator[tuple[str, FoundFile]]:
        try:
            yield from self._of_now(self._tree.files())
        except OSError as error:
            raise PipelineError("AUTO_LOADER.STORE_FAILS", path=self._tree.base, reason=str(error)) from error

    def _of_now(self, files: Iterable[tuple[str, FoundFile]]) -> Iterator[tuple[str, FoundFile]]:
        now_ns = self._clock.now_ns()
        return ((folder, file) for folder, file in files if self._tree.selection.admits_time(file.mtime_ns, now_ns))

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
