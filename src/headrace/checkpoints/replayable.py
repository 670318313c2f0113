"""What a flow has read before, and how much of it is still there to be read again."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headrace.checkpoints.delta_log import TableState, commit_actions
from headrace.checkpoints.listing import listed_files, places
from headrace.checkpoints.offsets import Progress, files_seen, first_offsets, read_progress
from headrace.graph.resolved import Source
from headrace.graph.starts import moment_text
from headrace.model.names import QualifiedName
from headrace.plan.reach import SourceReach

_UNKNOWABLE = "whether it still has what was read cannot be known before it is read"


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
        dataset: whose table it is.
        table: as it is now.
        read: the flow's epochs.
        cut: the table itself has lost rows when it was cleared.
        same: the flow read this table before, and no other one in its place.
    """
    name = f'table "{dataset}"'
    if table is None:
        gone = "it is not there any more" if any(epoch.progress for epoch in read) else ""
        return SourceReach(flow, name, gone=gone, dataset=dataset)
    first, since = oldest_commit(table.path)
    oldest = f"version {first} of {moment_text(since)}"
    gone = _gone_of_table(number, table, read, cut=cut, same=same)
    return SourceReach(flow, name, oldest, gone, dataset)


def _gone_of_table(number: int, table: TableState, read: Sequence[Epoch], *, cut: bool, same: bool) -> str:
    for epoch in read:
        offset = epoch.offset(number)
        if offset is None:
            continue
        if offset.get("reservoirId") == table.table_id:
            removed = rows_removed(table, _first_version(epoch, number))
            if removed is not None:
                return f"its version {removed} has removed or changed rows that were read"
        elif not same:
            return "another table was read in its place before"
        elif cut:
            return "it was cleared since, and lost rows itself"
    return ""


def _first_version(epoch: Epoch, number: int) -> int:
    """The version that an epoch began with, as far as its checkpoint still says."""
    offsets = first_offsets(epoch.checkpoint)
    offset = offsets[number] if number < len(offsets) else None
    return int(offset["reservoirVersion"]) if offset else 0


def reach_of_files(flow: str, number: int, source: Source, read: Sequence[Epoch]) -> SourceReach:
    """Files below paths: those that were listed before, against those that are there now."""
    name = f"the files in {places(source.detail)}"
    seen: set[str] = set()
    for epoch in read:
        seen |= files_seen(epoch.checkpoint, number)
    try:
        there = listed_files(source.detail)
    except OSError as error:
        return SourceReach(flow, name, gone=f'"{error.filename}" cannot be listed' if seen else "")
    missing = seen - there
    gone = f"{len(missing)} of {len(seen)} files that were read {'is' if len(missing) == 1 else 'are'} gone"
    oldest = min(((changed_at(path), path) for path in there), default=None)
    from_ = f"{oldest[1]} of {moment_text(oldest[0])}" if oldest else ""
    return SourceReach(flow, name, from_, gone if missing else "")


def reach_of_other(flow: str, name: str, read: Sequence[Epoch]) -> SourceReach:
    """A source that only its reader can ask."""
    return SourceReach(flow, name, gone=_UNKNOWABLE if any(epoch.progress for epoch in read) else "")


def rows_removed(table: TableState, first: int) -> int | None:
    """The oldest version from *first* on that took rows out of a table, or changed them, since it was made; or None.

    Commits that the log no longer has cannot be looked at, and count as having added only.
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
