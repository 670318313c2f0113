"""Recognizes Debezium's change events in a sample, and turns them into rows of the table that changes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.assistant.design.requirements import Source
from headrace.assistant.design.sampling.sample import Sample
from headrace.cdc.envelope import CREATE, OP, OPERATIONS, READ
from headrace.model.ddl import JsonType

_BEFORE, _AFTER, _PAYLOAD = "before", "after", "payload"


def with_changes(source: Source, sample: Sample) -> Sample:
    """The sample with its change events counted by operation; the same sample if it has none.

    If the source can be one of change events, the rows are those of the table: after each change, and before a delete.
    """
    envelopes = _envelopes(sample)
    if envelopes is None:
        return sample
    table, types = envelopes
    counts = {one["values"]: one["counts"] for one in table[OP].drop_null().value_counts().to_pylist()}
    found = replace(sample, operations={name: counts[name] for name in OPERATIONS if name in counts})
    if source.kind is not None and not source.is_debezium:
        return found
    return _images(found, table, types)


def _envelopes(sample: Sample) -> tuple[pa.Table, Mapping[str, JsonType]] | None:
    """The envelopes of all records, also those below ``payload``, with their types; None if they are something else."""
    table, types = sample.table, sample.types
    if OP not in table.column_names and _fields(types.get(_PAYLOAD)):
        types = _fields(types[_PAYLOAD])
        payload = table[_PAYLOAD]
        table = pa.table({name: pc.struct_field(payload, name) for name in types})
    if types.get(OP) != "string" or not (_fields(types.get(_AFTER)) or _fields(types.get(_BEFORE))):
        return None
    operations = table[OP].drop_null()
    known = pc.all(pc.is_in(operations, value_set=pa.array(OPERATIONS))).as_py()
    return (table, types) if len(operations) and known else None


def _images(sample: Sample, table: pa.Table, types: Mapping[str, JsonType]) -> Sample:
    """The rows after the changes, or the row before a deletion."""
    after, before = _fields(types.get(_AFTER)), _fields(types.get(_BEFORE))
    columns, kinds = {}, {}
    for name in {**after, **before}:
        values = [
            pc.struct_field(table[image], name)
            for image, fields in ((_AFTER, after), (_BEFORE, before))
            if name in fields
        ]
        kinds[name] = after.get(name, before.get(name))
        if len({str(value.type) for value in values}) > 1:
            values, kinds[name] = [value.cast(pa.string()) for value in values], "string"
        columns[name] = pc.coalesce(*values)
    has_row = _is_present(table, _AFTER, after) | _is_present(table, _BEFORE, before)
    is_new = np.asarray(pc.fill_null(pc.is_in(table[OP], value_set=pa.array([CREATE, READ])), fill_value=False))
    return replace(sample, table=pa.table(columns).filter(pa.array(has_row)), types=kinds, inserted=is_new[has_row])


def _is_present(
    table: pa.Table, image: str, fields: Mapping[str, JsonType]
) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    present = pc.is_valid(table[image]) if fields else np.zeros(len(table), np.bool_)
    return np.asarray(present)


def _fields(kind: JsonType | None) -> dict[str, JsonType]:
    """The fields of a struct with their types; empty if it is none."""
    if not isinstance(kind, dict) or kind.get("type") != "struct":
        return {}
    return {field["name"]: field["type"] for field in kind["fields"]}
