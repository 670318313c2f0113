"""The batch twin of a stream: the same query function over a part of its input, read as a batch.

While a query is called inside of :func:`as_batch`, ``spark.readStream`` is a :class:`BatchReader`, and ``STREAM`` in
SQL is left out (``patches.py``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from pyspark.sql import DataFrame, DataFrameReader, SparkSession

from headrace.errors import PipelineError
from headrace.sources import event_hubs_options, kafka_options
from headrace.sources.option_reading import Reads
from headrace.spark.session.query_context import BatchReads, in_query_context, query_context

if TYPE_CHECKING:
    from typing import Self

_TOPICS = (kafka_options.FORMAT, event_hubs_options.FORMAT)
# Options that say where and how fast a stream reads; a batch reads its part at once.
_STREAM_OPTIONS = frozenset(
    option.casefold()
    for option in (
        *("startingVersion", "startingTimestamp", "maxFilesPerTrigger", "maxBytesPerTrigger"),
        *(option.name for source in _TOPICS for option in source.options if option.reads is Reads.STREAMS),
        *("ignoreChanges", "ignoreDeletes", "skipChangeCommits", "failOnDataLoss"),
        *("latestFirst", "maxFileAge", "maxCachedFiles", "cleanSource", "sourceArchiveDir", "fileNameOnly"),
        *("schemaTrackingLocation", "withEventTimeOrder", "allowSourceColumnTypeChange"),
    )
)
# Options by which a stream leaves out what a batch would read.
_FILTERS = frozenset({"excluderegex"})
_PATTERN = frozenset("*?[]{}\\")
_FILE_FORMATS = ("csv", "json", "orc", "parquet", "text", "xml")


@dataclass(frozen=True)
class Part:
    """Which part of its sources a batch reads; by default all of them, as they are now.

    ``view_of`` gets a table's name in the session, and returns the view with the part of it that is to be read, or
    None for the table itself; ``of_paths`` gets what a query loads files from, and returns the files to load.
    """

    view_of: Callable[[str], str | None] = lambda _name: None
    of_paths: Callable[[Sequence[str]], Sequence[str]] = lambda paths: paths


@contextmanager
def as_batch(part: Part) -> Iterator[None]:
    """Let query functions that are called inside the block read streams as batches."""
    reads = BatchReads(lambda session: BatchReader(session, part), part.view_of)
    with in_query_context(replace(query_context(), batch=reads)):
        yield


class BatchReader:
    """Has the methods of ``DataStreamReader``, and returns batch DataFrames."""

    def __init__(self, session: SparkSession, part: Part) -> None:
        self._session = session
        self._reader: DataFrameReader = session.read
        self._part = part
        self._path: str | None = None
        self._format = ""
        self._schema: Any = None

    def format(self, source: str) -> Self:
        """The source's format."""
        self._format = source.casefold()
        self._reader = self._reader.format(source)
        return self

    def schema(self, schema: Any) -> Self:
        """The columns."""
        self._schema = schema
        self._reader = self._reader.schema(schema)
        return self

    def name(self, source_name: str) -> Self:  # noqa: ARG002 - a batch has no checkpoint to name a source in
        """Nothing."""
        return self

    def option(self, key: str, value: Any) -> Self:
        """One option; those of streams alone are left out."""
        if key.casefold() in _FILTERS:
            raise PipelineError("FLOW.NO_TWIN", what=f"a stream with the option {key}")
        if key.casefold() == "path":
            self._path = str(value)
        elif key.casefold() not in _STREAM_OPTIONS:
            self._reader = self._reader.option(key, value)
        return self

    def options(self, **options: Any) -> Self:
        """Several options."""
        for key, value in options.items():
            self.option(key, value)
        return self

    def load(self, path: str | None = None, format: str | None = None, schema: Any = None, **options: Any) -> DataFrame:  # noqa: A002 - PySpark's name
        """What the source holds, or the part of it that is asked for."""
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
            # As Spark's file stream reads what it has listed: names are no patterns, and partitions are columns below
            # the folder, wherever in it the files lie (FileStreamSource.getBatch).
            self._reader = self._reader.option("__globPaths__", "false")
            if not _PATTERN & set(path):
                self._reader = self._reader.option("basePath", path)
        return self._reader.load(paths)

    def table(self, tableName: str) -> DataFrame:  # noqa: N803 - PySpark's name
        """A table, or the part of it that is asked for."""
        spell = query_context().spell_name
        view = self._part.view_of(spell(tableName) if spell else tableName)
        return self._session.read.table(tableName if view is None else view)

    def changes(self, tableName: str) -> DataFrame:  # noqa: N803 - PySpark's name
        """Refused: changes are not rows that a batch of the same query would read.

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
