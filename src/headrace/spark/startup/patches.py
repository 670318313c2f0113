"""The additive patches of PySpark's session classes (D15); ``call_sites.py`` also patches one function.

All but those of formats take effect only while a query function is called or the project's files load. All are
documented in docs/reference/patches.md:

- ``spark.table``, ``spark.read.table``, ``spark.readStream.table`` and ``spark.sql`` accept every spelling of a
  dataset's name: three-part names and ``LIVE.x``, which Spark's session catalog refuses.
- ``format("cloudFiles")`` of the readers, and ``read_files`` and ``cloud_files`` in ``spark.sql``, are Auto Loader
  (``auto_loader.py``), also in scripts.
- ``input_file_name()`` and its like are fields of ``_metadata`` over files that Auto Loader reads, and are refused
  where they would be empty (``input_file.py``), also in scripts.
- ``format("kafka")`` checks its options and accepts readable times, and ``format("eventhubs")`` reads a hub as a topic
  (``kafka_reader.py``); ``read_kafka`` and ``read_kinesis`` in ``spark.sql`` are those formats. Also in scripts.
- ``format("delta")`` refuses options that Delta would pass over (``delta_reader.py``).
- ``table`` of the readers has the columns of a change feed if one is requested, also on the empty stand-ins that a
  query is resolved on.
- The formats of ``headrace.sources``, such as ``format("synthetic")``, of the readers (``custom_formats.py``), also in
  scripts.
- ``spark.sql`` accepts only queries, because statements would run whenever the pipeline is checked.
- The same applies while files load. Calls that change the session, register views or write are refused there and in
  query functions (``guards.py``).
- ``spark.readStream.table`` starts at a table's first commit if a new stream gets the same rows from there
  (``storage/initial_snapshot.py``), unless an option sets its start.
- The readers (``load``, ``parquet``, ``option("path", ...)`` and so on) refuse the path of a table of the pipeline
  itself, which must be read by its name.
- ``spark.readStream`` reads, and ``STREAM`` in ``spark.sql`` means, a table as it is now while a query is called as a
  batch: for a backfill, and for the recomputed rows of a test.
- ``spark.streams.addListener`` records the listeners that the project's files add, so that they are removed with it.
- ``count``, ``collect``, ``show``, ``pivot`` without values and all other actions are refused while the graph is
  resolved, because they would run on empty stand-ins, and the pipeline's shape would depend on these.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

from pyspark.sql.catalog import Catalog
from pyspark.sql.classic.dataframe import DataFrame as ClassicDataFrame
from pyspark.sql.conf import RuntimeConfig
from pyspark.sql.group import GroupedData
from pyspark.sql.readwriter import DataFrameReader, DataFrameWriter
from pyspark.sql.session import SparkSession
from pyspark.sql.streaming.query import StreamingQueryManager
from pyspark.sql.streaming.readwriter import DataStreamReader, DataStreamWriter

from headrace.cdc.delta_change_feed import requests_change_feed
from headrace.errors import PipelineError
from headrace.spark.notebook import await_any, confs, frames, functions, group_by_key, listener_adapter, reads, writes
from headrace.spark.readers import auto_loader, custom_formats, input_file
from headrace.spark.readers.delta_reader import with_feed_columns, wrap_delta_load
from headrace.spark.readers.kafka_reader import wrap_topics_load
from headrace.spark.session import guards
from headrace.spark.session.listeners import recording
from headrace.spark.session.query_context import NameRewrite, query_context
from headrace.sql.readonly import check_readonly
from headrace.sql.rewrite import without_streams

_ACTIONS = (
    "approxQuantile",
    "checkpoint",
    "collect",
    "corr",
    "count",
    "cov",
    "crosstab",
    "first",
    "foreach",
    "foreachPartition",
    "head",
    "isEmpty",
    "localCheckpoint",
    "mergeInto",
    "show",
    "tail",
    "take",
    "toArrow",
    "toLocalIterator",
    "toPandas",
    "transpose",
    "writeTo",
)
_WRITES = ("save", "saveAsTable", "insertInto", "csv", "jdbc", "json", "orc", "parquet", "text", "xml")
_READS = ("csv", "json", "load", "orc", "parquet", "text", "xml")
# Patches that apply only in a notebook session, to calls from a script: classes, methods and their wrappers.
_TABLES_READ = ("tableExists", "getTable", "listColumns", "refreshTable", "isCached", "cacheTable", "uncacheTable")
_PATHS_WRITTEN = ("save", "csv", "json", "orc", "parquet", "text", "xml")
_PATHS_READ = tuple(name for name in _READS if name != "parquet")
_IN_NOTEBOOK: tuple[tuple[type, tuple[str, ...], Callable[[Any], Any]], ...] = (
    *((owner, ("table",), reads.named_for_reading) for owner in (SparkSession, DataFrameReader, DataStreamReader)),
    (Catalog, _TABLES_READ, reads.named_for_reading),
    (Catalog, ("databaseExists", "getDatabase", "listTables"), reads.named_schema),
    (Catalog, ("setCurrentDatabase",), reads.using_schema),
    (Catalog, ("setCurrentCatalog",), reads.using_catalog),
    (SparkSession, ("sql",), reads.running),
    (SparkSession.Builder, ("getOrCreate",), confs.building),
    (RuntimeConfig, ("set",), confs.setting),
    (StreamingQueryManager, ("addListener", "removeListener"), listener_adapter.adapting),
    (StreamingQueryManager, ("awaitAnyTermination",), await_any.awaiting),
    *(
        (owner, (method,), wrapping)
        for owner in (DataFrameReader, DataStreamReader, DataFrameWriter, DataStreamWriter)
        for method, wrapping in (("option", writes.mapping_option), ("options", writes.mapping_options))
    ),
    *((owner, _PATHS_READ, writes.mapping_path) for owner in (DataFrameReader, DataStreamReader)),
    *((owner, ("parquet",), writes.mapping_paths) for owner in (DataFrameReader, DataStreamReader)),
    (DataFrameWriter, _PATHS_WRITTEN, writes.mapping_path),
    (DataFrameWriter, ("saveAsTable", "insertInto"), writes.named_for_writing),
    (DataFrameWriter, ("save", "saveAsTable", "insertInto"), writes.with_options_as_confs),
    (ClassicDataFrame, ("writeTo",), writes.named_for_writing),
    (ClassicDataFrame, ("writeStream",), writes.counting),
    *((ClassicDataFrame, (method,), frames.keeping(method)) for method in ("cache", "persist")),
    (SparkSession, ("createDataFrame",), frames.creating),
    (DataStreamWriter, ("trigger",), writes.hurrying),
    (DataStreamWriter, ("start",), writes.starting),
    (DataStreamWriter, ("toTable",), writes.starting_table),
)
_MARK = "_headrace_patched"
# Options by which a query itself sets the start of a table's stream, or what it reads of the table.
_START_OPTIONS = {"startingversion", "startingtimestamp", "witheventtimeorder", "readchangefeed", "readchangedata"}


def install() -> None:
    """Patch PySpark's classes once per process."""
    if getattr(SparkSession, _MARK, False):
        return
    setattr(SparkSession, _MARK, True)
    guards.install()
    _wrap(DataStreamReader, "table", _from_first_commit)
    for reader in (DataFrameReader, DataStreamReader):
        _wrap(reader, "format", auto_loader.wrap_format)
        _wrap(reader, "schema", auto_loader.wrap_schema)
        _wrap(reader, "load", auto_loader.wrap_load)
        _wrap(reader, "load", wrap_topics_load)
        _wrap(reader, "load", wrap_delta_load)
        _wrap(reader, "load", custom_formats.wrap_load)
    for reader in (DataFrameReader, DataStreamReader):
        _wrap(reader, "table", _with_feed_columns)
    for owner in (SparkSession, DataFrameReader, DataStreamReader):
        _wrap(owner, "table", _rewritten(lambda: query_context().rewrite_name))
    _wrap(SparkSession, "sql", _as_batch)
    _wrap(SparkSession, "readStream", _batch_reader)
    _wrap(SparkSession, "sql", _rewritten(lambda: query_context().rewrite_query))
    _wrap(SparkSession, "sql", _queries_only)
    _wrap(SparkSession, "sql", auto_loader.wrap_sql)
    for reader in (DataFrameReader, DataStreamReader):
        for read in _READS:
            _wrap(reader, read, _checked(every=read == "parquet"))
        _wrap(reader, "option", _checked_option)
        _wrap(reader, "options", _checked_options)
    _wrap(StreamingQueryManager, "addListener", recording)
    _wrap(StreamingQueryManager, "addListener", _refused("streams.addListener"))
    _wrap(GroupedData, "pivot", _pivoting)
    _wrap(ClassicDataFrame, "rdd", _refused_property)
    for action in _ACTIONS:
        _wrap(ClassicDataFrame, action, _refused(action))
    for write in _WRITES:
        _wrap(DataFrameWriter, write, _refused(f"write.{write}"))
    input_file.install()
    for start in ("start", "toTable"):
        _wrap(DataStreamWriter, start, input_file.wrap_start)
        _wrap(DataStreamWriter, start, _refused(f"writeStream.{start}"))
    _install_notebook()


def _install_notebook() -> None:
    """Apply the patches of notebook sessions (``notebook_session.py``)."""
    for owner, methods, wrapping in _IN_NOTEBOOK:
        for method in methods:
            _wrap(owner, method, wrapping)
    for method in ("format", "queryName", "foreach", "foreachBatch"):
        _wrap(DataStreamWriter, method, writes.recording(method))
    functions.install()
    # Names that Spark's classes lack.
    DataStreamWriter.table = writes.table  # type: ignore[attr-defined]  # the vendor's
    ClassicDataFrame.groupByKey = group_by_key.group_by_key  # type: ignore[attr-defined]  # Scala's


def _wrap(owner: type, name: str, wrapping: Callable[[Any], Any]) -> None:
    setattr(owner, name, wrapping(getattr(owner, name)))


def _rewritten(name_rewrite: Callable[[], NameRewrite | None]) -> Callable[[Any], Any]:
    def wrapping(original: Any) -> Any:
        @wraps(original)
        def rewritten(self: Any, text: str, *arguments: Any, **options: Any) -> Any:
            rewrite = name_rewrite()
            return original(self, rewrite(text) if rewrite else text, *arguments, **options)

        return rewritten

    return wrapping


def _from_first_commit(original: Any) -> Any:
    @wraps(original)
    def reading(self: Any, text: str) -> Any:
        reads_commits, given = query_context().reads_commits, vars(self).get(auto_loader.GIVEN_OPTIONS, {})
        if reads_commits is None or _START_OPTIONS & set(map(str.casefold, given)) or not reads_commits(text):
            return original(self, text)
        # A reader keeps its options, and may read another table later.
        fresh = self._spark.readStream.options(**given).option("startingVersion", "0")
        return original(fresh, text)

    return reading


def _with_feed_columns(original: Any) -> Any:
    @wraps(original)
    def reading(self: Any, text: str) -> Any:
        frame = original(self, text)
        if not query_context().is_resolving or not requests_change_feed(vars(self).get(auto_loader.GIVEN_OPTIONS, {})):
            return frame
        return with_feed_columns(frame)

    return reading


def _as_batch(original: Any) -> Any:
    @wraps(original)
    def reading(self: Any, text: str, *arguments: Any, **options: Any) -> Any:
        batch = query_context().batch
        if batch is not None:
            text = without_streams(text, batch.view_of)
        return original(self, text, *arguments, **options)

    return reading


def _batch_reader(original: Any) -> Any:
    def reader(self: Any) -> Any:
        batch = query_context().batch
        return original.__get__(self, type(self)) if batch is None else batch.reader(self)

    return property(reader, doc=original.__doc__)


def _queries_only(original: Any) -> Any:
    @wraps(original)
    def querying(self: Any, text: str, *arguments: Any, **options: Any) -> Any:
        if query_context().queries_only:
            _check_query(self, text, "FLOW.SQL_NOT_QUERY")
        elif guards.RUNNING.get() is guards.Code.FILE:
            _check_query(self, text, "FILE.SQL_NOT_QUERY")
        # Spark makes temporary views of DataFrames that are passed for use in the text.
        with guards.unguarded():
            return original(self, text, *arguments, **options)

    return querying


def _check_query(session: Any, text: str, code: str) -> None:
    try:
        check_readonly(text)
    except PipelineError as error:
        # If Spark cannot parse the text, its own error is raised.
        session._jsparkSession.sessionState().sqlParser().parsePlan(text)  # noqa: SLF001 - has no public form
        reason = error.params.get("reason", error.message)
        raise PipelineError(code, reason=reason) from error


def _checked(*, every: bool) -> Callable[[Any], Any]:
    """Check the paths of a reader's method: *every* positional argument, or only the first one."""

    def wrapping(original: Any) -> Any:
        @wraps(original)
        def checking(self: Any, *arguments: Any, **options: Any) -> Any:
            for given in (*(arguments if every else arguments[:1]), options.get("path"), options.get("paths")):
                _check_paths(given)
            return original(self, *arguments, **options)

        return checking

    return wrapping


def _checked_option(original: Any) -> Any:
    @wraps(original)
    def checking(self: Any, key: str, value: Any) -> Any:
        if key.casefold() == "path":
            _check_paths(value)
        vars(self).setdefault(auto_loader.GIVEN_OPTIONS, {})[key] = value
        return original(self, key, value)

    return checking


def _checked_options(original: Any) -> Any:
    @wraps(original)
    def checking(self: Any, **options: Any) -> Any:
        for key, value in options.items():
            if key.casefold() == "path":
                _check_paths(value)
        vars(self).setdefault(auto_loader.GIVEN_OPTIONS, {}).update(options)
        return original(self, **options)

    return checking


def _check_paths(given: Any) -> None:
    check = query_context().check_path
    if check is not None:
        for path in given if isinstance(given, list | tuple) else [given]:
            if isinstance(path, str):
                check(path)


def _pivoting(original: Any) -> Any:
    @wraps(original)
    def pivoting(self: Any, pivot_col: str, values: Any = None) -> Any:
        if values is None:
            _refuse("pivot without values")
        return original(self, pivot_col, values)

    return pivoting


def _refused_property(original: Any) -> Any:
    def refusing(self: Any) -> Any:
        _refuse("rdd")
        return original.__get__(self, type(self))

    return property(refusing, doc=original.__doc__)


def _refused(what: str) -> Callable[[Any], Any]:
    def wrapping(original: Any) -> Any:
        @wraps(original)
        def refusing(*arguments: Any, **options: Any) -> Any:
            _refuse(what)
            return original(*arguments, **options)

        return refusing

    return wrapping


def _refuse(what: str) -> None:
    if query_context().is_resolving:
        raise PipelineError("FLOW.ACTION", action=what)
