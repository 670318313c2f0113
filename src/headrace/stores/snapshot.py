"""What listings say of a bucket at one time, and the contents of the objects that they name.

On a disk, looking at a file costs nothing; in a bucket each look is a request. So the folders of a storage that hold
many small objects, and the logs of tables, are listed once. The listings answer whether an object exists, and whether
its content is still the one in the cache.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Hashable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

from headrace.stores.contents import Contents
from headrace.stores.listed_area import ListedArea
from headrace.stores.listings import ListedFolders, Listings
from headrace.stores.object_store import ObjectMeta, ObjectStore
from headrace.stores.table_logs import copied_table, newest_files

if TYPE_CHECKING:
    from deltalake import DeltaTable

_Answer = TypeVar("_Answer")


class Snapshot:
    """A bucket as listings find it.

    Args:
        store: the bucket.
        listed: what is listed; None for the logs of tables alone.
        place: tells the bucket from others of its name.
    """

    def __init__(self, store: ObjectStore, listed: ListedFolders | None, place: str) -> None:
        self.store = store
        self.contents = Contents(store, place, listed.cache if listed is not None else None)
        self.listings = Listings(store, listed, self.contents)
        self._copies: Path | None = None
        self._tables: dict[str, DeltaTable | None] = {}
        self._answers: dict[Hashable, Any] = {}

    def content(self, key: str) -> tuple[bytes, str] | None:
        """The content and the tag of a listed object; None for an object that no listing shows.

        Raises:
            FileNotFoundError: it does not exist.
        """
        found = [*self._listed([key])]
        self.contents.fetch(found)
        return self.contents.of(key) if found else None

    def fetch(self, keys: Iterable[str]) -> None:
        """Read listed objects, several at a time, unless they are known.

        Raises:
            FileNotFoundError: one does not exist any more.
        """
        self.contents.fetch(self._listed(keys))

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

    def close(self) -> None:
        """Write the cache, and remove the copies."""
        self.contents.close()
        if self._copies is not None:
            shutil.rmtree(self._copies, ignore_errors=True)

    def _listed(self, keys: Iterable[str]) -> Iterator[tuple[ListedArea, ObjectMeta]]:
        for key in keys:
            area = self.listings.area_of(key)
            meta = None if area is None else area.find(key)
            if area is not None and meta is not None:
                yield area, meta

    def _copied(self, log: str) -> DeltaTable | None:
        area = self.listings.area_of(log)
        needed = None if area is None else newest_files(area, self.contents.names(log))
        if area is None or needed is None:
            return None
        try:
            self.contents.fetch((area, meta) for meta in needed.files)
        except FileNotFoundError:
            # The table was deleted after it was listed.
            return None
        found = {meta.name: self.contents.of(meta.key) for meta in needed.files}
        if any(found[meta.name][1] != meta.tag for meta in needed.files):
            # And created again.
            return None
        self.contents.retain(log, found.keys())
        self._copies = self._copies or Path(tempfile.mkdtemp(prefix="headrace-logs-"))
        files = {name: content for name, (content, _) in found.items()}
        return copied_table(needed.version, files, self._copies / str(len(self._tables)))
