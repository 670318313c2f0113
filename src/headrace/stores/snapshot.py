"""What listings say of a bucket at one time, and the contents of the objects that they name.

On a disk, looking at a file costs nothing; in a bucket each look is a request. So the folders of a storage that hold many
small objects, and the logs of tables, are listed once. The listings answer whether an object exists, and whether its
content is still the one in the cache.
"""

from __future__ import annotations

import re
import shutil
import tempfile
from collections.abc import Callable, Collection, Hashable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar, cast

from deltalake import DeltaTable

from headrace.stores.listed_area import ListedArea, list_area
from headrace.stores.object_cache import ObjectCache
from headrace.stores.object_store import Listing, ObjectMeta, ObjectStore
from headrace.stores.table_logs import LOG, checkpoint_of, copied_table, list_log, newest_files

_Answer = TypeVar("_Answer")
_Question = TypeVar("_Question")
_LOG_FOLDER = re.compile(rf"(?:.*/)?{LOG}(?=/|$)")
# The folder of the cache with what is no object's content; no key has such a part.
_ANSWERS = "?"
_NOTHING = ListedArea("", "", {})
# Requests that wait for answers at the same time.
_PARALLEL = 16


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


class Snapshot:
    """A bucket as listings find it.

    Args:
        store: the bucket.
        listed: what is listed; None for the logs of tables alone.
        place: tells the bucket from others of its name.
    """

    def __init__(self, store: ObjectStore, listed: ListedFolders | None, place: str) -> None:
        self.store = store
        self.listed = listed
        self._place = place
        self._cache = ObjectCache(listed.cache if listed is not None else None)
        self._copies: Path | None = None
        self._areas: dict[str, ListedArea] = {}
        self._contents: dict[str, tuple[bytes, str]] = {}
        self._tables: dict[str, DeltaTable | None] = {}
        self._answers: dict[Hashable, Any] = {}

    def area_of(self, key: str) -> ListedArea | None:
        """The listing that shows an object or a folder; None if there is none of it."""
        folder = self._area_folder(key)
        if folder is not None and folder not in self._areas:
            self._areas[folder] = self._list(folder)
        return None if folder is None else self._areas[folder]

    def listing(self, folder: str) -> Listing | None:
        """What is directly in a folder of the storage; None for a folder that is not listed."""
        if self.is_absent(folder):
            return Listing((), ())
        area = self.area_of(folder)
        if area is not None:
            return area.list_folder(folder)
        if self.listed is None or not f"{folder}/".startswith(f"{self.listed.storage}/"):
            return None
        return self.once(("list", folder), lambda: self.store.list_folder(folder))

    def is_absent(self, folder: str) -> bool:
        """True if the listing of a folder above shows that a folder does not exist."""
        if self.listed is None or not folder.startswith(f"{self.listed.storage}/"):
            return False
        area = self.area_of(folder)
        if area is not None and area.folder != folder:
            return area.has(folder) is False
        parent, _, name = folder.rpartition("/")
        if self.is_absent(parent):
            return True
        # The folder of a table may hold many files beside its log.
        if name == LOG or self._areas.get(f"{parent}/{LOG}", _NOTHING).objects:
            return False
        found = self.listing(parent)
        return found is not None and name not in found.folders

    def content(self, key: str) -> tuple[bytes, str] | None:
        """The content and the tag of a listed object; None for an object that no listing shows.

        Raises:
            FileNotFoundError: it does not exist.
        """
        area = self.area_of(key)
        meta = None if area is None else area.find(key)
        if meta is None:
            return None
        if key not in self._contents:
            self.fetch([key])
        return self._contents[key]

    def fetch(self, keys: Iterable[str]) -> None:
        """Read listed objects, several at a time, unless they are known.

        Raises:
            FileNotFoundError: one does not exist any more.
        """
        wanted = {}
        for key in keys:
            area = self.area_of(key)
            meta = None if area is None else area.find(key)
            if area is not None and meta is not None and key not in self._contents:
                kept = self._cache.content(*self._entry(area, meta))
                if kept is None:
                    wanted[key] = (area, meta)
                else:
                    self._contents[key] = (kept, meta.tag)
        for key, found in zip(wanted, _in_parallel(self.store.get, wanted), strict=True):
            self._contents[key] = found
            if found[1] == wanted[key][1].tag:
                self._cache.keep(*self._entry(*wanted[key]), found[0])

    def list_logs(self, folders: Iterable[str]) -> None:
        """List the logs of tables, several at a time."""
        unknown = [folder for folder in folders if folder not in self._areas]
        starts = [checkpoint_of(self._cache.names(self._folder(folder))) for folder in unknown]
        found = _in_parallel(lambda one: list_log(self.store, *one), list(zip(unknown, starts, strict=True)))
        self._areas |= dict(zip(unknown, found, strict=True))

    def table(self, log: str) -> DeltaTable | None:
        """A table whose log is a copy; None if the log cannot be copied. It has no rows, and ends with this."""
        if log not in self._tables:
            self._tables[log] = self._copied(log)
        return self._tables[log]

    def once(self, question: Hashable, ask: Callable[[], _Answer]) -> _Answer:
        """The first answer to a question, also if it was that nothing exists."""
        if question not in self._answers:
            try:
                self._answers[question] = ask()
            except FileNotFoundError as error:
                self._answers[question] = error
        answer = self._answers[question]
        if isinstance(answer, FileNotFoundError):
            raise FileNotFoundError(*answer.args)
        return cast("_Answer", answer)

    def kept_answer(self, name: str) -> bytes | None:
        """What was kept under a name; whoever kept it knows whether it is still right."""
        return self._cache.content(self._folder(_ANSWERS), name, _ANSWERS)

    def keep_answer(self, name: str, answer: bytes) -> None:
        """Keep what was computed from objects, for later processes."""
        self._cache.keep(self._folder(_ANSWERS), name, _ANSWERS, answer)

    def close(self) -> None:
        """Write the cache, and remove the copies."""
        self._cache.close()
        if self._copies is not None:
            shutil.rmtree(self._copies, ignore_errors=True)

    def _area_folder(self, key: str) -> str | None:
        log = _LOG_FOLDER.match(key)
        if log is not None:
            return log.group()
        whole = self.listed.whole if self.listed is not None else ()
        return next((folder for folder in whole if key == folder or key.startswith(f"{folder}/")), None)

    def _list(self, folder: str) -> ListedArea:
        if folder.rpartition("/")[2] == LOG:
            if self.is_absent(folder.rpartition("/")[0]):
                return ListedArea(folder, "", {})
            self.list_logs([folder])
            return self._areas[folder]
        found = list_area(self.store, folder, self.listed.unlisted if self.listed is not None else None)
        self._retain(folder, {key[len(folder) + 1 :] for key in found.objects})
        return found

    def _copied(self, log: str) -> DeltaTable | None:
        area = self.area_of(log)
        needed = None if area is None else newest_files(area, self._cache.names(self._folder(log)))
        if area is None or needed is None:
            return None
        self._copies = self._copies or Path(tempfile.mkdtemp(prefix="headrace-logs-"))
        try:
            self.fetch(meta.key for meta in needed.files)
        except FileNotFoundError:
            # The table was deleted after it was listed.
            return None
        if any(self._contents[meta.key][1] != meta.tag for meta in needed.files):
            # And created again.
            return None
        self._retain(log, {meta.name for meta in needed.files})
        contents = {meta.name: self._contents[meta.key][0] for meta in needed.files}
        return copied_table(needed.version, contents, self._copies / str(len(self._tables)))

    def _retain(self, folder: str, names: set[str]) -> None:
        """Remove what the cache has of a folder besides some names."""
        self._cache.forget(self._folder(folder), self._cache.names(self._folder(folder)) - names)

    def _folder(self, folder: str) -> str:
        return f"{self._place}/{folder}"

    def _entry(self, area: ListedArea, meta: ObjectMeta) -> tuple[str, str, str]:
        """Folder, name and stamp of an object in the cache."""
        has_tag = meta.tag not in ("", "None")
        stamp = f"{meta.tag} {meta.size_bytes} {meta.modified_at.isoformat()}" if has_tag else ""
        return self._folder(area.folder), meta.key[len(area.folder) + 1 :], stamp


def _in_parallel(ask: Callable[[_Question], _Answer], questions: Collection[_Question]) -> list[_Answer]:
    if len(questions) < 2:
        return [*map(ask, questions)]
    with ThreadPoolExecutor(min(_PARALLEL, len(questions)), "headrace-requests") as threads:
        return [*threads.map(ask, questions)]
