"""The tables of the demo as Arrow has them."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
from deltalake import DeltaTable, QueryBuilder


def rows_of(folder: Path, table: str) -> pa.Table:
    """All rows of a table of the project in a folder, which may have deletion vectors."""
    found = DeltaTable(folder / "storage" / "tables" / "default" / table)
    return pa.table(QueryBuilder().register("found", found).execute("SELECT * FROM found").read_all())
