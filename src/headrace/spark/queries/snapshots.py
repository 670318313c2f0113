"""Snapshots as flows are given them: by a function that is asked, or by a dataset under the time of the update."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from pyspark.sql import DataFrame

from headrace.cdc.snapshot_versions import NoVersion, is_later
from headrace.errors import PipelineError
from headrace.model.datasets import Flow, PythonQuery
from headrace.model.names import QualifiedName
from headrace.spark.queries.query_calls import calling
from headrace.spark.update.catalog import Catalog


@dataclass(frozen=True)
class Snapshot:
    """All rows of a source, and which state of it they are."""

    rows: DataFrame
    version: Any


def version_of_update(now_s: float) -> datetime:
    """The version of a snapshot that is taken of a dataset."""
    return datetime.fromtimestamp(now_s, UTC)


def asked(flow: Flow, catalog: Catalog, before: Any, reads: set[QualifiedName] | None = None) -> Snapshot | None:
    """What a flow's function gives as the snapshot after a version; None when there is none.

    Args:
        flow: whose function is asked. It may look at data: that decides what comes next.
        catalog: finds every spelling of the pipeline's names.
        before: the version that was taken last; None when none was.
        reads: gets the names of the pipeline's datasets that the function has read.

    Raises:
        PipelineError: CDC.BAD_SNAPSHOT, CDC.BAD_VERSION, CDC.SNAPSHOT_ORDER; whatever the function raises.
    """
    query = flow.query
    assert isinstance(query, PythonQuery)  # noqa: S101 - there is no SQL for it
    with calling(flow, catalog, resolving=False, reads=reads):
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
    """Nothing, if a version comes after the one that was taken last.

    Raises:
        PipelineError: CDC.SNAPSHOT_ORDER, CDC.BAD_VERSION.
    """
    try:
        later = is_later(version, before)
    except NoVersion as error:
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
