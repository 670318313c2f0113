"""Adapt lines of JSON to what Arrow can read: find the lines that do not fit the schema, and rewrite the others.

Arrow reads a value only as the type that it is written as, and has no maps. So a value of another type for a string
column is quoted, with its original text, and an object for a map becomes an array of keys and values. A line with a
value that does not fit, or that Arrow may read in another way than Spark, is left to the other reader.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from dataclasses import field as data_field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.autoloader.reading.conversion.arrow_types import decimal_of
from headrace.autoloader.reading.conversion.values import RANGES, TypeMismatch, parse_integer
from headrace.autoloader.reading.json.structure import (
    BACKSLASH,
    CLOSES_ARRAY,
    CLOSES_OBJECT,
    COLON,
    COMMA,
    OPENS_ARRAY,
    OPENS_OBJECT,
    QUOTE,
    Bytes,
    Flags,
    JsonLines,
    Level,
    Positions,
    bytes_in,
)
from headrace.model.ddl import JsonType

# Short, because they are written for each entry of a map.
KEY, VALUE = "k", "v"
_TIMES = ("date", "timestamp", "timestamp_ntz")
# Digits of an integer that surely fits its type.
_SURE_DIGITS = {"byte": 2, "short": 4, "integer": 9, "long": 18}
# What a value begins with.
_NUMBER, _WORD, _NULL, _TEXT = b"-0123456789", b"tf", b"n", b'"'
_BEGINNINGS: Mapping[str, Flags] = {
    "string": bytes_in(_NUMBER + _WORD + _NULL + _TEXT + b"{["),
    "boolean": bytes_in(_WORD + _NULL),
    "struct": bytes_in(_NULL + b"{"),
    "map": bytes_in(_NULL + b"{"),
    "array": bytes_in(_NULL + b"["),
    **dict.fromkeys(_TIMES, bytes_in(_TEXT + _NULL)),
}
_NUMERIC = bytes_in(_NUMBER + _NULL)
_IS_DIGIT, _IS_PLAIN = bytes_in(_NUMBER), bytes_in(_NUMBER + _WORD)
IS_NESTED = bytes_in(b"{[")
_PLAIN = r"^(true|false|-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?)$"
# Names of NaN and the infinities that Arrow accepts; some of them Spark does not.
_NON_NUMERIC = re.compile(rb"(?<=[:,\[ \t])[+-]?(?:NaN|Inf)")


@dataclass(frozen=True, eq=False)
class _Node:
    """A path of the schema: its type, and the nodes of its fields by name, or the one of its elements or values."""

    kind: JsonType
    name: str
    fields: Mapping[bytes, _Node] = data_field(default_factory=dict)
    inner: _Node | None = None
    # The name of a field.
    field: str = ""

    @classmethod
    def of(cls, kind: JsonType, name: str = "") -> _Node:
        """The node of a type, and of the field of that name."""
        if isinstance(kind, str):
            return cls(kind, kind, field=name)
        if kind["type"] == "struct":
            fields = {one["name"].encode(): cls.of(one["type"], one["name"]) for one in kind["fields"]}
            return cls(kind, "struct", fields, field=name)
        inner = cls.of(kind["elementType" if kind["type"] == "array" else "valueType"])
        return cls(kind, kind["type"], inner=inner, field=name)

    def with_inner(self) -> Iterator[_Node]:
        """This node, and those below."""
        yield self
        for node in (*self.fields.values(), *((self.inner,) if self.inner else ())):
            yield from node.with_inner()


@dataclass(frozen=True)
class Members:
    """Members of records: their line numbers, and the positions of the first quote, of the value and of its end."""

    rows: Positions
    names: Positions
    name_ends: Positions
    values: Positions
    ends: Positions


@dataclass(frozen=True)
class TextMaps:
    """Objects for a column of maps to strings: their line numbers, their members, and which of these are null."""

    rows: Positions
    members: Members
    is_null: Flags


@dataclass(frozen=True)
class AdaptedLines:
    """Lines for Arrow.

    Attributes:
        letters: the text of all lines.
        begins: where each line begins, and the end of the text.
        fits: whether a line fits the schema, so that Arrow can read it.
        is_unchecked: whether invalid JSON is in strings now, so that the original must be validated.
        texts: string columns that have no strings, which Arrow need not read: line numbers, and where the values are.
        maps: columns of maps to strings that Arrow need not read.
        unknown: the members of records that are not in the schema.
    """

    letters: Bytes
    begins: Positions
    fits: Flags
    is_unchecked: bool
    texts: Mapping[str, tuple[Positions, Positions, Positions]]
    maps: Mapping[str, TextMaps]
    unknown: Members


class LineAdapter:
    """Adapts lines to a schema.

    Args:
        struct: the type of a record.
        skips_unknown: whether Arrow skips fields of records that are not in the schema.
        skips_nested: the same for fields of objects in records.
    """

    def __init__(self, struct: JsonType, *, skips_unknown: bool, skips_nested: bool) -> None:
        self.nodes = list(_Node.of(struct).with_inner())
        self.numbers = {id(node): number for number, node in enumerate(self.nodes)}
        self._skips = (skips_unknown, skips_nested)
        # Columns that are maps to strings.
        self.text_maps = [
            node
            for node in self.nodes[0].fields.values()
            if node.name == "map" and node.inner is not None and node.inner.name == "string"
        ]

    def adapt(self, lines: JsonLines) -> AdaptedLines:
        """Adapt lines, and find those that fit."""
        adaptation = _Adaptation(lines, self)
        level, depth = lines.level(1), 1
        # The number of each container's node; -1 if its values need no attention.
        nodes = np.zeros(len(level.opens), dtype=np.int64)
        while (nodes >= 0).any():
            inner = lines.level(depth + 1)
            nodes = adaptation.adapt_level(level, nodes, inner, skips=self._skips[depth > 1])
            level, depth = inner, depth + 1
        return adaptation.result()


class _Adaptation:
    """The adaptation of some lines: which do not fit, and what is inserted and replaced."""

    def __init__(self, lines: JsonLines, schema: LineAdapter) -> None:
        self._lines = lines
        self._schema = schema
        self._fits = lines.has_object.copy()
        # Positions, and what is inserted before each.
        self._insertions: list[tuple[Positions, bytes]] = []
        self._replaced: list[tuple[Positions, int]] = []
        # Begins and ends of objects and arrays that become strings.
        self._nested_texts: list[tuple[Positions, Positions]] = []
        self._texts: dict[str, tuple[Positions, Positions, Positions]] = {}
        self._maps: dict[str, TextMaps] = {}
        none = np.empty(0, dtype=np.int64)
        self._unknown = Members(none, none, none, none, none)

    def adapt_level(self, level: Level, nodes: Positions, inner: Level, *, skips: bool) -> Positions:
        """Adapt the values in the containers of a level; return the nodes of the containers of the *inner* one."""
        node_of = nodes[level.containers]
        inner_nodes = np.full(len(inner.opens), -1, dtype=np.int64)
        for number in np.unique(nodes[nodes >= 0]).tolist():
            node = self._schema.nodes[number]
            in_node = node_of == number
            if node.name == "array":
                places = np.flatnonzero(in_node & ((level.kinds == COMMA) | (level.kinds == OPENS_ARRAY)))
                places = places[~self._is_empty(level, places)]
            else:
                places = np.flatnonzero(in_node & (level.kinds == COLON))
            begins, ends = self._lines.values(level.tokens[places], level.tokens[places + 1])
            if self._take_map(node, level, in_node, places):
                continue
            if node.name == "struct":
                children = self._fields(node, level.tokens[places], begins, ends, skips=skips)
            else:
                assert node.inner is not None  # noqa: S101 - an array or a map has one
                children = np.full(len(places), self._schema.numbers[id(node.inner)])
            for child in np.unique(children[children >= 0]).tolist():
                chosen = children == child
                tokens = level.tokens[places[chosen]]
                child_node = self._schema.nodes[child]
                if node is self._schema.nodes[0] and self._take_texts(child_node, tokens, begins[chosen], ends[chosen]):
                    continue
                if child_node in self._schema.text_maps:
                    # Arrow may not see that a name is repeated.
                    rows = self._lines.rows[tokens]
                    self._fits[rows[np.flatnonzero(np.diff(rows, prepend=-1) == 0)]] = False
                opened = self._check(child_node, tokens, begins[chosen], ends[chosen])
                inner_nodes[np.searchsorted(inner.opens, opened)] = child
            if node.name == "map":
                self._to_entries(level, in_node, places)
        return inner_nodes

    def _is_empty(self, level: Level, places: Positions) -> Flags:
        """Whether a token opens an array without elements."""
        begins, _ = self._lines.values(level.tokens[places], level.tokens[places + 1])
        empty: Flags = (level.kinds[places] == OPENS_ARRAY) & (self._lines.letters[begins] == CLOSES_ARRAY)
        return empty

    def _refuse(self, tokens: Positions) -> None:
        self._fits[self._lines.rows[tokens]] = False

    def _fields(self, node: _Node, colons: Positions, begins: Positions, ends: Positions, *, skips: bool) -> Positions:
        """The numbers of the nodes of an object's members; -1 for one that is not in the schema."""
        opens, closes, plain = self._lines.names(colons)
        self._refuse(colons[~plain])
        lengths, letters = closes - opens - 1, self._lines.letters
        children = np.full(len(colons), -1, dtype=np.int64)
        for name, child in node.fields.items():
            found = np.flatnonzero(lengths == len(name))
            # Backwards, because names differ most at the end.
            for distance, letter in enumerate(reversed(name), start=1):
                found = found[letters[closes[found] - distance] == letter]
            children[found] = self._schema.numbers[id(child)]
        unknown = children < 0
        if not skips:
            self._refuse(colons[unknown])
        elif node is self._schema.nodes[0]:
            rows = self._lines.rows[colons[unknown]]
            self._unknown = Members(rows, opens[unknown], closes[unknown] + 1, begins[unknown], ends[unknown])
        return children

    def _check(self, node: _Node, tokens: Positions, begins: Positions, ends: Positions) -> Positions:
        """Check values after some tokens, and quote them if they are to be text; return the containers among them."""
        first = self._lines.letters[begins]
        fits = _BEGINNINGS.get(node.name, _NUMERIC)[first]
        if node.name == "string":
            fits &= self._quote(first, begins, ends)
        elif node.name not in _BEGINNINGS:
            numbers = np.flatnonzero(_IS_DIGIT[first])
            fits[numbers] = self._is_number(node.name, begins[numbers], ends[numbers])
        self._refuse(tokens[~fits])
        return tokens[IS_NESTED[first] & fits] + 1 if node.name in ("struct", "map", "array") else tokens[:0]

    def _take_texts(self, node: _Node, tokens: Positions, begins: Positions, ends: Positions) -> bool:
        """Take the values of a column of records as texts, if it is to have strings and has objects or arrays only."""
        first, last = self._lines.letters[begins], self._lines.letters[ends - 1]
        is_nested = IS_NESTED[first]
        if node.name != "string" or not is_nested.any() or not (is_nested | (first == _NULL[0])).all():
            return False
        self._refuse(tokens[is_nested & (last != CLOSES_OBJECT) & (last != CLOSES_ARRAY)])
        rows = self._lines.rows[tokens]
        # Arrow does not see that a name is repeated.
        self._fits[rows[np.flatnonzero(np.diff(rows, prepend=-1) == 0)]] = False
        self._texts[node.field] = (rows[is_nested], begins[is_nested], ends[is_nested])
        return True

    def _take_map(self, node: _Node, level: Level, in_map: Flags, places: Positions) -> bool:
        """Take a column of records that are maps to strings as texts, if no string has escapes."""
        lines = self._lines
        if node not in self._schema.text_maps or len(lines.backslashes):
            return False
        self._check_entries(level, np.flatnonzero(in_map))
        tokens = level.tokens[places]
        opens, closes, fits = lines.names(tokens)
        begins, ends = lines.values(tokens, level.tokens[places + 1])
        first, last = lines.letters[begins], lines.letters[ends - 1]
        is_text = first == QUOTE
        quotes = np.searchsorted(lines.quotes, ends) - np.searchsorted(lines.quotes, begins)
        fits &= np.where(is_text, (last == QUOTE) & (quotes == 2), _BEGINNINGS["string"][first])
        fits &= ~IS_NESTED[first] | (last == CLOSES_OBJECT) | (last == CLOSES_ARRAY)
        plain = np.flatnonzero(_IS_PLAIN[first])
        fits[plain] &= _matches(lines.texts(begins[plain], ends[plain]), _PLAIN)
        self._refuse(tokens[~fits])
        self._maps[node.field] = TextMaps(
            lines.rows[level.tokens[in_map & (level.kinds == OPENS_OBJECT)]],
            Members(lines.rows[tokens], opens + 1, closes, begins + is_text, ends - is_text),
            first == _NULL[0],
        )
        return True

    def _quote(self, first: Bytes, begins: Positions, ends: Positions) -> Flags:
        """Quote values that are not strings, with their original text; return which can be."""
        fits = np.ones(len(first), dtype=np.bool_)
        plain, nested = np.flatnonzero(_IS_PLAIN[first]), np.flatnonzero(IS_NESTED[first])
        if len(plain):
            fits[plain] = _matches(self._lines.texts(begins[plain], ends[plain]), _PLAIN)
            self._insertions += ((begins[plain], b'"'), (ends[plain], b'"'))
        if len(nested):
            fits[nested] = np.isin(self._lines.letters[ends[nested] - 1], (CLOSES_OBJECT, CLOSES_ARRAY))
            self._insertions += ((begins[nested], b'"'), (ends[nested], b'"'))
            self._nested_texts.append((begins[nested], ends[nested]))
        return fits

    def _is_number(self, kind: str, begins: Positions, ends: Positions) -> Flags:
        """Whether Arrow reads numbers as values of a type, and as Spark does."""
        digits = decimal_of(kind)
        if kind not in RANGES and not digits:
            # Spark reads -0 as a whole number, which has no sign.
            letters = self._lines.letters
            is_minus = (letters[begins] == ord("-")) & (letters[begins + 1] == ord("0"))
            others: Flags = ~(is_minus & (ends - begins == 2))
            return others
        texts = self._lines.texts(begins, ends)
        if digits:
            whole, fraction = digits[0] - digits[1], rf"(\.[0-9]{{1,{digits[1]}}})?" if digits[1] else ""
            return _matches(texts, rf"^-?(0|[1-9][0-9]{{0,{whole - 1}}}){fraction}$" if whole else rf"^-?0{fraction}$")
        fits = _matches(texts, rf"^-?[0-9]{{1,{_SURE_DIGITS[kind]}}}$")
        unsure = np.flatnonzero(~fits)
        fits[unsure] = [_is_integer(text, kind) for text in texts.take(pa.array(unsure)).to_pylist()]
        return fits

    def _to_entries(self, level: Level, in_map: Flags, places: Positions) -> None:
        """Rewrite objects as arrays of entries, each an object with a key and a value."""
        lines = self._lines
        opens, _, plain = lines.names(level.tokens[places])
        self._refuse(level.tokens[places[~plain]])
        self._check_entries(level, np.flatnonzero(in_map))
        tokens = level.tokens[in_map]
        for old, new in ((OPENS_OBJECT, OPENS_ARRAY), (CLOSES_OBJECT, CLOSES_ARRAY)):
            self._replaced.append((lines.positions[tokens[lines.kinds[tokens] == old]], new))
        self._insertions.append((opens, f'{{"{KEY}":'.encode()))
        self._insertions.append((lines.positions[level.tokens[places]], f',"{VALUE}"'.encode()))
        self._insertions.append((lines.positions[level.tokens[places + 1]], b"}"))

    def _check_entries(self, level: Level, places: Positions) -> None:
        """Refuse objects that are not entries with commas between them: as arrays, they might be valid."""
        places = places[~np.isin(level.kinds[places], (CLOSES_OBJECT, CLOSES_ARRAY))]
        kinds, following = level.kinds[places], level.kinds[places + 1]
        begins, _ = self._lines.values(level.tokens[places], level.tokens[places + 1])
        is_empty = (kinds == OPENS_OBJECT) & (self._lines.letters[begins] == CLOSES_OBJECT)
        is_end = (following == CLOSES_OBJECT) | (following == COMMA)
        fits = is_empty | np.where(kinds == COLON, is_end, following == COLON)
        self._refuse(level.tokens[places[~fits]])

    def _refuse_non_numeric(self) -> None:
        """Refuse lines with names of numbers that Arrow may accept, wherever they are outside of strings."""
        found = np.array(list(non_numeric_names(self._lines.text)), dtype=np.int64)
        if len(found):
            found = found[~self._lines.in_strings(found)]
            self._fits[self._lines.rows_at(found)] = False

    def result(self) -> AdaptedLines:
        """The adapted lines."""
        self._refuse_non_numeric()
        lines = self._lines
        is_unchecked = bool(self._nested_texts)
        if not self._insertions:
            return AdaptedLines(
                lines.letters, lines.begins, self._fits, is_unchecked, self._texts, self._maps, self._unknown
            )
        letters = lines.letters.copy()
        for positions, letter in self._replaced:
            letters[positions] = letter
        if self._nested_texts:
            self._insertions.append((self._escaped(), b"\\"))
        at = np.concatenate([np.repeat(positions, len(new)) for positions, new in self._insertions])
        new = np.concatenate([np.tile(np.frombuffer(text, np.uint8), len(p)) for p, text in self._insertions])
        # Of insertions at one position, the first in the list comes first.
        order = np.argsort(at, kind="stable")
        at = at[order]
        begins = lines.begins + np.searchsorted(at, lines.begins)
        letters = np.insert(letters, at, new[order])
        return AdaptedLines(letters, begins, self._fits, is_unchecked, self._texts, self._maps, self._unknown)

    def _escaped(self) -> Positions:
        """The positions of quotes and backslashes in objects and arrays that become strings."""
        lines = self._lines
        begins = np.concatenate([begins for begins, _ in self._nested_texts])
        ends = np.concatenate([ends for _, ends in self._nested_texts])
        order = np.argsort(begins, kind="stable")
        begins, ends = begins[order], ends[order]
        special = np.flatnonzero((lines.letters == QUOTE) | (lines.letters == BACKSLASH))
        place = np.searchsorted(begins, special, "right") - 1
        return special[(place >= 0) & (special < ends[place])]


def non_numeric_names(text: bytes) -> Iterator[int]:
    """The positions of names of NaN and the infinities as Arrow accepts them, also in strings."""
    if b"NaN" in text or b"Inf" in text:
        yield from (match.start() for match in _NON_NUMERIC.finditer(text))


def _is_integer(text: str, kind: str) -> bool:
    try:
        parse_integer(text, kind)
    except TypeMismatch:
        return False
    return True


def _matches(texts: pa.StringArray, form: str) -> Flags:
    found: Flags = pc.match_substring_regex(texts, form).to_numpy(zero_copy_only=False)
    return found
