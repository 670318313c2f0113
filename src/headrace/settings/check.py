"""A settings file checked against the table of keys: typed values with their lines, and all that is wrong."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

import yaml

from headrace.errors import PipelineError, Problems
from headrace.model.location import Location
from headrace.settings.document import BOOLEAN, FLOAT, INTEGER, NULL, TEXT, line_of, repeated_keys, text_of
from headrace.settings.keys import Key, Treatment, ValueType, keys_below, parents_of

Value: TypeAlias = (
    "str | bool | int | tuple[str, ...] | dict[str, str] | Section | tuple[Section, ...] | dict[str, Section]"
)

_MAP_KINDS = (ValueType.MAP, ValueType.SECTION, ValueType.NAMED_SECTIONS, ValueType.ANY_MAP)
_LIST_KINDS = (ValueType.TEXTS, ValueType.SECTIONS, ValueType.ANY_LIST)
_SCALAR_TAGS = {TEXT: "a string", BOOLEAN: "true or false", INTEGER: "a number", FLOAT: "a number", NULL: "nothing"}


@dataclass(frozen=True)
class Section:
    """A mapping of the settings file: its values by key, each of the type that the table of keys says.

    A value that was wrong is missing: its problem has been recorded. ``places`` holds lines of keys, and of the
    entries of a mapping of texts as ``key.entry``.
    """

    line: int = 0
    values: Mapping[str, Value] = field(default_factory=dict)
    places: Mapping[str, int] = field(default_factory=dict)
    # Something in it was wrong and is missing from the values.
    flawed: bool = False

    def text(self, key: str) -> str | None:
        """The text at *key*, None when it is not given."""
        value = self.values.get(key)
        return value if isinstance(value, str) else None

    def flag(self, key: str) -> bool | None:
        """The boolean at *key*, None when it is not given."""
        value = self.values.get(key)
        return value if isinstance(value, bool) else None

    def number(self, key: str) -> int | None:
        """The number at *key*, None when it is not given."""
        value = self.values.get(key)
        return value if isinstance(value, int) and not isinstance(value, bool) else None

    def texts(self, key: str) -> tuple[str, ...]:
        """The list of texts at *key*, empty when it is not given."""
        value = self.values.get(key)
        return tuple(item for item in value if isinstance(item, str)) if isinstance(value, tuple) else ()

    def mapping(self, key: str) -> dict[str, str]:
        """The mapping of texts at *key*, empty when it is not given."""
        value = self.values.get(key)
        return {name: item for name, item in value.items() if isinstance(item, str)} if isinstance(value, dict) else {}

    def section(self, key: str) -> Section:
        """The section at *key*, an empty one when it is not given."""
        value = self.values.get(key)
        return value if isinstance(value, Section) else Section()

    def sections(self, key: str) -> tuple[Section, ...]:
        """The sections at *key*, empty when it is not given."""
        value = self.values.get(key)
        return tuple(item for item in value if isinstance(item, Section)) if isinstance(value, tuple) else ()

    def named_sections(self, key: str) -> dict[str, Section]:
        """The sections at *key* by their names, empty when it is not given."""
        value = self.values.get(key)
        if not isinstance(value, dict):
            return {}
        return {name: item for name, item in value.items() if isinstance(item, Section)}

    def line_of(self, key: str) -> int:
        """The line of *key*; that of the section when it is not given."""
        return self.places.get(key, self.line)

    def overlaid(self, other: Section) -> Section:
        """Both, where *other* goes before: mappings of texts are merged, anything else is replaced."""
        values = dict(self.values)
        for key, value in other.values.items():
            merged = self.mapping(key) if isinstance(value, dict) else {}
            values[key] = {**merged, **other.mapping(key)} if isinstance(value, dict) else value
        return Section(self.line, values, {**self.places, **other.places})


@dataclass
class Checker:
    """Reads sections and keeps what is wrong, and which keys have no effect."""

    file: str
    problems: list[PipelineError] = field(default_factory=list)
    notices: dict[str, str] = field(default_factory=dict)

    def document(self, root: yaml.Node) -> Section:
        """The whole file as a section.

        Raises:
            Problems: the file holds something else than a mapping.
        """
        for key, first, second in repeated_keys(root):
            self._problem("SETTINGS.DUPLICATE_KEY", second, key=key, first=first, second=second)
        if not isinstance(root, yaml.MappingNode):
            self._problem("SETTINGS.SYNTAX", line_of(root), reason="the file must contain a mapping of keys to values")
            raise Problems(self.problems)
        return self._section(root, "", "", quiet=False)

    def _section(self, node: yaml.MappingNode, path: str, shown: str, *, quiet: bool) -> Section:
        values: dict[str, Value] = {}
        places: dict[str, int] = {}
        before = len(self.problems)
        for key_node, value_node in node.value:
            leaf = text_of(key_node) if isinstance(key_node, yaml.ScalarNode) else "?"
            key = keys_below(path).get(leaf)
            place = f"{shown}.{leaf}" if shown else leaf
            if key is None:
                suggestion = _suggestion(leaf, path)
                self._problem("SETTINGS.UNKNOWN_KEY", line_of(key_node), key=place, suggestion=suggestion)
                continue
            value = self._known(key, key_node, value_node, place, quiet=quiet)
            if value is not None:
                values[leaf] = value
                places[leaf] = line_of(key_node)
                places.update(_entry_lines(leaf, value_node) if key.type is ValueType.MAP else {})
        return Section(line_of(node), values, places, flawed=len(self.problems) > before)

    def _known(self, key: Key, key_node: yaml.Node, node: yaml.Node, shown: str, *, quiet: bool) -> Value | None:
        if node.tag == NULL:
            return None
        if key.treatment is Treatment.REFUSED:
            if not _asks_for_nothing(node):
                line = line_of(key_node)
                self._problem("SETTINGS.REFUSED", line, key=shown, reason=key.reason, instead=key.instead)
            return None
        if key.treatment is Treatment.ACCEPTED and not quiet:
            self.notices.setdefault(key.path, key.reason)
        # Nothing below a key without effect has one either, and saying so once is enough.
        return self._value(key, node, shown, quiet=quiet or key.treatment is Treatment.ACCEPTED)

    def _value(self, key: Key, node: yaml.Node, shown: str, *, quiet: bool) -> Value | None:
        if isinstance(node, yaml.MappingNode) and key.type in _MAP_KINDS:
            if key.type is ValueType.MAP:
                return self._map(node, shown)
            if key.type is ValueType.SECTION:
                return self._section(node, key.path, shown, quiet=quiet)
            return self._named_sections(key, node, shown) if key.type is ValueType.NAMED_SECTIONS else None
        if isinstance(node, yaml.SequenceNode) and key.type in _LIST_KINDS:
            if key.type is ValueType.TEXTS:
                return self._texts(node, shown)
            return self._sections(key, node, shown, quiet=quiet) if key.type is ValueType.SECTIONS else None
        if isinstance(node, yaml.ScalarNode):
            return self._scalar(key.type, node, shown)
        self._wrong_type(shown, key.type, node)
        return None

    def _scalar(self, expected: ValueType, node: yaml.ScalarNode, shown: str) -> str | bool | int | None:
        if expected is ValueType.TEXT and node.tag == TEXT:
            return self._text(node, shown)
        if expected is ValueType.BOOLEAN and node.tag == BOOLEAN:
            return text_of(node).lower() == "true"
        if expected is ValueType.NUMBER and node.tag == INTEGER:
            return int(text_of(node))
        self._wrong_type(shown, expected, node)
        return None

    def _text(self, node: yaml.Node, shown: str) -> str | None:
        text = text_of(node)
        if "\x00" not in text:
            return text
        reason = "a string cannot contain the character NUL"
        instead = "Remove the character."
        self._problem("SETTINGS.WRONG_VALUE", line_of(node), key=shown, reason=reason, instead=instead)
        return None

    def _texts(self, node: yaml.SequenceNode, shown: str) -> tuple[str, ...]:
        found = []
        for item in node.value:
            text = None
            if item.tag == TEXT:
                text = self._text(item, shown)
            else:
                self._wrong_type(f"{shown}[]", ValueType.TEXT, item)
            found.extend([text] if text is not None else [])
        return tuple(found)

    def _map(self, node: yaml.MappingNode, shown: str) -> dict[str, str]:
        found: dict[str, str] = {}
        for key_node, item in node.value:
            name = text_of(key_node) if isinstance(key_node, yaml.ScalarNode) else "?"
            if not isinstance(item, yaml.ScalarNode) or item.tag not in _SCALAR_TAGS or item.tag == NULL:
                self._wrong_type(f"{shown}.{name}", ValueType.TEXT, item)
                continue
            text = self._text(item, f"{shown}.{name}")
            if text is not None:
                found[name] = text.lower() if item.tag == BOOLEAN else text
        return found

    def _sections(self, key: Key, node: yaml.SequenceNode, shown: str, *, quiet: bool) -> tuple[Section, ...]:
        found = []
        for item in node.value:
            if isinstance(item, yaml.MappingNode):
                found.append(self._section(item, f"{key.path}[]", f"{shown}[]", quiet=quiet))
            else:
                self._wrong_type(f"{shown}[]", ValueType.SECTION, item)
        return tuple(found)

    def _named_sections(self, key: Key, node: yaml.MappingNode, shown: str) -> dict[str, Section]:
        found: dict[str, Section] = {}
        for key_node, item in node.value:
            name = text_of(key_node) if isinstance(key_node, yaml.ScalarNode) else "?"
            if isinstance(item, yaml.MappingNode):
                found[name] = self._section(item, f"{key.path}.*", f"{shown}.{name}", quiet=False)
            elif item.tag == NULL:
                found[name] = Section(line_of(key_node))
            else:
                self._wrong_type(f"{shown}.{name}", ValueType.SECTION, item)
        return found

    def _wrong_type(self, shown: str, expected: ValueType, node: yaml.Node) -> None:
        if isinstance(node, yaml.ScalarNode):
            found = _SCALAR_TAGS.get(node.tag, "something else")
        else:
            found = "a list" if isinstance(node, yaml.SequenceNode) else "a mapping"
        quotes = expected is ValueType.TEXT and node.tag in (BOOLEAN, INTEGER, FLOAT)
        instead = "Put quotes around the value." if quotes else f"Write {expected.value}."
        self._problem(
            "SETTINGS.WRONG_TYPE", line_of(node), key=shown, expected=expected.value, found=found, instead=instead
        )

    def _problem(self, code: str, line: int, **params: object) -> None:
        self.problems.append(PipelineError(code, location=Location(self.file, line), **params))


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The known name that *name* was probably meant to be."""
    by_folded = {candidate.casefold(): candidate for candidate in known}
    close = difflib.get_close_matches(name.casefold(), by_folded, n=1)
    return by_folded[close[0]] if close else None


def _suggestion(leaf: str, path: str) -> str:
    known = keys_below(path)
    close = nearest(leaf, known)
    if close:
        return f'Did you mean "{close}"?'
    parent = next(parents_of(leaf), None)
    if parent:
        return f'It belongs below "{parent}".'
    listed = "docs/reference/settings.md lists the keys."
    return f"The keys here are {', '.join(known)}." if path and len(known) <= 8 else listed


def _asks_for_nothing(node: yaml.Node) -> bool:
    if node.tag == BOOLEAN:
        return text_of(node).lower() == "false"
    return not node.value


def _entry_lines(leaf: str, node: yaml.Node) -> dict[str, int]:
    if not isinstance(node, yaml.MappingNode):
        return {}
    return {f"{leaf}.{text_of(key)}": line_of(key) for key, _ in node.value if isinstance(key, yaml.ScalarNode)}
