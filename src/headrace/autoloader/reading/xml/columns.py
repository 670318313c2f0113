"""Make columns of the tags of XML: the values of regular rows, converted column by column."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from dataclasses import fields as dataclass_fields
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.autoloader.reading.conversion.arrow_types import arrow_type
from headrace.autoloader.reading.conversion.converters import Times
from headrace.autoloader.reading.conversion.fitting import TextConverter
from headrace.autoloader.reading.conversion.pattern_columns import can_vectorise
from headrace.autoloader.reading.plan import ReadPlan
from headrace.autoloader.reading.xml.elements import XmlNames
from headrace.autoloader.reading.xml.structure import Flags, Positions, XmlTags
from headrace.model.ddl import JsonType

# Names that are surely names of XML.
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.\-]*\Z")
_ENTITIES = (("&lt;", "<"), ("&gt;", ">"), ("&quot;", '"'), ("&apos;", "'"), ("&amp;", "&"))
# Spaces that Python strips, besides those of ASCII.
_WIDE_EDGE = r"^[\p{Z}\x{85}]|[\p{Z}\x{85}]$"
_ASCII_SPACES = " \t\n\r"


@dataclass(frozen=True)
class _Values:
    """Values of one path: for each the slot of its parent, its row, and where its text begins and ends."""

    slots: Positions
    rows: Positions
    begins: Positions
    ends: Positions
    # The numbers of the elements; -1 for attributes and texts.
    elements: Positions

    def of(self, chosen: Flags | Positions) -> _Values:
        """Some of them."""
        return _Values(
            self.slots[chosen], self.rows[chosen], self.begins[chosen], self.ends[chosen], self.elements[chosen]
        )


def is_convertible(kind: JsonType, plan: ReadPlan, *, in_array: bool = False) -> bool:
    """Whether :class:`XmlColumns` makes columns of a type."""
    if isinstance(kind, str):
        pattern = Times.of(plan.time_zone, plan.format_options).patterns.get(kind)
        return kind not in ("binary", "variant") and (pattern is None or can_vectorise(pattern))
    if kind["type"] == "struct":
        return bool(kind["fields"]) and all(is_convertible(one["type"], plan) for one in kind["fields"])
    return kind["type"] == "array" and not in_array and is_convertible(kind["elementType"], plan, in_array=True)


class XmlColumns:
    """Makes the columns of rows; refuses rows with values that do not fit.

    Args:
        plan: the types, and the patterns of dates and times.
        tags: the rows.
    """

    def __init__(self, plan: ReadPlan, tags: XmlTags) -> None:
        self._plan = plan
        self._tags = tags
        self._names = XmlNames.of(plan.format_options)
        self._times = Times.of(plan.time_zone, plan.format_options)
        texts, elements = tags.texts, tags.elements
        self._text_begins = np.zeros(len(elements.rows), dtype=np.int64)
        self._text_ends = np.zeros(len(elements.rows), dtype=np.int64)
        self._text_begins[texts.elements], self._text_ends[texts.elements] = texts.begins, texts.ends
        self._checks_names = False
        self._by_depth: dict[int, Positions] = {}
        self._has_attributes = np.zeros(len(elements.rows), dtype=np.bool_)
        self._has_attributes[tags.attributes.elements] = self._names.attributes

    def columns(self, fields: list[Mapping[str, Any]]) -> dict[str, pa.Array]:
        """The columns of all rows; those of refused rows have no meaning."""
        rows = self._at(0)
        found = self._struct(rows, self._tags.elements.rows[rows], fields, len(self._tags.is_regular), 0)
        return {field["name"]: array for field, array in zip(fields, found, strict=True)}

    def _struct(
        self, elements: Positions, slots: Positions, fields: list[Mapping[str, Any]], count: int, depth: int
    ) -> list[pa.Array]:
        """The fields of some elements at a depth, as arrays of *count* slots."""
        known: dict[str, list[_Values]] = {field["name"]: [] for field in fields}
        for members, prefix in self._members(elements, slots, depth):
            values, names = members
            matched = np.zeros(len(values.slots), dtype=np.bool_)
            for name, found in known.items():
                if not name.startswith(prefix) or not _NAME.match(name.removeprefix(prefix)):
                    continue
                chosen = self._named(*names, name.removeprefix(prefix).encode())
                matched[chosen] = True
                found.append(values.of(chosen))
            self._pass_unknown(values.rows[~matched])
        texts = self._own_texts(elements, slots)
        if self._names.value in known:
            known[self._names.value].append(texts)
        else:
            self._pass_unknown(texts.rows)
        return [self._array(_joined(known[field["name"]]), field["type"], count, depth + 1) for field in fields]

    def _pass_unknown(self, rows: Positions) -> None:
        """Pass values that are not in the schema, if they are not rescued; otherwise refuse their rows."""
        plan = self._plan
        if plan.evolves or plan.rescued_column is not None or not plan.case_sensitive:
            self._tags.refuse(rows)
        elif len(rows) and not self._checks_names:
            self._checks_names = True
            self._check_names()

    def _check_names(self) -> None:
        """Refuse rows with names that may not be XML, or with an attribute twice: a parser would refuse them."""
        tags = self._tags
        elements, attributes = tags.elements, tags.attributes
        names = tags.texts_between(attributes.begins, attributes.ends)
        tags.refuse(elements.rows[~_are_names(tags.texts_between(elements.begins, elements.ends))])
        tags.refuse(elements.rows[attributes.elements[~_are_names(names)]])
        codes = names.dictionary_encode()
        pairs = attributes.elements * max(len(codes.dictionary), 1) + codes.indices.to_numpy()
        repeated = np.ones(len(pairs), dtype=np.bool_)
        repeated[np.unique(pairs, return_index=True)[1]] = False
        tags.refuse(elements.rows[attributes.elements[repeated]])

    def _members(
        self, elements: Positions, slots: Positions, depth: int
    ) -> Iterator[tuple[tuple[_Values, tuple[Positions, Positions]], str]]:
        """The attributes of elements, and the elements in them: values, and where their names begin and end."""
        tags = self._tags
        slot_of = np.full(len(tags.elements.rows), -1, dtype=np.int64)
        slot_of[elements] = slots
        if not self._names.attributes:
            tags.refuse(tags.elements.rows[tags.attributes.elements])
        else:
            attributes, values = tags.attributes, tags.values
            mine = np.flatnonzero(slot_of[attributes.elements] >= 0)
            of = attributes.elements[mine]
            none = np.full(len(mine), -1, dtype=np.int64)
            found = _Values(slot_of[of], tags.elements.rows[of], values.begins[mine], values.ends[mine], none)
            yield (found, (attributes.begins[mine], attributes.ends[mine])), self._names.prefix
        at_depth, inner = self._at(depth), self._at(depth + 1)
        inner = inner[:0] if not len(at_depth) else inner
        parents = at_depth[np.searchsorted(at_depth, inner) - 1]
        inner, parents = inner[slot_of[parents] >= 0], parents[slot_of[parents] >= 0]
        found = _Values(
            slot_of[parents], tags.elements.rows[inner], self._text_begins[inner], self._text_ends[inner], inner
        )
        yield (found, (tags.elements.begins[inner], tags.elements.ends[inner])), ""

    def _at(self, depth: int) -> Positions:
        """The elements at a depth."""
        if depth not in self._by_depth:
            self._by_depth[depth] = np.flatnonzero(self._tags.elements.depths == depth)
        return self._by_depth[depth]

    def _own_texts(self, elements: Positions, slots: Positions) -> _Values:
        """The texts of elements without elements inside, which are not blank."""
        begins, ends = self._text_begins[elements], self._text_ends[elements]
        filled = np.flatnonzero(ends > begins)
        letters = self._tags.texts_between(begins[filled], ends[filled])
        blank = pc.match_substring_regex(letters, r"^[ \t\n\r]*$").to_numpy(zero_copy_only=False)
        filled = filled[~blank]
        none = np.full(len(filled), -1, dtype=np.int64)
        return _Values(slots[filled], self._tags.elements.rows[elements[filled]], begins[filled], ends[filled], none)

    def _named(self, begins: Positions, ends: Positions, name: bytes) -> Positions:
        chosen = np.flatnonzero(ends - begins == len(name))
        for place in reversed(range(len(name))):
            chosen = chosen[self._tags.letters[begins[chosen] + place] == name[place]]
        return chosen

    def _array(self, values: _Values, kind: JsonType, count: int, depth: int) -> pa.Array:
        """Values as an array of *count* slots; depth is that of their elements."""
        values = values.of(self._tags.is_regular[values.rows])
        if isinstance(kind, dict) and kind["type"] == "array":
            # Attributes and texts are rare in arrays.
            self._tags.refuse(values.rows[values.elements < 0])
            values = values.of(self._tags.is_regular[values.rows])
            counts = np.bincount(values.slots, minlength=count)
            offsets = np.concatenate(([0], np.cumsum(counts))).astype(np.int32)
            each = _Values(np.arange(len(values.slots)), values.rows, values.begins, values.ends, values.elements)
            inner = self._array(each, kind["elementType"], len(values.slots), depth)
            # Rows may have been refused meanwhile; the elements stay.
            return pa.ListArray.from_arrays(pa.array(offsets), inner, type=arrow_type(kind), mask=pa.array(counts == 0))
        repeated = np.flatnonzero(np.diff(values.slots, prepend=-1) == 0)
        self._tags.refuse(values.rows[repeated])
        values = values.of(self._tags.is_regular[values.rows])
        if isinstance(kind, dict):
            self._tags.refuse(values.rows[values.elements < 0])
            values = values.of(self._tags.is_regular[values.rows])
            present = np.zeros(count, dtype=np.bool_)
            present[values.slots] = True
            fields = self._struct(values.elements, values.slots, kind["fields"], count, depth)
            return pa.StructArray.from_arrays(fields, fields=list(arrow_type(kind)), mask=pa.array(~present))
        return self._scalars(values, kind, count)

    def _scalars(self, values: _Values, kind: str, count: int) -> pa.Array:
        is_element = values.elements >= 0
        inner = values.elements[is_element]
        nested = self._tags.elements.has_inner[inner] | self._has_attributes[inner]
        self._tags.refuse(values.rows[is_element][nested])
        values = values.of(self._tags.is_regular[values.rows])
        texts, odd = self._texts(values, kind)
        self._tags.refuse(values.rows[odd])
        row_of = np.zeros(count, dtype=np.int64)
        row_of[values.slots] = values.rows
        place = np.full(count, -1, dtype=np.int64)
        place[values.slots] = np.arange(len(values.slots))
        texts = texts.take(pa.array(place, mask=place < 0))
        converter = TextConverter(kind, self._plan.time_zone, self._times.patterns.get(kind))
        array, unfit = converter.convert(texts)
        self._tags.refuse(row_of[unfit])
        return array

    def _texts(self, values: _Values, kind: str) -> tuple[pa.Array, Flags]:
        """The texts of values, and which of them have something unusual."""
        texts = self._tags.texts_between(values.begins, values.ends)
        odd = np.zeros(len(texts), dtype=np.bool_)
        if b"&" in self._tags.text and pc.any(pc.match_substring(texts, "&"), min_count=0).as_py():
            for entity, letter in _ENTITIES:
                texts = pc.replace_substring(texts, entity, letter)
        if not self._tags.text.isascii():
            odd |= pc.match_substring_regex(texts, _WIDE_EDGE).to_numpy(zero_copy_only=False)
        if self._names.trims:
            texts = pc.ascii_trim(texts, characters=_ASCII_SPACES)
        if self._names.null is not None:
            texts = pc.if_else(pc.equal(texts, self._names.null), pa.scalar(None, pa.string()), texts)
        if kind == "string":
            return texts, odd
        texts = pc.ascii_trim(texts, characters=_ASCII_SPACES)
        texts = pc.if_else(pc.equal(texts, ""), pa.scalar(None, pa.string()), texts)
        if kind == "boolean":
            texts = pc.if_else(pc.equal(texts, "1"), "true", pc.if_else(pc.equal(texts, "0"), "false", texts))
        return texts, odd


def _are_names(names: pa.StringArray) -> Flags:
    found: Flags = pc.match_substring_regex(names, r"^[A-Za-z_][A-Za-z0-9_.\-]*$").to_numpy(zero_copy_only=False)
    return found


def _joined(values: list[_Values]) -> _Values:
    """Values of a path from several places, by slot."""
    if len(values) == 1:
        return values[0]
    none = np.empty(0, dtype=np.int64)
    parts = [np.concatenate([none, *(getattr(one, part.name) for one in values)]) for part in dataclass_fields(_Values)]
    joined = _Values(*parts)
    return joined.of(np.argsort(joined.slots, kind="stable"))
