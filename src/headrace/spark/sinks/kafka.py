"""Topics of Kafka as a sink, through Spark's own writer.

Its producers have no transactions, so that a batch which breaks off is in the topic in part, and comes again whole.
Each record says in its headers which batch, attempt and row it is, from which repeats are told.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from headrace.runtime.failpoints import Failpoint
from headrace.spark.sinks.sink import Batch, Guard

BATCH_HEADER, ATTEMPT_HEADER, ROW_HEADER = "headrace-batch", "headrace-attempt", "headrace-row"
_COLUMNS = ("key", "value", "topic", "partition", "headers")
_HEADERS_TYPE = "array<struct<key:string,value:binary>>"


@dataclass(frozen=True)
class KafkaSink:
    """The topics of one cluster.

    Attributes:
        options: of Spark's writer; they may hold secrets.
        guard: what is done around the write.
        headers: whether records get those by which repeats are told.
    """

    options: Mapping[str, str] = field(repr=False)
    guard: Guard
    headers: bool = True

    def deliver(self, rows: DataFrame, batch: Batch) -> int | None:
        """Send the rows of a batch as records."""
        records = _told(rows, batch) if self.headers else as_records(rows)
        self.guard.before(Failpoint.TO_WRITE)
        records.write.format("kafka").options(**self.options).save()
        self.guard.at(Failpoint.WRITTEN)
        return None


def as_records(rows: DataFrame) -> DataFrame:
    """The rows with the columns of records in the letters in which Spark's writer looks for them."""
    return rows.withColumnsRenamed({name: name.casefold() for name in rows.columns if name.casefold() in _COLUMNS})


def _told(rows: DataFrame, batch: Batch) -> DataFrame:
    """The rows with headers that say which batch, attempt and row each is."""
    names = {name.casefold(): name for name in rows.columns}
    columns = [F.col(f"`{names[name]}`").alias(name) for name in _COLUMNS if name in names and name != "headers"]
    ours = F.array(
        _header(BATCH_HEADER, F.lit(f"{batch.transaction}:{batch.number}")),
        _header(ATTEMPT_HEADER, F.lit(str(batch.attempt))),
        _header(ROW_HEADER, F.monotonically_increasing_id().cast("string")),
    )
    given = F.lit(None).cast(_HEADERS_TYPE)
    if "headers" in names:
        given = F.col(f"`{names['headers']}`")
    return rows.select(*columns, F.concat(F.coalesce(given, F.array().cast(_HEADERS_TYPE)), ours).alias("headers"))


def _header(key: str, value: Column) -> Column:
    return F.struct(F.lit(key).alias("key"), value.cast("binary").alias("value"))
