"""The code in a savepoint: the project's files of the newest update before it."""

from __future__ import annotations

from pathlib import Path

from headrace.errors import PipelineError
from headrace.events.reader import EventReader
from headrace.events.update_code import code_digests
from headrace.settings.settings import Settings
from headrace.storage.code_archives import CodeArchives, code_archives
from headrace.storage.savepoints.manifest import Savepoint
from headrace.storage.savepoints.stored import CODE
from headrace.stores.paths import StoragePath


def save_code(settings: Settings, draft: StoragePath) -> tuple[str, bool]:
    """Copy the code of the newest update; returns its digest, empty if unknown, and whether the storage had it."""
    digest = next(iter(code_digests(EventReader(settings.layout.events), newest=1)), "")
    files = code_archives(settings.layout).files(digest) if digest else None
    if files is None:
        return digest, False
    CodeArchives(draft / CODE).store(digest, files)
    return digest, True


def write_code(savepoint: Savepoint, stored: StoragePath, folder: Path) -> int:
    """Write the code of a savepoint into a new folder; returns the number of files.

    Args:
        savepoint: the savepoint.
        stored: its folder.
        folder: the new folder.

    Raises:
        PipelineError: SAVEPOINT.NO_CODE.
        OSError: the folder exists, or cannot be written.
    """
    files = CodeArchives(stored / CODE).files(savepoint.code_digest) if savepoint.has_code else None
    if files is None:
        raise PipelineError("SAVEPOINT.NO_CODE", savepoint=savepoint.label)
    folder.mkdir(parents=True)
    for name, content in files.items():
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content)
    return len(files)
