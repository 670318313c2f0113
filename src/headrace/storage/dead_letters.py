"""Rows that a flow does without, in a small Delta table beside its checkpoints.

Its query has failed with them, and they are as their source has them; or a sink has refused them, and they are as the
query has returned them.

A batch that comes again puts its rows in the place of those that it has left before.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import reduce
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable, write_deltalake

from headrace.delta_log.tables import literal, open_table

_FOLDER = "failing_rows"
OPEN = "open"
# As the name of a rule stands for rows that broke it.
QUERY_FAILED = "query.failed"
SINK_REFUSED = "sink.refused"
_SOURCE = pa.struct(
    [
        ("file", pa.string()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("version", pa.int64()),
    ]
)
_SCHEMA = pa.schema(
    [
        ("id", pa.string()),
        ("row", pa.string()),
        ("error", pa.string()),
        ("condition", pa.string()),
        ("input", pa.int32()),
        ("sink", pa.string()),
        ("source", _SOURCE),
        ("update_id", pa.string()),
        ("flow", pa.string()),
        ("epoch", pa.int32()),
        ("batch_id", pa.int64()),
        ("quarantined_at", pa.timestamp("us", "UTC")),
        ("status", pa.string()),
        # Tables of earlier versions lack it.
        ("whole", pa.bool_()),
    ]
)


@dataclass(frozen=True)
class FailingRow:
    """A row that a flow does without.

    Attributes:
        row: as JSON; binary columns are in base64.
        error: what the query raises, or the sink says.
        condition: of that, if it has one.
        source: where it comes from, as far as it is known: ``file``, or ``topic``, ``partition`` and ``offset``.
        input: which of the sources that the query streams it comes from, counted from 0.
    """

    row: str
    error: str
    condition: str | None
    source: Mapping[str, Any]
    input: int = 0


@dataclass(frozen=True)
class OfBatch:
    """Whose rows they are.

    ``sink`` is the one that has refused them, None where the flow's query has failed; ``whole`` means that they are all
    that the batch has, because nobody knows which of them are to blame.
    """

    flow: str
    epoch: int
    batch_id: int
    update_id: str
    at: datetime
    sink: str | None = None
    whole: bool = False


def failing_rows_table(folder: Path) -> str:
    """The table of the flow with this folder; it may not be there."""
    return str(folder / _FOLDER)


def keep_failing(folder: Path, batch: OfBatch, rows: Sequence[FailingRow], fence: Callable[[], None]) -> None:
    """Store the failing rows of a batch, in the place of those that an earlier try of it has left.

    Args:
        folder: of the flow, in which its record lies.
        batch: which one.
        rows: none where it has none any more.
        fence: returns while this update may commit; what another one has stored since it was asked is not replaced, the
            commit fails.
    """
    path = failing_rows_table(folder)
    table = open_table(path)
    if table is None and not rows:
        return
    stored = [_stored(row, batch, number) for number, row in enumerate(rows)]
    data = pa.Table.from_pylist(stored, schema=_SCHEMA)
    fence()
    if table is not None:
        whose = "sink IS NULL" if batch.sink is None else f"sink = {literal(batch.sink)}"
        mine = f"epoch = {int(batch.epoch)} AND batch_id = {int(batch.batch_id)} AND {whose}"
        write_deltalake(table, data, mode="overwrite", predicate=mine, schema_mode="merge")
    else:
        write_deltalake(path, data, mode="error")


def failing_of_batch(folder: Path, epoch: int, batch_id: int) -> int:
    """How many rows of a batch are stored that the query has failed with."""
    table = open_table(failing_rows_table(folder))
    if table is None:
        return 0
    mine = (pc.field("epoch") == epoch) & (pc.field("batch_id") == batch_id) & pc.field("sink").is_null()
    return int(table.to_pyarrow_dataset().count_rows(filter=mine))


def refused_of_batch(folder: Path, epoch: int, batch_id: int) -> int:
    """How many rows of a batch are stored that some sink has refused; one that several have refused counts once."""
    table = open_table(failing_rows_table(folder))
    if table is None:
        return 0
    mine = (pc.field("epoch") == epoch) & (pc.field("batch_id") == batch_id) & pc.field("sink").is_valid()
    rows = table.to_pyarrow_dataset().to_table(columns=["sink", "row"], filter=mine).to_pylist()
    by_sink = {sink: Counter(row["row"] for row in rows if row["sink"] == sink) for sink in {r["sink"] for r in rows}}
    return sum(reduce(Counter.__or__, by_sink.values(), Counter()).values())


def whole_batches(folder: Path, epoch: int, sink: str | None) -> frozenset[int]:
    """The numbers of the batches of an epoch that are set aside as a whole, and wait.

    Args:
        folder: of the flow.
        epoch: of the batches.
        sink: that has failed with them; None for the flow's query.
    """
    table = open_table(failing_rows_table(folder))
    if table is None or "whole" not in {field.name for field in table.schema().fields}:
        return frozenset()
    of_sink = pc.field("sink").is_null() if sink is None else pc.field("sink") == sink
    meant = (pc.field("status") == OPEN) & (pc.field("epoch") == epoch) & pc.field("whole") & of_sink
    found = table.to_pyarrow_dataset().to_table(columns=["batch_id"], filter=meant)
    return frozenset(found.column("batch_id").unique().to_pylist())


@dataclass(frozen=True)
class StoredRow:
    """A row that waits: its id, as its source has it, which of the query's sources that is, and of which batch it was.

    One that a sink has refused is as the query has returned it, and ``sink`` is that one.
    """

    id: str
    row: str
    input: int
    sink: str | None = None
    epoch: int = 0
    batch_id: int = 0


def stored_failing_rows(
    folder: Path,
    ids: Collection[str] = (),
    *,
    refused: bool = False,
    batch: tuple[int, int] | None = None,
    but: tuple[int, int] | None = None,
) -> list[StoredRow]:
    """The rows of a flow that its query has failed with and that wait, oldest first.

    Args:
        folder: of the flow.
        ids: those with these ids instead, whatever they wait for.
        refused: those that sinks have refused instead.
        batch: only those of an epoch and a batch.
        but: not those of an epoch and a batch, such as one that is not done and comes again.
    """
    table = open_table(failing_rows_table(folder))
    if table is None:
        return []
    wanted = ["id", "row", "input", "sink", "epoch", "batch_id"]
    of_sink = pc.field("sink").is_valid() if refused else pc.field("sink").is_null()
    meant = pc.field("id").isin(list(ids)) if ids else (pc.field("status") == OPEN) & of_sink
    if batch is not None:
        meant &= (pc.field("epoch") == batch[0]) & (pc.field("batch_id") == batch[1])
    if but is not None:
        meant &= (pc.field("epoch") != but[0]) | (pc.field("batch_id") != but[1])
    found = table.to_pyarrow_dataset().to_table(columns=wanted, filter=meant).to_pylist()
    ordered = sorted(found, key=lambda row: (row["epoch"], row["batch_id"], int(row["id"].rpartition("-")[2])))
    return [StoredRow(**{name: row[name] for name in wanted}) for row in ordered]


def failing_rows_kept(folder: Path) -> bool:
    """True when rows of a flow were ever set aside here."""
    return open_table(failing_rows_table(folder)) is not None


def mark_failing(folder: Path, ids: Collection[str], status: str) -> None:
    """Give rows another status."""
    if ids:
        # A predicate with tens of thousands of ids is more than its parser's stack has room for.
        wanted = pa.table({"id": pa.array(sorted(ids), pa.string())})
        merge = DeltaTable(failing_rows_table(folder)).merge(
            wanted, "stored.id = wanted.id", source_alias="wanted", target_alias="stored"
        )
        merge.when_matched_update({"status": literal(status)}).execute()


def clear_failing(folder: Path, epoch: int, fence: Callable[[], None]) -> None:
    """Leave no rows of an epoch or those before it."""
    table = open_table(failing_rows_table(folder))
    fence()
    if table is not None:
        table.delete(f"epoch <= {int(epoch)}")


def _stored(row: FailingRow, batch: OfBatch, number: int) -> dict[str, Any]:
    source = {field.name: row.source.get(field.name) for field in _SOURCE}
    return {
        "id": f"{batch.epoch}-{batch.batch_id}{'' if batch.sink is None else f'-{batch.sink}'}-{number}",
        "row": row.row,
        "error": row.error,
        "condition": row.condition,
        "input": row.input,
        "sink": batch.sink,
        "source": source if any(value is not None for value in source.values()) else None,
        "update_id": batch.update_id,
        "flow": batch.flow,
        "epoch": batch.epoch,
        "batch_id": batch.batch_id,
        "quarantined_at": batch.at,
        "status": OPEN,
        "whole": batch.whole,
    }
