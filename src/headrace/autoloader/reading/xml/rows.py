"""Read XML: one row for each element of a given name, converted as in Spark's ``StaxXmlParser``.

Attributes and elements are columns by name, repeated elements fill arrays, and text next to elements or attributes is
in the column ``_VALUE``. Values that do not fit the schema are rescued. If elements are repeated but the schema has a
single value, the last one is used and the others are rescued.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from headrace.autoloader.reading.bad_records import BadRecords
from headrace.autoloader.reading.conversion.arrow_types import arrow_schema
from headrace.autoloader.reading.conversion.converters import Times, text_converter
from headrace.autoloader.reading.conversion.values import TypeMismatch
from headrace.autoloader.reading.json_scan import Members
from headrace.autoloader.reading.limits import LongRecord
from headrace.autoloader.reading.plan import ReadPlan, UnknownFields, new_columns, reserved_names
from headrace.autoloader.reading.rows import Rows, concat_batches
from headrace.autoloader.reading.splits import Split
from headrace.autoloader.reading.xml.columns import XmlColumns, is_convertible
from headrace.autoloader.reading.xml.elements import Element, MalformedXml, XmlNames, element_to_json, parse_element
from headrace.autoloader.reading.xml.structure import Irregular, XmlTags
from headrace.autoloader.reading.xml.texts import RowFinder, decoded
from headrace.model.ddl import JsonType, field_of

_ROWS = 10_000
# The rows are searched in pieces of about so many characters.
_PIECE = 256 * 1024
# In a path: the values of a map, where schemas do not evolve.
_MAP = ""
_BOOLEANS = {"1": "true", "0": "false"}
# A name, its value, and the part of the value that does not fit; None for nothing.
_Earlier: TypeAlias = tuple[str, Element | str, Any]


def xml_rows(plan: ReadPlan, split: Split) -> Iterator[pa.RecordBatch]:
    """Read the rows of a file.

    Raises:
        UnknownFields: rows have fields that are not in the schema, and the plan evolves.
        MalformedRecord: a row cannot be read, and the mode is FAILFAST.
        OSError: the file cannot be read.
    """
    options = plan.format_options
    encoding = options.get("encoding") or options.get("charset") or "utf-8"
    with BadRecords.of(plan, split) as bad:
        reader = XmlReader(plan, split.path, bad)
        for text in decoded(split.path, encoding, plan.limits):
            yield from reader.read(text)
        yield from reader.end()


class XmlReader:
    """Reads the rows of a text that comes in pieces: regular ones by their tags, otherwise one by one.

    Args:
        plan: the columns.
        path: the file.
        bad: collects corrupt rows instead, if set.
        piece: the number of characters whose rows are searched at a time.
    """

    def __init__(self, plan: ReadPlan, path: str, bad: BadRecords | None = None, *, piece: int = _PIECE) -> None:
        self._plan = plan
        self._piece = piece
        self._tag = plan.format_options["rowTag"]
        self._begin = re.compile(rf"<{re.escape(self._tag)}(?=[ \t\n\r/>])")
        self._finder = RowFinder(self._tag, plan.limits.record_bytes)
        self._rows = XmlRows(plan, path)
        self._singly = Rows(plan, path, bad)
        self._fields = [field for field in plan.data["fields"] if field["name"] != plan.corrupt_column]
        names = {field["name"] for field in plan.data["fields"]}
        extra = [name for name in (plan.corrupt_column, plan.rescued_column) if name and name not in names]
        fields = [*plan.data["fields"], *(field_of(name, "string") for name in extra)]
        self._schema = arrow_schema({"type": "struct", "fields": fields})
        self._fast = bool(self._fields) and is_convertible({"type": "struct", "fields": self._fields}, plan)
        # The text from the last begin of a row.
        self._rest = ""

    def read(self, text: str) -> Iterator[pa.RecordBatch]:
        """Read the rows that end in a piece of text.

        Raises:
            UnknownFields: rows have fields that are not in the schema, and the plan evolves.
            MalformedRecord: a row cannot be read, and the mode is FAILFAST.
        """
        text, self._rest = self._rest + text, ""
        begin = 0
        while self._fast and self._finder.is_idle and len(text) - begin > self._piece:
            following = self._begin.search(text, begin + self._piece)
            if following is None:
                break
            yield from self._read_piece(text[begin : following.start()])
            begin = following.start()
        if self._fast and self._finder.is_idle and len(text) - begin <= 4 * self._piece:
            self._rest = text[begin:]
        else:
            yield from self._read_singly(self._finder.rows(text[begin:]))

    def end(self) -> Iterator[pa.RecordBatch]:
        """Read the remaining rows.

        Raises:
            UnknownFields: as for :meth:`read`.
            MalformedRecord: as for :meth:`read`.
        """
        if self._rest:
            yield from self._read_piece(self._rest)
        yield from self._read_singly(self._finder.end())
        yield from self._take()

    def _read_piece(self, text: str) -> Iterator[pa.RecordBatch]:
        tags = self._tags(text) if self._finder.is_idle else None
        if tags is None:
            yield from self._read_singly(self._finder.rows(text))
            return
        yield from self._take()
        self._finder.skip(len(text))
        columns = XmlColumns(self._plan, tags).columns(self._fields)
        count = len(tags.is_regular)
        arrays = [columns.get(field.name, pa.nulls(count, field.type)) for field in self._schema]
        batch = pa.RecordBatch.from_arrays(arrays, schema=self._schema)
        if tags.is_regular.all():
            yield batch
            return
        regular, others = np.flatnonzero(tags.is_regular), np.flatnonzero(~tags.is_regular)
        numbers: list[int] = []
        for row in others.tolist():
            self._rows.add(tags.text[tags.row_begins[row] : tags.row_ends[row]].decode(), self._singly)
            numbers += [row] * (len(self._singly) - len(numbers))
        self._rows.raise_unknown_fields()
        order = np.argsort(np.concatenate([regular, numbers]), kind="stable")
        yield concat_batches([batch.filter(pa.array(tags.is_regular)), self._singly.take()]).take(pa.array(order))

    def _tags(self, text: str) -> XmlTags | None:
        try:
            tags = XmlTags(text.encode("utf-8", "replace"), self._tag.encode())
        except Irregular:
            return None
        longest = (tags.row_ends - tags.row_begins).max(initial=0)
        return tags if longest <= self._plan.limits.record_bytes else None

    def _read_singly(self, texts: Iterable[str | LongRecord]) -> Iterator[pa.RecordBatch]:
        for text in texts:
            if isinstance(text, LongRecord):
                self._singly.add_too_long(text)
            else:
                self._rows.add(text, self._singly)
            if len(self._singly) >= _ROWS:
                yield from self._take()

    def _take(self) -> Iterator[pa.RecordBatch]:
        self._rows.raise_unknown_fields()
        if len(self._singly):
            yield self._singly.take()


class XmlRows:
    """Converts the texts of elements to rows."""

    def __init__(self, plan: ReadPlan, path: str) -> None:
        self._plan = plan
        self._path = path
        self._names = XmlNames.of(plan.format_options)
        self._times = Times.of(plan.time_zone, plan.format_options)
        self._reserved_names = reserved_names(plan)
        self._converters: dict[str, Callable[[str], Any]] = {}
        self._unknown: set[str] = set()
        # For the path of a struct, the types of its fields.
        self._known: dict[tuple[str, ...], dict[str, JsonType]] = {}
        self._mismatch = ""

    def add(self, text: str, rows: Rows) -> None:
        """Add the row of one element's text.

        Raises:
            MalformedRecord: it cannot be read, and the mode is FAILFAST.
        """
        try:
            element = parse_element(text, self._names)
        except MalformedXml as error:
            rows.add_malformed(text, str(error))
            return
        self._mismatch = ""
        values, rescued = self._object(element, self._plan.data, ())
        rows.add(values, rescued, text, mismatch=self._mismatch)

    def raise_unknown_fields(self) -> None:
        """Raise the unknown fields found so far.

        Raises:
            UnknownFields: there are fields that are not in the schema, and the plan evolves.
        """
        unknown = new_columns(self._plan, self._unknown) if self._plan.evolves else ()
        if unknown:
            raise UnknownFields(tuple(unknown), self._path)

    def _object(self, element: Element, struct: JsonType, path: tuple[str, ...]) -> tuple[dict[str, Any], Members]:
        """The values of a struct's fields, and the rest to rescue."""
        kinds = self._kinds(struct, path)
        found: dict[str, Any] = {}
        received: dict[str, list[Element | str]] = {}
        single: dict[str, _Earlier] = {}
        rescued: dict[str, list[Any]] = {}
        for name, value in self._parts(element):
            column = self._column(name, kinds)
            if column is None:
                self._note_unknown_field(name, kinds, path)
                rescued.setdefault(name, []).append(self._as_json(value))
                continue
            kind = kinds[column]
            repeats = isinstance(kind, dict) and kind["type"] == "array"
            converted, unfit = self._value(value, kind["elementType"] if repeats else kind, (*path, column))
            if repeats:
                found.setdefault(column, []).append(converted)
                # If an element does not fit, the whole array is rescued, because its position matters.
                received.setdefault(name, []).append(value)
                if unfit is not None or name in rescued:
                    rescued[name] = [self._as_json(one) for one in received[name]]
            else:
                self._keep_last(single, column, (name, value, unfit), rescued)
                found[column] = converted
        return found, _members(rescued)

    def _keep_last(
        self, single: dict[str, _Earlier], column: str, received: _Earlier, rescued: dict[str, list[Any]]
    ) -> None:
        """Keep the last value of a single-valued column, and rescue the whole of an earlier one."""
        if column in single:
            name, value, unfit = single[column]
            if unfit is not None:
                rescued[name].pop()
            rescued.setdefault(name, []).append(self._as_json(value))
        single[column] = received
        name, _, unfit = received
        if unfit is not None:
            rescued.setdefault(name, []).append(unfit)

    def _parts(self, element: Element) -> Iterator[tuple[str, Element | str]]:
        names = self._names
        for name, value in element.attributes:
            yield names.prefix + name, value
        for part in element.inner:
            if isinstance(part, Element):
                yield part.name, part
            elif part.strip():
                yield names.value, part

    def _kinds(self, struct: JsonType, path: tuple[str, ...]) -> dict[str, JsonType]:
        kinds = self._known.get(path)
        if kinds is None:
            kinds = self._known[path] = {field["name"]: field["type"] for field in struct["fields"]}
            if not path and self._plan.corrupt_column:
                kinds.pop(self._plan.corrupt_column, None)
        return kinds

    def _column(self, name: str, kinds: dict[str, JsonType]) -> str | None:
        if name in kinds:
            return name
        if self._plan.case_sensitive:
            return None
        return next((known for known in kinds if known.casefold() == name.casefold()), None)

    def _note_unknown_field(self, name: str, kinds: dict[str, JsonType], path: tuple[str, ...]) -> None:
        """Note a field that schema evolution can add."""
        known = any(name.casefold() == other.casefold() for other in kinds)
        if not known and _MAP not in path and (path or name.casefold() not in self._reserved_names):
            self._unknown.add(".".join((*path, name)))

    def _as_json(self, value: Element | str) -> Any:
        return self._names.text(value) if isinstance(value, str) else element_to_json(value, self._names)

    def _value(self, value: Element | str, kind: JsonType, path: tuple[str, ...]) -> tuple[Any, Any]:
        """Convert a value to a type; return it and the part to rescue, None for nothing."""
        if isinstance(kind, str):
            return self._scalar(value, kind)
        if isinstance(value, str):
            self._mismatch = value
            return None, self._as_json(value)
        if kind["type"] == "struct":
            converted, rescued = self._object(value, kind, path)
            return converted, rescued or None
        if kind["type"] == "map":
            return self._map(value, kind["valueType"], (*path, _MAP))
        self._mismatch = value.name
        return None, self._as_json(value)

    def _map(self, element: Element, kind: JsonType, path: tuple[str, ...]) -> tuple[Any, Any]:
        converted: dict[str, Any] = {}
        single: dict[str, _Earlier] = {}
        rescued: dict[str, list[Any]] = {}
        for name, value in self._parts(element):
            converted[name], unfit = self._value(value, kind, path)
            self._keep_last(single, name, (name, value, unfit), rescued)
        return list(converted.items()), _members(rescued) or None

    def _scalar(self, value: Element | str, kind: str) -> tuple[Any, Any]:
        rescued = None
        if isinstance(value, Element):
            # Attributes do not fit a single value; for a string, child elements are kept as XML text.
            nested = kind != "string" and not value.is_plain and bool(value.elements)
            rescued = self._as_json(value) if value.attributes or nested else None
            if nested:
                self._mismatch = value.name
                return None, rescued
        text = self._names.text(value.text_content() if isinstance(value, Element) else value)
        if text is None or (kind != "string" and not text.strip()):
            return None, rescued
        try:
            return self._converter(kind)(text if kind == "string" else text.strip()), rescued
        except TypeMismatch:
            self._mismatch = text
            return None, self._as_json(value)

    def _converter(self, kind: str) -> Callable[[str], Any]:
        if kind not in self._converters:
            convert = text_converter(kind, self._times)
            assert convert is not None  # noqa: S101 - nested types are none of these
            self._converters[kind] = convert if kind != "boolean" else lambda text: convert(_BOOLEANS.get(text, text))
        return self._converters[kind]


def _members(rescued: dict[str, list[Any]]) -> Members:
    return Members((name, many[0] if len(many) == 1 else many) for name, many in rescued.items())
