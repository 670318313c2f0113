"""Listings of a storage's folders and of the logs of its tables, each made when it is first needed."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from headrace.stores.contents import Contents
from headrace.stores.listed_area import ListedArea, list_area
from headrace.stores.object_store import Listing, ObjectStore
from headrace.stores.parallel import in_parallel
from headrace.stores.table_logs import LOG, checkpoint_of, list_log

_LOG_FOLDER = re.compile(rf"(?:.*/)?{LOG}(?=/|$)")
_NOTHING = Listing((), ())


@dataclass(frozen=True)
class ListedFolders:
    """What is listed of a storage.

    Attributes:
        storage: the key of the storage. Which folders it has is asked from above, so that what is in none of them is
            not asked for.
        whole: the keys of folders whose objects are all listed, by one listing each.
        unlisted: matches the paths of folders below them that are left out: they may hold many objects, or are written
            by other processes meanwhile.
        cache: the file that keeps contents between processes; None to keep none.
    """

    storage: str
    whole: tuple[str, ...] = ()
    unlisted: re.Pattern[str] | None = None
    cache: Path | None = None


class Listings:
    """The listings of a bucket.

    Args:
        store: the bucket.
        listed: what is listed; None for the logs of tables alone.
        contents: what is known of the contents of objects.
    """

    def __init__(self, store: ObjectStore, listed: ListedFolders | None, contents: Contents) -> None:
        self._store = store
        self._listed = listed
        self._contents = contents
        self._areas: dict[str, ListedArea] = {}
        self._folders: dict[str, Listing] = {}

    def area_of(self, key: str) -> ListedArea | None:
        """The listing that shows an object or a folder; None for one that is not listed."""
        folder = self._area_folder(key)
        if folder is not None and folder not in self._areas:
            self._areas[folder] = self._area(folder)
        return None if folder is None else self._areas[folder]

    def list_logs(self, folders: Iterable[str]) -> None:
        """List the logs of tables, several at a time."""
        unknown = [folder for folder in folders if folder not in self._areas]
        starts = [checkpoint_of(self._contents.names(folder)) for folder in unknown]
        found = in_parallel(lambda one: list_log(self._store, *one), list(zip(unknown, starts, strict=True)))
        self._areas |= dict(zip(unknown, found, strict=True))

    def folder(self, folder: str) -> Listing | None:
        """What is directly in a folder of the storage; None for a folder that is not listed."""
        if self.is_absent(folder):
            return _NOTHING
        area = self.area_of(folder)
        if area is not None:
            return area.list_folder(folder)
        if self._listed is None or not f"{folder}/".startswith(f"{self._listed.storage}/"):
            return None
        if folder not in self._folders:
            self._folders[folder] = self._store.list_folder(folder)
        return self._folders[folder]

    def has(self, folder: str) -> bool | None:
        """Whether a folder exists; None if no listing shows it."""
        if self._listed is not None and folder == self._listed.storage:
            return self.folder(folder) != _NOTHING
        if self.is_absent(folder):
            return False
        area = self.area_of(folder)
        return None if area is None else area.has(folder)

    def is_absent(self, folder: str) -> bool:
        """True if the listing of a folder above shows that a folder does not exist."""
        if self._listed is None or not folder.startswith(f"{self._listed.storage}/"):
            return False
        area = self.area_of(folder)
        if area is not None and area.folder != folder:
            return area.has(folder) is False
        parent, _, name = folder.rpartition("/")
        if self.is_absent(parent):
            return True
        # The folder of a table may hold many files beside its log.
        log = self._areas.get(f"{parent}/{LOG}")
        if name == LOG or (log is not None and log.objects):
            return False
        found = self.folder(parent)
        return found is not None and name not in found.folders

    def _area_folder(self, key: str) -> str | None:
        log = _LOG_FOLDER.match(key)
        if log is not None:
            return log.group()
        whole = self._listed.whole if self._listed is not None else ()
        return next((folder for folder in whole if key == folder or key.startswith(f"{folder}/")), None)

    def _area(self, folder: str) -> ListedArea:
        parent, _, name = folder.rpartition("/")
        if name == LOG:
            if not self.is_absent(parent):
                self.list_logs([folder])
            return self._areas.get(folder, ListedArea(folder, "", {}))
        above = self.folder(parent)
        if above is not None and name not in above.folders:
            return ListedArea(folder, "", {})
        found = list_area(self._store, folder, self._listed.unlisted if self._listed is not None else None)
        self._contents.retain(folder, {key[len(folder) + 1 :] for key in found.objects})
        return found
