"""Finding new files on a local disk, at a cost that follows what changed.

An entry that comes or goes changes the time of its folder, so a folder whose time is what it was when it was listed has
nothing new and is not listed again: a look costs one ``stat`` for each folder. That time has a granularity, and so it
counts only when it was old enough at the listing. Now and then everything is listed all the same, for file systems that
keep no such times.

A file that is being written waits until it is settled: unchanged for a second, by its own time or between two looks,
and open for writing nowhere on this machine. A writer that keeps a file open and pauses for longer than ten minutes is
taken for one that has forgotten to close it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from stat import S_ISDIR

from headrace.autoloader.file_notifications import FolderWatch
from headrace.autoloader.ledger import Ledger, joined
from headrace.autoloader.seen_files import SeenFiles
from headrace.autoloader.stores.local import stat_of, status
from headrace.autoloader.stores.open_writers import is_being_written
from headrace.autoloader.stores.store import FoundFile
from headrace.autoloader.tree import FolderQueue, Inner, Places, Tree
from headrace.errors import PipelineError

# Seconds for which a file keeps its size and time before it counts as written.
SETTLED_S = 1.0
# Seconds that a triggered update waits for files that keep changing; they are for a later one then.
WAIT_S = 30.0
# The time of a folder is trusted when it was older than this at the listing: some file systems keep whole seconds.
_GRANULARITY_S = 2.0
# An empty file may be one whose writer has not flushed yet; after this time it counts as empty.
EMPTY_S = 24 * 3600.0
# A file that somebody has open for writing counts as written when it was not changed for so long.
OPEN_S = 600.0
_RECORDED_AT_ONCE = 50_000
_NS = 1_000_000_000
FULL_LOOK, _TREE = "full_look_s", "tree"


@dataclass(frozen=True)
class Clock:
    """Nanoseconds since 1970, and waiting for seconds; passed in."""

    now_ns: Callable[[], int]
    sleep_s: Callable[[float], None]


def is_due(ledger: Ledger, now_ns: int, every_s: float, note: str = FULL_LOOK) -> bool:
    """Whether it is so long since what a note is about was done, or the clock was ahead when it was."""
    since_s = now_ns / _NS - float(ledger.about(note) or 0)
    return since_s >= every_s or since_s < 0


@dataclass
class _Finds:
    """What one look has found and not yet recorded."""

    files: list[tuple[str, FoundFile]] = field(default_factory=list)
    listed: dict[str, int] = field(default_factory=dict)


class LocalDiscovery:
    """New files below a path, recorded in a ledger; one process looks at a time, and others do no harm."""

    def __init__(
        self, ledger: Ledger, tree: Tree, *, full_look_s: float, clock: Clock, watch: FolderWatch | None = None
    ) -> None:
        self._ledger = ledger
        self._tree = tree
        # Tells, with ``useNotifications``, which folders there is anything in to look for.
        self._watch = watch
        self._full_look_s = full_look_s
        self._clock = clock
        self._seen = SeenFiles(ledger)
        # Times up to which the entries of folders are known: as stored, and to this process.
        self._stored = self._seen.folders()
        # What lies elsewhere belongs to a path that was read before. Of several paths of a folder the shortest counts.
        known = sorted(filter(tree.has_folder, self._stored), key=lambda folder: (folder.count("/"), folder))
        self._known = {folder: self._stored[folder] for folder in known}
        self._places = Places(tree)
        if ledger.about(_TREE) != tree.digest:
            # Other names may be meant now in folders that have not changed.
            self._known = dict.fromkeys(self._known, 0)
        # By folder and name, files that were seen and have not settled: what they were like, and since when.
        self._unsettled: dict[str, dict[str, tuple[FoundFile, int]]] = {}

    @property
    def waits_for(self) -> tuple[str, ...]:
        """Paths of files with content that keep changing."""
        return tuple(
            joined(folder, name)
            for folder, files in self._unsettled.items()
            for name, (file, _) in files.items()
            if file.size or self._tree.selection.empty_files
        )

    def look(self) -> int:
        """Record what is new and settled; how many files that were."""
        now_ns = self._clock.now_ns()
        full = self._is_due(now_ns)
        # Asked first: what changes from here on is told next time.
        told = self._watch.changed(now_ns) if self._watch else None
        new = self._looked(now_ns, full=full or self._tree.selection.overwrites, told=None if full else told)
        if full:
            self._ledger.note(FULL_LOOK, str(now_ns / _NS))
        if self._ledger.about(_TREE) != self._tree.digest:
            self._ledger.note(_TREE, self._tree.digest)
        return new

    def look_until_settled(self) -> int:
        """As :meth:`look`, and again while files are being written, for half a minute at most."""
        began_ns = self._clock.now_ns()
        new = self.look()
        while self._unsettled and self._clock.now_ns() - began_ns < WAIT_S * _NS:
            if not self.waits_for and self._clock.now_ns() - began_ns > 2 * SETTLED_S * _NS:
                break
            self._clock.sleep_s(SETTLED_S / 4)
            new += self._settled()
        return new

    def close(self) -> None:
        """Let go of what tells of changes."""
        if self._watch is not None:
            self._watch.close()

    def finds_any(self) -> bool:
        """Whether a look would find something, now or once it has settled; nothing is recorded."""
        now_ns = self._clock.now_ns()
        for folder, _, inner in self._changed(full=self._is_due(now_ns) or self._tree.selection.overwrites):
            if any(True for _ in self._new_files(folder, now_ns, inner)) or self.waits_for:
                return True
        return False

    def _looked(self, now_ns: int, *, full: bool, told: set[str] | None) -> int:
        finds, new, times = _Finds(), 0, dict[str, int]()
        for folder, mtime_ns, inner in self._changed(full=full, told=told):
            finds.files += ((folder, file) for file in self._new_files(folder, now_ns, inner))
            times[folder] = mtime_ns if now_ns - mtime_ns > _GRANULARITY_S * _NS else 0
            if len(finds.files) >= _RECORDED_AT_ONCE:
                new += self._record(finds)
        # No time counts before the last folder was looked into: a look that breaks off is made again, or else what is
        # below a folder that was listed would be passed over.
        self._known.update(times)
        # Another process knows nothing of files that have not settled, and has to list the folder to find them.
        finds.listed |= {folder: 0 if folder in self._unsettled else at for folder, at in times.items()}
        return new + self._record(finds) + self._settled()

    def _changed(self, *, full: bool, told: set[str] | None = None) -> Iterator[tuple[str, int, list[Inner]]]:
        """Folders to look into, each with its time from before, and a list for the folders that are found in it.

        Where changes are told, those folders, and what is found in them, are all.
        """
        folders = FolderQueue([*self._known, self._tree.base] if told is None else filter(self._tree.has_folder, told))
        seen = set[str]()
        for folder in folders:
            if folder in seen:
                continue
            seen.add(folder)
            found = self._folder(folder)
            if found is None or self._places.is_second_path(folder, (found.st_dev, found.st_ino)):
                continue
            is_told = told is not None and folder in told
            if not full and not is_told and self._known.get(folder) == found.st_mtime_ns:
                continue
            inner: list[Inner] = []
            yield folder, found.st_mtime_ns, inner
            folders.add(inner)

    def _is_due(self, now_ns: int) -> bool:
        """Whether everything is to be listed, whatever the folders' times say."""
        return is_due(self._ledger, now_ns, self._full_look_s)

    def _settled(self) -> int:
        """Record files that have settled since an earlier look."""
        finds, now_ns = _Finds(), self._clock.now_ns()
        for folder, files in list(self._unsettled.items()):
            for name, (was, since_ns) in list(files.items()):
                found = stat_of(folder, name)
                if found is not None and found != was:
                    files[name] = (found, now_ns)
                elif found is None or self._is_settled(folder, found, now_ns, since_ns):
                    del files[name]
                    if found is not None and self._tree.selection.admits_time(found.mtime_ns, now_ns):
                        finds.files.append((folder, found))
            if not files:
                del self._unsettled[folder]
        return self._record(finds)

    def _is_settled(self, folder: str, file: FoundFile, now_ns: int, since_ns: int) -> bool:
        wait_s = SETTLED_S if file.size or self._tree.selection.empty_files else EMPTY_S
        unchanged_ns = max(now_ns - file.mtime_ns, now_ns - since_ns)
        if unchanged_ns < wait_s * _NS:
            return False
        # A pause says less than a file that is closed.
        return unchanged_ns >= OPEN_S * _NS or not is_being_written(joined(folder, file.name))

    def _record(self, finds: _Finds) -> int:
        if not finds.files and all(self._stored.get(folder) == mtime_ns for folder, mtime_ns in finds.listed.items()):
            return 0
        finds.files.sort(key=lambda entry: (entry[1].mtime_ns, entry[0], entry[1].name))
        now_ms = self._clock.now_ns() // 1_000_000
        overwrites = self._tree.selection.overwrites
        new = self._seen.record(finds.files, finds.listed, now_ms=now_ms, overwrites=overwrites)
        self._stored.update(finds.listed)
        finds.files.clear()
        finds.listed.clear()
        return new

    def _folder(self, folder: str) -> os.stat_result | None:
        """What a folder is like; None when it has gone.

        Raises:
            PipelineError: ``AUTO_LOADER.UNREADABLE``: it does not say; ``AUTO_LOADER.PATH_MISSING``: of the first one.
        """
        found = status(folder)
        if found is not None and S_ISDIR(found.st_mode):
            return found
        if folder == self._tree.base:
            raise PipelineError("AUTO_LOADER.PATH_MISSING", path=folder)
        # Where it comes back, the time of its parent says so.
        self._known.pop(folder, None)
        return None

    def _new_files(self, folder: str, now_ns: int, inner: list[Inner]) -> Iterator[FoundFile]:
        """New files of a folder that have settled; the others are kept, and folders in it are added to *inner*."""
        names = self._tree.names_in(folder, inner)
        if self._tree.selection.overwrites:
            found = (file for name in names if (file := stat_of(folder, name)))
            candidates: Iterator[FoundFile] = self._seen.unknown_or_changed(folder, found)
        else:
            unknown = self._seen.unknown(folder, names)
            candidates = (file for name in unknown if (file := stat_of(folder, name)))
        for file in candidates:
            if file.name in self._unsettled.get(folder, ()) or not self._tree.selection.admits_time(
                file.mtime_ns, now_ns
            ):
                continue
            if self._is_settled(folder, file, now_ns, now_ns):
                yield file
            else:
                self._unsettled.setdefault(folder, {})[file.name] = (file, now_ns)
