"""Rules that a row cannot tell by itself, as columns that tell it: the rest of judging knows none of them.

What is in the table before a batch comes decides, so that a batch which is tried again is judged as it was, unless the
tables that foreign keys refer to are others by then. Looking for keys reads the key columns of the table, once for each
batch.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import reduce

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from headrace.delta_log.tables import newest_version, open_table, rows_in
from headrace.errors import PipelineError
from headrace.expectations.compile import Rules, masks
from headrace.model.expectations import Action, Expectation, ExpectationCount
from headrace.model.names import QualifiedName, quoted
from headrace.model.outcome import FlowCounts
from headrace.model.table_rules import (
    ROW_RULES,
    WHOLE_RULES,
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
# Delta keeps what it knows of a column under another name where columns can be renamed.
_RENAMES = re.compile("name|id", re.IGNORECASE)
Reads = Callable[[SparkSession, QualifiedName], DataFrame]


@dataclass(frozen=True)
class TableRules:
    """The rules of one table.

    Attributes:
        declared: all expectations of the table.
        reads: the rows of another table of the pipeline.
        table: where the rows lie that a batch is written to; None where it comes to nothing.
        replaces: a batch takes the place of these rows.
    """

    declared: tuple[Expectation, ...]
    reads: Reads
    table: str | None = None
    replaces: bool = False

    @property
    def rules(self) -> Rules:
        """The expectations over rows with the columns of :meth:`beside`."""
        told = {e.name: replace(e, predicate=F.col(self._column(e))) for e in self._of_rows}
        judging = tuple(told.get(e.name, e) for e in self.declared if not isinstance(e.predicate, WHOLE_RULES))
        return Rules(judging, tuple(map(self._column, self._of_rows)), tuple(told.values()))

    @property
    def takes_turns(self) -> bool:
        """True where what one flow writes decides about the rows of another one into the same table."""
        return any(isinstance(e.predicate, (Unique, OnTime, RowCount)) for e in self.declared)

    @property
    def limits_rows(self) -> bool:
        """True where a batch may not be written for the rows that the table would have."""
        return any(e.action is Action.FAIL for e in self._counted)

    @property
    def refers(self) -> bool:
        """True where rows are judged by what may be otherwise the next time: other tables, and the clock."""
        rules = [e.predicate for e in self.declared]
        return any(isinstance(rule, ForeignKey) or (isinstance(rule, OnTime) and rule.ahead_s) for rule in rules)

    @property
    def _of_rows(self) -> tuple[Expectation, ...]:
        return tuple(e for e in self.declared if isinstance(e.predicate, ROW_RULES))

    @property
    def _counted(self) -> tuple[Expectation, ...]:
        return tuple(e for e in self.declared if isinstance(e.predicate, RowCount))

    def beside(self, frame: DataFrame, version: int | None = None) -> DataFrame:
        """The rows of a batch, each with a column for every rule that says whether the row keeps it.

        A row that another rule keeps out of the table does not stand in the way of one with the same key. Of several
        keys, each is judged among the rows that those before it let through.

        Args:
            frame: the batch.
            version: of the table that the batch joins, where it is not the newest one.
        """
        if not self._of_rows:
            return frame
        session, names = frame.sparkSession, frame.columns
        if version is None and self.table is not None:
            # Read by its number, so that a commit of others does not make ours one that has to be tried again.
            version = newest_version(self.table)
        keys = [F.col(quoted(name)).alias(_own(name)) for name in _key_columns(e.predicate for e in self._of_rows)]
        frame = frame.select("*", F.monotonically_increasing_id().alias(_POSITION), *keys)
        plain = [e for e in self._of_rows if not isinstance(e.predicate, Unique)]
        unique = [e for e in self._of_rows if isinstance(e.predicate, Unique)]
        told = [self._holds(e.predicate, session, version).alias(self._column(e)) for e in plain]
        frame = frame.select("*", *told)
        if unique:
            frame = frame.select("*", self._rejected(names, session).alias(_REJECTED))
        for e in unique:
            holds = self._is_first(e.predicate, session, version)
            frame = frame.select("*", holds.alias(self._column(e)))
            if not e.action.keeps_row:
                frame = frame.withColumn(_REJECTED, F.col(_REJECTED) | ~F.col(self._column(e)))
        return frame.select(*map(quoted, names), *map(self._column, self._of_rows))

    def check_rows(self, counts: FlowCounts, flow: str, dataset: str) -> None:
        """Look at how many rows there would be, before the batch of these counts is written.

        Raises:
            PipelineError: EXPECTATION.ROW_COUNT.
        """
        rows = counts.rows_written + (0 if self.replaces else self._rows_in_table(None))
        for e in self._counted:
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
        """The counts of a batch that is in the table, with what became of the rules about how many rows there are.

        Args:
            counts: of the batch.
            version: of the table that the batch has made, where it is not the newest one.
        """
        if not self._counted:
            return counts
        rows = self._rows_in_table(version)
        holds = [(e, e.predicate.holds(rows)) for e in self._counted]
        found = [ExpectationCount(e.name, e.action, int(held), int(not held)) for e, held in holds]
        return replace(counts, expectations=(*counts.expectations, *found))

    def _rows_in_table(self, version: int | None) -> int:
        table = open_table(self.table, version) if self.table is not None else None
        return rows_in(table) if table is not None else 0

    def _column(self, expectation: Expectation) -> str:
        return f"{_PREFIX}{self.declared.index(expectation)}"

    def _rejected(self, names: list[str], session: SparkSession) -> Column:
        """Whether another rule than those about keys keeps a row out of the table."""
        others = tuple(
            e for e in self.rules.expectations if not e.action.keeps_row and e.name not in self._names_of_keys
        )
        if not others:
            return F.lit(False)  # noqa: FBT003 - a literal column
        broken = masks(Rules(others), names, session)
        return reduce(Column.__or__, [mask != F.lit(0) for mask in broken])

    @property
    def _names_of_keys(self) -> frozenset[str]:
        return frozenset(e.name for e in self._of_rows if isinstance(e.predicate, Unique))

    def _holds(self, rule: RowRule, session: SparkSession, version: int | None) -> Column:
        if isinstance(rule, OnTime):
            joins = self.table is not None and not self.replaces
            newest = newest_micros(session, str(self.table), rule.column, version) if joins else None
            there = F.col(quoted(rule.column))
            # In microseconds: tables have times that Python has not. A watermark drops what is as late as its delay.
            behind = round(rule.within_s * 1e6)
            holds = there.isNotNull() if newest is None else F.unix_micros(there) > F.lit(newest - behind)
            if rule.ahead_s is not None:
                latest = F.unix_micros(F.current_timestamp()) + F.lit(round(rule.ahead_s * 1e6))
                holds &= F.unix_micros(there) <= latest
            return holds
        assert isinstance(rule, ForeignKey)  # noqa: S101 - those of keys are judged after the others
        return _is_missing(rule.columns) | _among(self.reads(session, rule.dataset), rule.columns, rule.referenced)

    def _is_first(self, rule: Unique, session: SparkSession, version: int | None) -> Column:
        """Whether a row has its key to itself, among those that are not rejected."""
        missing = _is_missing(rule.columns)
        # Rows that are like no other are no part of one.
        window = Window.partitionBy(*map(quoted, rule.columns), F.when(missing, F.col(_POSITION)))
        alone = F.row_number().over(window.orderBy(_REJECTED, _POSITION)) == 1
        if self.table is not None and not self.replaces:
            alone &= ~_among(_rows_of(session, self.table, version), rule.columns, rule.columns)
        keeps = F.col(_REJECTED) | alone
        return ~missing & keeps if rule.required else missing | keeps


def _is_missing(columns: tuple[str, ...]) -> Column:
    return reduce(Column.__or__, [F.col(quoted(name)).isNull() for name in columns])


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


def newest_micros(session: SparkSession, path: str, column: str, version: int | None = None) -> int | None:
    """The greatest time in a column of a table, in microseconds since 1970; None of no times.

    It is that of the table's log, to the millisecond, where it is there.
    """
    table = open_table(path, version)
    if table is None:
        return None
    files = pa.table(table.get_add_actions(flatten=True))
    if not files.num_rows:
        return None
    # Statistics are under the names as the table has them.
    column = next((field.name for field in table.schema().fields if field.name.casefold() == column.casefold()), column)
    greatest, missing = f"max.{column}", f"null_count.{column}"
    renames = _RENAMES.fullmatch(table.metadata().configuration.get("delta.columnMapping.mode", "") or "")
    if "." not in column and not renames and {greatest, missing, "num_records"} <= set(files.column_names):
        told = pc.or_kleene(pc.is_valid(files[greatest]), pc.equal(files[missing], files["num_records"]))
        if pc.all(told, skip_nulls=False).as_py():
            found: int | None = pc.max(files[greatest].cast(pa.timestamp("us", "UTC")).cast(pa.int64())).as_py()
            return found
    rows = _rows_of(session, path, version).agg(F.unix_micros(F.max(quoted(column))))
    micros: int | None = rows.collect()[0][0]
    return micros
