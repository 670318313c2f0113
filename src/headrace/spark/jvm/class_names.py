"""Names of Java classes that are looked up once in a session.

Py4J asks Java for each part of a dotted name whenever it is spelled, PySpark's own code included. Of a part that is a
package Java first looks for a class, in every jar there is: a millisecond or so, many times in the planning of a query.
"""

from __future__ import annotations

from typing import Any

# Spelled part by part, by Headrace and by Py4J's own ``is_instance_of``.
_DOTTED = (
    "io.delta.tables.DeltaTable",
    "java.util.ArrayList",
    "java.util.HashMap",
    "org.apache.spark.sql.catalyst.analysis.UnsupportedOperationChecker",
    "org.apache.spark.sql.catalyst.trees.TreePattern",
    "org.apache.spark.sql.classic.Dataset",
    "org.apache.spark.sql.streaming.OutputMode",
    "org.apache.spark.sql.types.DataType",
    "py4j.reflection.TypeUtil",
)
# Asked for as one name by PySpark.
_WHOLE = (
    "PythonErrorUtils",
    "PythonSQLUtils",
    "PythonUtils",
    "org.apache.spark.SparkFiles",
    "org.apache.spark.sql.catalyst.trees.PySparkCurrentOrigin",
    "org.apache.spark.sql.classic.SparkSession",
    "org.apache.spark.sql.classic.SparkSession$",
    "org.apache.spark.sql.functions",
    "org.apache.spark.sql.internal.SQLConf",
    "org.apache.spark.util.Utils",
)


def look_up_once(jvm: Any) -> None:
    """Have Py4J's view of Java remember the classes that small queries ask for again and again."""
    for name in _DOTTED:
        at = jvm
        for part in name.split("."):
            at = _remembered(at, part)
    for name in _WHOLE:
        _remembered(jvm, name)


def _remembered(holder: Any, name: str) -> Any:
    known = vars(holder)
    if name not in known:
        # What is an attribute is not asked of Java.
        known[name] = getattr(holder, name)
    return known[name]
