"""ORC, read by Arrow: one stripe at a time, each file in one part."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
from pyarrow import orc

from headrace.autoloader.reading.columnar import FileColumns
from headrace.autoloader.reading.opening import open_file
from headrace.autoloader.reading.plan import ReadPlan
from headrace.autoloader.reading.splits import Split

_ROWS = 32_768


def orc_rows(plan: ReadPlan, split: Split) -> Iterator[pa.RecordBatch]:
    """The rows of a file.

    ORC's plain ``timestamp`` is what a clock on the wall showed (ORC specification, "Types"); as TIMESTAMP it is in the
    reader's time zone, as Spark has it.

    Raises:
        UnknownFields: see :class:`FileColumns`.
        PipelineError: see :class:`FileColumns`.
    """
    with open_file(split.path) as opened:
        file = orc.ORCFile(opened)
        columns = FileColumns(plan, split.path, file.schema, zone=plan.time_zone)
        if not columns.read:
            # Arrow gives no rows of no columns.
            for begin in range(0, file.nrows, _ROWS):
                yield columns.nothing(min(_ROWS, file.nrows - begin))
            return
        for number in range(file.nstripes):
            stripe = file.read_stripe(number, columns=columns.read)
            for begin in range(0, stripe.num_rows, _ROWS):
                yield columns.completed(stripe.slice(begin, _ROWS))
