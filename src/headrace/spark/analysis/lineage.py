"""What the only column of a query is computed from, read from its analyzed plan through py4j."""

from __future__ import annotations

import re
from typing import Any

from pyspark.sql import DataFrame

from headrace.spark.analysis.plans import analyzed
from headrace.spark.jvm.plan_nodes import items, node_kind

_FILE_TIME = re.compile(r"_metadata\b.*\bfile_modification_time\b", re.DOTALL)


def nondeterminism_of(frame: DataFrame) -> str | None:
    """Why the only column of a query may differ for the same row the next time; None if it is deterministic.

    Follows columns computed by the query and by views that it reads, but not into stored tables.
    """
    jvm: Any = frame.sparkSession._jvm  # noqa: SLF001 - tree patterns have no public form
    current = jvm.org.apache.spark.sql.catalyst.trees.TreePattern.CURRENT_LIKE()
    plan = analyzed(frame)
    wanted: set[int] = set()
    pending = [plan]
    top = True
    while pending:
        node = pending.pop()
        if node_kind(node) in ("Project", "Aggregate"):
            named = node.projectList() if node_kind(node) == "Project" else node.aggregateExpressions()
            for column in items(named):
                if top or column.exprId().id() in wanted:
                    found = _nondeterminism(column, current)
                    if found is not None:
                        return found
                    wanted |= {reference.exprId().id() for reference in items(column.references().toSeq())}
            top = False
        pending.extend(items(node.children()))
    return None


def _nondeterminism(column: Any, current: Any) -> str | None:
    if column.containsPattern(current):
        return "the time at which it is read"
    if _FILE_TIME.search(str(column.toString())):
        return "the time at which its file was written"
    return None if column.deterministic() else "chance"


def depends_on_its_row(frame: DataFrame) -> tuple[bool, bool]:
    """Whether the only column of a query depends only on its input row, and whether it needs no Python.

    The origin of the row does not matter.
    """
    jvm: Any = frame.sparkSession._jvm  # noqa: SLF001 - tree patterns have no public form
    patterns = jvm.org.apache.spark.sql.catalyst.trees.TreePattern
    plan = analyzed(frame)
    if node_kind(plan) != "Project":
        return False, False
    (column,) = items(plan.projectList())
    repeatable = bool(column.deterministic()) and not column.containsPattern(patterns.CURRENT_LIKE())
    return repeatable, repeatable and not column.containsPattern(patterns.PYTHON_UDF())
