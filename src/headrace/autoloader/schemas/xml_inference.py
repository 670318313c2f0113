"""Infer a schema from rows of XML, as Spark's ``XmlInferSchema``.

A repeated element is an array. An element with attributes is a struct with its text in ``_VALUE``. If some elements are
texts and others structs, the struct has the text too.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from headrace.autoloader.reading.conversion.converters import Times
from headrace.autoloader.reading.conversion.values import TypeMismatch
from headrace.autoloader.reading.xml.elements import Element, MalformedXml, XmlNames, parse_element
from headrace.autoloader.schemas.inference import EMPTY_STRUCT, NOTHING, decimal_kind, merge_types
from headrace.model.ddl import JsonType, array_of, field_of

_WHOLE = re.compile(r"[+-]?\d{1,20}")
_NUMBER = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?")
_LONG = 2**63


@dataclass(frozen=True)
class XmlTypeInference:
    """How types are inferred from texts."""

    times: Times
    decimals: bool = False
    dates: bool = True

    def infer(self, text: str) -> str:
        """The type of a text: whole numbers, then decimals or doubles, dates, times, booleans."""
        value = text.strip()
        if _WHOLE.fullmatch(value) and -_LONG <= int(value) < _LONG:
            return "long"
        if _NUMBER.fullmatch(value):
            return (decimal_kind(value) if self.decimals else None) or "double"
        if self.dates and self._is_date(value):
            return "date"
        if value[0].isdigit() and self.times.is_timestamp(value):
            return "timestamp"
        return "boolean" if value.casefold() in ("true", "false") else "string"

    def _is_date(self, text: str) -> bool:
        # Without a pattern, only a full date counts: CAST would accept a timestamp too.
        if "date" not in self.times.patterns and not re.fullmatch(r"\d{4}-\d{2}-\d{2}", text):
            return False
        try:
            self.times.parse_date(text)
        except TypeMismatch:
            return False
        return True


def xml_struct(texts: Iterable[str], names: XmlNames, kinds: XmlTypeInference | None) -> JsonType:
    """The struct of rows, before ``finalize_struct``. Malformed rows are skipped; without *kinds*, all is string."""
    found: JsonType = dict(EMPTY_STRUCT)
    for text in texts:
        try:
            element = parse_element(text, names)
        except MalformedXml:
            continue
        found = _merge_types(found, _struct_of(element, names, kinds), names.value)
    return found


def _struct_of(element: Element, names: XmlNames, kinds: XmlTypeInference | None) -> JsonType:
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
    """Add a field to a struct; a field that exists already becomes an array."""
    known = found.get(name)
    if known is None:
        found[name] = kind
    elif isinstance(known, dict) and known["type"] == "array":
        found[name] = array_of(_merge_types(known["elementType"], kind, names.value))
    else:
        found[name] = array_of(_merge_types(known, kind, names.value))


def _kind_of(element: Element, names: XmlNames, kinds: XmlTypeInference | None) -> JsonType:
    if element.attributes or element.elements:
        return _struct_of(element, names, kinds)
    return _kind_of_text(element.text_content(), names, kinds)


def _kind_of_text(text: str, names: XmlNames, kinds: XmlTypeInference | None) -> str:
    value = names.text(text)
    if value is None or not value.strip():
        return NOTHING
    return "string" if kinds is None else kinds.infer(value)


def _merge_types(left: JsonType, right: JsonType, value: str) -> JsonType:
    """The type that holds the values of both; one may be repeated or have attributes, and the other not."""
    if right in (left, NOTHING):
        return left
    if left == NOTHING:
        return right
    holders = [kind["type"] if isinstance(kind, dict) else None for kind in (left, right)]
    if "array" in holders:
        first, second = (kind["elementType"] if holder == "array" else kind for kind, holder in _pairs(left, right))
        return array_of(_merge_types(first, second, value))
    if "struct" in holders:
        first, second = (
            kind if holder == "struct" else {"type": "struct", "fields": [field_of(value, kind)]}
            for kind, holder in _pairs(left, right)
        )
        return _merge_structs(first, second, value)
    return merge_types(left, right)


def _pairs(left: JsonType, right: JsonType) -> list[tuple[Any, str | None]]:
    return [(kind, kind["type"] if isinstance(kind, dict) else None) for kind in (left, right)]


def _merge_structs(left: JsonType, right: JsonType, value: str) -> JsonType:
    fields = {field["name"].casefold(): field for field in left["fields"]}
    for field in right["fields"]:
        known = fields.get(field["name"].casefold())
        name = field["name"] if known is None else known["name"]
        kind = field["type"] if known is None else _merge_types(known["type"], field["type"], value)
        fields[field["name"].casefold()] = field_of(name, kind)
    return {"type": "struct", "fields": list(fields.values())}
