"""Convert the columns of text that Arrow has read from CSV to the schema's types."""

from __future__ import annotations

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
from headrace.autoloader.reading.plan import ReadPlan
from headrace.model.ddl import field_of


class CsvColumns:
    """Converts columns of a file.

    Attributes:
        is_possible: whether all columns can be converted at once.

    Args:
        plan: the columns to make.
        dialect: which spaces are trimmed.
        fields: the schema's field for each column of the file, or None.
    """

    def __init__(self, plan: ReadPlan, dialect: Dialect, fields: Sequence[Mapping[str, Any] | None]) -> None:
        self._dialect = dialect
        times = Times.of(plan.time_zone, plan.format_options)
        self._columns = [
            (field["name"], converter)
            for field in fields
            if field is not None and (converter := _converter(field["type"], plan.time_zone, times)) is not None
        ]
        self.is_possible = len(self._columns) == len(fields)
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
        arrays, unfit = {}, [NONE]
        for (name, converter), column in zip(self._columns, table.columns, strict=True):
            arrays[name], left = converter.convert(self._trimmed(column.combine_chunks()))
            unfit.append(left)
        columns = [arrays.get(field.name, pa.nulls(table.num_rows, field.type)) for field in self._schema]
        return pa.RecordBatch.from_arrays(columns, schema=self._schema), np.unique(np.concatenate(unfit))

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
