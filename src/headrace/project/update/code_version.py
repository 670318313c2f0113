"""Which code an update runs: a digest of the project's files, and the commit of git that is checked out."""

from __future__ import annotations

import hashlib
import os
import re
from contextlib import suppress
from pathlib import Path

from headrace.errors import Problems
from headrace.project.loading.worker_modules import source_modules
from headrace.settings.settings import Settings
from headrace.settings.source_files import source_files

_COMMIT = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
_POINTER, _REFERENCE = "gitdir: ", "ref: "


def code_digest(settings: Settings) -> str:
    """A digest of the settings file, the source files and the modules of a project: their paths and contents."""
    files = {settings.file, *source_modules(settings.root_path)}
    with suppress(Problems):
        files |= set(source_files(settings))
    digest = hashlib.sha256()
    for file in sorted(files):
        # Another process may remove a file meanwhile.
        with suppress(OSError):
            content = hashlib.sha256(file.read_bytes()).hexdigest()
            digest.update(f"{os.path.relpath(file, settings.root)}\0{content}\n".encode())
    return digest.hexdigest()


def git_commit(folder: Path) -> str | None:
    """The commit that is checked out in a folder; None outside of a repository, or if it cannot be read.

    Reads git's files. To start git would run what the repository's own configuration names. Whether files were changed
    since the commit is not known; :func:`code_digest` changes with them.
    """
    for parent in (folder, *folder.parents):
        marker = parent / ".git"
        if marker.exists():
            with suppress(OSError, ValueError):
                return _checked_out(marker)
            return None
    return None


def _checked_out(marker: Path) -> str | None:
    folder = marker
    if marker.is_file():
        # A worktree, or a submodule.
        folder = marker.parent / marker.read_text(encoding="utf-8").strip().removeprefix(_POINTER)
    head = (folder / "HEAD").read_text(encoding="utf-8").strip()
    if not head.startswith(_REFERENCE):
        return head if _COMMIT.fullmatch(head) else None
    reference = head.removeprefix(_REFERENCE)
    if not reference.startswith("refs/") or ".." in reference:
        return None
    common = folder / "commondir"
    shared = folder / common.read_text(encoding="utf-8").strip() if common.is_file() else folder
    for place in (folder, shared):
        with suppress(FileNotFoundError, NotADirectoryError):
            found = (place / reference).read_text(encoding="utf-8").strip()
            return found if _COMMIT.fullmatch(found) else None
    packed = (shared / "packed-refs").read_text(encoding="utf-8").splitlines()
    found = next((line.partition(" ")[0] for line in packed if line.partition(" ")[2] == reference), "")
    return found if _COMMIT.fullmatch(found) else None
