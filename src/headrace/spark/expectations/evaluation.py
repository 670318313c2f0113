"""The rows of a table's batches with what its rules say of each, and their counts."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame

from headrace.expectations.compile import Rules, masks, predicate_column, tallies
from headrace.expectations.split import counters, counts_from
from headrace.model.expectations import Action
from headrace.model.outcome import FlowCounts
from headrace.spark.expectations.table_rules import TableRules


class Evaluation:
    """The rules of one table, over the batches of one flow; expressions are made once, and are the same for all.

    Args:
        rules: the expectations of the dataset.
        beyond: those that look at more than a row, which are among the *rules* by what tells them.
    """

    def __init__(self, rules: Rules, beyond: TableRules | None = None) -> None:
        self.rules = rules
        self.beyond = beyond
        self._masks: list[Column] = []
        self._tallies: list[Column] = []
        self._counters: list[Column] = []

    @property
    def before_writing(self) -> bool:
        """True where a batch has to be judged as a whole before it is written."""
        return bool(self.rules.with_action(Action.QUARANTINE)) or (self.beyond is not None and self.beyond.limits_rows)

    def judged(self, frame: DataFrame, version: int | None = None) -> DataFrame:
        """The rows with their masks and tallies.

        Rules that look at the table do so at its newest *version* unless another one is said.
        """
        if not self._masks:
            self._masks = masks(self.rules, frame.columns, frame.sparkSession)
            self._tallies = tallies(self.rules)
        if self.beyond is not None:
            frame = self.beyond.beside(frame, version)
        return frame.select("*", *self._masks).select("*", *self._tallies)

    @property
    def counters(self) -> list[Column]:
        """Aggregates over judged rows, from whose values :func:`counts_from` makes their counts."""
        if not self._counters:
            self._counters = counters(self.rules)
        return self._counters

    def aggregated(self, rows: DataFrame) -> FlowCounts:
        """The counts of judged rows, by one aggregate."""
        return counts_from(rows.agg(*self.counters).collect()[0].asDict(), self.rules)

    def with_row_counts(self, counts: FlowCounts, version: int | None = None) -> FlowCounts:
        """The counts of a batch that was written, with what became of the rules about how many rows there are.

        Args:
            counts: of the batch.
            version: of the table that it has made, where that is not the newest one.
        """
        return counts if self.beyond is None else self.beyond.with_row_counts(counts, version)

    def is_repeatable(self, frame: DataFrame) -> bool:
        """False when a rule may judge the same row differently the next time."""
        if self.beyond is not None and self.beyond.refers:
            return False
        tested = frame.select(*[predicate_column(e).alias(f"r{n}") for n, e in enumerate(self.rules.of_rows)])
        return bool(tested._jdf.queryExecution().analyzed().deterministic())  # noqa: SLF001 - plans have no public form
