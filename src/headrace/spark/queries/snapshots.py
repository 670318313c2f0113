"""The snapshots of a flow: from a function that is called, or from a dataset, with the update's time as version."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from pyspark.sql import DataFrame

from headrace.cdc.snapshot_versions import InvalidSnapshotVersion, is_later
from headrace.errors import PipelineError
from headrace.model.datasets import Flow, PythonQuery
from headrace.model.names import QualifiedName
from headrace.spark.queries.query_calls import calling
from headrace.spark.update.catalog import Catalog


@dataclass(frozen=True)
class Snapshot:
    """All rows of a source, and the version that they are."""

    rows: DataFrame
    version: Any


def version_of_update(now_s: float) -> datetime:
    """The version of a snapshot of a dataset: the time of the update."""
    return datetime.fromtimestamp(now_s, UTC)


def next_snapshot(
    flow: Flow, catalog: Catalog, before: Any, reads: set[QualifiedName] | None = None
) -> Snapshot | None:
    """The snapshot after a version, from a flow's function; None when there is none.

    Args:
        flow: the flow whose function is called. The function may run actions to find the next version.
        catalog: resolves every spelling of the pipeline's names.
        before: the version of the last snapshot; None when there was none.
        reads: receives the names of the pipeline's datasets that the function reads.

    Raises:
        PipelineError: CDC.BAD_SNAPSHOT, CDC.BAD_VERSION, CDC.SNAPSHOT_ORDER; any error of the function.
    """
    query = flow.query
    assert isinstance(query, PythonQuery)  # noqa: S101 - there is no SQL for it
    with calling(flow, catalog, is_resolving=False, reads=reads):
        found = query.function(before)
    if found is None:
        return None
    if not (isinstance(found, tuple) and len(found) == 2 and isinstance(found[0], DataFrame)):
        given = f"a value of type {type(found).__name__}" if not isinstance(found, tuple) else f"{len(found)} values"
        raise PipelineError("CDC.BAD_SNAPSHOT", location=flow.location, flow=flow.name, given=given)
    snapshot = Snapshot(*found)
    check_order(flow, snapshot.version, before)
    return snapshot


def check_order(flow: Flow, version: Any, before: Any) -> None:
    """Check that a version comes after that of the last snapshot.

    Raises:
        PipelineError: CDC.SNAPSHOT_ORDER, CDC.BAD_VERSION.
    """
    try:
        later = is_later(version, before)
    except InvalidSnapshotVersion as error:
        raise PipelineError("CDC.BAD_VERSION", location=flow.location, flow=flow.name, reason=error) from error
    if not later:
        raise PipelineError(
            "CDC.SNAPSHOT_ORDER",
            location=flow.location,
            flow=flow.name,
            name=flow.target,
            version=version,
            before=before,
        )
