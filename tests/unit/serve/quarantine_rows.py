"""Rows of quarantine tables for tests of pages."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pyarrow as pa
from deltalake import write_deltalake

SECRET = "anna@example.com"
SOURCE = pa.struct(
    [(name, pa.string()) for name in ("file", "topic")]
    + [("partition", pa.int32()), ("offset", pa.int64()), ("version", pa.int64())]
)


def quarantined_row(broken, *, status="open", days=0, flow="orders", file="/data/landing/a.json", mail=SECRET):
    """A row that violated some expectations, a number of days ago."""
    return {
        "row": {"id": 1, "mail": mail},
        "broken": broken,
        "source": {"file": file, "topic": None, "partition": None, "offset": None, "version": None},
        "update_id": "u",
        "flow": flow,
        "epoch": 0,
        "batch_id": 1,
        "quarantined_at": datetime.now(UTC) - timedelta(days=days),
        "status": status,
    }


def quarantine(path, *rows):
    """Write a quarantine table."""
    schema = pa.schema(
        [
            ("row", pa.struct([("id", pa.int64()), ("mail", pa.string())])),
            ("broken", pa.list_(pa.string())),
            ("source", SOURCE),
            *((name, pa.string()) for name in ("update_id", "flow")),
            ("epoch", pa.int32()),
            ("batch_id", pa.int64()),
            ("quarantined_at", pa.timestamp("us", "UTC")),
            ("status", pa.string()),
        ]
    )
    write_deltalake(path, pa.Table.from_pylist([*rows], schema))
