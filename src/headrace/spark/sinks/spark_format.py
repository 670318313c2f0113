"""A format that Spark writes, such as that of a data source in Python, as a sink that gets whole batches."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from pyspark.sql import DataFrame

from headrace.runtime.failpoints import Failpoint
from headrace.spark.session.active_session import while_active
from headrace.spark.sinks.sink import Batch, Guard


@dataclass(frozen=True)
class FormatSink:
    """What Spark's writer finds by a format's name.

    Attributes:
        format: its name.
        options: of the writer; they may hold secrets.
        guard: what is done around the write.
    """

    format: str
    options: Mapping[str, str] = field(repr=False)
    guard: Guard

    def deliver(self, rows: DataFrame, batch: Batch) -> int | None:  # noqa: ARG002 - the writer is told no number
        """Append a batch."""
        self.guard.before(Failpoint.TO_WRITE)
        with while_active(rows.sparkSession):
            rows.write.format(self.format).mode("append").options(**self.options).save()
        self.guard.at(Failpoint.WRITTEN)
        return None
