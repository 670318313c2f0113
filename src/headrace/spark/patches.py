"""The additive patches of sessions that Headrace makes (D15); nothing else in PySpark is patched.

Each takes effect only while a query function is being called, and is documented in docs/reference/patches.md:

- ``spark.table``, ``spark.read.table``, ``spark.readStream.table`` and ``spark.sql`` accept every spelling of a
  dataset's name: three-part names and ``LIVE.x``, which Spark's session catalog refuses.
- ``spark.read.load`` and ``spark.readStream.load`` refuse the path of a table of the pipeline itself, which is to be
  read by its name.
- ``count``, ``collect``, ``show`` and other actions are refused while the graph is resolved, because they would run
  on empty stand-ins and decide the pipeline's shape by them.
"""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from functools import wraps
from typing import Any

from pyspark.sql.classic.dataframe import DataFrame as ClassicDataFrame
from pyspark.sql.readwriter import DataFrameReader, DataFrameWriter
from pyspark.sql.session import SparkSession
from pyspark.sql.streaming.readwriter import DataStreamReader, DataStreamWriter

from headrace.errors import PipelineError

Spelling = Callable[[str], str]

# How names are spelled for the session, and whether actions are refused, in the call of a query function.
SPELL_NAME: ContextVar[Spelling | None] = ContextVar("headrace_spell_name", default=None)
SPELL_QUERY: ContextVar[Spelling | None] = ContextVar("headrace_spell_query", default=None)
# Raises when a path is that of one of the pipeline's own tables.
CHECK_PATH: ContextVar[Callable[[str], None] | None] = ContextVar("headrace_check_path", default=None)
RESOLVING: ContextVar[bool] = ContextVar("headrace_resolving", default=False)

_ACTIONS = (
    "collect",
    "count",
    "first",
    "foreach",
    "foreachPartition",
    "head",
    "isEmpty",
    "show",
    "tail",
    "take",
    "toArrow",
    "toLocalIterator",
    "toPandas",
)
_WRITES = ("save", "saveAsTable", "insertInto", "csv", "jdbc", "json", "orc", "parquet", "text", "xml")
_MARK = "_headrace_patched"


def install() -> None:
    """Patch PySpark's classes once in this process."""
    if getattr(SparkSession, _MARK, False):
        return
    setattr(SparkSession, _MARK, True)
    for owner in (SparkSession, DataFrameReader, DataStreamReader):
        _wrap(owner, "table", _respelled(SPELL_NAME))
    _wrap(SparkSession, "sql", _respelled(SPELL_QUERY))
    for reader in (DataFrameReader, DataStreamReader):
        _wrap(reader, "load", _checked)
    for action in _ACTIONS:
        _wrap(ClassicDataFrame, action, _refused(action))
    for write in _WRITES:
        _wrap(DataFrameWriter, write, _refused(f"write.{write}"))
    for start in ("start", "toTable"):
        _wrap(DataStreamWriter, start, _refused(f"writeStream.{start}"))


def _wrap(owner: type, name: str, wrapping: Callable[[Any], Any]) -> None:
    setattr(owner, name, wrapping(getattr(owner, name)))


def _respelled(spelling: ContextVar[Spelling | None]) -> Callable[[Any], Any]:
    def wrapping(original: Any) -> Any:
        @wraps(original)
        def respelled(self: Any, text: str, *arguments: Any, **options: Any) -> Any:
            spell = spelling.get()
            return original(self, spell(text) if spell else text, *arguments, **options)

        return respelled

    return wrapping


def _checked(original: Any) -> Any:
    @wraps(original)
    def checking(self: Any, path: Any = None, *arguments: Any, **options: Any) -> Any:
        check = CHECK_PATH.get()
        if check is not None:
            for one in [path] if isinstance(path, str) else path or ():
                check(one)
        return original(self, path, *arguments, **options)

    return checking


def _refused(what: str) -> Callable[[Any], Any]:
    def wrapping(original: Any) -> Any:
        @wraps(original)
        def refusing(*arguments: Any, **options: Any) -> Any:
            if RESOLVING.get():
                raise PipelineError("FLOW.ACTION", action=what)
            return original(*arguments, **options)

        return refusing

    return wrapping
