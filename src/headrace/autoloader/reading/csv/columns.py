"""Convert the columns of text that Arrow has read from CSV to the schema's types."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.autoloader.reading.conversion.arrow_types import arrow_schema
from headrace.autoloader.reading.conversion.converters import Times
from headrace.autoloader.reading.conversion.fitting import NONE, Positions, TextConverter
from headrace.autoloader.reading.conversion.pattern_columns import can_vectorise
from headrace.autoloader.reading.csv.lines import SPACES, Dialect
from headrace.autoloader.reading.json_scan import Members
from headrace.autoloader.reading.plan import ReadPlan
from headrace.autoloader.reading.rows import RESCUED_PATH, rescued_text
from headrace.model.ddl import field_of

# What is escaped in JSON.
_SPECIAL = r'["\\\x00-\x1f]'


class CsvColumns:
    """Converts columns of a file; those that are not in the schema are rescued.

    Attributes:
        is_possible: whether all columns can be converted at once.

    Args:
        plan: the columns to make.
        path: the file.
        dialect: which spaces are trimmed.
        fields: the schema's field for each column of the file, or None.
    """

    def __init__(self, plan: ReadPlan, path: str, dialect: Dialect, fields: Sequence[Mapping[str, Any] | None]) -> None:
        self._path = path
        self._rescued_column = plan.rescued_column
        self._dialect = dialect
        times = Times.of(plan.time_zone, plan.format_options)
        # For each column its name, and how it is converted; None for one that is not in the schema.
        self._columns: list[tuple[str, TextConverter | None] | None] = [
            None if field is None else (field["name"], _converter(field["type"], plan.time_zone, times))
            for field in fields
        ]
        self.is_possible = all(column is None or column[1] is not None for column in self._columns)
        names = {field["name"] for field in plan.data["fields"]}
        extra = [name for name in (plan.corrupt_column, plan.rescued_column) if name and name not in names]
        everything = [*plan.data["fields"], *(field_of(name, "string") for name in extra)]
        self._schema = arrow_schema({"type": "struct", "fields": everything})

    @property
    def trims(self) -> bool:
        """Whether spaces around values are trimmed."""
        return self._dialect.trims_left or self._dialect.trims_right

    def convert(self, table: pa.Table) -> tuple[pa.RecordBatch, Positions]:
        """The rows, and the numbers of those with a value that may not fit."""
        arrays, unfit, unknown = {}, [NONE], {}
        for known, name, column in zip(self._columns, table.column_names, table.columns, strict=True):
            texts = self._trimmed(column.combine_chunks())
            if known is None:
                unknown[name] = texts
                continue
            field, converter = known
            assert converter is not None  # noqa: S101 - else it is not possible
            arrays[field], left = converter.convert(texts)
            unfit.append(left)
        if unknown and self._rescued_column is not None:
            arrays[self._rescued_column] = self._rescued(unknown)
        columns = [arrays.get(field.name, pa.nulls(table.num_rows, field.type)) for field in self._schema]
        return pa.RecordBatch.from_arrays(columns, schema=self._schema), np.unique(np.concatenate(unfit))

    def _rescued(self, unknown: Mapping[str, pa.Array]) -> pa.Array:
        # Arrow loses rows when it skips nulls here, so they are empty texts.
        members = [
            pc.fill_null(
                pc.binary_join_element_wise(f',{json.dumps(name, ensure_ascii=False)}:"', texts, '"', ""), fill_value=""
            )
            for name, texts in unknown.items()
        ]
        path = f",{json.dumps(RESCUED_PATH)}:{json.dumps(self._path, ensure_ascii=False)}}}"
        joined = pc.binary_join_element_wise(*members, "")
        rescued = pc.binary_join_element_wise("{", pc.utf8_slice_codeunits(joined, 1), path, "")
        rescued = pc.if_else(pc.equal(joined, ""), pa.scalar(None, pa.string()), rescued)
        special = [
            pc.fill_null(pc.match_substring_regex(texts, _SPECIAL), fill_value=False) for texts in unknown.values()
        ]
        rows = np.flatnonzero(np.logical_or.reduce([flags.to_numpy(zero_copy_only=False) for flags in special]))
        return self._with_escapes(rescued, unknown, rows) if len(rows) else rescued

    def _with_escapes(self, rescued: pa.Array, unknown: Mapping[str, pa.Array], rows: Positions) -> pa.Array:
        """The rescued data, with that of some rows in which values have escapes in JSON."""
        columns = {name: texts.take(pa.array(rows)).to_pylist() for name, texts in unknown.items()}
        members = (
            Members((name, values[place]) for name, values in columns.items() if values[place] is not None)
            for place in range(len(rows))
        )
        flags = np.zeros(len(rescued), dtype=np.bool_)
        flags[rows] = True
        texts = pa.array([rescued_text(row, self._path) for row in members], pa.string())
        return pc.replace_with_mask(rescued, pa.array(flags), texts)

    def _trimmed(self, texts: pa.Array) -> pa.Array:
        if not self.trims:
            return texts
        texts = (pc.utf8_trim if self._dialect.trims_right else pc.utf8_ltrim)(texts, characters=SPACES)
        return pc.if_else(pc.is_in(texts, pa.array(["", self._dialect.null])), pa.scalar(None, pa.string()), texts)


def _converter(kind: Any, zone: str, times: Times) -> TextConverter | None:
    if not isinstance(kind, str) or kind in ("binary", "variant"):
        return None
    pattern = times.patterns.get(kind)
    return None if pattern is not None and not can_vectorise(pattern) else TextConverter(kind, zone, pattern)
