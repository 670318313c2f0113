"""The dead letters of a flow: rows that it could not process or deliver, in a Delta table next to its checkpoints.

Rows that the query failed on are stored as the source has them; rows that a sink rejected, as the query returned them.

A batch that is repeated replaces the dead letters that it stored before.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import reduce
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable, write_deltalake

from headrace.delta_log.tables import open_table, sql_literal
from headrace.storage.dead_letter_tables import dead_letter_table
from headrace.stores.connections import delta_options
from headrace.stores.delta_tables import open_delta
from headrace.stores.paths import StoragePath

OPEN = "open"
# A predicate with tens of thousands of ids overflows the stack of its parser.
_MOST_IDS = 500
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
class DeadLetter:
    """A row that a flow could not process or deliver.

    Attributes:
        row: the row as JSON; binary columns are in base64.
        error: the error of the query or the sink.
        condition: the error condition, if it has one.
        source: the row's origin, if known: ``file``, or ``topic``, ``partition`` and ``offset``.
        input: the number of the streaming source that it comes from, counted from 0.
    """

    row: str
    error: str
    condition: str | None
    source: Mapping[str, Any]
    input: int = 0


@dataclass(frozen=True)
class DeadLetterBatch:
    """The batch that dead letters belong to.

    ``sink`` rejected the rows; None if the flow's query failed. ``whole`` means that they are all rows of the batch,
    because the failing ones could not be identified.
    """

    flow: str
    epoch: int
    batch_id: int
    update_id: str
    at: datetime
    sink: str | None = None
    whole: bool = False


def write_dead_letters(
    folder: StoragePath, batch: DeadLetterBatch, rows: Sequence[DeadLetter], fence: Callable[[], None]
) -> None:
    """Store the dead letters of a batch, replacing those of an earlier attempt.

    Args:
        folder: the flow's folder, with its record.
        batch: the batch.
        rows: its dead letters; empty when this attempt has none.
        fence: returns while this update may commit. If another update commits after that, this commit fails and
            replaces nothing.
    """
    path = dead_letter_table(folder)
    table = open_table(path)
    if table is None and not rows:
        return
    stored = [_stored(row, batch, number) for number, row in enumerate(rows)]
    data = pa.Table.from_pylist(stored, schema=_SCHEMA)
    fence()
    if table is not None:
        whose = "sink IS NULL" if batch.sink is None else f"sink = {sql_literal(batch.sink)}"
        own_rows = f"epoch = {int(batch.epoch)} AND batch_id = {int(batch.batch_id)} AND {whose}"
        write_deltalake(table, data, mode="overwrite", predicate=own_rows, schema_mode="merge")
    else:
        write_deltalake(path, data, mode="error", storage_options=delta_options(path))


def count_failed_rows(folder: StoragePath, epoch: int, batch_id: int) -> int:
    """How many rows of a batch are stored because the query failed on them."""
    table = open_table(dead_letter_table(folder))
    if table is None:
        return 0
    own_rows = (pc.field("epoch") == epoch) & (pc.field("batch_id") == batch_id) & pc.field("sink").is_null()
    return int(table.to_pyarrow_dataset().count_rows(filter=own_rows))


def count_rejected_rows(folder: StoragePath, epoch: int, batch_id: int) -> int:
    """How many rows of a batch are stored because a sink rejected them; a row that several rejected counts once."""
    table = open_table(dead_letter_table(folder))
    if table is None:
        return 0
    own_rows = (pc.field("epoch") == epoch) & (pc.field("batch_id") == batch_id) & pc.field("sink").is_valid()
    rows = table.to_pyarrow_dataset().to_table(columns=["sink", "row"], filter=own_rows).to_pylist()
    by_sink = {sink: Counter(row["row"] for row in rows if row["sink"] == sink) for sink in {r["sink"] for r in rows}}
    return sum(reduce(Counter.__or__, by_sink.values(), Counter()).values())


def whole_batches(folder: StoragePath, epoch: int, sink: str | None) -> frozenset[int]:
    """The numbers of an epoch's batches that are stored as a whole and still open.

    Args:
        folder: the flow's folder.
        epoch: the epoch of the batches.
        sink: the sink that failed on them; None for the flow's query.
    """
    table = open_table(dead_letter_table(folder))
    if table is None or "whole" not in {field.name for field in table.schema().fields}:
        return frozenset()
    of_sink = pc.field("sink").is_null() if sink is None else pc.field("sink") == sink
    condition = (pc.field("status") == OPEN) & (pc.field("epoch") == epoch) & pc.field("whole") & of_sink
    found = table.to_pyarrow_dataset().to_table(columns=["batch_id"], filter=condition)
    return frozenset(found.column("batch_id").unique().to_pylist())


@dataclass(frozen=True)
class StoredDeadLetter:
    """A stored dead letter: its id, the row as the source has it, the number of that source, and its batch.

    If ``sink`` rejected the row, it is as the query returned it.
    """

    id: str
    row: str
    input: int
    sink: str | None = None
    epoch: int = 0
    batch_id: int = 0


def read_dead_letters(
    folder: StoragePath,
    ids: Collection[str] = (),
    *,
    from_sinks: bool = False,
    batch: tuple[int, int] | None = None,
    exclude: tuple[int, int] | None = None,
) -> list[StoredDeadLetter]:
    """The open dead letters of a flow's query, oldest first.

    Args:
        folder: the flow's folder.
        ids: read these instead, whatever their status.
        from_sinks: read those that sinks rejected instead.
        batch: only those of this epoch and batch.
        exclude: not those of this epoch and batch, such as an unfinished one that will be repeated.
    """
    table = open_table(dead_letter_table(folder))
    if table is None:
        return []
    wanted = ["id", "row", "input", "sink", "epoch", "batch_id"]
    of_sink = pc.field("sink").is_valid() if from_sinks else pc.field("sink").is_null()
    condition = pc.field("id").isin(list(ids)) if ids else (pc.field("status") == OPEN) & of_sink
    if batch is not None:
        condition &= (pc.field("epoch") == batch[0]) & (pc.field("batch_id") == batch[1])
    if exclude is not None:
        condition &= (pc.field("epoch") != exclude[0]) | (pc.field("batch_id") != exclude[1])
    found = table.to_pyarrow_dataset().to_table(columns=wanted, filter=condition).to_pylist()
    ordered = sorted(found, key=lambda row: (row["epoch"], row["batch_id"], int(row["id"].rpartition("-")[2])))
    return [StoredDeadLetter(**{name: row[name] for name in wanted}) for row in ordered]


def has_dead_letters(folder: StoragePath) -> bool:
    """True when the flow ever had dead letters."""
    return open_table(dead_letter_table(folder)) is not None


def set_dead_letter_status(folder: StoragePath, ids: Collection[str], status: str) -> None:
    """Change the status of dead letters."""
    if ids:
        # A predicate with tens of thousands of ids overflows the stack of its parser.
        wanted = pa.table({"id": pa.array(sorted(ids), pa.string())})
        merge = open_delta(dead_letter_table(folder)).merge(
            wanted, "stored.id = wanted.id", source_alias="wanted", target_alias="stored"
        )
        merge.when_matched_update({"status": sql_literal(status)}).execute()


def delete_dead_letters(folder: StoragePath, epoch: int, fence: Callable[[], None]) -> None:
    """Delete the dead letters of an epoch and those before it."""
    table = open_table(dead_letter_table(folder))
    fence()
    if table is not None:
        table.delete(f"epoch <= {int(epoch)}")


def matching_dead_letters(folder: StoragePath, matches: Callable[[str], bool]) -> list[str]:
    """The ids of a flow's dead letters whose record matches, whatever their status.

    Their errors do not count: all rows of a batch may have the same one.
    """
    table = open_table(dead_letter_table(folder))
    if table is None:
        return []
    stored = table.to_pyarrow_dataset().to_table(columns=["id", "row"]).to_pylist()
    return [row["id"] for row in stored if matches(row["row"])]


def erase_dead_letters(folder: StoragePath, ids: Sequence[str], fence: Callable[[], None]) -> None:
    """Delete dead letters by their ids."""
    for first in range(0, len(ids), _MOST_IDS):
        listed = ", ".join(map(sql_literal, ids[first : first + _MOST_IDS]))
        fence()
        open_delta(dead_letter_table(folder)).delete(f"id IN ({listed})")


def count_errors(folder: StoragePath, clean: Callable[[str], str], erased: Collection[str]) -> int:
    """The number of dead letters whose errors :func:`clean_errors` would change, without some ids."""
    table = open_table(dead_letter_table(folder))
    if table is None:
        return 0
    changed, ids = _cleaned_errors(table, clean), set(erased)
    stored = table.to_pyarrow_dataset().to_table(columns=["id", "error"]).to_pylist()
    return sum(row["error"] in changed and row["id"] not in ids for row in stored)


def clean_errors(folder: StoragePath, clean: Callable[[str], str], fence: Callable[[], None]) -> None:
    """Clean the errors of a flow's dead letters; the rows stay."""
    table = open_table(dead_letter_table(folder))
    changed = {} if table is None else _cleaned_errors(table, clean)
    if table is None or not changed:
        return
    wanted = pa.table({"error": list(changed), "cleaned": list(changed.values())})
    fence()
    merge = table.merge(wanted, "stored.error = wanted.error", source_alias="wanted", target_alias="stored")
    merge.when_matched_update({"error": "wanted.cleaned"}).execute()


def _cleaned_errors(table: DeltaTable, clean: Callable[[str], str]) -> dict[str, str]:
    """The errors that change, with what they become."""
    errors = table.to_pyarrow_dataset().to_table(columns=["error"]).column("error").unique().to_pylist()
    cleaned = {error: clean(error) for error in errors if error}
    return {error: new for error, new in cleaned.items() if new != error}


def _stored(row: DeadLetter, batch: DeadLetterBatch, number: int) -> dict[str, Any]:
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
