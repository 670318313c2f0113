"""Read lines of JSON with Arrow, without the lines that it refuses."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

import numpy as np
import pyarrow as pa
import pyarrow.json as pj

from headrace.autoloader.reading.json.structure import Bytes, Positions

# How Arrow says which record it refuses; without that, the record is searched.
_ROW = re.compile(r" in row (\d+)")
# Maximum number of attempts for one text. Then the lines are left to the other reader.
_MOST_ATTEMPTS = 256
_NO_FIELDS = pa.schema([pa.field("\0", pa.int8())])

Parse = Callable[[bytes], pa.Table]


def parse_json(text: bytes, schema: pa.Schema, unexpected: str = "ignore") -> pa.Table:
    """Read a text with Arrow as one block. Without fields, only its syntax is checked, and its records counted.

    Raises:
        pa.ArrowInvalid: it has something that Arrow refuses.
    """
    options = pj.ReadOptions(use_threads=False, block_size=len(text) + 1)
    # A field that no record has.
    schema = schema if len(schema) else _NO_FIELDS
    parsing = pj.ParseOptions(explicit_schema=schema, unexpected_field_behavior=unexpected)
    return pj.read_json(pa.BufferReader(text), options, parsing)


def validate_json(text: bytes) -> pa.Table:
    """Check the syntax of a text.

    Raises:
        pa.ArrowInvalid: it is not valid JSON.
    """
    return parse_json(text, pa.schema([]))


def read_lines(letters: Bytes, begins: Positions, rows: Positions, parse: Parse) -> tuple[list[pa.Table], Positions]:
    """Read those lines of a text that Arrow accepts.

    Args:
        letters: the text.
        begins: where each line begins, and the end of the text.
        rows: the numbers of the lines to read, in order; each is one record.
        parse: raises :class:`pa.ArrowInvalid` if Arrow refuses a text.

    Returns:
        The records as tables, in order, and the numbers of their lines.
    """
    waiting, tables, read = [rows], [], []
    attempts = 0
    while waiting and attempts < _MOST_ATTEMPTS:
        some = waiting.pop()
        if not len(some):
            continue
        attempts += 1
        try:
            table = parse(_text(letters, begins, some))
        except pa.ArrowInvalid as error:
            waiting += _without_refused(some, str(error))
            continue
        if table.num_rows == len(some):
            tables.append(table)
            read.append(some)
    return tables, np.concatenate([rows[:0], *read])


def _without_refused(rows: Positions, message: str) -> Iterable[Positions]:
    """The lines after a refused one, and those before it; halves, if it is not known which one it is."""
    found = _ROW.search(message)
    row = int(found.group(1)) if found else -1
    if 0 <= row < len(rows):
        return rows[row + 1 :], rows[:row]
    return (rows[len(rows) // 2 :], rows[: len(rows) // 2]) if len(rows) > 1 else ()


def _text(letters: Bytes, begins: Positions, rows: Positions) -> bytes:
    first, last = rows[0], rows[-1]
    if last - first + 1 == len(rows):
        return letters[begins[first] : begins[last + 1]].tobytes()
    kept = np.zeros(len(begins) - 1, dtype=np.bool_)
    kept[rows] = True
    return letters[np.repeat(kept, np.diff(begins))].tobytes()
