"""The code of a project as updates ran it: one archive for each digest, so that a plan can show what it was."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Collection, Iterator, Mapping

from headrace.atomic_write import create_private_file
from headrace.settings.storage import StorageLayout
from headrace.stores.paths import StoragePath, sorted_paths, storage_path

_SUFFIX = ".zip"
# Archives of the same files are the same bytes.
_WRITTEN_AT = (1980, 1, 1, 0, 0, 0)
# Files outside of the project's folder; no name in an archive may lead out of the folder that it is unpacked to.
_OUTSIDE = "_outside"


def code_archives(layout: StorageLayout) -> CodeArchives:
    """The archives of a storage."""
    return CodeArchives(storage_path(layout.root) / "system" / "code")


class CodeArchives:
    """The archives of a storage.

    Args:
        folder: that they are in.
    """

    def __init__(self, folder: StoragePath) -> None:
        self._folder = folder

    def store(self, digest: str, files: Mapping[str, bytes]) -> bool:
        """Write the archive of a digest, unless it exists; returns whether it is new. On a disk, it is private.

        Args:
            digest: of the files.
            files: their contents, by path from the project's folder.
        """
        file = self._file(digest)
        if file.is_file():
            return False
        content = io.BytesIO()
        with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as archive:
            for path, text in sorted(files.items()):
                entry = zipfile.ZipInfo(archived_path(path), _WRITTEN_AT)
                entry.compress_type = zipfile.ZIP_DEFLATED
                archive.writestr(entry, text)
        file.parent.mkdir(parents=True, exist_ok=True)
        create_private_file(file, content.getvalue())
        return True

    def files(self, digest: str) -> dict[str, bytes] | None:
        """The files of a digest, by path; None if there is no archive, or if it cannot be read."""
        try:
            with zipfile.ZipFile(io.BytesIO(self._file(digest).read_bytes())) as archive:
                return {entry.filename: archive.read(entry) for entry in archive.infolist()}
        except (OSError, zipfile.BadZipFile, ValueError):
            return None

    def remove_others(self, needed: Collection[str]) -> None:
        """Remove the archives of all digests but the needed ones."""
        for digest, file in self._stored():
            if digest not in needed:
                file.unlink(missing_ok=True)

    def _stored(self) -> Iterator[tuple[str, StoragePath]]:
        for file in sorted_paths(self._folder.glob(f"*{_SUFFIX}")):
            yield file.name.removesuffix(_SUFFIX), file

    def _file(self, digest: str) -> StoragePath:
        return self._folder / f"{digest}{_SUFFIX}"


def archived_path(path: str) -> str:
    """The name of a file in an archive, by its path from the project's folder."""
    parts = path.replace("\\", "/").split("/")
    return "/".join(_OUTSIDE if part == ".." else part for part in parts if part not in ("", "."))
