"""Row counts from Delta's commits, for streams that Spark writes itself and after a crash (D3)."""

from __future__ import annotations

import json
from collections.abc import Container, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from headrace.cdc.feed import MergePath
from headrace.cdc.merge_commit import WritePath, merge_summary_of
from headrace.delta_log.tables import commit_actions, newest_version, open_table, query_rows, sql_literal
from headrace.model.batch_commit import BatchCommit
from headrace.model.outcome import ChangeCounts
from headrace.spark.delta.rescued_rows import count_non_null

# Other flows and compaction may commit between a batch and the search for its commit.
_RECENT_COMMITS = 20


@dataclass(frozen=True)
class StreamCommit:
    """A batch that a native stream committed."""

    commit: BatchCommit
    batch_id: int
    rows: int
    rescued: int | None = None

    @property
    def version(self) -> int:
        """The version of the table that it made."""
        return self.commit.version


def stream_commits(
    path: str, query_id: str, first: int, last: int, rescued_column: str | None = None
) -> Iterator[StreamCommit]:
    """The batches of one query among the commits from version *first* to *last*, in order."""
    for version in range(first, last + 1):
        actions = commit_actions(path, version)
        info = _commit_info(actions)
        parameters = info.get("operationParameters", {})
        if parameters.get("queryId") == query_id:
            rescued = count_non_null(rescued_column, actions or ())
            commit = BatchCommit.of(version, actions or ())
            yield StreamCommit(commit, int(parameters["epochId"]), _output_rows(info), rescued)


def rows_of_transaction(path: str, app_id: str, txn_version: int) -> int | None:
    """The number of rows that the commit with this transaction id wrote; None if the log no longer has it."""
    actions = actions_of_transaction(path, app_id, txn_version)
    return None if actions is None else _output_rows(_commit_info(actions))


def actions_of_transaction(path: str, app_id: str, txn_version: int) -> list[dict[str, Any]] | None:
    """The actions of the commit with this transaction id; None if the log no longer has it."""
    found = _commit_of(path, app_id, txn_version)
    return None if found is None else found[1]


def user_metadata(path: str, app_id: str, txn_version: int) -> dict[str, Any]:
    """The user metadata of the commit with this transaction id; empty if it is not a JSON object."""
    text = _commit_info(actions_of_transaction(path, app_id, txn_version)).get("userMetadata") or "{}"
    with suppress(ValueError):
        metadata = json.loads(text)
        return metadata if isinstance(metadata, dict) else {}
    return {}


def version_of_transaction(path: str, app_id: str, txn_version: int) -> int | None:
    """The table version that the commit with this transaction id made; None if the log no longer has it."""
    found = _commit_of(path, app_id, txn_version)
    return None if found is None else found[0]


def recent_commit(path: str, app_ids: Container[str | None], txn_version: int) -> BatchCommit | None:
    """The commit of a transaction of one of several applications; None if it is not among the newest."""
    newest = newest_version(path)
    for version in range(newest, max(newest - _RECENT_COMMITS, -1), -1):
        actions = commit_actions(path, version)
        if actions is None:
            return None
        transactions = (action["txn"] for action in actions if "txn" in action)
        if any(txn.get("appId") in app_ids and txn.get("version") == txn_version for txn in transactions):
            return BatchCommit.of(version, actions)
    return None


def _commit_of(path: str, app_id: str, txn_version: int) -> tuple[int, list[dict[str, Any]]] | None:
    for version in range(newest_version(path), -1, -1):
        actions = commit_actions(path, version)
        if actions is None:
            return None
        if any(_is_transaction(action, app_id, txn_version) for action in actions):
            return version, actions
    return None


@dataclass(frozen=True)
class MergedRows:
    """The counts of a commit whose operation is MERGE.

    Attributes:
        upserted: the number of rows that were inserted or updated.
        deleted: the number of rows that were deleted.
        path: the merge path that it took; None if unknown.
        written: how it was written; None if unknown.
        changes: what became of its change events; None if it had none.
    """

    upserted: int
    deleted: int
    path: MergePath | None
    written: WritePath | None
    changes: ChangeCounts | None


def merged_rows(path: str, app_id: str, txn_version: int) -> MergedRows | None:
    """The counts of the merge with this transaction id; None if the log no longer has it.

    Source: the metrics of ``MergeIntoCommand`` in the commit's ``operationMetrics``.
    """
    info = _commit_info(actions_of_transaction(path, app_id, txn_version))
    metrics = info.get("operationMetrics", {})
    if "numTargetRowsInserted" not in metrics:
        return None
    names = ("numTargetRowsInserted", "numTargetRowsUpdated", "numTargetRowsDeleted")
    inserted, updated, deleted = (int(metrics.get(name, 0)) for name in names)
    merged = merge_summary_of(info.get("userMetadata"))
    if merged is None:
        return MergedRows(inserted + updated, deleted, None, None, None)
    versions = inserted if merged.versions else None
    changes = None if merged.counts is None else replace(merged.counts, new_versions=versions)
    return MergedRows(inserted + updated, deleted, merged.merge_path, merged.write_path, changes)


def quarantined_rows(path: str, flow: str, epoch: int, batch_id: int) -> int:
    """The number of rows of a batch in a quarantine table."""
    table = open_table(path)
    if table is None:
        return 0
    own_rows = f"flow = {sql_literal(flow)} AND epoch = {int(epoch)} AND batch_id = {int(batch_id)}"
    (found,) = query_rows(table, f"SELECT count(*) AS n FROM q WHERE {own_rows}")  # noqa: S608 - numbers and a quoted text
    return int(found["n"])


def _is_transaction(action: dict[str, Any], app_id: str, txn_version: int) -> bool:
    txn = action.get("txn", {})
    return bool(txn.get("appId") == app_id and txn.get("version") == txn_version)


def _commit_info(actions: list[dict[str, Any]] | None) -> dict[str, Any]:
    return next((dict(action["commitInfo"]) for action in actions or () if "commitInfo" in action), {})


def _output_rows(info: dict[str, Any]) -> int:
    return int(info.get("operationMetrics", {}).get("numOutputRows", 0))
