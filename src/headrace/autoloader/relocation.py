"""A project that was moved or copied as a whole, and a source whose path was changed: what its ledger says of files.

A ledger has whole paths, and where its own file and the folder of its source were. Where both have moved by the same
step, the files are those that it knows, and it gets their new paths. Another folder is another source: its files are
new, unless they are plainly those that were read.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

from headrace.autoloader.ledger import MOVED_UPTO, Ledger
from headrace.autoloader.stores.store import FoundFile
from headrace.autoloader.tree import Tree
from headrace.errors import PipelineError

_BASE, _ROOT = "base", "root"
# Files by which two folders are compared, the newest first.
_COMPARED = 1000
_NS = 1_000_000_000


def has_moved(ledger: Ledger, tree: Tree) -> bool:
    """Whether the folder of a source is another than the one that its ledger knows."""
    before = _base_of(ledger, tree)
    return before is not None and not _is_related(before, tree.base)


def settle_place(ledger: Ledger, tree: Tree) -> None:
    """Let a ledger know its files where they are now.

    Raises:
        PipelineError: ``AUTO_LOADER.SOURCE_MOVED``: the path leads to another folder, in which files lie that were
            read from the one before, and would be read again.
    """
    before, root = _base_of(ledger, tree), str(ledger.file.parent)
    if before is not None and not _is_related(before, tree.base):
        same, others = _compared(ledger, before, tree)
        if _moved_together(ledger.about(_ROOT), before, root, tree.base) and not others:
            _give_paths(ledger, before, tree.base)
            ledger.note(MOVED_UPTO, str(ledger.last_number))
        elif same:
            raise PipelineError("AUTO_LOADER.SOURCE_MOVED", before=before, now=tree.base, file=same, ledger=ledger.file)
    for key, value in ((_BASE, tree.base), (_ROOT, root)):
        if ledger.about(key) != value:
            ledger.note(key, value)


def _base_of(ledger: Ledger, tree: Tree) -> str | None:
    """The folder that was read; a ledger of version 0.1 does not say it, and has it among its folders."""
    said = ledger.about(_BASE)
    if said is not None:
        return said
    if ledger.connection.execute("select 1 from folders where path = ?", (tree.base,)).fetchone():
        return tree.base
    row = ledger.connection.execute(
        "select path from folders where path like '/%' order by length(path) - length(replace(path, '/', '')), path"
    ).fetchone()
    return None if row is None else str(row[0])


def _is_related(before: str, now: str) -> bool:
    """Whether one folder is, or is in, the other; what is in a store has no other place."""
    if not (before.startswith("/") and now.startswith("/")):
        return before == now or not before.startswith("/")
    return f"{now}/".startswith(f"{before.rstrip('/')}/") or f"{before}/".startswith(f"{now.rstrip('/')}/")


def _moved_together(root_before: str | None, before: str, root: str, now: str) -> bool:
    """Whether the source lies to the ledger as it did."""
    if not now.startswith("/"):
        return False
    if root_before is not None:
        return os.path.relpath(before, root_before) == os.path.relpath(now, root)
    # Of a ledger that does not say where it was: where the two are in one folder, the rest of the path is the same.
    common = os.path.commonpath((root, now))
    return common != "/" and before.endswith(f"/{os.path.relpath(now, common)}")


def _compared(ledger: Ledger, before: str, tree: Tree) -> tuple[str, int]:
    """The first of the files that were read that is, by name, size and time, in the folder now; how many are not it.

    A copy may have other times: those count for the first alone.
    """
    same, others = "", 0
    for path, was in _newest(ledger, before):
        found = tree.store.stat(tree.base.rstrip("/") + path)
        if found is not None and found.size != was.size:
            others += 1
        elif found is not None and found.mtime_ns // _NS == was.mtime_ns // _NS:
            same = same or tree.base.rstrip("/") + path
    return same, others


def _newest(ledger: Ledger, base: str) -> Iterator[tuple[str, FoundFile]]:
    """The files below a folder that were found last, each with its path in it."""
    start = base.rstrip("/")
    rows = ledger.connection.execute(
        "select path, name, size, files.mtime_ns from files join folders on folders.id = folder"
        " where number > ? and (path = ? or substr(path, 1, ?) = ?) order by number desc limit ?",
        (ledger.first_number, base, len(start) + 1, f"{start}/", _COMPARED),
    )
    for folder, name, size, mtime_ns in rows:
        yield f"{folder[len(start) :]}/{name}", FoundFile(name, size, mtime_ns)


def _give_paths(ledger: Ledger, before: str, now: str) -> None:
    start = before.rstrip("/")
    ledger.connection.execute(
        # Of two that would be one, the one that is there stays. Times of folders are those of the other place.
        "update or ignore folders set path = ? || substr(path, ?), mtime_ns = 0"
        " where path = ? or substr(path, 1, ?) = ?",
        (now.rstrip("/"), len(start) + 1, before, len(start) + 1, f"{start}/"),
    )
