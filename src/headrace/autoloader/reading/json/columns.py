"""Convert the columns that Arrow has read from JSON to the schema's types."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.autoloader.reading.conversion.arrow_types import arrow_type
from headrace.autoloader.reading.conversion.converters import PATTERNS, Times
from headrace.autoloader.reading.conversion.datetime_columns import check_precision
from headrace.autoloader.reading.conversion.fitting import TextConverter
from headrace.autoloader.reading.conversion.pattern_columns import can_vectorise
from headrace.autoloader.reading.json.adapting import KEY, VALUE
from headrace.autoloader.reading.json.structure import Positions
from headrace.autoloader.reading.plan import ReadPlan
from headrace.model.ddl import JsonType

Path = tuple[str, ...]
# Gives the texts of a column of strings that Arrow may have read as another type.
TextsOf = Callable[[pa.Array, Path], pa.Array]


def text_column(array: pa.Array, path: Path) -> pa.Array:
    """The texts of a column that Arrow has read as strings."""
    del path
    return array


def is_convertible(kind: JsonType, plan: ReadPlan, *, maps: bool) -> bool:
    """Whether Arrow reads a type of which :class:`ColumnConverter` makes the schema's; *maps*: as arrays of entries."""
    if isinstance(kind, str):
        patterns = Times.of(plan.time_zone, plan.format_options).patterns if kind in PATTERNS else {}
        return kind not in ("binary", "variant") and (kind not in patterns or can_vectorise(patterns[kind]))
    if kind["type"] == "struct":
        return bool(kind["fields"]) and all(is_convertible(one["type"], plan, maps=maps) for one in kind["fields"])
    if kind["type"] == "map":
        return maps and kind["keyType"] == "string" and is_convertible(kind["valueType"], plan, maps=maps)
    return kind["type"] == "array" and is_convertible(kind["elementType"], plan, maps=maps)


def read_type(kind: JsonType) -> pa.DataType:
    """The type that Arrow reads adapted lines as."""
    if isinstance(kind, str):
        return pa.string() if kind in PATTERNS else arrow_type(kind)
    if kind["type"] == "struct":
        return pa.struct([(field["name"], read_type(field["type"])) for field in kind["fields"]])
    if kind["type"] == "map":
        return pa.list_(pa.struct([(KEY, pa.string()), (VALUE, read_type(kind["valueType"]))]))
    return pa.list_(read_type(kind["elementType"]))


class ColumnConverter:
    """Converts columns; notes the rows with values that do not fit.

    Args:
        plan: the types, and the patterns of dates and times.
        texts_of: gives the texts of string columns.
    """

    def __init__(self, plan: ReadPlan, texts_of: TextsOf = text_column) -> None:
        times = Times.of(plan.time_zone, plan.format_options)
        self._times = {kind: TextConverter(kind, plan.time_zone, times.patterns.get(kind)) for kind in PATTERNS}
        self._texts_of = texts_of
        self._unfit: list[Positions] = []

    @property
    def unfit(self) -> Positions:
        """The rows with values that do not fit, each once."""
        return np.unique(np.concatenate(self._unfit)) if self._unfit else np.empty(0, dtype=np.int64)

    def convert(self, array: pa.Array, kind: JsonType, name: str) -> pa.Array:
        """Convert a column.

        Raises:
            NotVectorised: decimals have more digits than their type.
        """
        return self._convert(array, kind, (name,), np.arange(len(array)))

    def _convert(self, array: pa.Array, kind: JsonType, path: Path, rows: Positions) -> pa.Array:
        if isinstance(kind, dict):
            return self._nested(array, kind, path, rows)
        if kind == "string":
            return self._texts_of(array, path)
        if kind in self._times:
            values, unfit = self._times[kind].convert(array)
            self._note(rows[unfit])
            return values
        if pa.types.is_floating(array.type):
            # Arrow accepts more names of NaN and the infinities than Spark.
            self._note(rows[~np.isfinite(pc.fill_null(array, 0).to_numpy(zero_copy_only=False))])
        return check_precision(array)

    def _note(self, rows: Positions) -> None:
        if len(rows):
            self._unfit.append(rows)

    def _nested(self, array: pa.Array, kind: Mapping[str, Any], path: Path, rows: Positions) -> pa.Array:
        expected = arrow_type(kind)
        if array.type == expected and not holds_floating(expected):
            return array
        mask = pc.is_null(array) if array.null_count else None
        if kind["type"] == "struct":
            inner = [
                self._convert(array.field(index), field["type"], (*path, field["name"]), rows)
                for index, field in enumerate(kind["fields"])
            ]
            return pa.StructArray.from_arrays(inner, fields=list(expected), mask=mask)
        lengths = np.diff(array.offsets.to_numpy())
        inner_rows = np.repeat(rows, lengths)
        if kind["type"] == "array":
            values = self._convert(array.values, kind["elementType"], (*path, ""), inner_rows)
            return pa.ListArray.from_arrays(array.offsets, values, type=expected, mask=mask)
        entries = array.values
        self._note(inner_rows[pc.is_null(entries).to_numpy(zero_copy_only=False)])
        keys = entries.field(0)
        self._note(inner_rows[repeated_places(keys, np.repeat(np.arange(len(array)), lengths))])
        values = self._convert(entries.field(1), kind["valueType"], (*path, ""), inner_rows)
        return pa.MapArray.from_arrays(array.offsets, keys, values, type=expected, mask=mask)


def repeated_places(names: pa.Array, owners: Positions) -> Positions:
    """The places of names that their owner has twice."""
    codes = names.dictionary_encode()
    pairs = owners * max(len(codes.dictionary), 1) + codes.indices.to_numpy()
    first = np.unique(pairs, return_index=True)[1]
    repeated = np.ones(len(pairs), dtype=np.bool_)
    repeated[first] = False
    return np.flatnonzero(repeated)


def holds_floating(kind: pa.DataType) -> bool:
    """Whether a type is, or contains, a float."""
    if pa.types.is_nested(kind):
        return any(holds_floating(kind.field(index).type) for index in range(kind.num_fields))
    return bool(pa.types.is_floating(kind))
