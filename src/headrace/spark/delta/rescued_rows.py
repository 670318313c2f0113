"""How many of the rows that were written have something in their rescued column, taken from Delta's commits."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from headrace.autoloader.source import Source as LoaderSource
from headrace.graph.resolved import ResolvedFlow, SourceKind


def rescued_column(flow: ResolvedFlow) -> str | None:
    """The column of a flow's rows in which Auto Loader rescues; None where none of its columns is one."""
    names = {column.name for column in flow.analysis.schema.columns if json.loads(column.json_type) == "string"}
    for source in flow.analysis.sources:
        if source.kind is SourceKind.AUTO_LOADER:
            column = LoaderSource.from_json(source.detail).plan.rescued_column
            if column in names:
                return column
    return None


def rows_with(column: str | None, actions: Iterable[dict[str, Any]]) -> int | None:
    """In how many of the rows that a commit adds a column is not NULL; None where the commit does not tell.

    Delta notes it for the first columns of a table (``delta.dataSkippingNumIndexedCols``, 32 unless set).
    """
    total = 0
    for action in actions if column is not None else ():
        if "add" not in action:
            continue
        noted = json.loads(action["add"].get("stats") or "{}")
        nulls = noted.get("nullCount", {}).get(column)
        if not isinstance(nulls, int):
            return None
        total += int(noted["numRecords"]) - nulls
    return None if column is None else total
