"""The commits of a dataset's table: the flow and the update that made each, and how its columns changed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from typing import Any

from headrace.delta_log.readable_versions import commit_info, version_range
from headrace.delta_log.tables import has_log, open_table
from headrace.errors import PipelineError
from headrace.events.recorded import Recorded
from headrace.events.types import BatchDone
from headrace.model.schema import Schema


@dataclass(frozen=True)
class TableCommit:
    """A version of a table: Delta's name of the operation, the time, its files, and the batch that made it.

    *rows* are those that the batch wrote, *rows_added* those of the new files. What nobody knows any more is None: a
    commit that the log has removed, or that no batch has made.
    """

    version: int
    operation: str | None
    committed_at: str | None
    update_id: str | None = None
    flow: str | None = None
    batch_id: int | None = None
    rows: int | None = None
    rows_added: int | None = None
    files_added: int | None = None
    files_removed: int | None = None
    bytes_added: int | None = None
    bytes_removed: int | None = None

    def to_json(self) -> dict[str, Any]:
        """The commit as one JSON object."""
        return asdict(self)


@dataclass(frozen=True)
class SchemaVersion:
    """The columns of a table from a version on; *earlier* are those before it, None if they are unknown."""

    version: int
    operation: str | None
    committed_at: str | None
    schema: Schema
    earlier: Schema | None


def table_history(path: str, newest: int, before: int | None = None) -> tuple[TableCommit, ...]:
    """So many commits of a table, the newest first, without the batches that made them; none if there is no table.

    Args:
        path: of the table.
        newest: how many commits, at most.
        before: only those before this version; None for all.

    Raises:
        PipelineError: STORAGE.TABLE_UNREADABLE, STORAGE.EMPTY_COMMIT.
    """
    versions = _newest_first(path, newest, before) if has_log(path) else range(0)
    return tuple(_commit(path, version) for version in versions)


def with_batches(commits: Iterable[TableCommit], reports: Iterable[Recorded]) -> tuple[TableCommit, ...]:
    """The commits with the batches that made them, as far as they are among some events of the flows into the table.

    A table that was made again has commits with the numbers of old ones: a commit belongs to the batch that was
    recorded next to it.
    """
    batches: dict[int, list[tuple[Recorded, BatchDone]]] = {}
    for one in reports:
        if isinstance(one.event, BatchDone) and one.event.commit is not None:
            batches.setdefault(one.event.commit.version, []).append((one, one.event))
    return tuple(_with_batch(commit, batches.get(commit.version, ())) for commit in commits)


def schema_at(path: str, version: int | None = None) -> Schema | None:
    """The columns of a version of a table, the newest by default; None without a table.

    Raises:
        PipelineError: STORAGE.TABLE_UNREADABLE if the log no longer has the version, or never had it.
    """
    table = open_table(path, version)
    return None if table is None else Schema.from_json(table.schema().to_json())


def schema_versions(path: str, newest: int, before: int | None = None) -> tuple[tuple[SchemaVersion, ...], int | None]:
    """The commits that may have changed the columns of a table, the newest first.

    Args:
        path: of the table.
        newest: how many commits are looked at, at most.
        before: only those before this version; None for all.

    Returns:
        The commits, and the earliest version that was looked at; None without a table, and if no version is so early.

    Raises:
        PipelineError: STORAGE.TABLE_UNREADABLE, STORAGE.EMPTY_COMMIT.
    """
    versions = _newest_first(path, newest, before) if has_log(path) else range(0)
    found: list[SchemaVersion] = []
    for version in reversed(versions):
        info = commit_info(path, version)
        if info.changes is None or info.changes.schema is None:
            continue
        schema = Schema.from_json(info.changes.schema)
        # What was before the first of them is not in any of these commits.
        earlier = found[-1].schema if found else _schema_before(path, version)
        found.append(SchemaVersion(version, info.operation, info.committed_at, schema, earlier))
    return tuple(reversed(found)), min(versions, default=None)


def _schema_before(path: str, version: int) -> Schema | None:
    try:
        return None if version == 0 else schema_at(path, version - 1)
    except PipelineError:
        return None


def _newest_first(path: str, newest: int, before: int | None) -> range:
    """So many versions that the log has, the newest first."""
    versions = version_range(path)
    last = versions.newest if before is None else min(versions.newest, before - 1)
    return range(last, max(versions.earliest, last - newest + 1) - 1, -1)


def _commit(path: str, version: int) -> TableCommit:
    info = commit_info(path, version)
    found = TableCommit(version, info.operation, info.committed_at)
    if info.changes is None:
        return found
    changes = info.changes
    return replace(
        found,
        rows_added=changes.rows_added,
        files_added=changes.files_added,
        files_removed=changes.files_removed,
        bytes_added=changes.bytes_added,
        bytes_removed=changes.bytes_removed,
    )


def _with_batch(commit: TableCommit, batches: Sequence[tuple[Recorded, BatchDone]]) -> TableCommit:
    if not batches:
        return commit
    recorded, done = batches[-1]
    if commit.committed_at is not None:
        at = datetime.fromisoformat(commit.committed_at)
        recorded, done = min(batches, key=lambda one: abs(one[0].at - at))
    return replace(
        commit,
        update_id=recorded.update_id,
        flow=done.flow,
        batch_id=done.batch_id,
        rows=done.counts.rows_written,
    )
