"""Find new files on a local disk. Polling cost is proportional to the number of changed folders.

Adding or removing an entry changes the modification time of its folder. A folder whose time is unchanged since it was
listed has nothing new and is not listed again, so a poll costs one ``stat`` per folder. These times have a granularity:
a time is trusted only if it was old enough at the listing. Because some file systems do not keep such times, everything
is listed again at intervals.

A file is recorded once it is stable: unchanged for a second, by its own time or between two polls, and not open for
writing on this machine. If a writer keeps a file open and pauses for more than ten minutes, the file counts as closed.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from stat import S_ISDIR

from headrace.autoloader.file_notifications import FolderWatch
from headrace.autoloader.ledger.ledger import Ledger, join_path
from headrace.autoloader.ledger.seen_files import SeenFiles
from headrace.autoloader.stores.local import stat_file, stat_path
from headrace.autoloader.stores.open_writers import is_being_written
from headrace.autoloader.stores.store import FoundFile
from headrace.autoloader.tree import FolderIdentities, FolderQueue, Subfolder, Tree
from headrace.errors import PipelineError

# A file is stable when its size and time have not changed for this many seconds.
STABLE_AFTER_S = 1.0
# A triggered update waits this many seconds for files that keep changing; then it leaves them to a later update.
MAX_WAIT_S = 30.0
# A folder's time is trusted if it was older than this at the listing: some file systems keep whole seconds.
_GRANULARITY_S = 2.0
# The writer of an empty file may not have flushed yet; after this time the file counts as empty.
EMPTY_AFTER_S = 24 * 3600.0
# A file that is open for writing counts as written when it has not changed for this many seconds.
OPEN_WRITER_TIMEOUT_S = 600.0
_RECORD_BATCH = 50_000
_NS = 1_000_000_000
LAST_FULL_LISTING, _TREE = "full_look_s", "tree"


@dataclass(frozen=True)
class Clock:
    """The current time in nanoseconds since 1970, and a sleep function; injected."""

    now_ns: Callable[[], int]
    sleep_s: Callable[[float], None]


def is_due(ledger: Ledger, now_ns: int, every_s: float, note: str = LAST_FULL_LISTING) -> bool:
    """Whether the time in a note is at least *every_s* ago, or in the future because the clock was ahead."""
    since_s = now_ns / _NS - float(ledger.get_note(note) or 0)
    return since_s >= every_s or since_s < 0


@dataclass
class _PendingRecords:
    """Files and folders that a poll has found and not yet recorded."""

    files: list[tuple[str, FoundFile]] = field(default_factory=list)
    listed: dict[str, int] = field(default_factory=dict)


class LocalDiscovery:
    """Finds new files below a path and records them in a ledger. Concurrent processes do no harm."""

    def __init__(
        self,
        ledger: Ledger,
        tree: Tree,
        *,
        full_listing_interval_s: float,
        clock: Clock,
        watch: FolderWatch | None = None,
    ) -> None:
        self._ledger = ledger
        self._tree = tree
        # With ``useNotifications``: reports which folders changed.
        self._watch = watch
        self._full_listing_interval_s = full_listing_interval_s
        self._clock = clock
        self._seen = SeenFiles(ledger)
        # For each folder, the modification time up to which its entries are known: as stored, and in this process.
        self._stored = self._seen.folders()
        # Other folders belong to a path that was read before. If a folder has several paths, the shortest counts.
        known = sorted(filter(tree.has_folder, self._stored), key=lambda folder: (folder.count("/"), folder))
        self._known = {folder: self._stored[folder] for folder in known}
        self._identities = FolderIdentities(tree)
        if ledger.get_note(_TREE) != tree.digest:
            # The options may now select other files in unchanged folders.
            self._known = dict.fromkeys(self._known, 0)
        # By folder and name, files that are not stable: their last state, and since when.
        self._unstable: dict[str, dict[str, tuple[FoundFile, int]]] = {}

    @property
    def unstable_files(self) -> tuple[str, ...]:
        """Paths of files that have content and keep changing."""
        return tuple(
            join_path(folder, name)
            for folder, files in self._unstable.items()
            for name, (file, _) in files.items()
            if file.size or self._tree.selection.empty_files
        )

    def poll(self) -> int:
        """Record new stable files and return how many."""
        now_ns = self._clock.now_ns()
        full = self._is_full_listing_due(now_ns)
        # Read first, so that later changes are reported by the next poll.
        changed_folders = self._watch.changed_folders(now_ns) if self._watch else None
        new = self._scan(
            now_ns,
            full=full or self._tree.selection.allow_overwrites,
            changed_folders=None if full else changed_folders,
        )
        if full:
            self._ledger.set_note(LAST_FULL_LISTING, str(now_ns / _NS))
        if self._ledger.get_note(_TREE) != self._tree.digest:
            self._ledger.set_note(_TREE, self._tree.digest)
        return new

    def poll_until_stable(self) -> int:
        """Poll, and poll again while files are being written, for half a minute at most."""
        began_ns = self._clock.now_ns()
        new = self.poll()
        while self._unstable and self._clock.now_ns() - began_ns < MAX_WAIT_S * _NS:
            if not self.unstable_files and self._clock.now_ns() - began_ns > 2 * STABLE_AFTER_S * _NS:
                break
            self._clock.sleep_s(STABLE_AFTER_S / 4)
            new += self._record_stable()
        return new

    def close(self) -> None:
        """Stop watching folders."""
        if self._watch is not None:
            self._watch.close()

    def has_new_files(self) -> bool:
        """Whether a poll would find new files, now or once they are stable; records nothing."""
        now_ns = self._clock.now_ns()
        for folder, _, subfolders in self._folders_to_list(
            full=self._is_full_listing_due(now_ns) or self._tree.selection.allow_overwrites
        ):
            if any(True for _ in self._new_files(folder, now_ns, subfolders)) or self.unstable_files:
                return True
        return False

    def _scan(self, now_ns: int, *, full: bool, changed_folders: set[str] | None) -> int:
        pending, new, times = _PendingRecords(), 0, dict[str, int]()
        for folder, mtime_ns, subfolders in self._folders_to_list(full=full, changed_folders=changed_folders):
            pending.files += ((folder, file) for file in self._new_files(folder, now_ns, subfolders))
            times[folder] = mtime_ns if now_ns - mtime_ns > _GRANULARITY_S * _NS else 0
            if len(pending.files) >= _RECORD_BATCH:
                new += self._record(pending)
        # Record times only after the last folder was listed: an interrupted poll must be repeated, otherwise new
        # folders below a listed one would be missed.
        self._known.update(times)
        # Another process does not know the unstable files, and must list the folder again to find them.
        pending.listed |= {folder: 0 if folder in self._unstable else at for folder, at in times.items()}
        return new + self._record(pending) + self._record_stable()

    def _folders_to_list(
        self, *, full: bool, changed_folders: set[str] | None = None
    ) -> Iterator[tuple[str, int, list[Subfolder]]]:
        """Yield folders to list, each with its time before the listing and a list to put its subfolders into.

        With *changed_folders*, only these folders and folders found in them.
        """
        folders = FolderQueue(
            [*self._known, self._tree.base]
            if changed_folders is None
            else filter(self._tree.has_folder, changed_folders)
        )
        seen = set[str]()
        for folder in folders:
            if folder in seen:
                continue
            seen.add(folder)
            found = self._stat_folder(folder)
            if found is None or self._identities.is_duplicate_path(folder, (found.st_dev, found.st_ino)):
                continue
            is_reported = changed_folders is not None and folder in changed_folders
            if not full and not is_reported and self._known.get(folder) == found.st_mtime_ns:
                continue
            subfolders: list[Subfolder] = []
            yield folder, found.st_mtime_ns, subfolders
            folders.add(subfolders)

    def _is_full_listing_due(self, now_ns: int) -> bool:
        """Whether to list all folders, also unchanged ones."""
        return is_due(self._ledger, now_ns, self._full_listing_interval_s)

    def _record_stable(self) -> int:
        """Record files that became stable since an earlier poll."""
        pending, now_ns = _PendingRecords(), self._clock.now_ns()
        for folder, files in list(self._unstable.items()):
            for name, (was, since_ns) in list(files.items()):
                found = stat_file(folder, name)
                if found is not None and found != was:
                    files[name] = (found, now_ns)
                elif found is None or self._is_stable(folder, found, now_ns, since_ns):
                    del files[name]
                    if found is not None and self._tree.selection.admits_time(found.mtime_ns, now_ns):
                        pending.files.append((folder, found))
            if not files:
                del self._unstable[folder]
        return self._record(pending)

    def _is_stable(self, folder: str, file: FoundFile, now_ns: int, since_ns: int) -> bool:
        wait_s = STABLE_AFTER_S if file.size or self._tree.selection.empty_files else EMPTY_AFTER_S
        unchanged_ns = max(now_ns - file.mtime_ns, now_ns - since_ns)
        if unchanged_ns < wait_s * _NS:
            return False
        # A closed file is better evidence than a pause.
        return unchanged_ns >= OPEN_WRITER_TIMEOUT_S * _NS or not is_being_written(join_path(folder, file.name))

    def _record(self, pending: _PendingRecords) -> int:
        if not pending.files and all(
            self._stored.get(folder) == mtime_ns for folder, mtime_ns in pending.listed.items()
        ):
            return 0
        pending.files.sort(key=lambda entry: (entry[1].mtime_ns, entry[0], entry[1].name))
        now_ms = self._clock.now_ns() // 1_000_000
        allow_overwrites = self._tree.selection.allow_overwrites
        new = self._seen.record(pending.files, pending.listed, now_ms=now_ms, allow_overwrites=allow_overwrites)
        self._stored.update(pending.listed)
        pending.files.clear()
        pending.listed.clear()
        return new

    def _stat_folder(self, folder: str) -> os.stat_result | None:
        """The status of a folder; None if it no longer exists.

        Raises:
            PipelineError: ``AUTO_LOADER.UNREADABLE``: the status cannot be read; ``AUTO_LOADER.PATH_MISSING``: the base
                folder does not exist.
        """
        found = stat_path(folder)
        if found is not None and S_ISDIR(found.st_mode):
            return found
        if folder == self._tree.base:
            raise PipelineError("AUTO_LOADER.PATH_MISSING", path=folder)
        # If it comes back, the time of its parent changes.
        self._known.pop(folder, None)
        return None

    def _new_files(self, folder: str, now_ns: int, subfolders: list[Subfolder]) -> Iterator[FoundFile]:
        """Yield new stable files of a folder; remember unstable ones, and add subfolders to *subfolders*."""
        names = self._tree.file_names(folder, subfolders)
        if self._tree.selection.allow_overwrites:
            found = (file for name in names if (file := stat_file(folder, name)))
            candidates: Iterator[FoundFile] = self._seen.unknown_or_changed(folder, found)
        else:
            unknown = self._seen.unknown(folder, names)
            candidates = (file for name in unknown if (file := stat_file(folder, name)))
        for file in candidates:
            if file.name in self._unstable.get(folder, ()) or not self._tree.selection.admits_time(
                file.mtime_ns, now_ns
            ):
                continue
            if self._is_stable(folder, file, now_ns, now_ns):
                yield file
            else:
                self._unstable.setdefault(folder, {})[file.name] = (file, now_ns)
