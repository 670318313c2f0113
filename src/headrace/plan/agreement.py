"""Whether the stores that know a flow's progress agree with each other; values in, a contradiction or none out.

A flow's progress is in several stores: the positions in its checkpoint, the transactions in its table, the notes of its
sinks, the event log, and its own record. One of them may be a restored copy, or lack what a loss of power took. The
law: *positions never go backwards, and transactions never run ahead of them unnoticed*. A batch is planned before
anything is written, so no store knows a batch that the checkpoint does not; and the batch before the newest planned one
is in the table. Where that does not hold, the next batch would be taken for one that is there, or rows are missing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

NONE = -1
# What a table is to a flow that reads it.
SOURCE = "source"


@dataclass(frozen=True)
class KnownBatches:
    """The newest batch of a flow's epoch that each store knows; -1 for none.

    Attributes:
        epoch: in which the flow's record says that it is.
        newest_epoch: in which the event log has a batch of it.
        planned: whose positions the checkpoint has.
        done: that is done; every batch before the newest planned one is, as Spark goes on from there.
        committed: that is in the table; None where nothing can be told, as for a sink.
        told: by others, each by its name: a sink's note, the event log.
    """

    epoch: int = 0
    newest_epoch: int = NONE
    planned: int = NONE
    done: int = NONE
    committed: int | None = None
    told: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class KnownTable:
    """A table that a flow writes to or reads.

    Attributes:
        name: what it is to the flow.
        path: where it lies.
        known: the version that the flow knows of.
        now: the newest one; -1 where it is gone, or another table.
    """

    name: str
    path: str
    known: int
    now: int


@dataclass(frozen=True)
class Disagreement:
    """Stores of a flow that do not agree.

    Attributes:
        code: of the error that says which of them is older than it should be, or gone.
        said: what the stores know, for that error.
    """

    code: str
    said: Mapping[str, str]


def newest_known(batches: KnownBatches) -> int:
    """The newest batch that a store other than the checkpoint's positions knows; -1 for none."""
    return max(NONE if batches.committed is None else batches.committed, batches.done, *batches.told.values(), NONE)


def contradiction(batches: KnownBatches, tables: Iterable[KnownTable] = ()) -> Disagreement | None:
    """What does not agree between the stores of a flow in one epoch, or None when it can go on.

    Args:
        batches: the newest ones.
        tables: that the flow has written to or read.
    """
    if batches.newest_epoch > batches.epoch:
        said = {"epoch": str(batches.epoch), "newest": str(batches.newest_epoch)}
        return Disagreement("FLOW.RECORD_OLD", said)
    ahead = {"the table": NONE if batches.committed is None else batches.committed}
    ahead |= {"the commit log of the checkpoint": batches.done, **batches.told}
    store, newest = max(ahead.items(), key=lambda one: one[1])
    if newest > batches.planned:
        return Disagreement(
            "FLOW.CHECKPOINT_OLD", {"ahead": f"{store} has batch {newest}", "planned": _batch(batches.planned)}
        )
    if batches.committed is not None and batches.committed < batches.done:
        said = {
            "known": f"the target has {_batch(batches.committed)}",
            "needed": f"the checkpoint is at batch {batches.done}",
        }
        return Disagreement("FLOW.TABLE_OLD", said)
    for table in tables:
        if table.now < table.known:
            code = "FLOW.SOURCE_OLD" if table.name == SOURCE else "FLOW.TABLE_OLD"
            return Disagreement(code, _told(table))
    return None


def _told(table: KnownTable) -> dict[str, str]:
    read = "has read" if table.name == SOURCE else "wrote"
    now = f"{table.path} is missing or was replaced" if table.now == NONE else f"{table.path} is at version {table.now}"
    return {"known": now, "needed": f"the flow {read} version {table.known}"}


def _batch(number: int) -> str:
    return "no batch" if number == NONE else f"batch {number}"
