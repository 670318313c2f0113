"""The interface of sinks, and the batch that they get."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from pyspark.sql import DataFrame, SparkSession

from headrace.model.custom_metrics import MetricValue
from headrace.sinks.commit_notes import CommitRecord
from headrace.sinks.rejected_rows import RejectedRows


@dataclass(frozen=True)
class Batch:
    """The identity of a batch.

    Attributes:
        transaction: a globally unique name of what the flow delivers to this sink in its epoch.
        flow: the flow's name.
        epoch: of the flow.
        number: of the batch in its epoch; a repeated batch has the same number.
        attempt: grows with every attempt of the batch.
        rejected_rows: gets rows that the sink rejects, if it can identify them; None if no row may be rejected.
        on_failure: gets errors of the user's function.
        on_metrics: gets the metrics that the user's function recorded, once it has returned.
        was_spilled: it comes from the spill queue, and others come after it.
        positions: a digest of its end in its sources; empty if unknown.
    """

    transaction: str
    flow: str
    epoch: int
    number: int
    attempt: int
    rejected_rows: RejectedRows | None = None
    on_failure: Callable[[Exception], None] = lambda _error: None
    on_metrics: Callable[[Sequence[MetricValue]], None] = lambda _metrics: None
    was_spilled: bool = False
    positions: str = ""


class Sink(Protocol):
    """Gets the batches of a flow, one at a time."""

    def deliver(self, rows: DataFrame, batch: Batch) -> int | None:
        """Write a batch, unless it was written before; returns its number of rows, if known.

        The number includes rejected rows.
        """


@runtime_checkable
class CommittingSink(Protocol):
    """A sink that records its last batch itself, atomically with the rows."""

    def last_commit(self, transaction: str, session: SparkSession) -> CommitRecord:
        """The last batch that it has recorded for a transaction."""


def transaction_name(delivery: str, sink: str) -> str:
    """A globally unique name of what a flow delivers to one of its sinks."""
    return f"headrace:{delivery}:{sink}"
