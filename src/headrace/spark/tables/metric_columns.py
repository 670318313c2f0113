"""Metrics of users as columns: the guarded argument of an aggregate, computed with the rows, and the aggregate of it.

An error in the argument becomes NULL (Catalyst's ``TryEval``), and so does an overflow of the aggregate. As for
expectations, the argument is in the later branch of a conditional, out of which the optimizer lifts nothing
(``expectations/compile.py``).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from pyspark.errors import AnalysisException, ParseException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.classic.column import Column as ClassicColumn
from pyspark.sql.types import BooleanType, DataType, NullType, NumericType, TimestampType

from headrace.errors import PipelineError
from headrace.expectations.check import check, first_line, refused_part
from headrace.model.custom_metrics import CustomMetric
from headrace.model.datasets import Dataset

_ARGUMENT_PREFIX = "__headrace_metric_"


@dataclass(frozen=True)
class _Aggregate:
    apply: Callable[[Column], Column]
    adds_up: bool
    # Of the argument, in the order in which messages list them; None for any.
    takes: tuple[type[DataType], ...] | None


_AGGREGATES: Mapping[str, _Aggregate] = {
    "sum": _Aggregate(F.try_sum, adds_up=True, takes=(NumericType, NullType)),
    "count": _Aggregate(F.count, adds_up=True, takes=None),
    "count_if": _Aggregate(F.count_if, adds_up=True, takes=(BooleanType, NullType)),
    "avg": _Aggregate(F.try_avg, adds_up=False, takes=(NumericType, NullType)),
    "mean": _Aggregate(F.try_avg, adds_up=False, takes=(NumericType, NullType)),
    "min": _Aggregate(F.min, adds_up=False, takes=(NumericType, TimestampType, NullType)),
    "max": _Aggregate(F.max, adds_up=False, takes=(NumericType, TimestampType, NullType)),
}


@dataclass(frozen=True)
class MetricColumns:
    """A metric as columns.

    Attributes:
        name: of the metric.
        argument: what is aggregated, to compute with the rows, under a name that is not one of theirs.
        aggregate: the aggregate of that column.
        adds_up: the aggregates of two sets of rows add up to that of both.
    """

    name: str
    argument: Column
    aggregate: Column
    adds_up: bool

    @classmethod
    def of(cls, metric: CustomMetric, number: int, frame: DataFrame) -> MetricColumns:
        """The columns of a metric that passed :func:`row_problems`.

        Args:
            metric: the metric.
            number: of the metric within its table.
            frame: has the columns of its rows.
        """
        session, column = frame.sparkSession, f"{_ARGUMENT_PREFIX}{number}"
        call = _Call.of(metric.expression, session)
        argument = call.argument(session)
        if isinstance(frame.select(argument).schema.fields[0].dataType, TimestampType):
            # Prometheus' times are seconds since 1970.
            argument = argument.cast("double")
        never = F.spark_partition_id() < 0
        guarded = F.when(never, F.lit(None)).otherwise(_or_null(argument, session))
        aggregate = _AGGREGATES[call.function]
        return cls(
            metric.name, guarded.alias(column), aggregate.apply(F.col(column)).alias(metric.name), aggregate.adds_up
        )


def row_problems(dataset: Dataset, empty: DataFrame) -> tuple[PipelineError, ...]:
    """The problems of a dataset's expectations and metrics; *empty* has the columns of its rows."""
    found = (_problem(dataset, metric, empty) for metric in dataset.metrics)
    return (*check(dataset, empty), *(problem for problem in found if problem is not None))


class _NotAnAggregate(Exception):
    """The text is an expression, but not one call of an aggregate function that metrics can have."""


@dataclass(frozen=True)
class _Call:
    """The call of an aggregate function, as Spark parses it."""

    function: str
    expression: Any

    @classmethod
    def of(cls, text: str, session: SparkSession) -> _Call:
        """The call in a text.

        Raises:
            ParseException: the text is no expression.
            _NotAnAggregate: it is another expression.
        """
        expression: Any = session._jsparkSession.sessionState().sqlParser().parseExpression(text)  # noqa: SLF001 - no public parser
        if expression.getClass().getSimpleName() != "UnresolvedFunction":
            raise _NotAnAggregate
        function = str(expression.nameParts().mkString(".")).casefold()
        is_plain = not expression.isDistinct() and expression.arguments().size() == 1
        if function not in _AGGREGATES or not is_plain:
            raise _NotAnAggregate
        return cls(function, expression)

    def argument(self, session: SparkSession) -> Column:
        """What is aggregated; NULL for rows that the filter of the call leaves out."""
        jvm: Any = session._jvm  # noqa: SLF001 - parsed expressions have no public form
        to_column = jvm.org.apache.spark.sql.classic.ExpressionUtils.column
        argument = ClassicColumn(to_column(self.expression.arguments().apply(0)))
        if not self.expression.filter().isDefined():
            return argument
        return F.when(ClassicColumn(to_column(self.expression.filter().get())), argument)


def _or_null(column: Column, session: SparkSession) -> Column:
    """A column whose errors are NULL."""
    jvm: Any = session._jvm  # noqa: SLF001 - TryEval has no public function
    expressions = jvm.org.apache.spark.sql.classic.ExpressionUtils
    try_eval = jvm.org.apache.spark.sql.catalyst.expressions.TryEval
    return ClassicColumn(expressions.column(try_eval(expressions.expression(column._jc))))  # noqa: SLF001 - the same


def _problem(dataset: Dataset, metric: CustomMetric, empty: DataFrame) -> PipelineError | None:
    def wrong(code: str, **params: Any) -> PipelineError:
        return PipelineError(code, location=metric.location, name=metric.name, dataset=dataset.name, **params)

    session, text = empty.sparkSession, metric.expression
    try:
        call = _Call.of(text, session)
        selected = empty.select(call.argument(session))
    except ParseException as error:
        return wrong("METRICS.NOT_SQL", reason=first_line(error), expression=text)
    except _NotAnAggregate:
        return wrong("METRICS.NOT_AN_AGGREGATE", expression=text, functions=", ".join(_AGGREGATES))
    except AnalysisException as error:
        if (error.getCondition() or "").startswith("UNRESOLVED_COLUMN"):
            params = error.getMessageParameters() or {}
            column = params.get("objectName", "?").replace("`", '"')
            return wrong("METRICS.UNKNOWN_COLUMN", column=column, columns=", ".join(empty.columns))
        if error.getCondition() == "MISSING_GROUP_BY":
            return wrong("METRICS.REFUSED", what="an aggregate in its argument")
        return wrong("METRICS.NOT_SQL", reason=first_line(error), expression=text)
    refused = refused_part(selected)
    if refused is not None:
        return wrong("METRICS.REFUSED", what=f"{refused} in its argument" if refused == "an aggregate" else refused)
    takes, found = _AGGREGATES[call.function].takes, [field.dataType for field in selected.schema.fields]
    if len(found) != 1 or (takes is not None and not isinstance(found[0], takes)):
        types = ", ".join(one.simpleString() for one in found)
        return wrong("METRICS.NOT_A_NUMBER", function=call.function, type=types, expression=text)
    return None
