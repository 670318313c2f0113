"""A sink for any format that Spark can write, such as a Python data source; it gets whole batches."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from pyspark.sql import DataFrame

from headrace.runtime.failpoints import Failpoint
from headrace.spark.session.active_session import while_active
from headrace.spark.sinks.sink import Batch
from headrace.spark.update.guard import Guard


@dataclass(frozen=True)
class FormatSink:
    """A sink that Spark's writer finds by the name of its format.

    Attributes:
        format: its name.
        options: of the writer; they may contain secrets.
        guard: failpoints and fencing.
    """

    format: str
    options: Mapping[str, str] = field(repr=False)
    guard: Guard

    def deliver(self, rows: DataFrame, batch: Batch) -> int | None:  # noqa: ARG002 - the writer takes no number
        """Append a batch."""
        self.guard.before(Failpoint.BEFORE_WRITE)
        with while_active(rows.sparkSession):
            rows.write.format(self.format).mode("append").options(**self.options).save()
        self.guard.failpoint(Failpoint.WRITTEN)
        return None
