"""HDFS as a store of objects.

HDFS refuses to create a name that is taken, but cannot replace a file only if it is still the one that was read. What
is replaced in this way is kept by :class:`~headrace.stores.hdfs_generations.Generations`.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime

from headrace.stores.hdfs_files import HdfsFile, HdfsFiles
from headrace.stores.hdfs_generations import Generations
from headrace.stores.object_store import PAGE_SIZE, Listing, ObjectMeta, ObjectStore


class HdfsStore(ObjectStore):
    """The files of one NameNode, or of one name service, by path without the slash at its start.

    Args:
        files: of it.
    """

    def __init__(self, files: HdfsFiles) -> None:
        super().__init__(files.root)
        self._files = files
        self._generations = Generations(files)

    def get(self, key: str) -> tuple[bytes, str]:
        """See :class:`ObjectStore`."""
        while True:
            meta, file = self._find(key)
            # Otherwise it was replaced or deleted while it was read.
            with suppress(FileNotFoundError):
                content = self._files.read(file)
                if self._find(key)[0] == meta:
                    return content, meta.tag

    def head(self, key: str) -> ObjectMeta:
        """See :class:`ObjectStore`."""
        return self._find(key)[0]

    def age_s(self, key: str) -> float | None:
        """See :class:`ObjectStore`.

        The NameNode does not say what time it is. So a file is made beside the object, compared with it, and deleted.
        """
        try:
            now = self._files.draft(f"/{key}", b"")
            self._files.delete(now.path)
            return max((_time(now) - self.head(key).modified_at).total_seconds(), 0.0)
        except OSError:
            return None

    def put(self, key: str, content: bytes) -> str:
        """See :class:`ObjectStore`."""
        found = self._files.find(f"/{key}")
        while found is not None and found.is_folder:
            number = self._generations.newest(f"/{key}")[0] + 1
            if self._generations.append(f"/{key}", content, number):
                return str(number)
        draft = self._files.draft(f"/{key}", content)
        self._files.put(draft, f"/{key}", replaces=True)
        return _tag(draft)

    def put_if_absent(self, key: str, content: bytes, *, replaceable: bool = False) -> str | None:
        """See :class:`ObjectStore`."""
        found = self._files.find(f"/{key}")
        if replaceable and (found is None or found.is_folder):
            exists = self._generations.newest(f"/{key}")[0] > 0
            return "1" if not exists and self._generations.append(f"/{key}", content, 1) else None
        if found is not None:
            return None
        draft = self._files.draft(f"/{key}", content)
        return _tag(draft) if self._files.put(draft, f"/{key}", replaces=False) else None

    def put_if_tag(self, key: str, content: bytes, tag: str) -> str | None:
        """See :class:`ObjectStore`; for an object that was made to be replaceable, or was copied here from a disk.

        Also None if the object was written, and then replaced as often as generations stay before this returns.
        """
        newest, _ = self._generations.newest(f"/{key}")
        is_current = tag == str(newest) if newest else self._is_removed(key, tag)
        is_written = is_current and self._generations.append(f"/{key}", content, newest + 1)
        return str(newest + 1) if is_written else None

    def list_folder(self, folder: str) -> Listing:
        """See :class:`ObjectStore`; a folder without files is there, too."""
        found = self._files.entries(f"/{folder}")
        folders = tuple(one.name for one in found if one.is_folder)
        return Listing(folders, tuple(_meta(one) for one in found if not one.is_folder))

    def list_pages(self, folder: str, after: str | None = None) -> Iterator[list[ObjectMeta]]:
        """See :class:`ObjectStore`; each folder is a request."""
        page = []
        for meta in _walk(self._files, folder, after or ""):
            page.append(meta)
            if len(page) == PAGE_SIZE:
                yield page
                page = []
        if page:
            yield page

    def has_objects(self, folder: str) -> bool:
        """True for a folder that exists, also without files."""
        found = self._files.find(f"/{folder}")
        return found is not None and found.is_folder

    def copy(self, source: str, target: str) -> None:
        """See :class:`ObjectStore`; the content passes through this machine."""
        self._files.copy(f"/{source}", f"/{target}")

    def delete(self, *keys: str) -> None:
        """See :class:`ObjectStore`."""
        for key in keys:
            found = self._files.find(f"/{key}")
            if found is not None and (not found.is_folder or self._generations.newest(found.path)[0]):
                self._files.delete(f"/{key}")

    def delete_below(self, folder: str) -> None:
        """See :class:`ObjectStore`."""
        self._files.delete(f"/{folder}")

    def _is_removed(self, key: str, tag: str) -> bool:
        """Make room for generations where a file is that has a tag: of a storage that was copied from a disk."""
        found = self._files.find(f"/{key}")
        if found is None or found.is_folder or _tag(found) != tag:
            return False
        return self._files.remove(found.path)

    def _find(self, key: str) -> tuple[ObjectMeta, str]:
        """What is known of an object, and the file with its content."""
        found = self._files.find(f"/{key}")
        if found is not None and not found.is_folder:
            return _meta(found), found.path
        number, newest = self._generations.newest(f"/{key}") if found is not None else (0, None)
        if newest is None:
            raise FileNotFoundError(2, "it does not exist", f"{self.root}/{key}")
        return ObjectMeta(key, newest.size_bytes, _time(newest), str(number)), newest.path


def _walk(files: HdfsFiles, folder: str, after: str) -> Iterator[ObjectMeta]:
    """The objects below a folder, in the order of keys."""
    entries = files.entries(f"/{folder}")
    for entry in sorted(entries, key=lambda one: f"{one.name}/" if one.is_folder else one.name):
        key = entry.path[1:]
        if not entry.is_folder:
            if key > after:
                yield _meta(entry)
        elif f"{key}/" > after or after.startswith(f"{key}/"):
            yield from _walk(files, key, after)


def _meta(found: HdfsFile) -> ObjectMeta:
    return ObjectMeta(found.path[1:], found.size_bytes, _time(found), _tag(found))


def _time(found: HdfsFile) -> datetime:
    return datetime.fromtimestamp(found.modified_at_ms / 1000, UTC)


def _tag(found: HdfsFile) -> str:
    """Two files of one name differ in it: the NameNode needs longer than a millisecond to replace one by another."""
    return f"{found.modified_at_ms}-{found.size_bytes}"
