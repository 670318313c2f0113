"""The sources of ``headrace.sources`` as Python data sources of Spark: what Spark calls, and nothing more.

Spark pickles these by reference and imports them in its workers: what a source needs is imported where it is used.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from headrace.autoloader.discovery import Clock
from headrace.sources.jdbc_incremental import JdbcSource
from headrace.sources.kinesis import KinesisSource
from headrace.sources.stream_source import Offset, Prepared, SourceReading, SourceStream
from headrace.sources.synthetic import SyntheticEvents
from headrace.sources.worker_errors import telling

# The one option that says what is read, as JSON without secrets; secrets are options of their own.
SOURCE_OPTION = "source"
PREFIX = "headrace_"
# The limit of a batch is the source's own, from its options.
_ALL_ROWS = 2**62
_CLOCK = Clock(time.time_ns, time.sleep)


class PythonSource(DataSource):
    """A source by its name; a subclass says which."""

    kind: str
    reading: Callable[[Prepared], SourceReading]

    @classmethod
    def name(cls) -> str:
        """The name that it is registered under."""
        return PREFIX + cls.kind

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 - Spark's name
        """A stream of the source."""
        del schema
        return _StreamReader(self._reading())

    def reader(self, schema: StructType) -> DataSourceReader:
        """What is there now."""
        del schema
        return _Reader(self._reading())

    @telling
    def _reading(self) -> SourceReading:
        secrets = {name: value for name, value in self.options.items() if name != SOURCE_OPTION}
        return type(self).reading(Prepared.from_json(self.options[SOURCE_OPTION], secrets))


class Synthetic(PythonSource):
    """Synthetic events."""

    kind = "synthetic"
    reading = SyntheticEvents.of


class JdbcIncremental(PythonSource):
    """New rows of a database."""

    kind = "jdbc_incremental"
    reading = JdbcSource.of


class Kinesis(PythonSource):
    """Records of Kinesis streams."""

    kind = "kinesis"
    reading = KinesisSource.of


class _StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    def __init__(self, source: SourceReading) -> None:
        self._source = source
        self._stream: SourceStream = source.stream(_CLOCK)

    @telling
    def initialOffset(self) -> Offset:  # noqa: N802 - Spark's name
        return self._stream.initial()

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802 - Spark's name
        return ReadMaxRows(_ALL_ROWS)

    @telling
    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's name
        self._stream.end_at_what_is_there()

    @telling
    def latestOffset(self, start: Offset, limit: ReadLimit) -> Offset:  # noqa: N802 - Spark's name
        return self._stream.latest(start, everything=isinstance(limit, ReadAllAvailable))

    def reportLatestOffset(self) -> Offset | None:  # noqa: N802 - Spark's name
        return self._stream.newest()

    @telling
    def partitions(self, start: Offset, end: Offset) -> Sequence[InputPartition]:
        return [InputPartition(task) for task in self._stream.tasks(start, end)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return _rows_of(self._source, partition)

    @telling
    def commit(self, end: Offset) -> None:
        self._stream.committed(end)

    def stop(self) -> None:
        self._stream.close()

    def __getstate__(self) -> dict[str, Any]:
        # A task reads, and has no use for what the driver has open.
        return {"_source": self._source, "_stream": None}


class _Reader(DataSourceReader):
    def __init__(self, source: SourceReading) -> None:
        self._source = source

    @telling
    def partitions(self) -> Sequence[InputPartition]:
        return [InputPartition(task) for task in self._source.batch(_CLOCK)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return _rows_of(self._source, partition)


@telling
def _rows_of(source: SourceReading, partition: InputPartition) -> Iterator[pa.RecordBatch]:
    # Spark makes a partition of nothing when there is none.
    if partition.value is not None:
        yield from source.rows(partition.value)
