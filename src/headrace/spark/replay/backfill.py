"""Runs a load: a stream's query as a batch over an exact range, into the same table, exactly once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import reduce

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from headrace.delta_log.tables import TableState, table_state
from headrace.errors import PipelineError
from headrace.graph.resolved import ResolvedFlow
from headrace.graph.starts import Start, StartKind
from headrace.model.local_path import local_path
from headrace.model.names import QualifiedName
from headrace.plan.backfills import FilesRange, Load, TableRange
from headrace.plan.source_retention import Restart, SourceStart
from headrace.runtime.failpoints import Failpoint
from headrace.spark.preparation.restarts import begin_epoch
from headrace.spark.queries.batch_mode import Part
from headrace.spark.update.context import UpdateContext
from headrace.storage.backfills import Coverage, finished, position_behind, store_load, versions_with

_VIEW_PREFIX = "headrace_part"


@contextmanager
def part_of(context: UpdateContext, flow: ResolvedFlow, load: Load) -> Iterator[Part]:
    """The ranges of a load, ready to be read inside the block; a query that was analyzed there can be run later.

    Makes temporary views, so flows must be loaded one at a time.
    """
    session, name_behind = context.session, context.catalog.names.name_behind
    views: dict[QualifiedName, str] = {}
    files = {_told_apart(found.paths): found for found in load.ranges if isinstance(found, FilesRange)}

    def view_of(text: str) -> str | None:
        name = name_behind(text)
        return views.get(name) if name is not None else None

    def of_paths(paths: Sequence[str]) -> Sequence[str]:
        range_ = files.get(_told_apart(paths))
        if range_ is None:
            raise PipelineError("FLOW.NO_TWIN", what=f"a stream of {', '.join(paths)}")
        return [path for path, _ in range_.files]

    try:
        for number, found in enumerate(load.ranges):
            if isinstance(found, TableRange):
                view = f"{_VIEW_PREFIX}_{number}"
                rows_of(session, _table(context, flow, found), found).createOrReplaceTempView(view)
                views[found.dataset] = view
        yield Part(view_of, of_paths)
    finally:
        for view in views.values():
            session.catalog.dropTempView(view)


def _told_apart(paths: Sequence[str]) -> tuple[str, ...]:
    return tuple(local_path(path).rstrip("/") for path in paths)


def _table(context: UpdateContext, flow: ResolvedFlow, found: TableRange) -> TableState:
    table = table_state(context.table_path(found.dataset))
    if table is None or table.table_id != found.table_id:
        reason = "the table was replaced or deleted"
        place, range_ = flow.flow.location, found.describe()
        raise PipelineError("BACKFILL.NOT_ADDED", location=place, flow=flow.name, range=range_, reason=reason)
    return table


def rows_of(session: SparkSession, table: TableState, found: TableRange) -> DataFrame:
    """The rows that a range of versions has added to a table."""
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


def complete_load(context: UpdateContext, flow: ResolvedFlow, load: Load) -> None:
    """Let the stream begin behind a load that is in the table, where it is to, and record that the load is done.

    A crash may have come in between, so that the stream begins there already.
    """
    context.fence()
    positions = [position_behind(found) for found in load.ranges]
    epoch = context.state.progress_of(flow).epoch
    if load.fences and not Coverage(context.state.checkpoint(flow, epoch)).begins_at(positions):
        behind = Start(StartKind.LATEST)
        begin_epoch(context, flow, Restart(behind, tuple(SourceStart("", "", position) for position in positions)))
        context.at(Failpoint.FENCED)
        context.fence()
    store_load(context.state.record_file(flow).parent, finished(load))


def _at_version(session: SparkSession, table: TableState, version: int) -> DataFrame:
    return session.read.format("delta").option("versionAsOf", version).load(table.path)
