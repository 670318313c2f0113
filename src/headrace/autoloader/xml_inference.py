"""A schema from rows of XML, after Spark's ``XmlInferSchema``.

An element that is there twice is an array, one with attributes a struct whose text is in ``_VALUE``; where some
elements are texts and others structs, the struct has the text too.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from headrace.autoloader.ddl import JsonType, array_of, field_of
from headrace.autoloader.inference import EMPTY_STRUCT, NOTHING, decimal_kind, merged
from headrace.autoloader.reading.converters import Times
from headrace.autoloader.reading.values import TypeMismatch
from headrace.autoloader.reading.xml_elements import Element, MalformedXml, XmlNames, element_of

_WHOLE = re.compile(r"[+-]?\d{1,20}")
_NUMBER = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?")
_LONG = 2**63


@dataclass(frozen=True)
class XmlKinds:
    """How values of text are taken for types."""

    times: Times
    decimals: bool = False
    dates: bool = True

    def of(self, text: str) -> str:
        """The type of a text: whole numbers, then decimals or doubles, dates, times, booleans."""
        value = text.strip()
        if _WHOLE.fullmatch(value) and -_LONG <= int(value) < _LONG:
            return "long"
        if _NUMBER.fullmatch(value):
            return (decimal_kind(value) if self.decimals else None) or "double"
        if self.dates and self._reads_day(value):
            return "date"
        if value[0].isdigit() and self.times.is_moment(value):
            return "timestamp"
        return "boolean" if value.casefold() in ("true", "false") else "string"

    def _reads_day(self, text: str) -> bool:
        # Without a pattern, a day is written in full here: CAST would take a time for one.
        if "date" not in self.times.patterns and not re.fullmatch(r"\d{4}-\d{2}-\d{2}", text):
            return False
        try:
            self.times.day(text)
        except TypeMismatch:
            return False
        return True


def xml_struct(texts: Iterable[str], names: XmlNames, kinds: XmlKinds | None) -> JsonType:
    """What rows have in common; not finished. A row that is malformed has no columns; without *kinds* all is text."""
    found: JsonType = dict(EMPTY_STRUCT)
    for text in texts:
        try:
            element = element_of(text, names)
        except MalformedXml:
            continue
        found = _merged(found, _struct_of(element, names, kinds), names.value)
    return found


def _struct_of(element: Element, names: XmlNames, kinds: XmlKinds | None) -> JsonType:
    found: dict[str, JsonType] = {}
    for name, value in element.attributes:
        _add(found, names.prefix + name, _kind_of_text(value, names, kinds), names)
    for part in element.inner:
        if isinstance(part, Element):
            _add(found, part.name, _kind_of(part, names, kinds), names)
        elif part.strip():
            _add(found, names.value, _kind_of_text(part, names, kinds), names)
    return {"type": "struct", "fields": [field_of(name, kind) for name, kind in found.items()]}


def _add(found: dict[str, JsonType], name: str, kind: JsonType, names: XmlNames) -> None:
    """A field of a struct; one that was there already is an array."""
    known = found.get(name)
    if known is None:
        found[name] = kind
    elif isinstance(known, dict) and known["type"] == "array":
        found[name] = array_of(_merged(known["elementType"], kind, names.value))
    else:
        found[name] = array_of(_merged(known, kind, names.value))


def _kind_of(element: Element, names: XmlNames, kinds: XmlKinds | None) -> JsonType:
    if element.attributes or element.elements:
        return _struct_of(element, names, kinds)
    return _kind_of_text(element.spelled(), names, kinds)


def _kind_of_text(text: str, names: XmlNames, kinds: XmlKinds | None) -> str:
    value = names.text(text)
    if value is None or not value.strip():
        return NOTHING
    return "string" if kinds is None else kinds.of(value)


def _merged(left: JsonType, right: JsonType, value: str) -> JsonType:
    """A type that holds what both hold, where one may be repeated and the other not, or have attributes."""
    if right in (left, NOTHING):
        return left
    if left == NOTHING:
        return right
    holders = [kind["type"] if isinstance(kind, dict) else None for kind in (left, right)]
    if "array" in holders:
        first, second = (kind["elementType"] if holder == "array" else kind for kind, holder in _pairs(left, right))
        return array_of(_merged(first, second, value))
    if "struct" in holders:
        first, second = (
            kind if holder == "struct" else {"type": "struct", "fields": [field_of(value, kind)]}
            for kind, holder in _pairs(left, right)
        )
        return _merged_structs(first, second, value)
    return merged(left, right)


def _pairs(left: JsonType, right: JsonType) -> list[tuple[Any, str | None]]:
    return [(kind, kind["type"] if isinstance(kind, dict) else None) for kind in (left, right)]


def _merged_structs(left: JsonType, right: JsonType, value: str) -> JsonType:
    fields = {field["name"].casefold(): field for field in left["fields"]}
    for field in right["fields"]:
        known = fields.get(field["name"].casefold())
        name = field["name"] if known is None else known["name"]
        kind = field["type"] if known is None else _merged(known["type"], field["type"], value)
        fields[field["name"].casefold()] = field_of(name, kind)
    return {"type": "struct", "fields": list(fields.values())}
