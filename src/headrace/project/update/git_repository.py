"""The git repository that a project is in, read from git's files.

To start git would run what the repository's own configuration names.
"""

from __future__ import annotations

import os
import re
from contextlib import suppress
from pathlib import Path
from urllib.parse import urlsplit

from headrace.lineage.facets import Repository

_SECTION = re.compile(r"""\s*\[\s*remote\s+"origin"\s*\]\s*""", re.IGNORECASE)
_URL = re.compile(r"""\s*url\s*=\s*"?(?P<url>[^"#;\s]+)"?\s*""", re.IGNORECASE)
# The short form for SSH: user@host:path.
_SSH = re.compile(r"(?:[^@/:\s]+@)?(?P<host>[\w.-]+):(?!/)(?P<path>\S+)")
_GITDIR = "gitdir: "
# Where hosts show a file, below the page of the repository.
_FILES = {"gitlab": "-/blob", "bitbucket": "src"}


def git_repository(folder: Path) -> Repository | None:
    """The repository of a folder by its remote ``origin``; None outside of one, without a remote, or if unreadable."""
    for parent in (folder, *folder.parents):
        marker = parent / ".git"
        if marker.exists():
            with suppress(OSError, ValueError):
                url = _origin(_common_folder(marker) / "config")
                below = os.path.relpath(folder, parent)
                return None if url is None else repository_of(url, "" if below == "." else below)
            return None
    return None


def repository_of(url: str, folder: str = "") -> Repository:
    """The repository of a remote's URL, without what it may hold besides the place: users, passwords, tokens.

    Args:
        url: as git has it.
        folder: of the project in the repository.
    """
    short = _SSH.fullmatch(url)
    if "://" not in url and short is not None:
        host, path = short["host"], short["path"]
        shown = f"git@{host}:{path}"
    else:
        try:
            parts = urlsplit(url)
            host, path = parts.hostname or "", parts.path.strip("/")
        except ValueError:
            host, path = "", ""
        shown = f"{parts.scheme}://{host}/{path}" if host else "local"
    page = None
    if host and path:
        files = next((files for name, files in _FILES.items() if name in host), "blob")
        page = f"https://{host}/{path.strip('/').removesuffix('.git')}/{files}"
    return Repository(shown, page, folder)


def _common_folder(marker: Path) -> Path:
    """Git's folder of a repository; that of a worktree names it."""
    if not marker.is_file():
        return marker
    folder = marker.parent / marker.read_text(encoding="utf-8").strip().removeprefix(_GITDIR)
    common = folder / "commondir"
    return folder / common.read_text(encoding="utf-8").strip() if common.is_file() else folder


def _origin(config: Path) -> str | None:
    is_inside = False
    for line in config.read_text(encoding="utf-8").splitlines():
        if line.strip().startswith("["):
            is_inside = _SECTION.fullmatch(line) is not None
        elif is_inside and (found := _URL.fullmatch(line)) is not None:
            return found["url"]
    return None
