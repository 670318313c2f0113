"""Measures the columns of a sample: nulls, distinct values, repeated rows and keys."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from headrace.assistant.design.sampling.composite_keys import unique_sets
from headrace.assistant.design.sampling.sample import ColumnMeasure, KeyMeasure, Sample, SampleMeasures
from headrace.assistant.design.sampling.times import epoch_unit, is_time_column, measure_times
from headrace.assistant.design.sampling.value_codes import Codes, codes_of, combined, is_first
from headrace.model.ddl import InvalidDdl, JsonType, parse_struct
from headrace.model.lateness import DEFAULT_DROPPED_SHARE
from headrace.model.schema import type_text

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
# Columns that a bronze table adds.
_ADDED = frozenset({"ingested_at", "_corrupt_record"})
# Characters that replace bytes which are not UTF-8.
_REPLACEMENT = "\ufffd"
_TIMESTAMP = "timestamp"


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
    codes = {name: codes_of(table[name]) for name in table.column_names}
    rows = combined(list(codes.values()), len(table))
    first = is_first(rows)
    names = [name for name in table.column_names if _can_be_stated(name, sample.types[name])]
    columns = tuple(_column(sample, name, codes[name], first, dropped_share) for name in names)
    return SampleMeasures(
        source=sample.source,
        format=sample.format,
        files=sample.files,
        files_found=sample.files_found,
        is_whole=sample.is_whole,
        unreadable=sample.unreadable,
        columns=columns,
        left_out=tuple(name for name in table.column_names if name not in names),
        rows=len(table),
        repeated_rows=len(table) - int(first.sum()),
        not_utf8=_not_utf8(table),
        keys=_keys(stated_keys, table, codes, rows),
        unique_sets=unique_sets(columns, codes, rows),
        options=sample.options,
        operations=sample.operations,
        inserted=None if sample.inserted is None else measure_sample(_inserted(sample), stated_keys, dropped_share),
    )


def _inserted(sample: Sample) -> Sample:
    """The rows that change events insert, as a sample of their own."""
    return replace(sample, table=sample.table.filter(pa.array(sample.inserted)), operations=None, inserted=None)


def _can_be_stated(name: str, kind: JsonType) -> bool:
    """Whether requirements can have a column of that name and type."""
    if not _NAME.fullmatch(name) or name.casefold() in _ADDED:
        return False
    try:
        return bool(parse_struct(f"`{name}` {type_text(kind)}")["fields"])
    except InvalidDdl:
        return False


def _column(
    sample: Sample, name: str, codes: Codes, first: npt.NDArray[np.bool_], dropped_share: float
) -> ColumnMeasure:
    kind, values = sample.types[name], sample.table[name]
    nulls = values.null_count
    time = measure_times(sample, name, dropped_share)
    is_times = time is not None and is_time_column(time)
    has_value = codes >= 0
    return ColumnMeasure(
        name=name,
        type=_TIMESTAMP if kind == "string" and not sample.keeps_types and is_times else kind,
        nulls=nulls,
        distinct=int(codes.max(initial=-1)) + 1,
        distinct_rows=int((first & has_value).sum()),
        time=time,
        epoch=epoch_unit(values, kind),
    )


def _not_utf8(table: pa.Table) -> int:
    """The number of rows with text that was not UTF-8."""
    found = np.zeros(len(table), np.bool_)
    for column in table.columns:
        if pa.types.is_string(column.type):
            has = pc.fill_null(pc.match_substring(column, _REPLACEMENT), fill_value=False)
            found |= np.asarray(has, np.bool_)
    return int(found.sum())


def _keys(stated: Sequence[str], table: pa.Table, codes: dict[str, Codes], rows: Codes) -> KeyMeasure | None:
    by_name = {name.casefold(): name for name in table.column_names}
    names = tuple(by_name[name.casefold()] for name in stated if name.casefold() in by_name)
    if not names or len(names) < len(stated):
        return None
    return key_measure(names, [codes[name] for name in names], rows)


def key_measure(names: tuple[str, ...], codes: Sequence[Codes], rows: Codes) -> KeyMeasure:
    """Columns as a key, from the numbers of their values and of the rows."""
    has_key = np.logical_and.reduce([column >= 0 for column in codes])
    keys = combined(codes, len(rows))[has_key]
    repeated = len(keys) - len(np.unique(keys))
    first = is_first(keys)
    # Of each key, the rows that equal neither the first one nor one between.
    distinct_rows = len(np.unique(rows[has_key]))
    conflicting = distinct_rows - int(first.sum())
    return KeyMeasure(names, int((~has_key).sum()), repeated, conflicting)
