"""Checks that expectations can be evaluated, before any data is read."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pyspark.errors import AnalysisException, ParseException, PySparkException
from pyspark.sql import DataFrame
from pyspark.sql.types import BooleanType

from headrace.errors import PipelineError
from headrace.expectations.compile import predicate_column
from headrace.model.datasets import Dataset
from headrace.model.expectations import Expectation
from headrace.model.table_rules import TABLE_RULES

# Catalyst nodes that a predicate on one row cannot contain, with their names for messages.
_REFUSED_NODES = {
    "PythonUDF": "a Python function",
    "ScalarSubquery": "a subquery",
    "Exists": "a subquery",
    "ListQuery": "a subquery",
    "InSubquery": "a subquery",
    "AggregateExpression": "an aggregate",
    "WindowExpression": "a window function",
    "CallMethodViaReflection": "a call to a Java method",
    "ScalaUDF": "a function of the session",
    "Aggregate": "an aggregate",
    "Window": "a window function",
    "Generate": "a function that returns several rows",
}


def check(dataset: Dataset, empty: DataFrame) -> tuple[PipelineError, ...]:
    """The problems of a dataset's expectations; *empty* has the columns of its rows."""
    if not dataset.expectations:
        return ()
    predicates = [e for e in dataset.expectations if not isinstance(e.predicate, TABLE_RULES)]
    return tuple(problem for e in predicates if (problem := _problem(dataset, e, empty)) is not None)


def _problem(dataset: Dataset, expectation: Expectation, empty: DataFrame) -> PipelineError | None:
    def wrong(code: str, **params: Any) -> PipelineError:
        return PipelineError(
            code,
            location=expectation.location,
            name=expectation.name,
            dataset=dataset.name,
            **params,
        )

    try:
        if isinstance(expectation.predicate, str):
            parser = empty.sparkSession._jsparkSession.sessionState().sqlParser()  # noqa: SLF001 - no public parser
            parser.parseExpression(expectation.predicate)
        selected = empty.select(predicate_column(expectation).alias("holds"))
        field = selected.schema.fields[0]
    except ParseException as error:
        return wrong("EXPECTATION.NOT_SQL", reason=first_line(error), predicate=expectation.text)
    except AnalysisException as error:
        if (error.getCondition() or "").startswith("UNRESOLVED_COLUMN"):
            params = error.getMessageParameters() or {}
            column = params.get("objectName", "?").replace("`", '"')
            return wrong("EXPECTATION.UNKNOWN_COLUMN", column=column, columns=", ".join(empty.columns))
        if error.getCondition() == "MISSING_GROUP_BY":
            return wrong("EXPECTATION.REFUSED", what="an aggregate")
        return wrong("EXPECTATION.NOT_SQL", reason=first_line(error), predicate=expectation.text)
    refused = refused_part(selected)
    if refused is not None:
        return wrong("EXPECTATION.REFUSED", what=refused)
    if len(selected.columns) != 1 or not isinstance(field.dataType, BooleanType):
        return wrong("EXPECTATION.NOT_BOOLEAN", type=field.dataType.simpleString(), predicate=expectation.text)
    return None


def refused_part(selected: DataFrame) -> str | None:
    """What a projection of one expression contains that cannot be computed from single rows, in words."""
    return next((_REFUSED_NODES[node] for node in _nodes(selected) if node in _REFUSED_NODES), None)


def _nodes(frame: DataFrame) -> Iterator[str]:
    """The class names of the nodes in a projection's plan and in its only expression."""
    plan = frame._jdf.queryExecution().analyzed()  # noqa: SLF001 - expression trees have no public form
    pending = [plan, *(plan.expressions().apply(number) for number in range(plan.expressions().size()))]
    while pending:
        node = pending.pop()
        yield node.getClass().getSimpleName()
        children = node.children()
        pending.extend(children.apply(number) for number in range(children.size()))


def first_line(error: PySparkException) -> str:
    """The first line of an error's text, without its SQLSTATE."""
    text = str(error).strip().splitlines()[0]
    return text.split(" SQLSTATE")[0].rstrip(". ")
