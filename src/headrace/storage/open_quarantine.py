"""Which rows of a table are set aside and open, by the flow that brought them; read without a JVM."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass

import pyarrow as pa

from headrace.delta_log.tables import open_table, queried


@dataclass(frozen=True)
class Aside:
    """What is open in a version of a quarantine: rows by the identity of their flow, and the columns of a row."""

    version: int
    rows: dict[str, int]
    columns: tuple[str, ...]


def set_aside(path: str, rules: Collection[str]) -> Aside | None:
    """What is open in a quarantine: all rows, or those that broke one of *rules*; None where there is no table."""
    table = open_table(path)
    if table is None:
        return None
    found = queried(table, "SELECT flow, broken FROM q WHERE status = 'open'")
    flows = Counter(row["flow"] for row in found if not rules or set(row["broken"] or ()) & set(rules))
    row_type = pa.schema(table.schema().to_arrow()).field("row").type
    names = tuple(row_type.field(number).name for number in range(row_type.num_fields))
    return Aside(table.version(), dict(flows), names)
