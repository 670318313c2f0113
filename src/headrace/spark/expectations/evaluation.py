"""Evaluates the expectations of a table on batches, and counts the results."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame

from headrace.expectations.compile import Rules, masks, predicate_column, tallies
from headrace.expectations.split import counters, counts_from
from headrace.model.expectations import Action
from headrace.model.outcome import FlowCounts
from headrace.spark.expectations.table_rules import TableRules


class Evaluation:
    """The expectations of one table on the batches of one flow; the expressions are built once for all batches.

    Args:
        rules: the expectations of the dataset.
        table_rules: those that need more than one row; *rules* contains them as tests of helper columns.
    """

    def __init__(self, rules: Rules, table_rules: TableRules | None = None) -> None:
        self.rules = rules
        self.table_rules = table_rules
        self._masks: list[Column] = []
        self._tallies: list[Column] = []
        self._counters: list[Column] = []

    @property
    def evaluates_whole_batches(self) -> bool:
        """True if a batch has to be evaluated as a whole before it is written."""
        limits_row_count = self.table_rules is not None and self.table_rules.limits_row_count
        return bool(self.rules.with_action(Action.QUARANTINE)) or limits_row_count

    def evaluate(self, frame: DataFrame, version: int | None = None) -> DataFrame:
        """The rows with their masks and tallies.

        Table rules read the given *version* of the table; None for the newest.
        """
        if not self._masks:
            self._masks = masks(self.rules, frame.columns, frame.sparkSession)
            self._tallies = tallies(self.rules)
        if self.table_rules is not None:
            frame = self.table_rules.with_rule_columns(frame, version)
        return frame.select("*", *self._masks).select("*", *self._tallies)

    @property
    def counters(self) -> list[Column]:
        """Aggregates over evaluated rows; :func:`counts_from` converts their values to counts."""
        if not self._counters:
            self._counters = counters(self.rules)
        return self._counters

    def count(self, rows: DataFrame) -> FlowCounts:
        """The counts of evaluated rows, by one aggregation."""
        return counts_from(rows.agg(*self.counters).collect()[0].asDict(), self.rules)

    def with_row_counts(self, counts: FlowCounts, version: int | None = None) -> FlowCounts:
        """The counts of a written batch, including the results of row count rules.

        Args:
            counts: counts of the batch.
            version: version of the table that the batch has created; None for the newest.
        """
        return counts if self.table_rules is None else self.table_rules.with_row_counts(counts, version)

    def is_deterministic(self, frame: DataFrame) -> bool:
        """False if evaluating the same row again may give another result."""
        if self.table_rules is not None and self.table_rules.is_volatile:
            return False
        tested = frame.select(*[predicate_column(e).alias(f"r{n}") for n, e in enumerate(self.rules.inline)])
        return bool(tested._jdf.queryExecution().analyzed().deterministic())  # noqa: SLF001 - plans have no public form
