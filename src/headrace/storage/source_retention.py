"""Whether the sources of a flow still have everything that the flow has read, so that it can be read again."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from typing import Any

from headrace.autoloader.ledger.ledger import join_path
from headrace.autoloader.ledger.stored_ledgers import open_ledger
from headrace.autoloader.source import Source as LoaderSource
from headrace.autoloader.stores.paths import store_of
from headrace.autoloader.stores.store import FoundFile
from headrace.checkpoints.epochs import Epoch, read_epoch
from headrace.delta_log.tables import TableState, commit_actions
from headrace.errors import PipelineError
from headrace.graph.analysis import Source
from headrace.graph.starts import format_timestamp
from headrace.model.names import QualifiedName
from headrace.plan.source_retention import SourceRetention
from headrace.storage.file_listing import listed_files, paths_text
from headrace.stores.paths import StoragePath, storage_path

# The operations of the commits that restore a savepoint.
_RESTORES = ("RESTORE", "CLONE")
_UNKNOWABLE = "it is unknown whether the source still has all input"


def epochs(checkpoints: Sequence[StoragePath]) -> tuple[Epoch, ...]:
    """The epochs of these checkpoints, which may be removed."""
    return tuple(map(read_epoch, checkpoints))


def table_retention(
    flow: str,
    number: int,
    source: Source,
    dataset: QualifiedName,
    table: TableState | None,
    read: Sequence[Epoch],
    *,
    rows_lost: bool,
    same: bool,
) -> SourceRetention:
    """The retention of a table of the pipeline.

    Args:
        flow: the flow that reads it.
        number: the number of the source in the flow.
        source: how the flow reads the table.
        dataset: the table's dataset.
        table: the current state of the table.
        read: the flow's epochs.
        rows_lost: the table lost rows when it was cleared.
        same: the flow read this table before, and not a different one.
    """
    name = f'table "{dataset}"'
    if table is None:
        unrecoverable = "it no longer exists" if any(epoch.progress for epoch in read) else ""
        return SourceRetention(flow, name, unrecoverable=unrecoverable, dataset=dataset)
    first, since = oldest_commit(table.path)
    oldest = f"version {first} of {format_timestamp(since)}"
    unrecoverable = _loss_of_table(number, table, read, passes=source.passes_changes, rows_lost=rows_lost, same=same)
    return SourceRetention(flow, name, oldest, unrecoverable, dataset)


def _loss_of_table(
    number: int, table: TableState, read: Sequence[Epoch], *, passes: bool, rows_lost: bool, same: bool
) -> str:
    for epoch in read:
        if epoch.unreadable:
            return f"it is unknown what was read, because {epoch.loss}"
        if epoch.is_lost:
            # It may have read all that the table ever had.
            loss = _loss_since_creation(table, rows_lost=rows_lost, same=same)
            if loss:
                return f"{epoch.loss}, and {loss}"
            continue
        offset = epoch.offset(number)
        if offset is None:
            continue
        if offset.get("reservoirId") == table.table_id:
            loss = _loss_of_versions(table, _first_version(epoch, number), offset, passes=passes)
            if loss:
                return loss
        elif not same:
            return "a different table was read before"
        elif rows_lost:
            return "it was cleared and lost rows"
    return ""


def _loss_of_versions(table: TableState, first: int, offset: Mapping[str, Any], *, passes: bool) -> str:
    removed = first_removal(table, first)
    if removed is not None:
        return f"version {removed} removed or changed rows that were read"
    # A stream that does not skip such commits would have failed at one.
    unseen = first if passes else int(offset["reservoirVersion"])
    logged = _history_start(table)
    return f"its log starts at version {logged}, so earlier removals are unknown" if logged > unseen else ""


def _loss_since_creation(table: TableState, *, rows_lost: bool, same: bool) -> str:
    if not same:
        return "a different table was read before"
    removed, logged = first_removal(table, 0), _history_start(table)
    if removed is not None:
        return f"version {removed} of the table removed or changed rows"
    if logged > 0:
        return f"the table's log starts at version {logged}, so earlier removals are unknown"
    return "the table was cleared and lost rows" if rows_lost else ""


def _first_version(epoch: Epoch, number: int) -> int:
    """The version that an epoch started with, if its checkpoint still has it; otherwise 0."""
    offsets = epoch.first_offsets()
    offset = offsets[number] if number < len(offsets) else None
    return int(offset["reservoirVersion"]) if offset else 0


def file_retention(flow: str, number: int, source: Source, read: Sequence[Epoch]) -> SourceRetention:
    """The retention of files below paths: those listed before against those that exist now."""
    name = f"the files in {paths_text(source.detail)}"
    seen: set[tuple[str, int]] = set()
    for epoch in read:
        seen |= epoch.files_seen(number)
    try:
        existing = listed_files(source.detail)
    except OSError as error:
        return SourceRetention(flow, name, unrecoverable=f'"{error.filename}" cannot be listed' if seen else "")
    missing = {path for path, _ in seen} - existing
    # Spark reads a path only once, so the content of a changed file is not what was read.
    changed = {path for path, at in seen if path in existing and round(modified_at(path) * 1000) != at}
    losses = [_files_text(missing, seen, "missing"), _files_text(changed, seen, "different now")]
    oldest = min(((modified_at(path), path) for path in existing), default=None)
    from_ = f"{oldest[1]} of {format_timestamp(oldest[0])}" if oldest else ""
    return SourceRetention(flow, name, from_, " and ".join(filter(None, losses)))


def auto_loader_retention(flow: str, name: str, number: int, source: Source, read: Sequence[Epoch]) -> SourceRetention:
    """The retention of Auto Loader's files: those in its ledger against those that exist now."""
    loader = LoaderSource.from_json(source.detail)
    missing, changed, seen = set[str](), set[str](), set[tuple[str, int]]()
    now_of = _current_files(loader)
    for epoch in read:
        offset = epoch.offset(number)
        if offset is None:
            continue
        try:
            with closing(open_ledger(storage_path(loader.ledgers), str(offset["ledger"]), read_only=True)) as ledger:
                files = ledger.files(ledger.first_number, int(offset["number"]))
        except PipelineError as error:
            return SourceRetention(flow, name, unrecoverable=error.message)
        for file in files:
            seen.add((file.path, file.number))
            now = now_of(file.path)
            if now is None:
                missing.add(file.path)
            elif (now.size, now.mtime_ns) != (file.size, file.mtime_ns):
                changed.add(file.path)
    losses = [_files_text(missing, seen, "missing"), _files_text(changed, seen, "different now")]
    return SourceRetention(flow, name, unrecoverable=" and ".join(filter(None, losses)))


def _current_files(loader: LoaderSource) -> Callable[[str], FoundFile | None]:
    """A function that finds the current state of a file; uses one listing if the store lists everything at once."""
    tree = loader.tree
    listing = tree.store.listing(tree.base)
    if listing is None:
        return tree.store.stat
    existing = {join_path(folder, file.name): file for folder, file in listing}
    below = tree.base.rstrip("/") + "/"
    return lambda path: existing.get(path) if path.startswith(below) else store_of(path).stat(path)


def _files_text(some: set[str], seen: set[tuple[str, int]], what: str) -> str:
    read = len({path for path, _ in seen})
    return f"{len(some)} of {read} files that were read {'is' if len(some) == 1 else 'are'} {what}" if some else ""


def unknown_retention(flow: str, name: str, read: Sequence[Epoch]) -> SourceRetention:
    """The retention of a source that only its reader can query."""
    return SourceRetention(flow, name, unrecoverable=_UNKNOWABLE if any(epoch.progress for epoch in read) else "")


def first_removal(table: TableState, first: int) -> int | None:
    """The first version from *first* on that removed or changed rows of a table since its creation; or None.

    Commits that the log no longer has are ignored.
    """
    removed: int | None = None
    for version in _versions(table.path):
        actions = commit_actions(table.path, version) or []
        if any(action.get("metaData", {}).get("id") == table.table_id for action in actions) and _recreates(actions):
            # The rows of the former table are not those that were read.
            removed = None
        elif removed is None and version >= first and not _is_restore(actions) and any(map(_removes, actions)):
            removed = version
    return removed


def _history_start(table: TableState) -> int:
    """The version from which the log is complete; 0 if it contains the creation of the table."""
    versions = list(_versions(table.path))
    for version in versions:
        actions = commit_actions(table.path, version) or []
        if any(action.get("metaData", {}).get("id") == table.table_id for action in actions) and _recreates(actions):
            return 0
    return versions[0]


def _recreates(actions: Sequence[dict[str, Any]]) -> bool:
    operation = str(next((a["commitInfo"].get("operation", "") for a in actions if "commitInfo" in a), ""))
    return operation.startswith(("CREATE", "REPLACE"))


def _is_restore(actions: Sequence[dict[str, Any]]) -> bool:
    """Whether a savepoint was restored: every stream that had read the rows was taken back with the table.

    A RESTORE by somebody else records no batches of flows.
    """
    operation = next((a["commitInfo"].get("operation") for a in actions if "commitInfo" in a), None)
    return operation in _RESTORES and any("txn" in action for action in actions)


def _removes(action: dict[str, Any]) -> bool:
    return bool(action.get("remove", {}).get("dataChange", False))


def oldest_commit(path: str) -> tuple[int, float]:
    """The oldest version in a table's log, and its commit time in seconds since 1970."""
    first = next(_versions(path))
    return first, committed_at(path, first)


def committed_at(path: str, version: int) -> float:
    """The commit time of a version as Delta determines it: from the commit, else from its file."""
    for action in commit_actions(path, version) or ():
        moment = action.get("commitInfo", {}).get("inCommitTimestamp")
        if moment is not None:
            return float(moment) / 1000
    return modified_at(str(storage_path(path) / "_delta_log" / f"{version:020d}.json"))


def modified_at(path: str) -> float:
    """The modification time of a file in seconds since 1970, to the millisecond."""
    return int(storage_path(path).stat().st_mtime * 1000) / 1000


def _versions(path: str) -> Iterator[int]:
    files = (storage_path(path) / "_delta_log").glob("*.json")
    return iter(sorted(int(file.stem) for file in files if file.stem.isdigit()))
