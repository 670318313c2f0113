"""Which rows of a table are set aside and open, by the flow that brought them; read without a JVM."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from headrace.checkpoints.delta_log import open_table


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
    dataset = table.to_pyarrow_dataset()
    found = dataset.to_table(columns=["flow", "broken"], filter=pc.field("status") == "open")
    flows = [row["flow"] for row in found.to_pylist() if not rules or set(row["broken"] or ()) & set(rules)]
    row_type = dataset.schema.field("row").type
    names = tuple(row_type.field(number).name for number in range(row_type.num_fields))
    counts = pa.array(flows, pa.string()).value_counts().to_pylist()
    return Aside(table.version(), {one["values"]: one["counts"] for one in counts}, names)
