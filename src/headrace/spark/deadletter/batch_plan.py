"""The plan of the batch that a streaming query is computing, and the same plan over other rows.

Source: Spark's ``MicroBatchExecution.runBatch`` and ``ForeachBatchSink``: the frame that a function gets is an RDD and
says nothing of where its rows come from, but the query's last execution is that of the batch.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from headrace.spark.deadletter.failing_expressions import FailingExpressions
from headrace.spark.jvm.plan_nodes import items, leaves
from headrace.spark.session.scoped_confs import with_confs

# Of the thread that calls a function of foreachBatch; the id is that of the checkpoint.
# Source: Spark's ``StreamExecution.QUERY_ID_KEY``.
QUERY_ID_PROPERTY = "sql.streaming.queryId"
# Spark refuses to compute the rows of a batch outside of its query.
_UNCHECKED = {"spark.sql.streaming.unsupportedOperationCheck": "false"}


class BatchPlan:
    """What a query computes in a batch.

    Args:
        session: of the batch.
        plan: Spark's logical plan, analyzed.
        definition: that of the query, in which a source is one node whatever it reads in a batch.
    """

    def __init__(self, session: SparkSession, plan: Any, definition: Any) -> None:
        self.session = session
        jvm: Any = session._jvm  # noqa: SLF001 - plans have no public form
        self._jvm = jvm
        # A reference to a common table hides where its rows come from.
        inlined = jvm.org.apache.spark.sql.catalyst.optimizer.InlineCTE(True, False)  # noqa: FBT003 - Java's arguments
        self._plan = inlined.apply(plan)
        relations: list[Any] = []
        for leaf in leaves(inlined.apply(definition)):
            if leaf.isStreaming() and not any(leaf.fastEquals(known) for known in relations):
                relations.append(leaf)
        # Of each source its node in the batch, by the columns that the rest of the query knows it by.
        self._sources = [_node(self._plan, set(_columns(relation))) for relation in relations]

    @classmethod
    def of(cls, frame: DataFrame, starter: SparkSession) -> BatchPlan:
        """The plan behind the frame that a function of foreachBatch has been called with, while it is called.

        Args:
            frame: what it got; its session is a clone of that which has started the query.
            starter: that one.
        """
        session = frame.sparkSession
        query: Any = starter.streams.get(session.sparkContext.getLocalProperty(QUERY_ID_PROPERTY))  # type: ignore[arg-type]
        running = query._jsq.streamingQuery()  # noqa: SLF001 - its plan has no public form
        # Below the sink.
        return cls(session, running.lastExecution().analyzed().children().apply(0), running.logicalPlan())

    @property
    def repeatable(self) -> bool:
        """False where the query gives other values when it is computed again, such as those of ``uuid()``.

        Spark makes them anew in each batch, by a seed that a plan of ours does not get, and knows the names of files
        only while it reads them.
        """
        return bool(self._plan.deterministic())

    def is_made_of(self, kinds: Collection[str]) -> bool:
        """True where everything between the sources and the result is a step of one of these kinds of Spark's."""
        return all(node.nodeName() in kinds for node in _steps(self._plan))

    def options_of(self, number: int, provider: str) -> dict[str, str] | None:
        """The options that a source was given; None where it is none of a provider's."""
        leaf = self._sources[number]
        if leaf.nodeName() != "StreamingRelationV2" or leaf.sourceName() != provider:
            return None
        given = leaf.extraOptions().asCaseSensitiveMap()
        return {str(key): str(given.get(key)) for key in given}

    def sources(self) -> list[DataFrame]:
        """The rows of the batch as its sources give them, a frame for each source that streams."""
        rdds: Any = getattr(self._jvm.org.apache.spark.sql.execution, "LogicalRDD$").__getattr__("MODULE$")
        found = []
        # As Spark itself does for foreachBatch: a frame of what streams, as an RDD, does not stream.
        with with_confs(self.session, _UNCHECKED):
            for leaf in self._sources:
                java = self._frame(leaf)._jdf  # noqa: SLF001 - the same
                found.append(self._frame(rdds.fromDataset(java.queryExecution().toRdd(), java, False)))  # noqa: FBT003
        return found

    def schemas(self) -> list[StructType]:
        """The columns of each source."""
        return [StructType.fromJson(json.loads(leaf.schema().json())) for leaf in self._sources]

    def standing_in(self, number: int, frame: DataFrame) -> DataFrame:
        """A frame with the columns of a source, in their order, as :meth:`over` takes it."""
        expressions = self._jvm.org.apache.spark.sql.catalyst.expressions
        none, java = self._jvm.scala.Option.empty(), frame._jdf.queryExecution().analyzed()  # noqa: SLF001 - the same
        columns, given = self._sources[number].output(), java.output()
        named = self._jvm.java.util.ArrayList()
        for place in range(columns.size()):
            column = columns.apply(place)
            kept, keys = column.qualifier(), self._sequence(self._jvm.java.util.ArrayList())
            named.add(expressions.Alias(given.apply(place), column.name(), column.exprId(), kept, none, keys))
        project = self._jvm.org.apache.spark.sql.catalyst.plans.logical.Project
        return self._frame(project(self._sequence(named), java))

    def over(self, rows: Callable[[int], DataFrame]) -> DataFrame:
        """What the query returns over other rows.

        Args:
            rows: gets the number of a source and gives what it is to have, made of that one of :meth:`sources`, with
                the same columns.
        """
        given = [_analyzed(rows(number)) for number in range(len(self._sources))]
        return self._frame(self._with(self._plan, given))

    def raising(self, rows: Callable[[int], DataFrame]) -> list[DataFrame]:
        """The ids of rows on which a step of the query raises, a frame for each step that may.

        Args:
            rows: as that of :meth:`over`, with the id of each row as the last column.

        Raises:
            Unmarked: it cannot be told of this query.
        """

        def source(leaf: Any) -> Any | None:
            numbers = (number for number, known in enumerate(self._sources) if leaf.fastEquals(known))
            number = next(numbers, None)
            return None if number is None else _analyzed(rows(number))

        found = FailingExpressions(self._jvm, source)
        found.look(self._plan)
        return [self._frame(plan) for plan in found.found]

    def _with(self, plan: Any, given: list[Any]) -> Any:
        for leaf, other in zip(self._sources, given, strict=True):
            if plan.fastEquals(leaf):
                return other
        children = list(items(plan.children()))
        if not children:
            return plan
        changed = self._jvm.java.util.ArrayList()
        for child in children:
            changed.add(self._with(child, given))
        return plan.withNewChildren(self._sequence(changed).toIndexedSeq())

    def _sequence(self, values: Any) -> Any:
        return self._jvm.org.apache.spark.api.python.PythonUtils.toSeq(values)

    def _frame(self, plan: Any) -> DataFrame:
        session: Any = self.session._jsparkSession  # noqa: SLF001 - the same
        return DataFrame(self._jvm.org.apache.spark.sql.classic.Dataset.ofRows(session, plan), self.session)


def _analyzed(frame: DataFrame) -> Any:
    return frame._jdf.queryExecution().analyzed()  # noqa: SLF001 - the same


def _steps(plan: Any) -> Iterator[Any]:
    """The nodes of a plan that are no leaves."""
    below = list(items(plan.children()))
    if below:
        yield plan
    for child in below:
        yield from _steps(child)


def _columns(node: Any) -> list[int]:
    """The ids of the columns that a node gives."""
    return [column.exprId().id() for column in items(node.output())]


def _node(plan: Any, columns: set[int]) -> Any:
    """The node of a plan that reads just these columns from outside: the lowest that has them."""
    found = None
    for node in _chain_to(plan, columns):
        if set(_columns(node)) == columns:
            found = node
    if found is None:
        raise LookupError("a source of the query is not in the plan of its batch")
    return found


def _chain_to(plan: Any, columns: set[int]) -> Iterator[Any]:
    """The nodes that give all of some columns, from the top down."""
    if columns <= set(_columns(plan)):
        yield plan
    for child in items(plan.children()):
        yield from _chain_to(child, columns)
