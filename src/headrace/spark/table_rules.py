"""Rules that a row cannot tell by itself, as columns that tell it: the rest of judging knows none of them.

What is in the table before a batch comes decides, so that a batch that is tried again is judged as it was. Looking for
keys reads the key columns of the table, once for each batch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta, timezone
from functools import reduce
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from headrace.checkpoints.delta_log import open_table, rows_in
from headrace.errors import PipelineError
from headrace.expectations.compile import Rules
from headrace.model.expectations import Action, Expectation, ExpectationCount
from headrace.model.names import QualifiedName, quoted
from headrace.model.outcome import FlowCounts
from headrace.model.table_rules import ROW_RULES, ForeignKey, OnTime, RowCount, RowRule, columns_of

_PREFIX = "__headrace_beyond_"
_POSITION = "__headrace_position"
_OWN, _KEY = "__headrace_own_", "__headrace_key_"
_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
Reads = Callable[[SparkSession, QualifiedName], DataFrame]


@dataclass(frozen=True)
class TableRules:
    """The rules of one table.

    Attributes:
        declared: all expectations of the table.
        reads: the rows of another table of the pipeline.
        table: where the rows lie that a batch joins; None where it replaces them, or comes to nothing.
        turn: is held from the look at the table to the commit, by all flows into it.
    """

    declared: tuple[Expectation, ...]
    reads: Reads
    table: str | None = None
    turn: AbstractContextManager[Any] = field(default_factory=nullcontext)

    @property
    def rules(self) -> Rules:
        """The expectations over rows with the columns of :meth:`beside`."""
        told = {
            e.name: replace(e, predicate=F.col(self._column(e)))
            for e in self.declared
            if isinstance(e.predicate, ROW_RULES)
        }
        judging = tuple(told.get(e.name, e) for e in self.declared if not isinstance(e.predicate, RowCount))
        looks_at = tuple(self._column(e) for e in self.declared if e.name in told)
        return Rules(judging, looks_at, tuple(told.values()))

    @property
    def counted(self) -> tuple[Expectation, ...]:
        """Those about how many rows there are."""
        return tuple(e for e in self.declared if isinstance(e.predicate, RowCount))

    def beside(self, frame: DataFrame, version: int | None = None) -> DataFrame:
        """The rows of a batch, each with a column for every rule that says whether the row keeps it.

        Args:
            frame: the batch.
            version: of the table that the batch joins, where it is not the newest one.
        """
        told = [(self._column(e), e.predicate) for e in self.declared if isinstance(e.predicate, ROW_RULES)]
        if not told:
            return frame
        names = frame.columns
        keys = [F.col(quoted(name)).alias(_own(name)) for name in _key_columns(rule for _, rule in told)]
        frame = frame.select("*", F.monotonically_increasing_id().alias(_POSITION), *keys)
        columns = [self._holds(rule, frame.sparkSession, version).alias(name) for name, rule in told]
        return frame.select(*[quoted(name) for name in names], *columns)

    def with_row_counts(self, counts: FlowCounts, flow: str, dataset: str) -> FlowCounts:
        """The counts of a batch that is about to be written, with what becomes of the rules about rows of the table.

        Raises:
            PipelineError: EXPECTATION.ROW_COUNT, where one is broken that is to fail.
        """
        if not self.counted:
            return counts
        table = open_table(self.table) if self.table is not None else None
        rows = counts.rows_written + (rows_in(table) if table is not None else 0)
        found = []
        for e in self.counted:
            holds = e.predicate.holds(rows)
            if not holds and e.action is Action.FAIL:
                raise PipelineError(
                    "EXPECTATION.ROW_COUNT",
                    location=e.location,
                    flow=flow,
                    dataset=dataset,
                    name=e.name,
                    rows=f"{rows:,}",
                    rule=e.text,
                )
            found.append(ExpectationCount(e.name, e.action, int(holds), int(not holds)))
        return replace(counts, expectations=(*counts.expectations, *found))

    def _column(self, expectation: Expectation) -> str:
        return f"{_PREFIX}{self.declared.index(expectation)}"

    def _holds(self, rule: RowRule, session: SparkSession, version: int | None) -> Column:
        if isinstance(rule, OnTime):
            return self._on_time(rule, session, version)
        missing = reduce(Column.__or__, [F.col(quoted(name)).isNull() for name in rule.columns])
        if isinstance(rule, ForeignKey):
            return missing | _among(self.reads(session, rule.dataset), rule.columns, rule.referenced)
        # Rows that are like no other are no part of one.
        window = Window.partitionBy(*map(quoted, rule.columns), F.when(missing, F.col(_POSITION)))
        alone = F.row_number().over(window.orderBy(_POSITION)) == 1
        if self.table is not None:
            alone &= ~_among(_rows_of(session, self.table, version), rule.columns, rule.columns)
        return ~missing & alone if rule.required else missing | alone

    def _on_time(self, rule: OnTime, session: SparkSession, version: int | None) -> Column:
        newest = None if self.table is None else _newest(session, self.table, rule.column, version)
        there = F.col(quoted(rule.column))
        if newest is None:
            return there.isNotNull()
        return there >= F.lit(newest - timedelta(seconds=rule.within_s))


def _among(rows: DataFrame, columns: tuple[str, ...], referenced: tuple[str, ...]) -> Column:
    """Whether the values of some columns are those of one of the rows."""
    keys = [F.col(quoted(name)).alias(f"{_KEY}{number}") for number, name in enumerate(referenced)]
    # Their own names might be found in the other table, below what is selected of it.
    same = [F.col(f"{_KEY}{number}") == F.col(quoted(_own(name))).outer() for number, name in enumerate(columns)]
    return rows.select(*keys).where(reduce(Column.__and__, same)).exists()


def _key_columns(rules: Iterable[RowRule]) -> Iterable[str]:
    return {name.casefold(): name for rule in rules for name in columns_of(rule)}.values()


def _own(name: str) -> str:
    return f"{_OWN}{name.casefold()}"


def _rows_of(session: SparkSession, path: str, version: int | None) -> DataFrame:
    reader = session.read.format("delta")
    return (reader if version is None else reader.option("versionAsOf", version)).load(path)


def _newest(session: SparkSession, path: str, column: str, version: int | None) -> datetime | None:
    """The greatest time in a column of a table, to the millisecond where its log tells it; None of no times."""
    table = open_table(path, version)
    files = pa.table(table.get_add_actions(flatten=True)) if table is not None else None
    if files is None or not files.num_rows:
        return None
    greatest, missing = f"max.{column}", f"null_count.{column}"
    if {greatest, missing, "num_records"} <= set(files.column_names):
        told = pc.or_kleene(pc.is_valid(files[greatest]), pc.equal(files[missing], files["num_records"]))
        if pc.all(told, skip_nulls=False).as_py():
            found: datetime | None = pc.max(files[greatest]).as_py()
            return found
    rows = _rows_of(session, path, version).agg(F.unix_micros(F.max(quoted(column))))
    micros = rows.collect()[0][0]
    return None if micros is None else _EPOCH + timedelta(microseconds=micros)
