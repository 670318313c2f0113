"""Writes the Parquet file of a few rows, with the statistics by which readers of a Delta table skip files.

Source: PROTOCOL.md, "Per-file Statistics", "Parquet" types. Statistics are of top-level columns alone. What a reader
could misunderstand has none: NaN, which other writers leave out of the bounds; decimals, which JSON numbers do not hold
exactly; texts longer than those that Delta keeps whole. A reader then reads the file.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from functools import partial
from io import BytesIO
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from headrace.stores.paths import StoragePath

# Longer texts are cut by Delta, whose readers know how.
_MAX_TEXT = 32
# Without a time zone: all times are of UTC, or have none.
_EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001


def with_utc_times(rows: pa.Table) -> pa.Table:
    """The same rows; instants of any time zone, also nested ones, are of UTC, the only one that Delta stores."""
    return rows.cast(pa.schema([pa.field(field.name, _in_utc(field.type)) for field in rows.schema]))


def write_parquet(file: StoragePath, rows: pa.Table) -> int:
    """Write rows to a new file, which is whole even after a crash of the machine; returns its bytes.

    Raises:
        OSError: the file cannot be written.
    """
    stream = BytesIO()
    pq.write_table(rows, stream, compression="snappy", coerce_timestamps="us", store_schema=False)
    content = stream.getvalue()
    if isinstance(file, Path):
        with file.open("xb") as opened:
            opened.write(content)
            opened.flush()
            os.fsync(opened.fileno())
    else:
        file.write_bytes(content)
    return len(content)


def statistics(rows: pa.Table) -> str:
    """The statistics of a file with these rows, as the JSON of its ``add``."""
    least: dict[str, Any] = {}
    greatest: dict[str, Any] = {}
    nulls: dict[str, int] = {}
    for name, column in zip(rows.column_names, rows.columns, strict=True):
        if not pa.types.is_struct(column.type):
            nulls[name] = column.null_count
            if (bounds := _bounds(column)) is not None:
                low, high = bounds
                least |= {name: low}
                greatest |= {} if high is None else {name: high}
    found = {"numRecords": rows.num_rows, "minValues": least, "maxValues": greatest, "nullCount": nulls}
    return json.dumps(found, separators=(",", ":"))


def _bounds(column: pa.ChunkedArray) -> tuple[Any, Any] | None:
    kind = column.type
    if column.null_count == len(column):
        return None
    if pa.types.is_string(kind):
        low, high = _least_and_greatest(column)
        return low[:_MAX_TEXT], high if len(high) <= _MAX_TEXT else None
    if pa.types.is_integer(kind):
        return _least_and_greatest(column)
    if pa.types.is_floating(kind):
        # Infinite numbers have no form in JSON.
        return _least_and_greatest(column) if pc.all(pc.is_finite(column)).as_py() else None
    if pa.types.is_date(kind):
        days = _least_and_greatest(column.cast(pa.int32()))
        return _texts([timedelta(days=day) for day in days], lambda at: at.date().isoformat())
    if pa.types.is_timestamp(kind):
        zone = "Z" if kind.tz else ""
        micros = _least_and_greatest(column.cast(pa.int64()))
        # In milliseconds, rounded down: readers of Delta expect both bounds so.
        form = partial(datetime.isoformat, timespec="milliseconds")
        return _texts([timedelta(microseconds=one) for one in micros], lambda at: form(at) + zone)
    return None


def _least_and_greatest(column: pa.ChunkedArray) -> tuple[Any, Any]:
    found = pc.min_max(column).as_py()
    return found["min"], found["max"]


def _texts(since_epoch: Sequence[timedelta], text: Callable[[datetime], str]) -> tuple[str, str] | None:
    """The texts of both bounds; None if one is outside the years 1 to 9999."""
    try:
        low, high = (text(_EPOCH + one) for one in since_epoch)
    except OverflowError:
        return None
    return low, high


def _in_utc(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_timestamp(kind):
        return pa.timestamp("us", tz="UTC") if kind.tz else pa.timestamp("us")
    if pa.types.is_struct(kind):
        fields = [kind.field(number) for number in range(kind.num_fields)]
        return pa.struct([pa.field(field.name, _in_utc(field.type), field.nullable) for field in fields])
    if pa.types.is_list(kind):
        return pa.list_(pa.field(kind.value_field.name, _in_utc(kind.value_type), kind.value_field.nullable))
    if pa.types.is_map(kind):
        return pa.map_(_in_utc(kind.key_type), _in_utc(kind.item_type))
    return kind
