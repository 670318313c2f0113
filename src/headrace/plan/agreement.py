"""Checks that the stores of a flow's progress agree. Pure: takes values, returns a disagreement or None.

A flow's progress is in several stores: the offsets in its checkpoint, the transactions in its table, the records of its
sinks, the event log, and its own record. One of them may be a restored copy, or lack the last writes after a loss of
power. The law: *offsets never go backwards, and transactions never run ahead of them unnoticed*. A batch is planned
before anything is written, so no store knows a batch that the checkpoint does not know; and the batch before the newest
planned one is in the table. Otherwise the next batch would be mistaken for an existing one, or rows are missing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

NONE = -1
# The name of a table that the flow reads.
SOURCE = "source"


@dataclass(frozen=True)
class KnownBatches:
    """The newest batch of a flow's epoch in each store; -1 for none.

    Attributes:
        epoch: the epoch in the flow's record.
        newest_epoch: the newest epoch with a batch in the event log.
        planned: the newest batch in the offset log of the checkpoint.
        done: the newest completed batch. All batches before the newest planned one are, as Spark continues from there.
        committed: the newest batch in the table; None if that cannot be known, as for a sink.
        reported: the newest batch in other stores, by name of the store: a sink's record, the event log.
    """

    epoch: int = 0
    newest_epoch: int = NONE
    planned: int = NONE
    done: int = NONE
    committed: int | None = None
    reported: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class KnownTable:
    """A table that a flow writes to or reads.

    Attributes:
        name: its role for the flow.
        path: its path.
        known_version: the version that the flow has read or written.
        current_version: its newest version; -1 if it is missing or was replaced.
    """

    name: str
    path: str
    known_version: int
    current_version: int


@dataclass(frozen=True)
class Disagreement:
    """Stores of a flow that do not agree.

    Attributes:
        code: of the error that names the store that is missing or too old.
        params: of that error: the state of the stores.
    """

    code: str
    params: Mapping[str, str]


def newest_known(batches: KnownBatches) -> int:
    """The newest batch in any store except the offset log of the checkpoint; -1 for none."""
    return max(NONE if batches.committed is None else batches.committed, batches.done, *batches.reported.values(), NONE)


def find_disagreement(batches: KnownBatches, tables: Iterable[KnownTable] = ()) -> Disagreement | None:
    """The disagreement between the stores of a flow in one epoch; None if the flow can continue.

    Args:
        batches: the newest batches by store.
        tables: the tables that the flow has written or read.
    """
    if batches.newest_epoch > batches.epoch:
        params = {"epoch": str(batches.epoch), "newest": str(batches.newest_epoch)}
        return Disagreement("FLOW.RECORD_OLD", params)
    ahead = {"the table": NONE if batches.committed is None else batches.committed}
    ahead |= {"the commit log of the checkpoint": batches.done, **batches.reported}
    store, newest = max(ahead.items(), key=lambda one: one[1])
    if newest > batches.planned:
        return Disagreement(
            "FLOW.CHECKPOINT_OLD", {"ahead": f"{store} has batch {newest}", "planned": _batch(batches.planned)}
        )
    if batches.committed is not None and batches.committed < batches.done:
        params = {
            "known": f"the target has {_batch(batches.committed)}",
            "needed": f"the checkpoint is at batch {batches.done}",
        }
        return Disagreement("FLOW.TABLE_OLD", params)
    for table in tables:
        if table.current_version < table.known_version:
            code = "FLOW.SOURCE_OLD" if table.name == SOURCE else "FLOW.TABLE_OLD"
            return Disagreement(code, _params_of_table(table))
    return None


def _params_of_table(table: KnownTable) -> dict[str, str]:
    read = "has read" if table.name == SOURCE else "wrote"
    now = (
        f"{table.path} is missing or was replaced"
        if table.current_version == NONE
        else f"{table.path} is at version {table.current_version}"
    )
    return {"known": now, "needed": f"the flow {read} version {table.known_version}"}


def _batch(number: int) -> str:
    return "no batch" if number == NONE else f"batch {number}"
