"""Writes the quarantined rows of a batch to the quarantine table of its dataset, before the batch is committed.

They replace those of an earlier attempt of the same batch.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import (
    ArrayType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from headrace.expectations.compile import Rules
from headrace.expectations.split import quarantine_rows
from headrace.graph.new_tables import MAPPING, has_special_names
from headrace.model.names import sql_text
from headrace.model.schema import Schema
from headrace.runtime.failpoints import Failpoint, Failpoints
from headrace.spark.delta.conflicts import retry_commit
from headrace.spark.delta.fencing import fencing_options
from headrace.spark.delta.first_commit import NewTable
from headrace.spark.delta.small_append import SmallAppends
from headrace.spark.delta.tables import struct_type
from headrace.spark.update.batch_target import BatchTarget, transaction_version

PARTITION_BY = ("flow",)
_SOURCE_TYPES = (StringType(), StringType(), IntegerType(), LongType(), LongType())
_SOURCE_NAMES = ("file", "topic", "partition", "offset", "version")
# The columns of a quarantine table beside the row.
_OWN_COLUMNS = (
    StructField("broken", ArrayType(StringType())),
    StructField("source", StructType([StructField(*one) for one in zip(_SOURCE_NAMES, _SOURCE_TYPES, strict=True)])),
    StructField("update_id", StringType()),
    StructField("flow", StringType()),
    StructField("epoch", IntegerType()),
    StructField("batch_id", LongType()),
    StructField("quarantined_at", TimestampType()),
    StructField("status", StringType()),
)
_CLEARING = "clearing"


@dataclass(frozen=True)
class QuarantineWriter:
    """Writes the quarantined rows of one flow in one update.

    Args:
        target: where to write.
        rules: the expectations of the dataset.
        failpoint: called between writes that a crash could separate.
        fence: raises once another process holds the lease.
    """

    target: BatchTarget
    rules: Rules
    failpoint: Failpoints
    fence: Callable[[], None]

    @cached_property
    def _small_appends(self) -> SmallAppends:
        return SmallAppends(self.target.quarantine, self._application, PARTITION_BY)

    @property
    def _application(self) -> str:
        """The application of the flow's transactions in the quarantine table."""
        return f"{self.target.transaction} quarantine"

    def __call__(self, rows: DataFrame, batch_id: int, row_count: int, *, is_retry: bool) -> None:
        """Write the rows to quarantine among evaluated rows.

        Args:
            rows: the evaluated rows, cached.
            batch_id: the batch.
            row_count: how many of them are quarantined.
            is_retry: replace those of an earlier attempt.
        """
        target = self.target
        found = quarantine_rows(rows, self.rules)
        row = found.schema["row"].dataType
        assert isinstance(row, StructType)  # noqa: S101 - built as a struct
        quarantined = found.withColumn("source", _source(row)).select(
            "row",
            "broken",
            "source",
            F.lit(target.update_id).alias("update_id"),
            F.lit(target.identity).alias("flow"),
            F.lit(target.epoch).alias("epoch"),
            F.lit(batch_id).cast("bigint").alias("batch_id"),
            F.current_timestamp().alias("quarantined_at"),
            F.lit("open").alias("status"),
        )
        self.failpoint(Failpoint.BEFORE_QUARANTINE)
        self.fence()
        version = transaction_version(batch_id, target.fencing_token, target.attempt)
        if is_retry or target.replaces or not self._small_appends.append(quarantined, row_count, version):
            # Flows of one dataset share its quarantine table, in separate partitions.
            retry_commit(lambda: self._save(quarantined, batch_id, version, is_retry=is_retry), self.fence)
        self.failpoint(Failpoint.QUARANTINED)

    def _save(self, quarantined: DataFrame, batch_id: int, version: int, *, is_retry: bool) -> None:
        target = self.target
        writer = quarantined.write.format("delta").mode("overwrite" if is_retry or target.replaces else "append")
        writer = writer.partitionBy(*PARTITION_BY)
        if target.replaces:
            # The only flow of its table: all rows are its own, and may have other types than before.
            writer = writer.option("overwriteSchema", "true")
        else:
            writer = writer.option("txnAppId", self._application).option("txnVersion", str(version))
            writer = writer.option("mergeSchema", "true")
        if is_retry and not target.replaces:
            own_rows = f"flow = {sql_text(target.identity)} AND epoch = {target.epoch} AND batch_id = {batch_id}"
            writer = writer.option("replaceWhere", own_rows)
        writer.save(target.quarantine)


def _source(row: StructType) -> Column:
    """The origin of a row, from columns with the names that sources give them; NULL without such columns.

    A Kafka record needs all three of its columns.
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
    columns = zip(_SOURCE_NAMES, _SOURCE_TYPES, strict=True)
    given = [found.get(name, F.lit(None)).cast(kind).alias(name) for name, kind in columns]
    known = F.coalesce(*(column.cast("string") for column in found.values())) if found else F.lit(None)
    return F.when(known.isNotNull(), F.struct(*given))


def new_quarantine(columns: Schema, properties: Mapping[str, str], fencing_token: int) -> NewTable:
    """An empty quarantine table for rows with these columns."""
    schema = StructType([StructField("row", struct_type(columns)), *_OWN_COLUMNS])
    options = fencing_options(fencing_token, _CLEARING)
    transaction = options["txnAppId"], int(options["txnVersion"])
    return NewTable(schema.json(), PARTITION_BY, properties=properties, transaction=transaction)


def create_quarantine(session: SparkSession, path: str, columns: Schema, fencing_token: int | None) -> None:
    """Create or replace an empty quarantine table for rows with these columns.

    Does nothing if a holder of the lease with a greater fencing token has done it.
    """
    row = StructField("row", struct_type(columns))
    frame = session.createDataFrame([], StructType([row, *_OWN_COLUMNS]))
    writer = frame.write.format("delta").mode("overwrite").option("overwriteSchema", "true")
    if has_special_names(columns):
        writer = writer.options(**MAPPING)
    writer.options(**fencing_options(fencing_token, _CLEARING)).partitionBy(*PARTITION_BY).save(path)
