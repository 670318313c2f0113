"""The newest commits of a dataset's table, each with the flow and the update that made it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

from headrace.delta_log.readable_versions import commit_info, version_range
from headrace.delta_log.tables import has_log, open_table
from headrace.events.recorded import Recorded
from headrace.events.types import BatchDone
from headrace.model.schema import Schema


@dataclass(frozen=True)
class TableCommit:
    """A version of a table: Delta's name of the operation, the time, and the batch that made it.

    What nobody knows any more is None: a commit that the log has removed, or that no batch has made.
    """

    version: int
    operation: str | None
    committed_at: str | None
    update_id: str | None = None
    flow: str | None = None
    batch_id: int | None = None
    rows: int | None = None

    def to_json(self) -> dict[str, Any]:
        """The commit as one JSON object."""
        return asdict(self)


def table_history(
    path: str, reports: Iterable[Recorded], newest: int, before: int | None = None
) -> tuple[TableCommit, ...]:
    """So many commits of a table, the newest first; none if there is no table.

    Args:
        path: of the table.
        reports: events of the flows that write to it.
        newest: how many commits, at most.
        before: only those before this version; None for all.

    Raises:
        PipelineError: STORAGE.TABLE_UNREADABLE, STORAGE.EMPTY_COMMIT.
    """
    if not has_log(path):
        return ()
    batches = {
        one.event.commit.version: one
        for one in reports
        if isinstance(one.event, BatchDone) and one.event.commit is not None
    }
    versions = version_range(path)
    last = versions.newest if before is None else min(versions.newest, before - 1)
    first = max(versions.earliest, last - newest + 1)
    return tuple(_commit(path, version, batches.get(version)) for version in range(last, first - 1, -1))


def schema_at(path: str, version: int) -> Schema | None:
    """The columns of a version of a table; None without a table.

    Raises:
        PipelineError: STORAGE.TABLE_UNREADABLE if the log no longer has the version, or never had it.
    """
    table = open_table(path, version)
    return None if table is None else Schema.from_json(table.schema().to_json())


def _commit(path: str, version: int, batch: Recorded | None) -> TableCommit:
    info = commit_info(path, version)
    if batch is None or not isinstance(batch.event, BatchDone):
        return TableCommit(version, info.operation, info.committed_at)
    done = batch.event
    return TableCommit(
        version,
        info.operation,
        info.committed_at,
        batch.update_id,
        done.flow,
        done.batch_id,
        done.counts.rows_written,
    )
