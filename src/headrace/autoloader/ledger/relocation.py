"""Adapt a ledger to a project that was moved or copied, or to a changed source path.

A ledger stores full paths, and the former locations of its own file and of the source folder. If both moved together,
the files are the known ones, and the ledger gets their new paths. Otherwise another folder is another source: its files
are new, unless they are evidently the ones that were read.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

from headrace.autoloader.ledger.ledger import MOVED_UPTO, Ledger
from headrace.autoloader.stores.store import FoundFile
from headrace.autoloader.tree import Tree
from headrace.errors import PipelineError

_BASE, _ROOT = "base", "root"
# Maximum number of files to compare two folders by, the newest first.
_MAX_COMPARED = 1000
_NS = 1_000_000_000


def has_moved(ledger: Ledger, tree: Tree) -> bool:
    """Whether a source's folder differs from the one in its ledger."""
    before = _recorded_base(ledger, tree)
    return before is not None and not _is_related(before, tree.base)


def relocate_ledger(ledger: Ledger, tree: Tree) -> None:
    """Update the paths in a ledger to the current locations.

    Raises:
        PipelineError: ``AUTO_LOADER.SOURCE_MOVED``: the path is now another folder, with files that were read from
            the former one and would be read again.
    """
    before, root = _recorded_base(ledger, tree), ledger.place.rpartition("/")[0]
    if before is not None and not _is_related(before, tree.base):
        unchanged, different = _compare_files(ledger, before, tree)
        if _moved_together(ledger.get_note(_ROOT), before, root, tree.base) and not different:
            _rewrite_paths(ledger, before, tree.base)
            ledger.set_note(MOVED_UPTO, str(ledger.last_number))
        elif unchanged:
            raise PipelineError(
                "AUTO_LOADER.SOURCE_MOVED", before=before, now=tree.base, file=unchanged, ledger=ledger.place
            )
    for key, value in ((_BASE, tree.base), (_ROOT, root)):
        if ledger.get_note(key) != value:
            ledger.set_note(key, value)


def _recorded_base(ledger: Ledger, tree: Tree) -> str | None:
    """The recorded source folder; a ledger of version 0.1 has no such note, so look among its folders."""
    recorded = ledger.get_note(_BASE)
    if recorded is not None:
        return recorded
    if ledger.connection.execute("select 1 from folders where path = ?", (tree.base,)).fetchone():
        return tree.base
    row = ledger.connection.execute(
        "select path from folders where path like '/%' order by length(path) - length(replace(path, '/', '')), path"
    ).fetchone()
    return None if row is None else str(row[0])


def _is_related(before: str, now: str) -> bool:
    """Whether the folders are the same or one contains the other; paths in object stores never move."""
    if not (before.startswith("/") and now.startswith("/")):
        return before == now or not before.startswith("/")
    return f"{now}/".startswith(f"{before.rstrip('/')}/") or f"{before}/".startswith(f"{now.rstrip('/')}/")


def _moved_together(root_before: str | None, before: str, root: str, now: str) -> bool:
    """Whether the source has the same position relative to the ledger as before."""
    if not (now.startswith("/") and root.startswith("/")):
        return False
    if root_before is not None:
        return os.path.relpath(before, root_before) == os.path.relpath(now, root)
    # Without a note of the ledger's location: below their common folder, the source's path must be the same.
    common = os.path.commonpath((root, now))
    return common != "/" and before.endswith(f"/{os.path.relpath(now, common)}")


def _compare_files(ledger: Ledger, before: str, tree: Tree) -> tuple[str, int]:
    """The first read file that is unchanged (name, size, time) in the new folder, and how many differ in size.

    A copy may have other times, so a different time is not counted as a difference.
    """
    unchanged, different = "", 0
    for path, was in _newest(ledger, before):
        found = tree.store.stat(tree.base.rstrip("/") + path)
        if found is not None and found.size != was.size:
            different += 1
        elif found is not None and found.mtime_ns // _NS == was.mtime_ns // _NS:
            unchanged = unchanged or tree.base.rstrip("/") + path
    return unchanged, different


def _newest(ledger: Ledger, base: str) -> Iterator[tuple[str, FoundFile]]:
    """Yield the most recently found files below a folder, each with its relative path."""
    start = base.rstrip("/")
    rows = ledger.connection.execute(
        "select path, name, size, files.mtime_ns from files join folders on folders.id = folder"
        " where number > ? and (path = ? or substr(path, 1, ?) = ?) order by number desc limit ?",
        (ledger.first_number, base, len(start) + 1, f"{start}/", _MAX_COMPARED),
    )
    for folder, name, size, mtime_ns in rows:
        yield f"{folder[len(start) :]}/{name}", FoundFile(name, size, mtime_ns)


def _rewrite_paths(ledger: Ledger, before: str, now: str) -> None:
    start = before.rstrip("/")
    ledger.connection.execute(
        # If the new path exists already, it stays. Modification times of the old folders do not apply.
        "update or ignore folders set path = ? || substr(path, ?), mtime_ns = 0"
        " where path = ? or substr(path, 1, ?) = ?",
        (now.rstrip("/"), len(start) + 1, before, len(start) + 1, f"{start}/"),
    )
