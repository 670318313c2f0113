"""A function of the user's as a sink: it gets each batch with its number."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame

from headrace.runtime.failpoints import Failpoint
from headrace.spark.sinks.sink import Batch, Guard

# Under which helpers of ``headrace.delivery`` find, in the thread of the function, what is delivered.
DELIVERY_PROPERTY = "headrace.delivery"


@dataclass(frozen=True)
class FunctionSink:
    """A function that is called with a batch.

    Attributes:
        function: takes the rows and the number of the batch; what it returns is passed over.
        guard: what is done around the call.
    """

    function: Callable[[Any, int], Any]
    guard: Guard

    def deliver(self, rows: DataFrame, batch: Batch) -> int | None:
        """Call the function."""
        self.guard.before(Failpoint.TO_WRITE)
        context = rows.sparkSession.sparkContext
        context.setLocalProperty(DELIVERY_PROPERTY, batch.transaction)
        try:
            self.function(rows, batch.number)
        except Exception as error:
            batch.failed(error)
            raise
        finally:
            context.setLocalProperty(DELIVERY_PROPERTY, None)  # type: ignore[arg-type]  # takes it away
        self.guard.at(Failpoint.WRITTEN)
        return None
