"""Read lines of JSON of which Arrow refuses some: the others by Arrow, once they are adapted, and those one by one.

The rows are in the order of the lines.
"""

from __future__ import annotations

import json

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.autoloader.reading.bad_records import BadRecords
from headrace.autoloader.reading.conversion.arrow_types import arrow_schema
from headrace.autoloader.reading.conversion.utf8 import is_utf8
from headrace.autoloader.reading.json.adapting import IS_NESTED, LineAdapter, Members, TextMaps
from headrace.autoloader.reading.json.arrow_lines import parse_json, read_lines, validate_json
from headrace.autoloader.reading.json.columns import ColumnConverter, read_type, repeated_places
from headrace.autoloader.reading.json.records import read_lines_singly
from headrace.autoloader.reading.json.structure import Flags, JsonLines, Positions
from headrace.autoloader.reading.plan import ReadPlan
from headrace.autoloader.reading.rows import RESCUED_PATH, concat_batches
from headrace.model.ddl import field_of


class FittingLines:
    """Reads lines of one file.

    Args:
        plan: the columns.
        path: the file.
        bad: collects corrupt records instead, if set.
    """

    def __init__(self, plan: ReadPlan, path: str, bad: BadRecords | None = None) -> None:
        self._plan = plan
        self._path = path
        self._bad = bad
        # The column for corrupt records does not come from a field of the file.
        self._fields = [field for field in plan.data["fields"] if field["name"] != plan.corrupt_column]
        skips = not plan.evolves and plan.case_sensitive
        self._adapter = LineAdapter(
            {"type": "struct", "fields": self._fields},
            skips_unknown=skips,
            skips_nested=skips and plan.rescued_column is None,
        )
        fields = list(plan.data["fields"])
        names = {field["name"] for field in fields}
        extra = [name for name in (plan.corrupt_column, plan.rescued_column) if name and name not in names]
        fields += [field_of(name, "string") for name in extra]
        self._schema = arrow_schema({"type": "struct", "fields": fields})

    def read(self, text: bytes) -> pa.RecordBatch:
        """Read the rows of whole lines: the data columns, then the corrupt and the rescued one.

        Raises:
            UnknownFields: a line has fields that are not in the schema, and the plan evolves.
            MalformedRecord: a line is not a record, and the mode is FAILFAST.
        """
        lines = JsonLines(text)
        batch, rows = self._by_arrow(lines)
        others = np.ones(len(lines), dtype=np.bool_)
        others[rows] = False
        if not others.any():
            return batch
        texts = (lines.line(row).decode("utf-8", "replace") for row in np.flatnonzero(others).tolist())
        singly, counts = read_lines_singly(self._plan, self._path, texts, self._bad)
        order = np.argsort(np.concatenate([rows, np.repeat(np.flatnonzero(others), counts)]), kind="stable")
        return concat_batches([batch, singly]).take(pa.array(order))

    def read_all(self, text: bytes) -> pa.RecordBatch | None:
        """Read whole lines as :meth:`read` does; None if Arrow does not read one of them, or its spaces matter."""
        lines = JsonLines(text)
        adapted = self._adapter.adapt(lines)
        if not adapted.fits.all() or adapted.is_unchecked or adapted.texts:
            return None
        if any(IS_NESTED[lines.letters[maps.members.values]].any() for maps in adapted.maps.values()):
            return None
        batch, rows = self._by_arrow(lines)
        return batch if len(rows) == len(lines) else None

    def _by_arrow(self, lines: JsonLines) -> tuple[pa.RecordBatch, Positions]:
        """Read the lines that fit. Returns their rows, and their numbers."""
        adapted = self._adapter.adapt(lines)
        fits = adapted.fits if is_utf8(lines.text) else adapted.fits & _are_utf8(lines)
        rows = np.flatnonzero(fits)
        if adapted.is_unchecked:
            _, rows = read_lines(lines.letters, lines.begins, rows, validate_json)
        taken = {*adapted.texts, *adapted.maps}
        fields = [field for field in self._fields if field["name"] not in taken]
        types = pa.schema([(field["name"], read_type(field["type"])) for field in fields])
        tables, rows = read_lines(adapted.letters, adapted.begins, rows, lambda text: parse_json(text, types))
        converter = ColumnConverter(self._plan)
        columns = {name: _texts_at(lines, rows, *texts) for name, texts in adapted.texts.items()}
        if fields:
            table = pa.concat_tables([types.empty_table(), *tables]).combine_chunks()
            for field in fields:
                name = field["name"]
                columns[name] = converter.convert(_array(table[name]), field["type"], name)
        kept = np.ones(len(rows), dtype=np.bool_)
        kept[converter.unfit] = False
        columns |= {
            name: _maps_at(lines, rows, maps, kept, self._schema.field(name).type)
            for name, maps in adapted.maps.items()
        }
        if self._plan.rescued_column is not None and len(adapted.unknown.rows):
            columns[self._plan.rescued_column] = self._rescued(lines, adapted.unknown, rows, kept)
        arrays = [columns.get(field.name, pa.nulls(len(rows), field.type)) for field in self._schema]
        batch = pa.RecordBatch.from_arrays(arrays, schema=self._schema)
        return (batch, rows) if kept.all() else (batch.filter(pa.array(kept)), rows[kept])

    def _rescued(self, lines: JsonLines, members: Members, rows: Positions, kept: Flags) -> pa.Array:
        """The rescued data of some lines; lines whose text is not that of the rescued data are not *kept*."""
        place = np.full(len(lines), -1, dtype=np.int64)
        place[rows] = np.arange(len(rows))
        of = place[members.rows]
        chosen = np.flatnonzero(of >= 0)
        of, begins = of[chosen], members.values[chosen]
        names = lines.texts(members.names[chosen], members.name_ends[chosen])
        values = lines.texts(begins, members.ends[chosen])
        has_spaces = _contains(values, " ") | _contains(values, "\t")
        kept[of[_contains(values, "\\") | (has_spaces & IS_NESTED[lines.letters[begins]])]] = False
        kept[of[repeated_places(names, of)]] = False
        offsets = np.concatenate(([0], np.cumsum(np.bincount(of, minlength=len(rows))))).astype(np.int32)
        texts = pc.binary_join_element_wise(names, values, ":")
        joined = pc.binary_join(pa.ListArray.from_arrays(pa.array(offsets), texts), ",")
        path = f",{json.dumps(RESCUED_PATH)}:{json.dumps(self._path, ensure_ascii=False)}}}"
        rescued = pc.binary_join_element_wise("{", joined, path, "")
        return pc.if_else(pa.array(np.diff(offsets) > 0), rescued, pa.scalar(None, pa.string()))


def _contains(texts: pa.Array, part: str) -> Flags:
    found: Flags = pc.match_substring(texts, part).to_numpy(zero_copy_only=False)
    return found


def _texts_at(lines: JsonLines, rows: Positions, found: Positions, begins: Positions, ends: Positions) -> pa.Array:
    """The texts found on some lines, for all *rows*; NULL for those without."""
    place = np.full(len(lines), -1, dtype=np.int64)
    place[found] = np.arange(len(found))
    chosen = place[rows]
    return lines.texts(begins, ends).take(pa.array(chosen, mask=chosen < 0))


def _maps_at(lines: JsonLines, rows: Positions, maps: TextMaps, kept: Flags, kind: pa.DataType) -> pa.Array:
    """The maps found on some lines, for all *rows*; lines with a key twice are not *kept*."""
    place = np.full(len(lines), -1, dtype=np.int64)
    place[rows] = np.arange(len(rows))
    members = maps.members
    of = place[members.rows]
    chosen = np.flatnonzero(of >= 0)
    of = of[chosen]
    keys = lines.texts(members.names[chosen], members.name_ends[chosen])
    values = lines.texts(members.values[chosen], members.ends[chosen])
    values = pc.if_else(pa.array(maps.is_null[chosen]), pa.scalar(None, pa.string()), values)
    kept[of[repeated_places(keys, of)]] = False
    missing = np.ones(len(lines), dtype=np.bool_)
    missing[maps.rows] = False
    offsets = np.concatenate(([0], np.cumsum(np.bincount(of, minlength=len(rows))))).astype(np.int32)
    return pa.MapArray.from_arrays(pa.array(offsets), keys, values, type=kind, mask=pa.array(missing[rows]))


def _array(column: pa.ChunkedArray) -> pa.Array:
    return column.combine_chunks() if column.num_chunks != 1 else column.chunk(0)


def _are_utf8(lines: JsonLines) -> Flags:
    return np.array([is_utf8(lines.line(row)) for row in range(len(lines))], dtype=np.bool_)
