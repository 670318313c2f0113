"""The sources of ``headrace.sources`` as Python data sources of Spark: only the interface that Spark calls.

Spark pickles these classes by reference and imports them in its workers, so a source imports what it needs where it is
used.
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
from headrace.sources.stream_source import Offset, PreparedSource, SourceStream, StreamSource
from headrace.sources.synthetic import SyntheticEvents
from headrace.sources.worker_errors import relay_problems

# The option with the prepared source, as JSON without secrets; secrets are separate options.
SOURCE_OPTION = "source"
PREFIX = "headrace_"
# No limit: the source limits its batches itself, by its options.
_ALL_ROWS = 2**62
_CLOCK = Clock(time.time_ns, time.sleep)


class PythonSource(DataSource):
    """A source by name; each source is a subclass."""

    kind: str
    from_prepared: Callable[[PreparedSource], StreamSource]

    @classmethod
    def name(cls) -> str:
        """The name under which it is registered."""
        return PREFIX + cls.kind

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 - Spark's name
        """A stream of the source."""
        del schema
        return _StreamReader(self._prepared_source())

    def reader(self, schema: StructType) -> DataSourceReader:
        """The data available now."""
        del schema
        return _Reader(self._prepared_source())

    @relay_problems
    def _prepared_source(self) -> StreamSource:
        secrets = {name: value for name, value in self.options.items() if name != SOURCE_OPTION}
        return type(self).from_prepared(PreparedSource.from_json(self.options[SOURCE_OPTION], secrets))


class Synthetic(PythonSource):
    """Synthetic events."""

    kind = "synthetic"
    from_prepared = SyntheticEvents.of


class JdbcIncremental(PythonSource):
    """New rows of a database."""

    kind = "jdbc_incremental"
    from_prepared = JdbcSource.of


class Kinesis(PythonSource):
    """Records of Kinesis streams."""

    kind = "kinesis"
    from_prepared = KinesisSource.of


class _StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    def __init__(self, source: StreamSource) -> None:
        self._source = source
        self._stream: SourceStream = source.stream(_CLOCK)

    @relay_problems
    def initialOffset(self) -> Offset:  # noqa: N802 - Spark's name
        return self._stream.initial()

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802 - Spark's name
        return ReadMaxRows(_ALL_ROWS)

    @relay_problems
    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's name
        self._stream.prepare_for_available_now()

    @relay_problems
    def latestOffset(self, start: Offset, limit: ReadLimit) -> Offset:  # noqa: N802 - Spark's name
        return self._stream.latest(start, everything=isinstance(limit, ReadAllAvailable))

    def reportLatestOffset(self) -> Offset | None:  # noqa: N802 - Spark's name
        return self._stream.newest()

    @relay_problems
    def partitions(self, start: Offset, end: Offset) -> Sequence[InputPartition]:
        return [InputPartition(task) for task in self._stream.tasks(start, end)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return _rows_of(self._source, partition)

    @relay_problems
    def commit(self, end: Offset) -> None:
        self._stream.commit(end)

    def stop(self) -> None:
        self._stream.close()

    def __getstate__(self) -> dict[str, Any]:
        # Tasks read, and do not need the driver's resources.
        return {"_source": self._source, "_stream": None}


class _Reader(DataSourceReader):
    def __init__(self, source: StreamSource) -> None:
        self._source = source

    @relay_problems
    def partitions(self) -> Sequence[InputPartition]:
        return [InputPartition(task) for task in self._source.batch(_CLOCK)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return _rows_of(self._source, partition)


@relay_problems
def _rows_of(source: StreamSource, partition: InputPartition) -> Iterator[pa.RecordBatch]:
    # Without partitions, Spark creates one with the value None.
    if partition.value is not None:
        yield from source.rows(partition.value)
