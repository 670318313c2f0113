"""The analysis of flows that merge changes or snapshots: the columns of the target, and where they come from."""

from __future__ import annotations

from dataclasses import replace

from pyspark.sql import Column, DataFrame

from headrace.cdc.feed import ChangeFeed
from headrace.cdc.scd_spec import SYSTEM_END_AT, SYSTEM_START_AT
from headrace.graph.analysis import Analysis, ChangeAnalysis
from headrace.model.column_lineage import ColumnLineage, ColumnUse, OutputColumn, Use, seen_through, unique
from headrace.model.datasets import Flow
from headrace.spark.analysis.column_lineage import ROWS, expression_uses
from headrace.spark.cdc.change_events import (
    changes_of,
    delete_condition,
    sequence_column,
    set_columns,
    system_column,
    truncate_condition,
)
from headrace.spark.cdc.declaration import target_schema


def change_analysis(flow: Flow, feed: ChangeFeed, source: DataFrame, analysis: Analysis) -> ChangeAnalysis:
    """The analysis of a flow, from that of its source.

    Args:
        flow: the flow.
        feed: how the events of the source become rows.
        source: the rows of the source.
        analysis: of the source.
    """
    columns = _lineage(flow, feed, source, analysis.columns)
    return replace(ChangeAnalysis.of(analysis, feed), schema=target_schema(feed).nullable, columns=columns)


def _lineage(flow: Flow, feed: ChangeFeed, source: DataFrame, columns: ColumnLineage | None) -> ColumnLineage | None:
    """The lineage of the target's columns: those of the source by their names; rows are matched by the keys."""
    if columns is None:
        return None
    known = {column.name for column in columns.columns}
    keys = [ColumnUse(ROWS, name, Use.JOIN) for name in feed.spec.keys]
    order, system, deciding, is_known = _decisions(flow, feed, source)
    targets = [
        OutputColumn(name, (ColumnUse(ROWS, name, Use.IDENTITY),) if name in known else ())
        for name in feed.spec.columns
    ]
    for name in feed.spec.validity_columns:
        uses = system if name in (SYSTEM_START_AT, SYSTEM_END_AT) else order
        targets.append(OutputColumn(name, unique(use.then(Use.TRANSFORMATION) for use in uses)))
    merged = ColumnLineage(tuple(targets), unique([*keys, *deciding]), is_complete=is_known)
    return seen_through(merged, {ROWS: columns}).bounded()


def _decisions(
    flow: Flow, feed: ChangeFeed, source: DataFrame
) -> tuple[tuple[ColumnUse, ...], tuple[ColumnUse, ...], list[ColumnUse], bool]:
    """What orders events, what orders what is known, all that decides about rows; and whether it is known."""
    if flow.changes is None:
        # Snapshots follow each other by their versions, which are no columns.
        return (), (), [], True
    changes = changes_of(flow)
    expressions: list[tuple[Column, Use]] = [
        (sequence_column(flow, feed), Use.SORT),
        (delete_condition(changes, feed), Use.FILTER),
        (truncate_condition(changes, feed), Use.FILTER),
        (set_columns(changes), Use.CONDITIONAL),
        *([(system_column(flow), Use.SORT)] if feed.spec.bitemporal else []),
    ]
    found = expression_uses(source, [column.alias(f"c{number}") for number, (column, _) in enumerate(expressions)])
    if found is None:
        return (), (), [], False
    deciding = [use.then(how) for uses, (_, how) in zip(found, expressions, strict=True) for use in uses]
    return found[0], found[4] if feed.spec.bitemporal else (), deciding, True
