"""Kafka topics as a sink, through Spark's own writer.

The writer's producers have no transactions. If a batch is interrupted, the topic has a part of it, and the whole batch
is repeated. The headers of each record hold its batch, attempt and row, so that consumers can recognize repeats.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from headrace.runtime.failpoints import Failpoint
from headrace.spark.sinks.sink import Batch
from headrace.spark.update.guard import Guard

BATCH_HEADER, ATTEMPT_HEADER, ROW_HEADER = "headrace-batch", "headrace-attempt", "headrace-row"
_COLUMNS = ("key", "value", "topic", "partition", "headers")
_HEADERS_TYPE = "array<struct<key:string,value:binary>>"


@dataclass(frozen=True)
class KafkaSink:
    """The topics of one cluster.

    Attributes:
        options: of Spark's writer; they may contain secrets.
        guard: failpoints and fencing.
        headers: add headers for recognizing repeats to each record.
    """

    options: Mapping[str, str] = field(repr=False)
    guard: Guard
    headers: bool = True

    def deliver(self, rows: DataFrame, batch: Batch) -> int | None:
        """Send the rows of a batch as records."""
        records = _with_headers(rows, batch) if self.headers else as_records(rows)
        self.guard.before(Failpoint.BEFORE_WRITE)
        records.write.format("kafka").options(**self.options).save()
        self.guard.failpoint(Failpoint.WRITTEN)
        return None


def as_records(rows: DataFrame) -> DataFrame:
    """The rows with record columns in lower case, as Spark's writer expects them."""
    return rows.withColumnsRenamed({name: name.casefold() for name in rows.columns if name.casefold() in _COLUMNS})


def _with_headers(rows: DataFrame, batch: Batch) -> DataFrame:
    """The rows with headers for their batch, attempt and row."""
    names = {name.casefold(): name for name in rows.columns}
    columns = [F.col(f"`{names[name]}`").alias(name) for name in _COLUMNS if name in names and name != "headers"]
    own_headers = F.array(
        _header(BATCH_HEADER, F.lit(f"{batch.transaction}:{batch.number}")),
        _header(ATTEMPT_HEADER, F.lit(str(batch.attempt))),
        _header(ROW_HEADER, F.monotonically_increasing_id().cast("string")),
    )
    user_headers = F.lit(None).cast(_HEADERS_TYPE)
    if "headers" in names:
        user_headers = F.col(f"`{names['headers']}`")
    return rows.select(
        *columns, F.concat(F.coalesce(user_headers, F.array().cast(_HEADERS_TYPE)), own_headers).alias("headers")
    )


def _header(key: str, value: Column) -> Column:
    return F.struct(F.lit(key).alias("key"), value.cast("binary").alias("value"))
