"""Counts the written rows with a value in the rescued data column, from the statistics in Delta's commits."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from headrace.autoloader.source import Source as LoaderSource
from headrace.graph.analysis import SourceKind
from headrace.graph.resolved_flows import ResolvedFlow


def rescued_column(flow: ResolvedFlow) -> str | None:
    """The rescued data column of a flow's rows; None if it has none."""
    names = {column.name for column in flow.analysis.schema.columns if json.loads(column.json_type) == "string"}
    for source in flow.analysis.sources:
        if source.kind is SourceKind.AUTO_LOADER:
            column = LoaderSource.from_json(source.detail).plan.rescued_column
            if column in names:
                return column
    return None


def count_non_null(column: str | None, actions: Iterable[dict[str, Any]]) -> int | None:
    """In how many rows that a commit adds a column is not NULL; None if the commit lacks the statistics.

    Delta records them for the first columns of a table (``delta.dataSkippingNumIndexedCols``, 32 unless set).
    """
    total = 0
    for action in actions if column is not None else ():
        if "add" not in action:
            continue
        stats = json.loads(action["add"].get("stats") or "{}")
        nulls = stats.get("nullCount", {}).get(column)
        if not isinstance(nulls, int):
            return None
        total += int(stats["numRecords"]) - nulls
    return None if column is None else total
