"""The rows of a batch from the query's sources, each with a position, to run the query over some of them."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import accumulate

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, Row
from pyspark.sql import functions as F
from pyspark.storagelevel import StorageLevel

from headrace.model.names import quoted
from headrace.spark.deadletter.batch_plan import BatchPlan
from headrace.spark.deadletter.failing_expressions import UnidentifiableRows
from headrace.spark.deadletter.json_rows import as_json, whole_row
from headrace.spark.session.scoped_confs import with_confs

# A struct of all columns of a row, as its source has them.
WHOLE_ROW = "headrace_whole"
_ID = "headrace_row"
# The partition number is above these bits of an id (Spark's MonotonicallyIncreasingID).
_ROW_BITS = 33
# The source number is above the partition number.
_SOURCE_BITS = 58
# Common subexpressions would be computed first, outside of the expression that catches their errors.
_NO_SUBEXPRESSION_ELIMINATION = {"spark.sql.subexpressionElimination.enabled": "false"}
# Fewer rows than this run in one task.
_ROWS_OF_A_TASK = 10_000


class NumberedRows:
    """The cached rows of a batch from its sources, each at a position.

    Args:
        plan: of the batch.
        sources: their rows, with ids.
        extra: the names of extra columns in the sources.
    """

    def __init__(self, plan: BatchPlan, sources: Sequence[DataFrame], extra: Sequence[str]) -> None:
        self.repeatable = plan.repeatable
        self._plan = plan
        self._sources = sources
        self._extra = (_ID, *extra)
        # Of each partition with rows: the id of its first row, and the number of rows.
        self._parts: list[tuple[int, int]] = []
        for source in sources:
            partition = F.shiftright(_ID, _ROW_BITS).alias("partition")
            counts = source.groupBy(partition).count().sort("partition").collect()
            self._parts += [(row["partition"] << _ROW_BITS, row["count"]) for row in counts]
        self._starts = [0, *accumulate(count for _, count in self._parts)]
        self.count = self._starts[-1]

    def error_over(self, first: int, last: int) -> Exception | None:
        """The query's error over the rows from one position up to another, exclusive; None if it passes."""
        return _error_of(self._plan.over(lambda number: self._between(number, first, last)))

    def error_without_rows(self) -> Exception | None:
        """The query's error over no rows, from everything else that it needs; None if it passes."""
        # A filter, so that Spark does not optimize the query away.
        nothing = F.col(_ID) < 0
        with with_confs(self._plan.session, {"spark.sql.adaptive.enabled": "false"}):
            return _error_of(self._plan.over(lambda number: self._sources[number].where(nothing).drop(*self._extra)))

    def empty(self) -> DataFrame:
        """The query's result over no rows."""
        return self._plan.over(lambda number: self._sources[number].limit(0).drop(*self._extra))

    def all_rows(self, columns: Sequence[Column]) -> list[tuple[int, Row]]:
        """For each row, in order, the number of its source, and *columns* of it, as in :meth:`rows`."""
        return [
            (number, row["seen"])
            for number, source in enumerate(self._sources)
            for row in self._with_whole(source).sort(_ID).select(F.struct(*columns).alias("seen")).collect()
        ]

    def error_without(self, positions: Sequence[int]) -> Exception | None:
        """The query's error over all rows except some; None if it passes."""
        return _error_of(self.without(positions))

    def without(self, positions: Sequence[int]) -> DataFrame:
        """The query's result without some rows."""
        ids = [self._id(position) for position in positions]

        def rest(number: int) -> DataFrame:
            excluded = [row for row in ids if row >> _SOURCE_BITS == number]
            source = self._sources[number]
            return (source.where(~F.col(_ID).isin(excluded)) if excluded else source).drop(*self._extra)

        return self._plan.over(rest)

    def rows(self, positions: Sequence[int], columns: Sequence[Column]) -> dict[int, tuple[int, Row]]:
        """For each position, the number of its source, and columns of its row.

        Args:
            positions: of the rows.
            columns: expressions over :data:`WHOLE_ROW` and the extra columns.
        """
        position_by_id = {self._id(position): position for position in positions}
        found = {}
        for number, source in enumerate(self._sources):
            ids = [row for row in position_by_id if row >> _SOURCE_BITS == number]
            if ids:
                rows = self._with_whole(source.where(F.col(_ID).isin(ids)))
                for row in rows.select(_ID, F.struct(*columns).alias("seen")).collect():
                    found[position_by_id[row[_ID]]] = (number, row["seen"])
        return found

    def positions_of(self, stored: Sequence[str]) -> list[int]:
        """The positions of the rows whose JSON is in *stored*."""
        found = []
        for source in self._sources:
            whole = as_json(whole_row(source, [name for name in source.columns if name not in self._extra]))
            found += [self._position(row[0]) for row in source.where(whole.isin(list(stored))).select(_ID).collect()]
        return sorted(found)

    def suspects(self, limit: int) -> list[int]:
        """The positions of rows on which an expression of the query fails, as far as Spark finds them directly.

        Args:
            limit: stop after one more than these.
        """

        def marked(number: int) -> DataFrame:
            source = self._sources[number]
            return source.select(*(quoted(name) for name in source.columns if name not in self._extra), _ID)

        try:
            with with_confs(self._plan.session, _NO_SUBEXPRESSION_ELIMINATION):
                ids = {row[0] for ids in self._plan.failing_row_ids(marked) for row in ids.limit(limit + 1).collect()}
        except (PySparkException, Py4JError, UnidentifiableRows):
            # Python functions still raise; other queries do not preserve the ids.
            return []
        return sorted(self._position(row) for row in ids)

    def _with_whole(self, source: DataFrame) -> DataFrame:
        names = [name for name in source.columns if name not in self._extra]
        return source.withColumn(WHOLE_ROW, whole_row(source, names))

    def _between(self, number: int, first: int, last: int) -> DataFrame:
        source = self._sources[number]
        if (first, last) != (0, self.count):
            # Ids ascend with positions.
            source = source.where(F.col(_ID).between(self._id(first), self._id(last - 1)))
        return (source.coalesce(1) if last - first < _ROWS_OF_A_TASK else source).drop(*self._extra)

    def _id(self, position: int) -> int:
        """The id of the row at a position."""
        part = bisect_right(self._starts, position) - 1
        return self._parts[part][0] + position - self._starts[part]

    def _position(self, row: int) -> int:
        """The position of a row with an id."""
        part = bisect_right([start for start, _ in self._parts], row) - 1
        return self._starts[part] + row - self._parts[part][0]


def _error_of(frame: DataFrame) -> Exception | None:
    """The error of computing a frame, whose rows are discarded; None if it passes."""
    try:
        frame.write.format("noop").mode("overwrite").save()
    except Exception as error:  # noqa: BLE001 - whatever the query raises is the answer
        return error
    return None


@contextmanager
def numbered(plan: BatchPlan, sources: Sequence[DataFrame], extra: dict[str, Column]) -> Iterator[NumberedRows]:
    """The rows of sources, cached inside the block.

    Args:
        plan: of the query.
        sources: the rows.
        extra: extra columns of a row, by name; the query does not get them.
    """
    extra_columns = [column.alias(name) for name, column in extra.items()]
    found = []
    for number, source in enumerate(sources):
        row = (F.monotonically_increasing_id() + F.lit(number << _SOURCE_BITS)).alias(_ID)
        found.append(source.select("*", row, *extra_columns).persist(StorageLevel.MEMORY_AND_DISK))
    try:
        yield NumberedRows(plan, found, tuple(extra))
    finally:
        for source in found:
            source.unpersist()
