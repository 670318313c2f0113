"""XML: a row for each element of one name, as Spark's ``StaxXmlParser`` makes it of what the element holds.

Attributes and elements are columns by their names, repeated elements fill arrays, and text beside elements or
attributes is in the column ``_VALUE``. What has no place in the schema is rescued; where elements are repeated and the
schema has one value, the last one counts and the others are rescued.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

import pyarrow as pa

from headrace.autoloader.ddl import JsonType
from headrace.autoloader.reading.bad_records import BadRecords
from headrace.autoloader.reading.converters import Times, text_converter
from headrace.autoloader.reading.json_scan import Members
from headrace.autoloader.reading.limits import LongRecord
from headrace.autoloader.reading.plan import ReadPlan, UnknownFields, new_columns, taken_names
from headrace.autoloader.reading.rows import Rows
from headrace.autoloader.reading.splits import Split
from headrace.autoloader.reading.values import TypeMismatch
from headrace.autoloader.reading.xml_elements import Element, MalformedXml, XmlNames, element_of, members_of
from headrace.autoloader.reading.xml_texts import xml_texts

_ROWS = 10_000
# Of a path: the inside of a map, where no schema grows.
_MAP = ""
_SPELLINGS = {"1": "true", "0": "false"}
# A name, what it was given, and what of that has no place in the schema; None for nothing.
_Earlier: TypeAlias = tuple[str, Element | str, Any]


def xml_rows(plan: ReadPlan, split: Split) -> Iterator[pa.RecordBatch]:
    """The rows of a file.

    Raises:
        UnknownFields: rows have fields that the schema lacks, and the stream is to end with that.
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
                reader.end()
                yield rows.take()
        reader.end()
        if len(rows):
            yield rows.take()


class XmlRows:
    """Makes rows of the texts of elements."""

    def __init__(self, plan: ReadPlan, path: str) -> None:
        self._plan = plan
        self._path = path
        self._names = XmlNames.of(plan.format_options)
        self._times = Times.of(plan.time_zone, plan.format_options)
        self._taken = taken_names(plan)
        self._converters: dict[str, Callable[[str], Any]] = {}
        self._unknown: set[str] = set()
        # By the path of a struct, the types of its fields.
        self._known: dict[tuple[str, ...], dict[str, JsonType]] = {}
        self._misfit = ""

    def add(self, text: str, rows: Rows) -> None:
        """Make a row of the text of one element.

        Raises:
            MalformedRecord: it cannot be read, and the mode is FAILFAST.
        """
        try:
            element = element_of(text, self._names)
        except MalformedXml as error:
            rows.add_malformed(text, str(error))
            return
        self._misfit = ""
        values, left = self._object(element, self._plan.data, ())
        rows.add(values, left, text, misfit=self._misfit)

    def end(self) -> None:
        """Say what was met that the schema lacks.

        Raises:
            UnknownFields: something was, and the stream is to end with that.
        """
        unknown = new_columns(self._plan, self._unknown) if self._plan.evolves else ()
        if unknown:
            raise UnknownFields(tuple(unknown), self._path)

    def _object(self, element: Element, struct: JsonType, path: tuple[str, ...]) -> tuple[dict[str, Any], Members]:
        """The values of a struct's fields, and what is left over."""
        kinds = self._kinds(struct, path)
        found: dict[str, Any] = {}
        given: dict[str, list[Element | str]] = {}
        single: dict[str, _Earlier] = {}
        left: dict[str, list[Any]] = {}
        for name, value in self._parts(element):
            column = self._column(name, kinds)
            if column is None:
                self._met(name, kinds, path)
                left.setdefault(name, []).append(self._said(value))
                continue
            kind = kinds[column]
            repeats = isinstance(kind, dict) and kind["type"] == "array"
            made, remains = self._value(value, kind["elementType"] if repeats else kind, (*path, column))
            if repeats:
                found.setdefault(column, []).append(made)
                # Of an array, what does not fit is rescued with its neighbours, because its place says what it is.
                given.setdefault(name, []).append(value)
                if remains is not None or name in left:
                    left[name] = [self._said(one) for one in given[name]]
            else:
                self._last(single, column, (name, value, remains), left)
                found[column] = made
        return found, _joined(left)

    def _last(self, single: dict[str, _Earlier], column: str, given: _Earlier, left: dict[str, list[Any]]) -> None:
        """Note a value that counts unless another one follows; of an earlier one the whole is rescued."""
        if column in single:
            name, value, remains = single[column]
            if remains is not None:
                left[name].pop()
            left.setdefault(name, []).append(self._said(value))
        single[column] = given
        name, _, remains = given
        if remains is not None:
            left.setdefault(name, []).append(remains)

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

    def _met(self, name: str, kinds: dict[str, JsonType], path: tuple[str, ...]) -> None:
        """Note a field that the schema can grow by."""
        known = any(name.casefold() == other.casefold() for other in kinds)
        if not known and _MAP not in path and (path or name.casefold() not in self._taken):
            self._unknown.add(".".join((*path, name)))

    def _said(self, value: Element | str) -> Any:
        return self._names.text(value) if isinstance(value, str) else members_of(value, self._names)

    def _value(self, value: Element | str, kind: JsonType, path: tuple[str, ...]) -> tuple[Any, Any]:
        """A value in a type, and what of it is left over; None for nothing."""
        if isinstance(kind, str):
            return self._scalar(value, kind)
        if isinstance(value, str):
            self._misfit = value
            return None, self._said(value)
        if kind["type"] == "struct":
            made, left = self._object(value, kind, path)
            return made, left or None
        if kind["type"] == "map":
            return self._map(value, kind["valueType"], (*path, _MAP))
        self._misfit = value.name
        return None, self._said(value)

    def _map(self, element: Element, kind: JsonType, path: tuple[str, ...]) -> tuple[Any, Any]:
        made: dict[str, Any] = {}
        single: dict[str, _Earlier] = {}
        left: dict[str, list[Any]] = {}
        for name, value in self._parts(element):
            made[name], remains = self._value(value, kind, path)
            self._last(single, name, (name, value, remains), left)
        return list(made.items()), _joined(left) or None

    def _scalar(self, value: Element | str, kind: str) -> tuple[Any, Any]:
        left = None
        if isinstance(value, Element):
            # Its attributes have no place in one value; of a text, what is inside is spelled out.
            nested = kind != "string" and not value.is_plain and bool(value.elements)
            left = self._said(value) if value.attributes or nested else None
            if nested:
                self._misfit = value.name
                return None, left
        text = self._names.text(value.spelled() if isinstance(value, Element) else value)
        if text is None or (kind != "string" and not text.strip()):
            return None, left
        try:
            return self._converter(kind)(text if kind == "string" else text.strip()), left
        except TypeMismatch:
            self._misfit = text
            return None, self._said(value)

    def _converter(self, kind: str) -> Callable[[str], Any]:
        if kind not in self._converters:
            convert = text_converter(kind, self._times)
            assert convert is not None  # noqa: S101 - nested types are none of these
            self._converters[kind] = convert if kind != "boolean" else lambda text: convert(_SPELLINGS.get(text, text))
        return self._converters[kind]


def _joined(left: dict[str, list[Any]]) -> Members:
    return Members((name, many[0] if len(many) == 1 else many) for name, many in left.items())
