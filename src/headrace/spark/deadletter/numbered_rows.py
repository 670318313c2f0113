"""The rows that the sources of a query give for a batch, each with a position, to try the query over some of them."""

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
from headrace.spark.deadletter.failing_expressions import Unmarked
from headrace.spark.deadletter.json_rows import as_json, whole_row
from headrace.spark.session.scoped_confs import with_confs

# The columns of a row as its source has them, in one.
WHOLE = "headrace_whole"
_ID = "headrace_row"
# The number of a partition is above these bits of an id (Spark's MonotonicallyIncreasingID).
_ROW_BITS = 33
# Above those of partitions is the number of the source.
_SOURCE_BITS = 58
# What several expressions have in common would be computed before them, where nothing keeps it from raising.
_EACH_BY_ITSELF = {"spark.sql.subexpressionElimination.enabled": "false"}
# Fewer rows than this are tried in one task.
_ROWS_OF_A_TASK = 10_000


class NumberedRows:
    """The rows of a batch as its sources give them, each at a position, kept until all is done.

    Args:
        plan: of the batch.
        sources: their rows, with the id of each.
        told: of each source, expressions beside its columns that say something of a row.
    """

    def __init__(self, plan: BatchPlan, sources: Sequence[DataFrame], told: Sequence[str]) -> None:
        self.repeatable = plan.repeatable
        self._plan = plan
        self._sources = sources
        self._beside = (_ID, *told)
        # Of each partition that has rows: the id of its first row, and how many it has.
        self._parts: list[tuple[int, int]] = []
        for source in sources:
            partition = F.shiftright(_ID, _ROW_BITS).alias("partition")
            counts = source.groupBy(partition).count().sort("partition").collect()
            self._parts += [(row["partition"] << _ROW_BITS, row["count"]) for row in counts]
        self._starts = [0, *accumulate(count for _, count in self._parts)]
        self.count = self._starts[-1]

    def why(self, first: int, last: int) -> Exception | None:
        """What the query raises over the rows from one position up to another; None when it does not."""
        return _raised(self._plan.over(lambda number: self._between(number, first, last)))

    def why_without_any(self) -> Exception | None:
        """What the query raises over no rows, all that it needs besides being computed; None when it does not."""
        # So that Spark does not see it beforehand.
        nothing = F.col(_ID) < 0
        with with_confs(self._plan.session, {"spark.sql.adaptive.enabled": "false"}):
            return _raised(self._plan.over(lambda number: self._sources[number].where(nothing).drop(*self._beside)))

    def none(self) -> DataFrame:
        """What the query returns over no rows."""
        return self._plan.over(lambda number: self._sources[number].limit(0).drop(*self._beside))

    def all_rows(self, looked_at: Sequence[Column]) -> list[tuple[int, Row]]:
        """For each row, in order, the number of its source, and what is looked at of it, as :meth:`rows` has it."""
        return [
            (number, row["seen"])
            for number, source in enumerate(self._sources)
            for row in self._with_whole(source).sort(_ID).select(F.struct(*looked_at).alias("seen")).collect()
        ]

    def why_without(self, positions: Sequence[int]) -> Exception | None:
        """What the query raises over all rows but some; None when it does not."""
        return _raised(self.without(positions))

    def without(self, positions: Sequence[int]) -> DataFrame:
        """What the query returns without some rows."""
        ids = [self._id(position) for position in positions]

        def rest(number: int) -> DataFrame:
            gone = [row for row in ids if row >> _SOURCE_BITS == number]
            source = self._sources[number]
            return (source.where(~F.col(_ID).isin(gone)) if gone else source).drop(*self._beside)

        return self._plan.over(rest)

    def rows(self, positions: Sequence[int], looked_at: Sequence[Column]) -> dict[int, tuple[int, Row]]:
        """For each position the number of its source, and what is looked at of its row.

        Args:
            positions: of the rows.
            looked_at: expressions over :data:`WHOLE` and what is told beside the columns.
        """
        wanted = {self._id(position): position for position in positions}
        found = {}
        for number, source in enumerate(self._sources):
            ids = [row for row in wanted if row >> _SOURCE_BITS == number]
            if ids:
                rows = self._with_whole(source.where(F.col(_ID).isin(ids)))
                for row in rows.select(_ID, F.struct(*looked_at).alias("seen")).collect():
                    found[wanted[row[_ID]]] = (number, row["seen"])
        return found

    def positions_of(self, stored: Sequence[str]) -> list[int]:
        """The positions of rows that are, as JSON, among some."""
        found = []
        for source in self._sources:
            whole = as_json(whole_row(source, [name for name in source.columns if name not in self._beside]))
            found += [self._position(row[0]) for row in source.where(whole.isin(list(stored))).select(_ID).collect()]
        return sorted(found)

    def suspects(self, most: int) -> list[int]:
        """The positions of rows on which an expression of the query raises, as far as that can be told at once.

        Args:
            most: no more than one above this are looked for.
        """

        def marked(number: int) -> DataFrame:
            source = self._sources[number]
            return source.select(*(quoted(name) for name in source.columns if name not in self._beside), _ID)

        try:
            with with_confs(self._plan.session, _EACH_BY_ITSELF):
                ids = {row[0] for ids in self._plan.raising(marked) for row in ids.limit(most + 1).collect()}
        except (PySparkException, Py4JError, Unmarked):
            # Functions of Python raise all the same; of other queries it cannot be told.
            return []
        return sorted(self._position(row) for row in ids)

    def _with_whole(self, source: DataFrame) -> DataFrame:
        names = [name for name in source.columns if name not in self._beside]
        return source.withColumn(WHOLE, whole_row(source, names))

    def _between(self, number: int, first: int, last: int) -> DataFrame:
        source = self._sources[number]
        if (first, last) != (0, self.count):
            # Ids ascend with positions.
            source = source.where(F.col(_ID).between(self._id(first), self._id(last - 1)))
        return (source.coalesce(1) if last - first < _ROWS_OF_A_TASK else source).drop(*self._beside)

    def _id(self, position: int) -> int:
        """The id of the row at a position."""
        part = bisect_right(self._starts, position) - 1
        return self._parts[part][0] + position - self._starts[part]

    def _position(self, row: int) -> int:
        """The position of a row with an id."""
        part = bisect_right([start for start, _ in self._parts], row) - 1
        return self._starts[part] + row - self._parts[part][0]


def _raised(frame: DataFrame) -> Exception | None:
    """What computing a frame raises; nothing of it is kept."""
    try:
        frame.write.format("noop").mode("overwrite").save()
    except Exception as error:  # noqa: BLE001 - whatever the query raises is the answer
        return error
    return None


@contextmanager
def numbered(plan: BatchPlan, sources: Sequence[DataFrame], told: dict[str, Column]) -> Iterator[NumberedRows]:
    """The rows of sources while they are looked at.

    Args:
        plan: of the query.
        sources: the rows.
        told: what else is to be known of a row, by the names of columns; those of sources are left out of the query.
    """
    beside = [column.alias(name) for name, column in told.items()]
    found = []
    for number, source in enumerate(sources):
        row = (F.monotonically_increasing_id() + F.lit(number << _SOURCE_BITS)).alias(_ID)
        found.append(source.select("*", row, *beside).persist(StorageLevel.MEMORY_AND_DISK))
    try:
        yield NumberedRows(plan, found, tuple(told))
    finally:
        for source in found:
            source.unpersist()
