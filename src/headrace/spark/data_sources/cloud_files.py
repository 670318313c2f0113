"""Auto Loader as a Python data source of Spark (D6): only the interface that Spark calls.

Spark pickles these classes by reference and imports them in its workers. Each query has a worker that only plans, and
reads no file. So the readers are imported where they are used, which saves 0.1 s per query start.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxFiles, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from headrace.autoloader.discovery import Clock
from headrace.autoloader.ledger.positions import Offset
from headrace.autoloader.source import Source
from headrace.autoloader.stream import FileStream, all_tasks
from headrace.sources.worker_errors import relay_problems
from headrace.stores.handover import stores_as_text, take_stores

NAME = "headrace_cloud_files"
SOURCE_OPTION = "source"
# How buckets are reached; Spark hides options with such a name, as "*********(redacted)".
STORES_OPTION = "stores_secret"


def source_options(source: Source) -> dict[str, str]:
    """The options of a reader: its source, and how its buckets are reached."""
    stores = stores_as_text()
    return {SOURCE_OPTION: source.to_json()} | ({STORES_OPTION: stores} if stores else {})


class CloudFiles(DataSource):
    """The files of a folder, as a stream or as a batch."""

    @classmethod
    def name(cls) -> str:
        """The name under which it is registered."""
        return NAME

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 - Spark's name
        """A stream of the files."""
        del schema
        return _StreamReader(Source.from_json(self.options[SOURCE_OPTION]), self.options.get(STORES_OPTION, ""))

    def reader(self, schema: StructType) -> DataSourceReader:
        """The files available now."""
        del schema
        return _Reader(Source.from_json(self.options[SOURCE_OPTION]), self.options.get(STORES_OPTION, ""))


class _StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    def __init__(self, source: Source, stores: str) -> None:
        take_stores(stores)
        self._source = source
        self._stores = stores
        self._stream = FileStream(source, Clock(time.time_ns, time.sleep))

    @relay_problems
    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's name
        return self._stream.initial().to_json()

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802 - Spark's name
        return ReadMaxFiles(self._source.options.max_files)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's name
        self._stream.end_at_what_is_there()

    @relay_problems
    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802 - Spark's name
        everything = isinstance(limit, ReadAllAvailable)
        return self._stream.latest(Offset.of(start), everything=everything).to_json()

    def reportLatestOffset(self) -> dict[str, Any] | None:  # noqa: N802 - Spark's name
        newest = self._stream.newest()
        return newest.to_json() if newest else None

    @relay_problems
    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        return [InputPartition(work) for work in self._stream.work(Offset.of(start), Offset.of(end))]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return _rows_of(self._source, self._stores, partition)

    @relay_problems
    def commit(self, end: dict[str, Any]) -> None:
        self._stream.committed(Offset.of(end))

    def stop(self) -> None:
        self._stream.close()

    def __getstate__(self) -> dict[str, Any]:
        # Tasks read, and do not need the driver's resources.
        return {"_source": self._source, "_stores": self._stores, "_stream": None}


class _Reader(DataSourceReader):
    def __init__(self, source: Source, stores: str) -> None:
        take_stores(stores)
        self._source = source
        self._stores = stores

    @relay_problems
    def partitions(self) -> Sequence[InputPartition]:
        return [InputPartition(work) for work in all_tasks(self._source, time.time_ns())]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return _rows_of(self._source, self._stores, partition)


@relay_problems
def _rows_of(source: Source, stores: str, partition: InputPartition) -> Iterator[pa.RecordBatch]:
    from headrace.autoloader.evolution import rows_of  # noqa: PLC0415 - see above

    take_stores(stores)
    yield from rows_of(source, partition.value)
