"""What a flow has read before, and how much of it is still there to be read again."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headrace.autoloader.ledger import Ledger, joined
from headrace.autoloader.source import Source as LoaderSource
from headrace.autoloader.stores.paths import store_of
from headrace.autoloader.stores.store import FoundFile
from headrace.delta_log.tables import TableState, commit_actions
from headrace.storage.file_listing import listed_files, places
from headrace.checkpoints.offsets import Progress, files_as_seen, first_offsets, read_progress
from headrace.errors import PipelineError
from headrace.graph.resolved import Source
from headrace.graph.starts import moment_text
from headrace.model.names import QualifiedName
from headrace.plan.source_retention import SourceReach

_UNKNOWABLE = "it is unknown whether the source still has all input"


@dataclass(frozen=True)
class Epoch:
    """A checkpoint whose rows are in the table; ``progress`` is None when nothing was planned in it."""

    checkpoint: Path
    progress: Progress | None

    @property
    def lost(self) -> bool:
        """True when the checkpoint is no longer there."""
        return not (self.checkpoint / "metadata").is_file()

    def offset(self, source: int) -> Any:
        """The newest position of a source, or None."""
        offsets = self.progress.offsets if self.progress else ()
        return offsets[source] if source < len(offsets) else None


def epochs(checkpoints: Sequence[Path]) -> tuple[Epoch, ...]:
    """What is known of each checkpoint."""
    return tuple(Epoch(checkpoint, read_progress(checkpoint)) for checkpoint in checkpoints)


def reach_of_table(
    flow: str,
    number: int,
    source: Source,
    dataset: QualifiedName,
    table: TableState | None,
    read: Sequence[Epoch],
    *,
    cut: bool,
    same: bool,
) -> SourceReach:
    """A table of the pipeline.

    Args:
        flow: who reads it.
        number: the source's place among those of the flow.
        source: how it reads the table.
        dataset: whose table it is.
        table: as it is now.
        read: the flow's epochs.
        cut: the table itself has lost rows when it was cleared.
        same: the flow read this table before, and no other one in its place.
    """
    name = f'table "{dataset}"'
    if table is None:
        gone = "it no longer exists" if any(epoch.progress for epoch in read) else ""
        return SourceReach(flow, name, gone=gone, dataset=dataset)
    first, since = oldest_commit(table.path)
    oldest = f"version {first} of {moment_text(since)}"
    gone = _gone_of_table(number, table, read, passes=source.passes_changes, cut=cut, same=same)
    return SourceReach(flow, name, oldest, gone, dataset)


def _gone_of_table(
    number: int, table: TableState, read: Sequence[Epoch], *, passes: bool, cut: bool, same: bool
) -> str:
    for epoch in read:
        offset = epoch.offset(number)
        if offset is None:
            continue
        if offset.get("reservoirId") == table.table_id:
            first = _first_version(epoch, number)
            removed = rows_removed(table, first)
            if removed is not None:
                return f"version {removed} removed or changed rows that were read"
            # A stream that is not told to go on over such a commit would have ended at it.
            unseen = first if passes else int(offset["reservoirVersion"])
            logged = _logged_since(table)
            if logged > unseen:
                return f"its log starts at version {logged}, so earlier removals are unknown"
        elif not same:
            return "a different table was read before"
        elif cut:
            return "it was cleared and lost rows"
    return ""


def _first_version(epoch: Epoch, number: int) -> int:
    """The version that an epoch began with, as far as its checkpoint still says."""
    offsets = first_offsets(epoch.checkpoint)
    offset = offsets[number] if number < len(offsets) else None
    return int(offset["reservoirVersion"]) if offset else 0


def reach_of_files(flow: str, number: int, source: Source, read: Sequence[Epoch]) -> SourceReach:
    """Files below paths: those that were listed before, against those that are there now."""
    name = f"the files in {places(source.detail)}"
    seen: set[tuple[str, int]] = set()
    for epoch in read:
        seen |= files_as_seen(epoch.checkpoint, number)
    try:
        there = listed_files(source.detail)
    except OSError as error:
        return SourceReach(flow, name, gone=f'"{error.filename}" cannot be listed' if seen else "")
    missing = {path for path, _ in seen} - there
    # Spark does not read a path twice: what is in a file now is not what was read of it.
    changed = {path for path, at in seen if path in there and round(changed_at(path) * 1000) != at}
    lacking = [_of_files(missing, seen, "missing"), _of_files(changed, seen, "different now")]
    oldest = min(((changed_at(path), path) for path in there), default=None)
    from_ = f"{oldest[1]} of {moment_text(oldest[0])}" if oldest else ""
    return SourceReach(flow, name, from_, " and ".join(filter(None, lacking)))


def reach_of_auto_loader(flow: str, name: str, number: int, source: Source, read: Sequence[Epoch]) -> SourceReach:
    """Files that were read through a ledger, against those that are there now."""
    loader = LoaderSource.from_json(source.detail)
    missing, changed, seen = set[str](), set[str](), set[tuple[str, int]]()
    now_of = _looked_up(loader)
    for epoch in read:
        offset = epoch.offset(number)
        if offset is None:
            continue
        try:
            with closing(Ledger.open(Path(loader.ledgers), str(offset["ledger"]), read_only=True)) as ledger:
                files = ledger.files(ledger.first_number, int(offset["number"]))
        except PipelineError as error:
            return SourceReach(flow, name, gone=error.message)
        for file in files:
            seen.add((file.path, file.number))
            now = now_of(file.path)
            if now is None:
                missing.add(file.path)
            elif (now.size, now.mtime_ns) != (file.size, file.mtime_ns):
                changed.add(file.path)
    lacking = [_of_files(missing, seen, "missing"), _of_files(changed, seen, "different now")]
    return SourceReach(flow, name, gone=" and ".join(filter(None, lacking)))


def _looked_up(loader: LoaderSource) -> Callable[[str], FoundFile | None]:
    """What a file that was read is like now; in a store that lists everything at once, by one listing."""
    tree = loader.tree
    listing = tree.store.listing(tree.base)
    if listing is None:
        return tree.store.stat
    there = {joined(folder, file.name): file for folder, file in listing}
    below = tree.base.rstrip("/") + "/"
    return lambda path: there.get(path) if path.startswith(below) else store_of(path).stat(path)


def _of_files(some: set[str], seen: set[tuple[str, int]], what: str) -> str:
    read = len({path for path, _ in seen})
    return f"{len(some)} of {read} files that were read {'is' if len(some) == 1 else 'are'} {what}" if some else ""


def reach_of_other(flow: str, name: str, read: Sequence[Epoch]) -> SourceReach:
    """A source that only its reader can ask."""
    return SourceReach(flow, name, gone=_UNKNOWABLE if any(epoch.progress for epoch in read) else "")


def rows_removed(table: TableState, first: int) -> int | None:
    """The oldest version from *first* on that took rows out of a table, or changed them, since it was made; or None.

    Commits that the log no longer has cannot be looked at.
    """
    removed: int | None = None
    for version in _versions(table.path):
        actions = commit_actions(table.path, version) or []
        if any(action.get("metaData", {}).get("id") == table.table_id for action in actions) and _made_anew(actions):
            # The rows of the table that was here before are not those that were read.
            removed = None
        elif removed is None and version >= first and any(_removes(action) for action in actions):
            removed = version
    return removed


def _logged_since(table: TableState) -> int:
    """The version from which on the log tells all that happened to a table; 0 when it tells how the table was made."""
    versions = list(_versions(table.path))
    for version in versions:
        actions = commit_actions(table.path, version) or []
        if any(action.get("metaData", {}).get("id") == table.table_id for action in actions) and _made_anew(actions):
            return 0
    return versions[0]


def _made_anew(actions: Sequence[dict[str, Any]]) -> bool:
    operation = str(next((a["commitInfo"].get("operation", "") for a in actions if "commitInfo" in a), ""))
    return operation.startswith(("CREATE", "REPLACE"))


def _removes(action: dict[str, Any]) -> bool:
    return bool(action.get("remove", {}).get("dataChange", False))


def oldest_commit(path: str) -> tuple[int, float]:
    """The oldest version that a table's log still has, and when it was committed, in seconds since 1970."""
    first = next(_versions(path))
    return first, committed_at(path, first)


def committed_at(path: str, version: int) -> float:
    """When a version was committed, as Delta tells the time of it: from the commit, else from its file."""
    for action in commit_actions(path, version) or ():
        moment = action.get("commitInfo", {}).get("inCommitTimestamp")
        if moment is not None:
            return float(moment) / 1000
    return changed_at(str(Path(path) / "_delta_log" / f"{version:020d}.json"))


def changed_at(path: str) -> float:
    """When a file was last changed, in seconds since 1970, to the millisecond."""
    return Path(path).stat().st_mtime_ns // 1_000_000 / 1000


def _versions(path: str) -> Iterator[int]:
    files = (Path(path) / "_delta_log").glob("*.json")
    return iter(sorted(int(file.stem) for file in files if file.stem.isdigit()))
