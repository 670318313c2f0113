"""Runs a load: a stream's query as a batch over an exact range, into the same table, exactly once."""

from __future__ import annotations

from functools import reduce

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from headrace.checkpoints.delta_log import TableState, table_state
from headrace.checkpoints.loads import added_files, finished, position_behind, store_load
from headrace.graph.resolved import ResolvedFlow
from headrace.graph.starts import Start, StartKind
from headrace.plan.loads import FilesRange, Load, TableRange
from headrace.plan.reach import Restart, SourceStart
from headrace.runtime.seam import Point
from headrace.spark.restarts import begin_epoch
from headrace.spark.surroundings import Surroundings
from headrace.spark.twin import Part

_VIEW_PREFIX = "headrace_part"


def part_of(around: Surroundings, load: Load) -> Part:
    """The ranges of a load, ready to be read; makes temporary views, so flows must be loaded one at a time."""
    session, name_behind = around.session, around.catalog.names.name_behind
    views = {}
    for number, found in enumerate(load.ranges):
        if isinstance(found, TableRange):
            table = table_state(around.table_path(found.dataset))
            assert table is not None  # noqa: S101 - the planner has looked at it
            view = f"{_VIEW_PREFIX}_{number}"
            rows_of(session, table, found).createOrReplaceTempView(view)
            views[found.dataset] = view
    files = [found for found in load.ranges if isinstance(found, FilesRange)]

    def view_of(text: str) -> str | None:
        name = name_behind(text)
        return views.get(name) if name is not None else None

    return Part(view_of, lambda _paths: [path for found in files for path, _ in found.files])


def rows_of(session: SparkSession, table: TableState, found: TableRange) -> DataFrame:
    """The rows that a range of versions has added to a table."""
    newest = _at_version(session, table, found.last)
    if found.whole:
        return newest
    added = added_files(table, found)
    names = frozenset[str]().union(*added.values())
    there = {row.name for row in newest.select(F.col("_metadata.file_name").alias("name")).distinct().collect()}
    # Files that were put together with others since are read from the versions that added them.
    older = [
        _in_files(_at_version(session, table, version), files - there)
        for version, files in added.items()
        if files - there
    ]
    return reduce(
        lambda one, other: one.unionByName(other, allowMissingColumns=True), older, _in_files(newest, names & there)
    )


def complete_load(around: Surroundings, flow: ResolvedFlow, load: Load) -> None:
    """Let the stream begin behind a load that is in the table, where it is to, and record that the load is done."""
    if load.fences:
        behind = Start(StartKind.LATEST)
        starts = tuple(SourceStart("", "", position_behind(found)) for found in load.ranges)
        begin_epoch(around, flow, Restart(behind, starts))
        around.at(Point.FENCED)
    store_load(around.state.record_file(flow).parent, finished(load))


def _at_version(session: SparkSession, table: TableState, version: int) -> DataFrame:
    return session.read.format("delta").option("versionAsOf", version).load(table.path)


def _in_files(frame: DataFrame, names: frozenset[str]) -> DataFrame:
    return frame.where(F.col("_metadata.file_name").isin(sorted(names)))
