"""Read XML: one row for each element of a given name, converted as in Spark's ``StaxXmlParser``.

Attributes and elements are columns by name, repeated elements fill arrays, and text next to elements or attributes is
in the column ``_VALUE``. Values that do not fit the schema are rescued. If elements are repeated but the schema has a
single value, the last one is used and the others are rescued.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

import pyarrow as pa

from headrace.autoloader.reading.bad_records import BadRecords
from headrace.autoloader.reading.conversion.converters import Times, text_converter
from headrace.autoloader.reading.conversion.values import TypeMismatch
from headrace.autoloader.reading.json_scan import Members
from headrace.autoloader.reading.limits import LongRecord
from headrace.autoloader.reading.plan import ReadPlan, UnknownFields, new_columns, reserved_names
from headrace.autoloader.reading.rows import Rows
from headrace.autoloader.reading.splits import Split
from headrace.autoloader.reading.xml.elements import Element, MalformedXml, XmlNames, element_to_json, parse_element
from headrace.autoloader.reading.xml.texts import xml_texts
from headrace.model.ddl import JsonType

_ROWS = 10_000
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
        reader, rows = XmlRows(plan, split.path), Rows(plan, split.path, bad)
        for text in xml_texts(split.path, options["rowTag"], encoding, plan.limits):
            if isinstance(text, LongRecord):
                rows.add_too_long(text)
            else:
                reader.add(text, rows)
            if len(rows) >= _ROWS:
                reader.raise_unknown_fields()
                yield rows.take()
        reader.raise_unknown_fields()
        if len(rows):
            yield rows.take()


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
