"""Evaluates table rules (expectations on more than one row) into helper columns, one boolean per row and rule.

Batches are evaluated against the table as it was before them, so a retried batch has the same result, unless tables
that foreign keys reference have changed. Searching for keys reads the key columns of the table once per batch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import reduce

from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from headrace.delta_log.newest_time import StatisticsLacking, newest_time_micros
from headrace.delta_log.tables import count_rows, newest_version, open_table
from headrace.errors import PipelineError
from headrace.expectations.compile import Rules, masks
from headrace.model.expectations import Action, Expectation, ExpectationCount
from headrace.model.names import QualifiedName, quoted
from headrace.model.outcome import FlowCounts
from headrace.model.table_rules import (
    ROW_RULES,
    WHOLE_TABLE_RULES,
    ForeignKey,
    OnTime,
    RowCount,
    RowRule,
    Unique,
    columns_of,
)

_PREFIX = "__headrace_beyond_"
_POSITION, _REJECTED = "__headrace_position", "__headrace_rejected"
_OWN, _KEY = "__headrace_own_", "__headrace_key_"
ReadTable = Callable[[SparkSession, QualifiedName], DataFrame]


@dataclass(frozen=True)
class TableRules:
    """The table rules of one table.

    Attributes:
        declared: all expectations of the table.
        read_table: reads another table of the pipeline.
        table: path of the table that a batch is written to; None for an empty table.
        replaces: a batch replaces the rows of the table.
    """

    declared: tuple[Expectation, ...]
    read_table: ReadTable
    table: str | None = None
    replaces: bool = False

    @property
    def rules(self) -> Rules:
        """The expectations on rows with the columns of :meth:`with_rule_columns`."""
        precomputed = {e.name: replace(e, predicate=F.col(self._column(e))) for e in self._row_rules}
        rules = tuple(
            precomputed.get(e.name, e) for e in self.declared if not isinstance(e.predicate, WHOLE_TABLE_RULES)
        )
        return Rules(rules, tuple(map(self._column, self._row_rules)), tuple(precomputed.values()))

    @property
    def needs_table_lock(self) -> bool:
        """True if the rows that one flow writes affect the evaluation of another flow into the same table."""
        return any(isinstance(e.predicate, (Unique, OnTime, RowCount)) for e in self.declared)

    @property
    def limits_row_count(self) -> bool:
        """True if a batch fails when the table would have too many or too few rows."""
        return any(e.action is Action.FAIL for e in self._row_count_rules)

    @property
    def is_volatile(self) -> bool:
        """True if the result also depends on other tables or the clock, which may change."""
        rules = [e.predicate for e in self.declared]
        return any(isinstance(rule, ForeignKey) or (isinstance(rule, OnTime) and rule.ahead_s) for rule in rules)

    @property
    def _row_rules(self) -> tuple[Expectation, ...]:
        return tuple(e for e in self.declared if isinstance(e.predicate, ROW_RULES))

    @property
    def _row_count_rules(self) -> tuple[Expectation, ...]:
        return tuple(e for e in self.declared if isinstance(e.predicate, RowCount))

    def with_rule_columns(self, frame: DataFrame, version: int | None = None) -> DataFrame:
        """The rows of a batch with a boolean column per row rule: true if the row satisfies the rule.

        A row that another rule rejects does not conflict with a row with the same key. With several keys, each is
        evaluated on the rows that passed the keys before it.

        Args:
            frame: the batch.
            version: version of the table to evaluate against; None for the newest.
        """
        if not self._row_rules:
            return frame
        session, names = frame.sparkSession, frame.columns
        if version is None and self.table is not None:
            # Read a fixed version, so that a concurrent commit does not force a retry of ours.
            version = newest_version(self.table)
        keys = [F.col(quoted(name)).alias(_own(name)) for name in _key_columns(e.predicate for e in self._row_rules)]
        frame = frame.select("*", F.monotonically_increasing_id().alias(_POSITION), *keys)
        plain = [e for e in self._row_rules if not isinstance(e.predicate, Unique)]
        unique = [e for e in self._row_rules if isinstance(e.predicate, Unique)]
        frame = frame.select("*", *[self._holds(e.predicate, session, version).alias(self._column(e)) for e in plain])
        if unique:
            frame = frame.select("*", self._rejected(names, session).alias(_REJECTED))
        for e in unique:
            holds = self._is_first(e.predicate, session, version)
            frame = frame.select("*", holds.alias(self._column(e)))
            if not e.action.keeps_row:
                frame = frame.withColumn(_REJECTED, F.col(_REJECTED) | ~F.col(self._column(e)))
        return frame.select(*map(quoted, names), *map(self._column, self._row_rules))

    def check_rows(self, counts: FlowCounts, flow: str, dataset: str) -> None:
        """Check how many rows the table would have, before a batch with these counts is written.

        Raises:
            PipelineError: EXPECTATION.ROW_COUNT.
        """
        rows = counts.rows_written + (0 if self.replaces else self._rows_in_table(None))
        for e in self._row_count_rules:
            if e.action is Action.FAIL and not e.predicate.holds(rows):
                raise PipelineError(
                    "EXPECTATION.ROW_COUNT",
                    location=e.location,
                    flow=flow,
                    dataset=dataset,
                    name=e.name,
                    rows=f"{rows:,}",
                    rule=e.text,
                )

    def with_row_counts(self, counts: FlowCounts, version: int | None = None) -> FlowCounts:
        """The counts of a batch that is in the table, including the results of row count rules.

        Args:
            counts: counts of the batch.
            version: version of the table that the batch has created; None for the newest.
        """
        if not self._row_count_rules:
            return counts
        rows = self._rows_in_table(version)
        results = [(e, e.predicate.holds(rows)) for e in self._row_count_rules]
        found = [ExpectationCount(e.name, e.action, int(holds), int(not holds)) for e, holds in results]
        return replace(counts, expectations=(*counts.expectations, *found))

    def _rows_in_table(self, version: int | None) -> int:
        table = open_table(self.table, version) if self.table is not None else None
        return count_rows(table, str(self.table)) if table is not None else 0

    def _column(self, expectation: Expectation) -> str:
        return f"{_PREFIX}{self.declared.index(expectation)}"

    def _rejected(self, names: list[str], session: SparkSession) -> Column:
        """True if a rule other than a key rule rejects the row."""
        others = tuple(
            e for e in self.rules.expectations if not e.action.keeps_row and e.name not in self._key_rule_names
        )
        if not others:
            return F.lit(False)  # noqa: FBT003 - a literal column
        violated = masks(Rules(others), names, session)
        return reduce(Column.__or__, [mask != F.lit(0) for mask in violated])

    @property
    def _key_rule_names(self) -> frozenset[str]:
        return frozenset(e.name for e in self._row_rules if isinstance(e.predicate, Unique))

    def _holds(self, rule: RowRule, session: SparkSession, version: int | None) -> Column:
        if isinstance(rule, OnTime):
            appends = self.table is not None and not self.replaces
            newest = newest_micros(session, str(self.table), rule.column, version) if appends else None
            time = F.col(quoted(rule.column))
            # In microseconds, because Spark's times exceed Python's. Like a watermark, drops rows as late as the delay.
            behind = round(rule.within_s * 1e6)
            holds = time.isNotNull() if newest is None else F.unix_micros(time) > F.lit(newest - behind)
            if rule.ahead_s is not None:
                latest = F.unix_micros(F.current_timestamp()) + F.lit(round(rule.ahead_s * 1e6))
                holds &= F.unix_micros(time) <= latest
            return holds
        assert isinstance(rule, ForeignKey)  # noqa: S101 - key rules are evaluated after the others
        rows = self.read_table(session, rule.dataset)
        return _has_null(rule.columns) | _exists_in(rows, rule.columns, rule.referenced)

    def _is_first(self, rule: Unique, session: SparkSession, version: int | None) -> Column:
        """True if a row is the first with its key among those that are not rejected."""
        missing = _has_null(rule.columns)
        # A key with NULL equals no other key, so each such row is a partition of its own.
        window = Window.partitionBy(*map(quoted, rule.columns), F.when(missing, F.col(_POSITION)))
        first = F.row_number().over(window.orderBy(_REJECTED, _POSITION)) == 1
        if self.table is not None and not self.replaces:
            first &= ~_exists_in(_rows_of(session, self.table, version), rule.columns, rule.columns)
        passes = F.col(_REJECTED) | first
        return ~missing & passes if rule.required else missing | passes


def _has_null(columns: tuple[str, ...]) -> Column:
    return reduce(Column.__or__, [F.col(quoted(name)).isNull() for name in columns])


def _exists_in(rows: DataFrame, columns: tuple[str, ...], referenced: tuple[str, ...]) -> Column:
    """True if one of *rows* has the values of *columns* in its *referenced* columns."""
    keys = [F.col(quoted(name)).alias(f"{_KEY}{number}") for number, name in enumerate(referenced)]
    # The original names could be resolved in the other table, below the selection.
    same = [F.col(f"{_KEY}{number}") == F.col(quoted(_own(name))).outer() for number, name in enumerate(columns)]
    return rows.select(*keys).where(reduce(Column.__and__, same)).exists()


def _key_columns(rules: Iterable[RowRule]) -> Iterable[str]:
    return {name.casefold(): name for rule in rules for name in columns_of(rule)}.values()


def _own(name: str) -> str:
    return f"{_OWN}{name.casefold()}"


def _rows_of(session: SparkSession, path: str, version: int | None) -> DataFrame:
    reader = session.read.format("delta")
    return (reader if version is None else reader.option("versionAsOf", version)).load(path)


def newest_micros(session: SparkSession, path: str, column: str, version: int | None = None) -> int | None:
    """The greatest time in a column of a table, in microseconds since 1970; None without times.

    It comes from the statistics in the table's log, with millisecond precision, if these exist.
    """
    table = open_table(path, version)
    if table is None:
        return None
    with suppress(StatisticsLacking):
        return newest_time_micros(table, column)
    # The table's spelling of the name.
    column = next((field.name for field in table.schema().fields if field.name.casefold() == column.casefold()), column)
    rows = _rows_of(session, path, version).agg(F.unix_micros(F.max(quoted(column))))
    micros: int | None = rows.collect()[0][0]
    return micros
