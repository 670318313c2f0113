"""Caches lookups of Java classes in a session.

Py4J asks Java for each part of a dotted name on every use, also in PySpark's own code. For a part that is a package,
Java first searches every jar for a class. That takes about a millisecond, many times while a query is planned.
"""

from __future__ import annotations

from typing import Any

# Looked up part by part, by Headrace and by Py4J's own ``is_instance_of``.
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
# Looked up as one name by PySpark.
_SINGLE = (
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


def cache_class_lookups(jvm: Any) -> None:
    """Make Py4J's view of Java cache the classes that small queries look up repeatedly."""
    for name in _DOTTED:
        node = jvm
        for part in name.split("."):
            node = _cached(node, part)
    for name in _SINGLE:
        _cached(jvm, name)


def _cached(holder: Any, name: str) -> Any:
    known = vars(holder)
    if name not in known:
        # An attribute is not looked up in Java.
        known[name] = getattr(holder, name)
    return known[name]
