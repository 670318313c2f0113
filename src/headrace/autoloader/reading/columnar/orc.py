"""Read ORC files with Arrow: one stripe at a time, each file as one split."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa
from pyarrow import orc

from headrace.autoloader.reading.columnar.column_mapping import FileColumns
from headrace.autoloader.reading.opening import open_file, translating_errors
from headrace.autoloader.reading.plan import ReadPlan
from headrace.autoloader.reading.splits import Split
from headrace.errors import PipelineError

_ROWS = 32_768
_SPARK_TYPE = b"spark.sql.catalyst.type"
_CLOCK = pa.timestamp("us")


def orc_rows(plan: ReadPlan, split: Split) -> Iterator[pa.RecordBatch]:
    """Read the rows of a file.

    ORC's plain ``timestamp`` is a local time (ORC specification, "Types"). As TIMESTAMP it is in the reader's time
    zone, as in Spark.

    Raises:
        UnknownFields: see :class:`FileColumns`.
        PipelineError: see :class:`FileColumns`; also ``AUTO_LOADER.FILE_COLUMN``: Arrow cannot represent a time.
        CorruptFile: the file is damaged or not an ORC file.
    """
    with open_file(split.path) as opened, translating_errors(split.path, opened):
        file = orc.ORCFile(opened)
        columns = FileColumns(plan, split.path, _known(file.schema), zone=plan.time_zone)
        if not columns.read:
            # Without columns, Arrow returns no rows.
            for begin in range(0, file.nrows, _ROWS):
                yield columns.empty_rows(min(_ROWS, file.nrows - begin))
            return
        for number in range(file.nstripes):
            stripe = _stripe(file, number, columns.read, split.path)
            for begin in range(0, stripe.num_rows, _ROWS):
                yield columns.to_schema_batch(stripe.slice(begin, _ROWS))


def orc_columns(path: str) -> pa.Schema:
    """The columns of the schema in a file.

    Raises:
        CorruptFile: it is not an ORC file.
    """
    with open_file(path) as opened, translating_errors(path, opened):
        return _known(orc.ORCFile(opened).schema)


def _known(schema: pa.Schema) -> pa.Schema:
    """Restore Spark's TIMESTAMP_NTZ, which Spark stores in ORC as whole microseconds (``OrcUtils``)."""
    return pa.schema(
        field.with_type(_CLOCK) if (field.metadata or {}).get(_SPARK_TYPE) == b"timestamp_ntz" else field
        for field in schema
    )


def _stripe(file: orc.ORCFile, number: int, names: Sequence[str], path: str) -> pa.RecordBatch:
    try:
        return file.read_stripe(number, columns=list(names))
    except pa.ArrowInvalid as error:
        # Arrow always reads times of ORC in nanoseconds.
        late = next((name for name in names if _holds_times(file, name) and _is_beyond(file, number, name)), None)
        if late is None:
            raise
        reason = "it has a time before 1677-09-21 or after 2262-04-11, and times of ORC are read in nanoseconds"
        raise PipelineError("AUTO_LOADER.FILE_COLUMN", file=path, column=late, reason=reason) from error


def _holds_times(file: orc.ORCFile, name: str) -> bool:
    return "timestamp" in str(file.schema.field(name).type)


def _is_beyond(file: orc.ORCFile, number: int, name: str) -> bool:
    """Whether a column fails because of times out of range, not because of damage."""
    try:
        file.read_stripe(number, columns=[name])
    except pa.ArrowInvalid as error:
        return "out of range" in str(error)
    return False
