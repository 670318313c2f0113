"""Batch mode: calls a stream's query function with its input, or a part of it, read as a batch.

While a query is called inside :func:`as_batch`, ``spark.readStream`` is a :class:`BatchReader`, and ``STREAM`` in SQL
is ignored (``patches.py``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from pyspark.sql import DataFrame, DataFrameReader, SparkSession

from headrace.errors import PipelineError
from headrace.options.option import ReadMode
from headrace.sources import event_hubs_options, kafka_options
from headrace.spark.session.query_context import BatchReads, in_query_context, query_context

if TYPE_CHECKING:
    from typing import Self

_TOPICS = (kafka_options.FORMAT, event_hubs_options.FORMAT)
# Options for where and how fast a stream reads; a batch reads its part at once.
_STREAM_OPTIONS = frozenset(
    option.casefold()
    for option in (
        *("startingVersion", "startingTimestamp", "maxFilesPerTrigger", "maxBytesPerTrigger"),
        *(option.name for source in _TOPICS for option in source.options if option.read_mode is ReadMode.STREAMS),
        *("ignoreChanges", "ignoreDeletes", "skipChangeCommits", "failOnDataLoss"),
        *("latestFirst", "maxFileAge", "maxCachedFiles", "cleanSource", "sourceArchiveDir", "fileNameOnly"),
        *("schemaTrackingLocation", "withEventTimeOrder", "allowSourceColumnTypeChange"),
    )
)
# Options by which a stream skips input that a batch would read.
_FILTERS = frozenset({"excluderegex"})
_PATTERN = frozenset("*?[]{}\\")
_FILE_FORMATS = ("csv", "json", "orc", "parquet", "text", "xml")


@dataclass(frozen=True)
class SourcePart:
    """The part of its sources that a batch reads; by default their whole current content.

    ``view_of`` takes a table's name in the session, and returns the view with the part to read, or None for the table
    itself. ``of_paths`` takes the paths that a query loads, and returns the files to load.
    """

    view_of: Callable[[str], str | None] = lambda _name: None
    of_paths: Callable[[Sequence[str]], Sequence[str]] = lambda paths: paths


@contextmanager
def as_batch(part: SourcePart) -> Iterator[None]:
    """Make query functions that are called inside the block read streams as batches."""
    reads = BatchReads(lambda session: BatchReader(session, part), part.view_of)
    with in_query_context(replace(query_context(), batch=reads)):
        yield


class BatchReader:
    """Has the methods of ``DataStreamReader`` but returns batch DataFrames."""

    def __init__(self, session: SparkSession, part: SourcePart) -> None:
        self._session = session
        self._reader: DataFrameReader = session.read
        self._part = part
        self._path: str | None = None
        self._format = ""
        self._schema: Any = None

    def format(self, source: str) -> Self:
        """Set the source's format."""
        self._format = source.casefold()
        self._reader = self._reader.format(source)
        return self

    def schema(self, schema: Any) -> Self:
        """Set the columns."""
        self._schema = schema
        self._reader = self._reader.schema(schema)
        return self

    def name(self, source_name: str) -> Self:  # noqa: ARG002 - a batch has no checkpoint to name a source in
        """Do nothing: a batch has no checkpoint."""
        return self

    def option(self, key: str, value: Any) -> Self:
        """Set an option; options that only streams have are ignored."""
        if key.casefold() in _FILTERS:
            raise PipelineError("FLOW.NO_TWIN", what=f"a stream with the option {key}")
        if key.casefold() == "path":
            self._path = str(value)
        elif key.casefold() not in _STREAM_OPTIONS:
            self._reader = self._reader.option(key, value)
        return self

    def options(self, **options: Any) -> Self:
        """Set several options."""
        for key, value in options.items():
            self.option(key, value)
        return self

    def load(self, path: str | None = None, format: str | None = None, schema: Any = None, **options: Any) -> DataFrame:  # noqa: A002 - PySpark's name
        """The content of the source, or the part of it to read."""
        if format is not None:
            self.format(format)
        if schema is not None:
            self.schema(schema)
        self.options(**options)
        path = path if path is not None else self._path
        if path is None or self._format not in _FILE_FORMATS:
            return self._reader.load(path) if path is not None else self._reader.load()
        paths = list(self._part.of_paths([path]))
        if not paths:
            return self._session.createDataFrame([], self._schema)
        if paths != [path]:
            # As Spark's file stream reads listed files: names are not patterns, and partition columns are found below
            # the base folder, wherever the files are in it (FileStreamSource.getBatch).
            self._reader = self._reader.option("__globPaths__", "false")
            if not _PATTERN & set(path):
                self._reader = self._reader.option("basePath", path)
        return self._reader.load(paths)

    def table(self, tableName: str) -> DataFrame:  # noqa: N803 - PySpark's name
        """A table, or the part of it to read."""
        rewrite = query_context().rewrite_name
        view = self._part.view_of(rewrite(tableName) if rewrite else tableName)
        return self._session.read.table(tableName if view is None else view)

    def changes(self, tableName: str) -> DataFrame:  # noqa: N803 - PySpark's name
        """Not supported: a batch of the same query would read rows, not changes.

        Raises:
            PipelineError: FLOW.NO_TWIN.
        """
        raise PipelineError("FLOW.NO_TWIN", what=f"readStream.changes of {tableName}")

    def csv(self, path: str, schema: Any = None, **options: Any) -> DataFrame:
        """CSV files."""
        return self.load(path, "csv", schema, **_given(options))

    def json(self, path: str, schema: Any = None, **options: Any) -> DataFrame:
        """JSON files."""
        return self.load(path, "json", schema, **_given(options))

    def orc(self, path: str, **options: Any) -> DataFrame:
        """ORC files."""
        return self.load(path, "orc", **_given(options))

    def parquet(self, path: str, **options: Any) -> DataFrame:
        """Parquet files."""
        return self.load(path, "parquet", **_given(options))

    def text(self, path: str, wholetext: bool = False, **options: Any) -> DataFrame:  # noqa: FBT001, FBT002 - PySpark's order
        """Text files."""
        return self.load(path, "text", wholetext=wholetext, **_given(options))

    def xml(self, path: str, schema: Any = None, **options: Any) -> DataFrame:
        """XML files."""
        return self.load(path, "xml", schema, **_given(options))


def _given(options: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in options.items() if value is not None}
