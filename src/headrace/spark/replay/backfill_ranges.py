"""Runs a backfill: a stream's query as a batch over an exact range, into the same table, exactly once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import reduce

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from headrace.delta_log.tables import TableState, table_state
from headrace.errors import PipelineError
from headrace.graph.resolved_flows import ResolvedFlow
from headrace.graph.starts import Start, StartKind
from headrace.model.local_path import local_path
from headrace.model.names import QualifiedName
from headrace.plan.backfills import Backfill, FilesRange, TableRange
from headrace.plan.source_retention import Restart, SourceStart
from headrace.runtime.failpoints import Failpoint
from headrace.spark.preparation.restarts import start_epoch
from headrace.spark.queries.batch_mode import SourcePart
from headrace.spark.update.context import UpdateContext
from headrace.storage.backfills import Coverage, finished, range_end_position, store_backfill, versions_with

_VIEW_PREFIX = "headrace_part"


@contextmanager
def open_part(context: UpdateContext, flow: ResolvedFlow, backfill: Backfill) -> Iterator[SourcePart]:
    """Make the ranges of a backfill readable inside the block; a query that was analyzed there can run later.

    Creates temporary views, so backfills must be read one at a time.
    """
    session, dataset_of = context.session, context.catalog.names.dataset_of
    views: dict[QualifiedName, str] = {}
    files = {_normalized_paths(found.paths): found for found in backfill.ranges if isinstance(found, FilesRange)}

    def view_of(text: str) -> str | None:
        name = dataset_of(text)
        return views.get(name) if name is not None else None

    def of_paths(paths: Sequence[str]) -> Sequence[str]:
        range_ = files.get(_normalized_paths(paths))
        if range_ is None:
            raise PipelineError("FLOW.NO_TWIN", what=f"a stream of {', '.join(paths)}")
        return [path for path, _ in range_.files]

    try:
        for number, found in enumerate(backfill.ranges):
            if isinstance(found, TableRange):
                view = f"{_VIEW_PREFIX}_{number}"
                added_rows(session, _table(context, flow, found), found).createOrReplaceTempView(view)
                views[found.dataset] = view
        yield SourcePart(view_of, of_paths)
    finally:
        for view in views.values():
            session.catalog.dropTempView(view)


def _normalized_paths(paths: Sequence[str]) -> tuple[str, ...]:
    return tuple(local_path(path).rstrip("/") for path in paths)


def _table(context: UpdateContext, flow: ResolvedFlow, found: TableRange) -> TableState:
    table = table_state(context.table_path(found.dataset))
    if table is None or table.table_id != found.table_id:
        reason = "the table was replaced or deleted"
        location, range_ = flow.flow.location, found.describe()
        raise PipelineError("BACKFILL.NOT_ADDED", location=location, flow=flow.name, range=range_, reason=reason)
    return table


def added_rows(session: SparkSession, table: TableState, found: TableRange) -> DataFrame:
    """The rows that a range of versions added to a table."""
    if found.whole:
        return _at_version(session, table, found.last)
    name = F.col("_metadata.file_name")
    parts = [
        _at_version(session, table, version).where(name.isin(sorted(files)))
        for version, files in versions_with(table, found).items()
    ]
    if not parts:
        return _at_version(session, table, found.last).limit(0)
    return reduce(lambda one, other: one.unionByName(other, allowMissingColumns=True), parts)


def complete_backfill(context: UpdateContext, flow: ResolvedFlow, backfill: Backfill) -> None:
    """Record that a backfill is done; first start the stream after its range, if the backfill says so.

    After a crash in between, the stream starts there already.
    """
    context.guard.fence()
    positions = [range_end_position(found) for found in backfill.ranges]
    epoch = context.state.progress_of(flow).epoch
    if backfill.stream_starts_after and not Coverage(context.state.checkpoint(flow, epoch)).starts_at(positions):
        behind = Start(StartKind.LATEST)
        start_epoch(context, flow, Restart(behind, tuple(SourceStart("", "", position) for position in positions)))
        context.guard.failpoint(Failpoint.STREAM_REPOSITIONED)
        context.guard.fence()
    store_backfill(context.state.record_file(flow).parent, finished(backfill))


def _at_version(session: SparkSession, table: TableState, version: int) -> DataFrame:
    return session.read.format("delta").option("versionAsOf", version).load(table.path)
