"""Removes expired events from ``system/events``."""

from __future__ import annotations

import pyarrow as pa
from deltalake import DeltaTable, PostCommitHookProperties, QueryBuilder

from headrace.events.types import BatchDone

_NO_MAINTENANCE = PostCommitHookProperties(create_checkpoint=False, cleanup_expired_logs=False)


def remove_expired(table: DeltaTable, before: str, update_id: str) -> None:
    """Remove the rows with an id before *before* from an event log, with two exceptions.

    Keeps the rows of *update_id*, which is running, and the newest batch of each flow: it distinguishes a new flow from
    one whose record or checkpoint is lost or an older copy.

    Nobody may append meanwhile through a table that was opened earlier: delta-rs refuses to commit concurrently with a
    commit that removes rows.
    """
    # Files may have been compacted since.
    table.update_incremental()
    if not _begins_before(table, before):
        return
    update = update_id.replace("'", "''")
    expired = f"id < '{before}' AND origin['update_id'] <> '{update}'"
    newest = _newest_batches(table, expired)
    excluded = f" AND id NOT IN ({', '.join(newest)})" if newest else ""
    table.delete(expired + excluded, post_commithook_properties=_NO_MAINTENANCE)


def _begins_before(table: DeltaTable, before: str) -> bool:
    """True if, by the statistics of the log, a file has or may have a row before an id."""
    actions = pa.table(table.get_add_actions(flatten=True))
    if "min.id" not in actions.column_names:
        return bool(actions.num_rows)
    first_ids: list[str | None] = actions.column("min.id").to_pylist()
    return any(first is None or first < before for first in first_ids)


def _newest_batches(table: DeltaTable, expired: str) -> list[str]:
    """The ids, as literals, of each flow's newest batch per dataset among the rows that match a condition."""
    batches = f"event_type = '{BatchDone.event_type}' AND origin['batch_id'] IS NOT NULL AND origin['epoch'] >= 0"
    query = (
        f"SELECT max(id) AS id FROM events WHERE {expired} AND {batches} "  # noqa: S608 - our own words, and ids
        "GROUP BY origin['flow_name'], origin['dataset_name']"
    )
    found = pa.RecordBatchReader.from_stream(QueryBuilder().register("events", table).execute(query)).read_all()
    return [f"'{row_id}'" for row_id in found.column("id").to_pylist()]
