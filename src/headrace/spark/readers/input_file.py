"""``input_file_name()`` and similar functions, over files that Auto Loader reads.

Spark stores the file's name in the task that reads it. Rows of a Python source come without it, so Spark's functions
would return empty texts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import wraps
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.functions import builtin

from headrace.autoloader.reading.plan import METADATA
from headrace.errors import PipelineError
from headrace.spark.analysis.plans import analyzed, tree_text
from headrace.spark.data_sources.cloud_files import NAME
from headrace.spark.jvm.plan_nodes import items, node_kind
from headrace.spark.session.query_context import query_context
from headrace.sql.input_file import FIELDS, metadata_expression

_CLASSES = {
    "InputFileName": "input_file_name",
    "InputFileBlockStart": "input_file_block_start",
    "InputFileBlockLength": "input_file_block_length",
}


def install() -> None:
    """Map Spark's functions to fields of ``_metadata``, once in this process."""
    for name in FIELDS:
        mapped = _mapped(getattr(builtin, name), name)
        for module in (builtin, F):
            setattr(module, name, mapped)


def _mapped(original: Callable[[], Any], name: str) -> Callable[[], Any]:
    @wraps(original)
    def mapped() -> Any:
        if query_context().input_file_in_metadata:
            return F.expr(metadata_expression(METADATA, name)).alias(f"{name}()")
        return original()

    return mapped


def wrap_start(original: Any) -> Any:
    """Wrap a writer's ``start``: refuses a stream that would get empty texts."""

    @wraps(original)
    def wrapper(self: Any, *arguments: Any, **options: Any) -> Any:
        check_input_file(self._df)
        return original(self, *arguments, **options)

    return wrapper


def check_input_file(frame: DataFrame) -> None:
    """Refuse a plan that calls one of the functions over files that Auto Loader reads.

    Raises:
        PipelineError: ``AUTO_LOADER.INPUT_FILE``.
    """
    plan = analyzed(frame)
    text = tree_text(plan, frame.sparkSession)
    if not any(name in text for name in FIELDS):
        return
    for node in _nodes(plan):
        called = next((found for e in items(node.expressions()) if (found := _function(e))), None)
        if called is not None and any(_reads_files(below) for below in _nodes(node)):
            raise PipelineError("AUTO_LOADER.INPUT_FILE", function=called, field=FIELDS[called])


def _nodes(plan: Any) -> Iterator[Any]:
    yield plan
    for child in (*items(plan.children()), *items(plan.subqueries())):
        yield from _nodes(child)


def _function(expression: Any) -> str | None:
    name = _CLASSES.get(node_kind(expression))
    return name or next((found for e in items(expression.children()) if (found := _function(e))), None)


def _reads_files(node: Any) -> bool:
    kind = node_kind(node)
    if kind == "StreamingRelationV2":
        return str(node.sourceName()) == NAME
    return kind == "DataSourceV2Relation" and NAME in str(node.table().name())
