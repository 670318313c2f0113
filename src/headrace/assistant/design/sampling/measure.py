"""Measures the columns of a sample: nulls, distinct values, repeated rows and keys."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from headrace.assistant.design.sampling.sample import ColumnMeasure, KeyMeasure, Sample, SampleMeasures
from headrace.assistant.design.sampling.times import epoch_unit, is_time_column, measure_times
from headrace.model.ddl import InvalidDdl, JsonType, parse_struct
from headrace.model.lateness import DEFAULT_DROPPED_SHARE
from headrace.model.schema import type_text

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
# Columns that a bronze table adds.
_ADDED = frozenset({"ingested_at", "_corrupt_record"})
# Characters that replace bytes which are not UTF-8.
_REPLACEMENT = "\ufffd"
_TIMESTAMP = "timestamp"
_Codes = npt.NDArray[np.int64]


def measure_sample(
    sample: Sample, stated_keys: Sequence[str] = (), dropped_share: float = DEFAULT_DROPPED_SHARE
) -> SampleMeasures:
    """What a sample shows.

    Args:
        sample: the records.
        stated_keys: the key of the source according to its requirements.
        dropped_share: the share of rows that a watermark may drop.
    """
    table = sample.table.combine_chunks()
    codes = {name: _codes(table[name]) for name in table.column_names}
    rows = _combined(list(codes.values()), len(table))
    first = _is_first(rows)
    names = [name for name in table.column_names if _can_be_stated(name, sample.types[name])]
    return SampleMeasures(
        source=sample.source,
        format=sample.format,
        files=sample.files,
        files_found=sample.files_found,
        is_whole=sample.is_whole,
        unreadable=sample.unreadable,
        columns=tuple(_column(sample, name, codes[name], first, dropped_share) for name in names),
        left_out=tuple(name for name in table.column_names if name not in names),
        rows=len(table),
        repeated_rows=len(table) - int(first.sum()),
        not_utf8=_not_utf8(table),
        keys=_keys(stated_keys, table, codes, rows),
    )


def _can_be_stated(name: str, kind: JsonType) -> bool:
    """Whether requirements can have a column of that name and type."""
    if not _NAME.fullmatch(name) or name.casefold() in _ADDED:
        return False
    try:
        return bool(parse_struct(f"`{name}` {type_text(kind)}")["fields"])
    except InvalidDdl:
        return False


def _column(
    sample: Sample, name: str, codes: _Codes, first: npt.NDArray[np.bool_], dropped_share: float
) -> ColumnMeasure:
    kind, values = sample.types[name], sample.table[name]
    nulls = values.null_count
    time = measure_times(sample, name, dropped_share)
    has_value = codes >= 0
    return ColumnMeasure(
        name=name,
        type=_TIMESTAMP if time is not None and is_time_column(time) and kind == "string" else kind,
        nulls=nulls,
        distinct=int(codes.max(initial=-1)) + 1,
        distinct_rows=int((first & has_value).sum()),
        time=time,
        epoch=epoch_unit(values, kind),
    )


def _codes(values: pa.ChunkedArray) -> _Codes:
    """A number for each value, the same for equal values; -1 for null."""
    array = values.combine_chunks()
    if isinstance(array, pa.ChunkedArray):
        array = pa.concat_arrays(array.chunks) if array.num_chunks else pa.array([], array.type)
    if pa.types.is_nested(array.type):
        array = pa.array([None if value is None else repr(value) for value in array.to_pylist()], pa.string())
    indices = array.dictionary_encode().indices
    return np.asarray(pc.fill_null(indices.cast(pa.int64()), -1))


def _combined(codes: Sequence[_Codes], rows: int) -> _Codes:
    """A number for each row, the same for equal rows."""
    found: _Codes = np.zeros(rows, np.int64)
    for column in codes:
        # Both have less than as many values as there are rows, so the product fits.
        pairs = found * (int(column.max(initial=-1)) + 2) + column + 1
        found = np.unique(pairs, return_inverse=True)[1].astype(np.int64)
    return found


def _is_first(codes: _Codes) -> npt.NDArray[np.bool_]:
    """Whether no row before a row is equal to it."""
    found = np.zeros(len(codes), np.bool_)
    found[np.unique(codes, return_index=True)[1]] = True
    return found


def _not_utf8(table: pa.Table) -> int:
    """The number of rows with text that was not UTF-8."""
    found = np.zeros(len(table), np.bool_)
    for column in table.columns:
        if pa.types.is_string(column.type):
            has = pc.fill_null(pc.match_substring(column, _REPLACEMENT), fill_value=False)
            found |= np.asarray(has, np.bool_)
    return int(found.sum())


def _keys(stated: Sequence[str], table: pa.Table, codes: dict[str, _Codes], rows: _Codes) -> KeyMeasure | None:
    by_name = {name.casefold(): name for name in table.column_names}
    names = tuple(by_name[name.casefold()] for name in stated if name.casefold() in by_name)
    if not names or len(names) < len(stated):
        return None
    return key_measure(names, [codes[name] for name in names], rows)


def key_measure(names: tuple[str, ...], codes: Sequence[_Codes], rows: _Codes) -> KeyMeasure:
    """Columns as a key, from the numbers of their values and of the rows."""
    has_key = np.logical_and.reduce([column >= 0 for column in codes])
    keys = _combined(codes, len(rows))[has_key]
    repeated = len(keys) - len(np.unique(keys))
    first = _is_first(keys)
    # Of each key, the rows that equal neither the first one nor one between.
    distinct_rows = len(np.unique(rows[has_key]))
    conflicting = distinct_rows - int(first.sum())
    return KeyMeasure(names, int((~has_key).sum()), repeated, conflicting)
