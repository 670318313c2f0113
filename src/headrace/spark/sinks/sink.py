"""What every kind of sink does, and what it is told of the batch that it gets."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from pyspark.sql import DataFrame, SparkSession

from headrace.runtime.failpoints import Failpoint, Failpoints
from headrace.sinks.commit_notes import Note
from headrace.sinks.refusals import Refusals


@dataclass(frozen=True)
class Batch:
    """Which batch is delivered, and by whom.

    Attributes:
        transaction: what the flow delivers to this sink in its epoch, by a name that nothing else in the world has.
        flow: the flow's name.
        epoch: of the flow.
        number: of the batch in its epoch; the same batch has the same number however often it comes.
        attempt: grows with every try of the batch.
        refusals: gets rows that the sink refuses, where it can tell which they are; None where none may be.
        failed: is told what a function of the user's has raised.
        waited: whether it has waited for the sink, and others come behind it.
        positions: a digest of where it ends in its sources; empty where that is not known.
    """

    transaction: str
    flow: str
    epoch: int
    number: int
    attempt: int
    refusals: Refusals | None = None
    failed: Callable[[Exception], None] = lambda _error: None
    waited: bool = False
    positions: str = ""


class Sink(Protocol):
    """Takes the batches of a flow, one at a time."""

    def deliver(self, rows: DataFrame, batch: Batch) -> int | None:
        """Take a batch, unless it was taken before; how many rows it has, if that is known when it is taken.

        Rows that were refused are among them.
        """


@runtime_checkable
class NotingSink(Protocol):
    """A sink that notes itself which batch it has taken last, in the same step as the rows."""

    def note_of(self, transaction: str, session: SparkSession) -> Note:
        """The last batch that it has noted of a transaction."""


def delivered_as(delivery: str, sink: str) -> str:
    """What a flow delivers to one of its sinks, by a name that nothing else in the world has."""
    return f"headrace:{delivery}:{sink}"


@dataclass(frozen=True)
class Guard:
    """What a sink does around each of its steps.

    Attributes:
        at: is told each point that a crash could part from the next.
        fence: returns while this update may commit, raises once another has taken over.
    """

    at: Failpoints
    fence: Callable[[], None]

    def before(self, point: Failpoint) -> None:
        """Go on with a step that is seen from outside."""
        self.at(point)
        self.fence()
