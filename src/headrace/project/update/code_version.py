"""Which code an update runs: the project's files, their digest and archive, and the commit that is checked out."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from headrace.errors import PipelineError, Problems
from headrace.events.reader import EventReader
from headrace.events.update_code import code_digests
from headrace.project.loading.worker_modules import source_modules
from headrace.settings.settings import Settings
from headrace.settings.source_files import source_files
from headrace.storage.code_archives import code_archives
from headrace.storage.inventory import stored_flows
from headrace.stores.paths import is_below, storage_path

_COMMIT = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
# Marks the folder of a virtual environment.
_ENVIRONMENT = "pyvenv.cfg"
# The code of so many updates is kept.
_KEPT_UPDATES = 20
_POINTER, _REFERENCE = "gitdir: ", "ref: "


def code_digest(settings: Settings) -> str:
    """A digest of the settings file, the source files and the modules of a project: their paths and contents."""
    return digest_of(digests_of(code_files(settings)))


def archive_code(settings: Settings) -> str:
    """Store the code of a project in its storage, and return its digest; only the holder of the lease may call this.

    If it is new, archives are removed that no flow ran with last, and none of the newest updates.
    """
    files = code_files(settings)
    digest = digest_of(digests_of(files))
    # Plans alone need the archive; what keeps it from being written is reported by what updates need.
    with suppress(OSError, PipelineError):
        archives = code_archives(settings.layout)
        if archives.store(digest, files):
            ran = {flow.record.code for flow in stored_flows(settings.layout, settings.naming)}
            newest = code_digests(EventReader(settings.layout.events), _KEPT_UPDATES)
            archives.remove_others({digest, *ran, *newest})
    return digest


def code_files(settings: Settings) -> dict[str, bytes]:
    """The contents of the settings file, the source files and the modules of a project, by path from its folder.

    Virtual environments, the storage, and the folder of secrets are no part of it.
    """
    files = {settings.file, *source_modules(settings.root_path)}
    with suppress(Problems):
        files |= set(source_files(settings))
    others = [storage_path(settings.production_layout.root), *filter(None, [settings.secrets_directory])]
    found = {}
    for file in sorted(files):
        if any(is_below(file, other) for other in others) or _is_installed(file, settings.root_path):
            continue
        # Another process may remove a file meanwhile.
        with suppress(OSError):
            found[os.path.relpath(file, settings.root)] = file.read_bytes()
    return found


def _is_installed(file: Path, root: Path) -> bool:
    """True for a file of a virtual environment."""
    folders = (folder for folder in file.parents if folder != root and folder.is_relative_to(root))
    return any((folder / _ENVIRONMENT).is_file() for folder in folders)


def digests_of(files: Mapping[str, bytes]) -> dict[str, str]:
    """The digest of each file."""
    return {path: hashlib.sha256(content).hexdigest() for path, content in files.items()}


def digest_of(files: Mapping[str, str]) -> str:
    """One digest of the digests of files."""
    return hashlib.sha256("".join(f"{path}\0{digest}\n" for path, digest in files.items()).encode()).hexdigest()


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
