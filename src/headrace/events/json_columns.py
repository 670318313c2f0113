"""Details of events as columns."""

from __future__ import annotations

import io
from collections.abc import Sequence

import pyarrow as pa
import pyarrow.json as pa_json


def parsed_bodies(details: Sequence[str], event_type: str, body: pa.StructType) -> pa.StructArray:
    """The bodies of events of one type. Fields that *body* does not name are left out; of another form, it is NULL.

    Args:
        details: of the events. Each is one line, as JSON escapes the ends of lines.
        event_type: the key of the body.
        body: the fields.
    """
    if not details:
        return pa.array([], body)
    schema = pa.schema([(event_type, body)])
    try:
        return _parsed("\n".join(details), schema)
    except pa.ArrowInvalid:
        return pa.concat_arrays([_parsed_or_null(text, schema) for text in details])


def _parsed(lines: str, schema: pa.Schema) -> pa.StructArray:
    text = lines.encode()
    # A line must fit into a block.
    reading = pa_json.ReadOptions(block_size=len(text) + 1)
    parsing = pa_json.ParseOptions(explicit_schema=schema, unexpected_field_behavior="ignore")
    return pa_json.read_json(io.BytesIO(text), reading, parsing).column(0).combine_chunks()


def _parsed_or_null(text: str, schema: pa.Schema) -> pa.StructArray:
    try:
        return _parsed(text, schema)
    except pa.ArrowInvalid:
        return pa.nulls(1, schema.field(0).type)
