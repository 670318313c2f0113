"""The plan of a streaming query's current batch, which can run over other rows.

Source: Spark's ``MicroBatchExecution.runBatch`` and ``ForeachBatchSink``. The frame that a function gets is an RDD
without its sources, but the query's last execution is that of the batch.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from headrace.spark.deadletter.failing_expressions import FailingExpressions
from headrace.spark.jvm.plan_nodes import items, leaves, node_kind
from headrace.spark.session.scoped_confs import with_confs

# A local property of the thread that calls a foreachBatch function: the query's id, from its checkpoint.
# Source: Spark's ``StreamExecution.QUERY_ID_KEY``.
QUERY_ID_PROPERTY = "sql.streaming.queryId"
# Spark would refuse to compute the rows of a batch outside of its query.
_NO_OPERATION_CHECK = {"spark.sql.streaming.unsupportedOperationCheck": "false"}


class BatchPlan:
    """The plan of a query in a batch.

    Args:
        session: of the batch.
        plan: Spark's analyzed logical plan.
        definition: the plan of the query, in which a source is one node whatever it reads in a batch.
    """

    def __init__(self, session: SparkSession, plan: Any, definition: Any) -> None:
        self.session = session
        jvm: Any = session._jvm  # noqa: SLF001 - plans have no public form
        self._jvm = jvm
        # A reference to a common table expression hides its sources.
        inline = jvm.org.apache.spark.sql.catalyst.optimizer.InlineCTE(True, False)  # noqa: FBT003 - Java's arguments
        self._plan = inline.apply(plan)
        relations: list[Any] = []
        for leaf in leaves(inline.apply(definition)):
            if leaf.isStreaming() and not any(leaf.fastEquals(known) for known in relations):
                relations.append(leaf)
        # The node of each source in the batch, found by the columns that the rest of the query uses.
        self._sources = [_node(self._plan, set(_columns(relation))) for relation in relations]

    @classmethod
    def of(cls, frame: DataFrame, starting_session: SparkSession) -> BatchPlan:
        """The plan behind the frame of a foreachBatch function, during its call.

        Args:
            frame: the function's frame; its session is a clone of *starting_session*.
            starting_session: the session that has started the query.
        """
        session = frame.sparkSession
        query: Any = starting_session.streams.get(session.sparkContext.getLocalProperty(QUERY_ID_PROPERTY))  # type: ignore[arg-type]
        running = query._jsq.streamingQuery()  # noqa: SLF001 - its plan has no public form
        # Below the sink.
        return cls(session, running.lastExecution().analyzed().children().apply(0), running.logicalPlan())

    @property
    def repeatable(self) -> bool:
        """False if the query returns other values when it is computed again, such as those of ``uuid()``.

        Spark generates them by a seed per batch that our plan does not have, and knows the names of files only while it
        reads them. The current time is that of the batch.
        """
        return all(
            self._with_known_time(expression).deterministic()
            for node in _nodes(self._plan)
            for expression in items(node.expressions())
        )

    def consists_of(self, kinds: Collection[str]) -> bool:
        """True if all plan nodes between the sources and the result are of these kinds."""
        return all(node.nodeName() in kinds for node in _nodes(self._plan) if node.children().nonEmpty())

    def options_of(self, number: int, provider: str) -> dict[str, str] | None:
        """The options of a source; None if it is not of a provider."""
        leaf = self._sources[number]
        if leaf.nodeName() != "StreamingRelationV2" or leaf.sourceName() != provider:
            return None
        given = leaf.extraOptions().asCaseSensitiveMap()
        return {str(key): str(given.get(key)) for key in given}

    def sources(self) -> list[DataFrame]:
        """The rows of the batch, one frame for each streaming source."""
        rdds: Any = getattr(self._jvm.org.apache.spark.sql.execution, "LogicalRDD$").__getattr__("MODULE$")
        found = []
        # Like Spark itself for foreachBatch: as an RDD, a streaming frame becomes a batch frame.
        with with_confs(self.session, _NO_OPERATION_CHECK):
            for leaf in self._sources:
                java = self._frame(leaf)._jdf  # noqa: SLF001 - the same
                found.append(self._frame(rdds.fromDataset(java.queryExecution().toRdd(), java, False)))  # noqa: FBT003
        return found

    def schemas(self) -> list[StructType]:
        """The columns of each source."""
        return [StructType.fromJson(json.loads(leaf.schema().json())) for leaf in self._sources]

    def stand_in(self, number: int, frame: DataFrame) -> DataFrame:
        """A frame in place of a source, with its columns in order, for :meth:`over`."""
        expressions = self._jvm.org.apache.spark.sql.catalyst.expressions
        none, java = self._jvm.scala.Option.empty(), frame._jdf.queryExecution().analyzed()  # noqa: SLF001 - the same
        columns, given = self._sources[number].output(), java.output()
        named = self._jvm.java.util.ArrayList()
        for index in range(columns.size()):
            column = columns.apply(index)
            qualifier, keys = column.qualifier(), self._sequence(self._jvm.java.util.ArrayList())
            named.add(expressions.Alias(given.apply(index), column.name(), column.exprId(), qualifier, none, keys))
        project = self._jvm.org.apache.spark.sql.catalyst.plans.logical.Project
        return self._frame(project(self._sequence(named), java))

    def over(self, rows: Callable[[int], DataFrame]) -> DataFrame:
        """The query's result over other rows.

        Args:
            rows: returns the rows of a source by its number, derived from :meth:`sources`, with the same columns.
        """
        given = [_analyzed(rows(number)) for number in range(len(self._sources))]
        return self._frame(self._with(self._plan, given))

    def failing_row_ids(self, rows: Callable[[int], DataFrame]) -> list[DataFrame]:
        """The ids of rows on which a step of the query fails, one frame for each step that may fail.

        Args:
            rows: as for :meth:`over`, with the id of each row as the last column.

        Raises:
            UnidentifiableRows: a step of the query does not preserve the ids.
        """

        def source(leaf: Any) -> Any | None:
            numbers = (number for number, known in enumerate(self._sources) if leaf.fastEquals(known))
            number = next(numbers, None)
            return None if number is None else _analyzed(rows(number))

        failing = FailingExpressions(self._jvm, source)
        failing.visit(self._plan)
        return [self._frame(plan) for plan in failing.id_plans]

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

    def _with_known_time(self, expression: Any) -> Any:
        """An expression with the time of the batch in place of the current one, which Spark calls nondeterministic."""
        if node_kind(expression) == "CurrentBatchTimestamp":
            return expression.toLiteral()
        if expression.deterministic():
            return expression
        children = self._jvm.java.util.ArrayList()
        for child in items(expression.children()):
            children.add(self._with_known_time(child))
        return expression.withNewChildren(self._sequence(children).toIndexedSeq())

    def _sequence(self, values: Any) -> Any:
        return self._jvm.org.apache.spark.api.python.PythonUtils.toSeq(values)

    def _frame(self, plan: Any) -> DataFrame:
        session: Any = self.session._jsparkSession  # noqa: SLF001 - the same
        return DataFrame(self._jvm.org.apache.spark.sql.classic.Dataset.ofRows(session, plan), self.session)


def _analyzed(frame: DataFrame) -> Any:
    return frame._jdf.queryExecution().analyzed()  # noqa: SLF001 - the same


def _nodes(plan: Any) -> Iterator[Any]:
    """The nodes of a plan, from the top down."""
    yield plan
    for child in items(plan.children()):
        yield from _nodes(child)


def _columns(node: Any) -> list[int]:
    """The ids of a node's output columns."""
    return [column.exprId().id() for column in items(node.output())]


def _node(plan: Any, columns: set[int]) -> Any:
    """The lowest node of a plan whose output is exactly these columns."""
    found = None
    for node in _chain_to(plan, columns):
        if set(_columns(node)) == columns:
            found = node
    if found is None:
        raise LookupError("a source of the query is not in the plan of its batch")
    return found


def _chain_to(plan: Any, columns: set[int]) -> Iterator[Any]:
    """The nodes whose output includes some columns, from the top down."""
    if columns <= set(_columns(plan)):
        yield plan
    for child in items(plan.children()):
        yield from _chain_to(child, columns)
