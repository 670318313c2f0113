"""The open rows of a quarantine, counted by flow; read without a JVM."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass

import pyarrow as pa

from headrace.delta_log.tables import open_table, query_rows


@dataclass(frozen=True)
class OpenQuarantine:
    """The open rows of a quarantine version: their number by the flow's identity, and the columns of a row."""

    version: int
    rows: dict[str, int]
    columns: tuple[str, ...]


def read_open_quarantine(path: str, rules: Collection[str]) -> OpenQuarantine | None:
    """The open rows of a quarantine: all, or those that violated one of *rules*; None without a table."""
    table = open_table(path)
    if table is None:
        return None
    found = query_rows(table, "SELECT flow, broken FROM q WHERE status = 'open'")
    flows = Counter(row["flow"] for row in found if not rules or set(row["broken"] or ()) & set(rules))
    row_type = pa.schema(table.schema().to_arrow()).field("row").type
    names = tuple(row_type.field(number).name for number in range(row_type.num_fields))
    return OpenQuarantine(table.version(), dict(flows), names)
