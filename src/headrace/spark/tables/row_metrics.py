"""Computes the metrics that users define on the rows of a batch, in the pass that writes them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from contextlib import suppress
from decimal import Decimal
from pathlib import PurePosixPath
from typing import Any
from urllib.parse import unquote

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql import functions as F

from headrace.delta_log.tables import commit_actions
from headrace.model.custom_metrics import CustomMetric, MetricValue
from headrace.model.names import quoted
from headrace.spark.delta.commit_counts import version_of_transaction
from headrace.spark.tables.metric_columns import MetricColumns
from headrace.spark.tables.observed_rows import observed_values


class RowMetrics:
    """The metrics of the rows that a flow writes to a table, batch after batch.

    Law: the values are those of the rows that the batch has committed, whether they were observed during the write, or
    read from the commit after a crash.

    Args:
        metrics: of the table.
        replaces: each batch replaces the rows of the table, so that values of batches never add up.
    """

    def __init__(self, metrics: tuple[CustomMetric, ...], *, replaces: bool) -> None:
        self._metrics = metrics
        self._replaces = replaces
        self._columns: tuple[MetricColumns, ...] = ()
        self._observation: Observation | None = None

    def __bool__(self) -> bool:
        return bool(self._metrics)

    def observe(self, rows: DataFrame) -> DataFrame:
        """The rows to write; writing them computes the metrics."""
        if not self._metrics:
            return rows
        self._observation = Observation()
        with_arguments = self._with_arguments(rows)
        observed = with_arguments.observe(self._observation, *(one.aggregate for one in self._columns))
        return observed.select(*(F.col(quoted(name)) for name in rows.columns))

    def values(self, table: str, transaction: str, batch_id: int, session: SparkSession) -> tuple[MetricValue, ...]:
        """The metrics of a committed batch: as observed since the last call, or else of the rows of its commit.

        A metric without a value, such as the maximum of no rows, is left out; and so are all if the commit can no
        longer be read.
        """
        if not self._metrics:
            return ()
        observation, self._observation = self._observation, None
        found = None if observation is None else observed_values(observation, session)
        if found is None:
            # Files of old versions may be vacuumed, and columns of newer metrics may be absent.
            with suppress(PySparkException, Py4JJavaError):
                found = self._of_commit(table, transaction, batch_id, session)
        return self._converted(found or {})

    def _of_commit(self, table: str, transaction: str, batch_id: int, session: SparkSession) -> dict[str, Any] | None:
        version = version_of_transaction(table, transaction, batch_id)
        if version is None:
            return None
        added = [action["add"]["path"] for action in commit_actions(table, version) or () if "add" in action]
        names = [PurePosixPath(unquote(path)).name for path in added]
        rows = session.read.format("delta").option("versionAsOf", version).load(table)
        rows = rows.where(rows.metadataColumn("_metadata").getField("file_name").isin(names))
        aggregated = self._with_arguments(rows).agg(*(one.aggregate for one in self._columns))
        return aggregated.collect()[0].asDict()

    def _with_arguments(self, rows: DataFrame) -> DataFrame:
        if not self._columns:
            self._columns = tuple(MetricColumns.of(one, number, rows) for number, one in enumerate(self._metrics))
        return rows.select("*", *(one.argument for one in self._columns))

    def _converted(self, found: Mapping[str, Any]) -> tuple[MetricValue, ...]:
        numbers = ((column, _number(found.get(column.name))) for column in self._columns)
        return tuple(
            MetricValue(column.name, number, column.adds_up and not self._replaces)
            for column, number in numbers
            if number is not None
        )


def _number(value: Any) -> float | None:
    """A finite number; None for NULL, and for what JSON cannot have."""
    number = float(value) if isinstance(value, Decimal) else value
    return number if number is not None and math.isfinite(number) else None
