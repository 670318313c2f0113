"""The columns that are constant within a split of a file: partition columns and file metadata."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from headrace.autoloader.reading.conversion.arrow_types import arrow_type
from headrace.autoloader.reading.conversion.converters import Times, text_converter
from headrace.autoloader.reading.conversion.values import TypeMismatch
from headrace.autoloader.reading.json_scan import Members
from headrace.autoloader.reading.partitions import folder_keys_and_values
from headrace.autoloader.reading.plan import METADATA, METADATA_FIELD, ReadPlan
from headrace.autoloader.reading.rows import rescued_text
from headrace.autoloader.reading.splits import Split, modified_at
from headrace.autoloader.stores.paths import store_of

# The rescued data ends with the path of its file.
_FILE_PATH = '"_file_path":'


class MetadataColumns:
    """Adds the columns that are constant within a split (partitions, metadata); rescues other folder values."""

    def __init__(self, plan: ReadPlan, split: Split, schema: pa.Schema) -> None:
        self._schema = schema
        self._scalars: dict[str, pa.Scalar] = {}
        self._rescued = plan.rescued_column
        times = Times.of(plan.time_zone, {})
        key_values = folder_keys_and_values(plan.base, os.path.dirname(split.path))  # noqa: PTH120 - text, as in the ledger
        values, rescued_pairs = dict(key_values), []
        fields = {field["name"]: field for field in plan.partitions["fields"]}
        for name, field in fields.items():
            self._scalars[name], is_valid = _partition(field, values.get(name), times)
            rescued_pairs += [] if is_valid else [(name, values[name])]
        if not plan.ignores_folders:
            innermost = {name: position for position, (name, _) in enumerate(key_values)}
            rescued_pairs += [
                pair
                for position, pair in enumerate(key_values)
                if pair[0] not in fields or innermost[pair[0]] != position
            ]
        self._rescued_folders = rescued_text(Members(rescued_pairs), split.path)
        if plan.metadata:
            self._scalars[METADATA] = pa.scalar(_metadata(split), arrow_type(METADATA_FIELD["type"]))

    def with_metadata(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Add the constant columns to a batch, in the order of the schema."""
        columns = []
        for field in self._schema:
            scalar = self._scalars.get(field.name)
            if scalar is not None:
                columns.append(pa.repeat(scalar, batch.num_rows))
                continue
            position = batch.schema.get_field_index(field.name)
            column = batch.column(position) if position >= 0 else pa.nulls(batch.num_rows, field.type)
            columns.append(self._with_rescued(column) if field.name == self._rescued else column)
        return pa.RecordBatch.from_arrays(columns, schema=self._schema)

    def _with_rescued(self, rescued: pa.Array) -> pa.Array:
        """Merge the rescued data of rows with that of the file's folders."""
        if self._rescued_folders is None:
            return rescued
        members = self._rescued_folders[: self._rescued_folders.rindex(_FILE_PATH)]
        both = pc.binary_join_element_wise(members, pc.utf8_slice_codeunits(rescued, 1), "")
        return pc.if_else(pc.is_null(rescued), self._rescued_folders, both)


def _partition(field: Mapping[str, Any], text: str | None, times: Times) -> tuple[pa.Scalar, bool]:
    """Convert a folder's value to its column's type; NULL and False if it does not fit."""
    kind = arrow_type(field["type"])
    convert = text_converter(field["type"], times)
    try:
        return pa.scalar(None if text is None or convert is None else convert(text), kind), True
    except TypeMismatch:
        return pa.scalar(None, kind), False


def _metadata(split: Split) -> dict[str, Any]:
    path = store_of(split.path).uri(split.path)
    return {
        "file_path": path,
        # As in Spark, the name is URI-encoded.
        "file_name": path.rpartition("/")[2],
        "file_size": split.size,
        "file_block_start": split.start,
        "file_block_length": split.end - split.start,
        "file_modification_time": modified_at(split),
    }
