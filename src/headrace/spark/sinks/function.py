"""A user's function as a sink: it gets each batch with its number."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame

from headrace.runtime.failpoints import Failpoint
from headrace.spark.sinks.batch_metrics import recording
from headrace.spark.sinks.sink import Batch
from headrace.spark.update.guard import Guard

# The thread's local property with the batch's transaction, for the helpers of ``headrace.delivery``.
DELIVERY_PROPERTY = "headrace.delivery"


@dataclass(frozen=True)
class FunctionSink:
    """A function that is called with each batch.

    Attributes:
        function: takes the rows and the number of the batch; its result is ignored.
        guard: failpoints and fencing.
    """

    function: Callable[[Any, int], Any]
    guard: Guard

    def deliver(self, rows: DataFrame, batch: Batch) -> int | None:
        """Call the function."""
        self.guard.before(Failpoint.BEFORE_WRITE)
        context = rows.sparkSession.sparkContext
        context.setLocalProperty(DELIVERY_PROPERTY, batch.transaction)
        try:
            with recording() as metrics:
                self.function(rows, batch.number)
        except Exception as error:
            batch.on_failure(error)
            raise
        finally:
            context.setLocalProperty(DELIVERY_PROPERTY, None)  # type: ignore[arg-type]  # takes it away
        batch.on_metrics(metrics)
        self.guard.failpoint(Failpoint.WRITTEN)
        return None
