"""Writes the rows of a batch that were set aside into the quarantine of their dataset, before the batch is committed.

Rows that an earlier attempt of the same batch has left there are replaced.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import IntegerType, LongType, StringType, StructType

from headrace.expectations.compile import Rules
from headrace.expectations.split import set_aside
from headrace.graph.new_tables import MAPPING, has_special_names
from headrace.model.names import sql_text
from headrace.model.schema import Schema
from headrace.runtime.failpoints import Failpoint, Failpoints
from headrace.spark.delta.conflicts import tried_again
from headrace.spark.delta.fencing import of_term
from headrace.spark.update.batch_target import BatchTarget, transaction_version

_SOURCE_COLUMNS = "file string, topic string, partition int, offset bigint, version bigint"


@dataclass(frozen=True)
class QuarantineWriter:
    """The way of one flow into quarantine, in one update.

    Args:
        place: where to write.
        rules: the expectations of the dataset.
        at: is told each point that a crash could part from the next.
        fence: returns while this update may commit, raises once another has taken over.
    """

    place: BatchTarget
    rules: Rules
    at: Failpoints
    fence: Callable[[], None]

    def __call__(self, rows: DataFrame, batch_id: int, *, again: bool) -> None:
        """Set aside what is to be, of judged rows, in place of what another attempt has left if it comes *again*."""
        place = self.place
        found = set_aside(rows, self.rules)
        row = found.schema["row"].dataType
        assert isinstance(row, StructType)  # noqa: S101 - it is made as one
        broken = found.withColumn("source", _source(row)).select(
            "row",
            "broken",
            "source",
            F.lit(place.update_id).alias("update_id"),
            F.lit(place.identity).alias("flow"),
            F.lit(place.epoch).alias("epoch"),
            F.lit(batch_id).cast("bigint").alias("batch_id"),
            F.current_timestamp().alias("quarantined_at"),
            F.lit("open").alias("status"),
        )
        self.at(Failpoint.TO_SET_ASIDE)
        self.fence()
        # Flows of one dataset share its quarantine table; their rows lie in partitions of their own.
        tried_again(lambda: self._save(broken, batch_id, again=again), self.fence)
        self.at(Failpoint.QUARANTINED)

    def _save(self, broken: DataFrame, batch_id: int, *, again: bool) -> None:
        place = self.place
        writer = broken.write.format("delta").mode("overwrite" if again or place.replaces else "append")
        writer = writer.partitionBy("flow")
        if place.replaces:
            # The only flow of its table: all rows are its own, and may be of other types than before.
            writer = writer.option("overwriteSchema", "true")
        else:
            version = transaction_version(batch_id, place.term, place.attempt)
            writer = writer.option("txnAppId", f"{place.transaction} quarantine").option("txnVersion", str(version))
            writer = writer.option("mergeSchema", "true")
        if again and not place.replaces:
            mine = f"flow = {sql_text(place.identity)} AND epoch = {place.epoch} AND batch_id = {batch_id}"
            writer = writer.option("replaceWhere", mine)
        writer.save(place.quarantine)


def _source(row: StructType) -> Column:
    """Where a row comes from, as far as its columns say it under the names that its sources give them; else NULL.

    Of a record of Kafka all three of its columns have to be there.
    """
    types = {field.name: field.dataType for field in row}
    record = ("topic", "partition", "offset")
    found: dict[str, Column] = {}
    if [types.get(name) for name in record] == [StringType(), IntegerType(), LongType()]:
        found = {name: F.col(f"row.{name}") for name in record}
    files = types.get("_metadata")
    if isinstance(files, StructType) and "file_path" in files.names:
        found["file"] = F.col("row._metadata.file_path")
    if types.get("_commit_version") == LongType():
        found["version"] = F.col("row._commit_version")
    columns = (column.split() for column in _SOURCE_COLUMNS.split(", "))
    given = [found.get(name, F.lit(None)).cast(kind).alias(name) for name, kind in columns]
    known = F.coalesce(*(column.cast("string") for column in found.values())) if found else F.lit(None)
    return F.when(known.isNotNull(), F.struct(*given))


def make_quarantine(session: SparkSession, path: str, empty: DataFrame, term: int | None) -> None:
    """An empty quarantine table for rows like those of *empty*; what was there is gone.

    Nothing is done once a holder of the lease with a number above *term* has done it.
    """
    columns = (
        f"broken array<string>, source struct<{_SOURCE_COLUMNS}>, update_id string, flow string, epoch int, "
        "batch_id bigint, quarantined_at timestamp, status string"
    )
    frame = session.createDataFrame([], columns).crossJoin(empty.select(F.struct("*").alias("row")))
    frame = frame.select("row", *[name for name in frame.columns if name != "row"])
    writer = frame.write.format("delta").mode("overwrite").option("overwriteSchema", "true")
    if has_special_names(Schema.from_json(empty.schema.json())):
        writer = writer.options(**MAPPING)
    writer.options(**of_term(term, "clearing")).partitionBy("flow").save(path)
