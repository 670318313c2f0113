"""Checks a document, such as the settings file, against its table of keys: typed values, lines, and all problems."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import isfinite
from typing import TypeAlias

import yaml

from headrace.errors import PipelineError, Problems
from headrace.model.location import Location
from headrace.options.nearest import nearest
from headrace.options.option import Treatment
from headrace.settings.document import BOOLEAN, FLOAT, INTEGER, NULL, TEXT, line_of, repeated_keys, text_of
from headrace.settings.key import OFF_WORDS, Key, KeyTable, ValueType
from headrace.settings.keys import SETTINGS

Value: TypeAlias = (
    "str | bool | int | float | tuple[str, ...] | dict[str, str] | Section | tuple[Section, ...] | dict[str, Section]"
)

_NAMED_KINDS = (ValueType.NAMED_SECTIONS, ValueType.SWITCHED_SECTIONS)
_SECTION_KINDS = (ValueType.SECTION, ValueType.TEXT_OR_SECTION)
_TEXT_KINDS = (ValueType.TEXT, ValueType.TEXT_OR_SECTION)
_MAP_KINDS = (ValueType.MAP, *_SECTION_KINDS, ValueType.ANY_MAP, *_NAMED_KINDS)
_LIST_KINDS = (ValueType.TEXTS, ValueType.SECTIONS, ValueType.ANY_LIST)
_SCALAR_TAGS = {TEXT: "a string", BOOLEAN: "true or false", INTEGER: "a number", FLOAT: "a number", NULL: "null"}


@dataclass(frozen=True)
class Section:
    """A mapping of the document: its values by key, with the types from the table of keys.

    Invalid values are missing; their problems are recorded. ``lines`` has the lines of keys, and of the entries of a
    mapping of strings as ``key.entry``.
    """

    line: int = 0
    values: Mapping[str, Value] = field(default_factory=dict)
    lines: Mapping[str, int] = field(default_factory=dict)
    # An invalid value is missing from the values.
    has_errors: bool = False
    # The word ``off`` instead of a mapping.
    is_off: bool = False

    def text(self, key: str) -> str | None:
        """The string at *key*, None if it is not set."""
        value = self.values.get(key)
        return value if isinstance(value, str) else None

    def flag(self, key: str) -> bool | None:
        """The boolean at *key*, None if it is not set."""
        value = self.values.get(key)
        return value if isinstance(value, bool) else None

    def number(self, key: str) -> int | None:
        """The number at *key*, None if it is not set."""
        value = self.values.get(key)
        return value if isinstance(value, int) and not isinstance(value, bool) else None

    def decimal(self, key: str) -> float | None:
        """The number at *key*, whole or not; None if it is not set."""
        value = self.values.get(key)
        return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None

    def texts(self, key: str) -> tuple[str, ...]:
        """The list of strings at *key*, empty if it is not set."""
        value = self.values.get(key)
        return tuple(item for item in value if isinstance(item, str)) if isinstance(value, tuple) else ()

    def mapping(self, key: str) -> dict[str, str]:
        """The mapping of strings at *key*, empty if it is not set."""
        value = self.values.get(key)
        return {name: item for name, item in value.items() if isinstance(item, str)} if isinstance(value, dict) else {}

    def section(self, key: str) -> Section:
        """The section at *key*, an empty one if it is not set."""
        value = self.values.get(key)
        return value if isinstance(value, Section) else Section()

    def sections(self, key: str) -> tuple[Section, ...]:
        """The sections at *key*, empty if it is not set."""
        value = self.values.get(key)
        return tuple(item for item in value if isinstance(item, Section)) if isinstance(value, tuple) else ()

    def named_sections(self, key: str) -> dict[str, Section]:
        """The sections at *key* by name, empty if it is not set."""
        value = self.values.get(key)
        if not isinstance(value, dict):
            return {}
        return {name: item for name, item in value.items() if isinstance(item, Section)}

    def line_of(self, key: str) -> int:
        """The line of *key*; that of the section if it is not set."""
        return self.lines.get(key, self.line)

    def merged_with(self, other: Section) -> Section:
        """This section overridden by *other*: mappings of strings are merged, anything else is replaced."""
        values = dict(self.values)
        for key, value in other.values.items():
            is_map = isinstance(value, dict) and not other.named_sections(key)
            values[key] = {**self.mapping(key), **other.mapping(key)} if is_map else value
        return Section(self.line, values, {**self.lines, **other.lines})


@dataclass
class Checker:
    """Reads sections of the document *file* and collects problems, and keys without effect."""

    file: str
    table: KeyTable = SETTINGS
    problems: list[PipelineError] = field(default_factory=list)
    notices: dict[str, str] = field(default_factory=dict)

    def document(self, root: yaml.Node) -> Section:
        """The whole file as a section.

        Raises:
            Problems: the file does not contain a mapping.
        """
        for key, first, second in repeated_keys(root):
            self._problem(self.table.errors.duplicate_key, second, key=key, first=first, second=second)
        if not isinstance(root, yaml.MappingNode):
            reason = "the file must contain a mapping of keys to values"
            self._problem(self.table.errors.syntax, line_of(root), reason=reason)
            raise Problems(self.problems)
        return self._section(root, "", "", silent=False)

    def _section(self, node: yaml.MappingNode, path: str, label: str, *, silent: bool) -> Section:
        values: dict[str, Value] = {}
        lines: dict[str, int] = {}
        before = len(self.problems)
        for key_node, value_node in node.value:
            leaf = text_of(key_node) if isinstance(key_node, yaml.ScalarNode) else "?"
            key = self.table.below(path).get(leaf)
            child = f"{label}.{leaf}" if label else leaf
            if key is None:
                suggestion = _suggestion(leaf, path, self.table)
                self._problem(self.table.errors.unknown_key, line_of(key_node), key=child, suggestion=suggestion)
                continue
            value = self._known(key, key_node, value_node, child, silent=silent)
            if value is not None:
                values[leaf] = value
                lines[leaf] = line_of(key_node)
                lines.update(_entry_lines(leaf, value_node) if key.type is ValueType.MAP else {})
        return Section(line_of(node), values, lines, has_errors=len(self.problems) > before)

    def _known(self, key: Key, key_node: yaml.Node, node: yaml.Node, label: str, *, silent: bool) -> Value | None:
        if node.tag == NULL:
            return None
        if key.treatment is Treatment.REFUSED:
            if not _is_empty(node):
                line = line_of(key_node)
                self._problem(self.table.errors.refused, line, key=label, reason=key.reason, instead=key.fix)
            return None
        if key.treatment is Treatment.ACCEPTED and not silent:
            self.notices.setdefault(key.path, key.reason)
        # Keys below a key without effect have none either, and one notice is enough.
        return self._value(key, node, label, silent=silent or key.treatment is Treatment.ACCEPTED)

    def _value(self, key: Key, node: yaml.Node, label: str, *, silent: bool) -> Value | None:
        if isinstance(node, yaml.MappingNode) and key.type in _MAP_KINDS:
            if key.type is ValueType.MAP:
                return self._map(node, label)
            if key.type in _SECTION_KINDS:
                return self._section(node, key.path, label, silent=silent)
            return self._named_sections(key, node, label) if key.type in _NAMED_KINDS else None
        if isinstance(node, yaml.SequenceNode) and key.type in _LIST_KINDS:
            if key.type is ValueType.TEXTS:
                return self._texts(node, label)
            return self._sections(key, node, label, silent=silent) if key.type is ValueType.SECTIONS else None
        if isinstance(node, yaml.ScalarNode):
            return self._scalar(key.type, node, label)
        self._wrong_type(label, key.type, node)
        return None

    def _scalar(self, expected: ValueType, node: yaml.ScalarNode, label: str) -> str | bool | int | float | None:
        if (expected in _TEXT_KINDS and node.tag == TEXT) or expected is ValueType.SCALAR:
            return self._text(node, label)
        if expected is ValueType.BOOLEAN and node.tag == BOOLEAN:
            return text_of(node).lower() == "true"
        if expected is ValueType.NUMBER and node.tag == INTEGER:
            return int(text_of(node))
        if expected is ValueType.DECIMAL and node.tag in (INTEGER, FLOAT) and isfinite(float(text_of(node))):
            return float(text_of(node))
        self._wrong_type(label, expected, node)
        return None

    def _text(self, node: yaml.Node, label: str) -> str | None:
        text = text_of(node)
        if "\x00" not in text:
            return text
        reason = "a string cannot contain the character NUL"
        fix = "Remove the character."
        self._problem(self.table.errors.wrong_value, line_of(node), key=label, reason=reason, instead=fix)
        return None

    def _texts(self, node: yaml.SequenceNode, label: str) -> tuple[str, ...]:
        found = []
        for item in node.value:
            text = None
            if item.tag == TEXT:
                text = self._text(item, label)
            else:
                self._wrong_type(f"{label}[]", ValueType.TEXT, item)
            found.extend([text] if text is not None else [])
        return tuple(found)

    def _map(self, node: yaml.MappingNode, label: str) -> dict[str, str]:
        found: dict[str, str] = {}
        for key_node, item in node.value:
            name = text_of(key_node) if isinstance(key_node, yaml.ScalarNode) else "?"
            if not isinstance(item, yaml.ScalarNode) or item.tag not in _SCALAR_TAGS or item.tag == NULL:
                self._wrong_type(f"{label}.{name}", ValueType.TEXT, item)
                continue
            text = self._text(item, f"{label}.{name}")
            if text is not None:
                found[name] = text.lower() if item.tag == BOOLEAN else text
        return found

    def _sections(self, key: Key, node: yaml.SequenceNode, label: str, *, silent: bool) -> tuple[Section, ...]:
        found = []
        for item in node.value:
            if isinstance(item, yaml.MappingNode):
                found.append(self._section(item, f"{key.path}[]", f"{label}[]", silent=silent))
            else:
                self._wrong_type(f"{label}[]", ValueType.SECTION, item)
        return tuple(found)

    def _named_sections(self, key: Key, node: yaml.MappingNode, label: str) -> dict[str, Section]:
        found: dict[str, Section] = {}
        for key_node, item in node.value:
            name = text_of(key_node) if isinstance(key_node, yaml.ScalarNode) else "?"
            if isinstance(item, yaml.MappingNode):
                found[name] = self._section(item, f"{key.path}.*", f"{label}.{name}", silent=False)
            elif item.tag == NULL:
                found[name] = Section(line_of(key_node))
            elif key.type is ValueType.SWITCHED_SECTIONS and _is_off(item):
                found[name] = Section(line_of(key_node), is_off=True)
            else:
                or_off = ", or off" if key.type is ValueType.SWITCHED_SECTIONS else ""
                self._wrong_type(f"{label}.{name}", ValueType.SECTION, item, or_off)
        return found

    def _wrong_type(self, label: str, expected: ValueType, node: yaml.Node, alternative: str = "") -> None:
        phrase = expected.value + alternative
        if isinstance(node, yaml.ScalarNode):
            found = _SCALAR_TAGS.get(node.tag, "something else")
        else:
            found = "a list" if isinstance(node, yaml.SequenceNode) else "a mapping"
        quotes = expected in _TEXT_KINDS and node.tag in (BOOLEAN, INTEGER, FLOAT)
        fix = "Put quotes around the value." if quotes else f"Write {phrase}."
        code = self.table.errors.wrong_type
        self._problem(code, line_of(node), key=label, expected=phrase, found=found, instead=fix)

    def _problem(self, code: str, line: int, **params: object) -> None:
        self.problems.append(PipelineError(code, location=Location(self.file, line), **params))


def _suggestion(leaf: str, path: str, table: KeyTable) -> str:
    known = table.below(path)
    close = nearest(leaf, known)
    if close:
        return f'Did you mean "{close}"?'
    parent = next(table.parents_of(leaf), None)
    if parent:
        return f'It belongs below "{parent}".'
    listed = f"{table.page} lists the keys."
    return f"The keys here are {', '.join(known)}." if path and len(known) <= 8 else listed


def _is_off(node: yaml.Node) -> bool:
    return isinstance(node, yaml.ScalarNode) and text_of(node) in OFF_WORDS


def _is_empty(node: yaml.Node) -> bool:
    if node.tag == BOOLEAN:
        return text_of(node).lower() == "false"
    return not node.value


def _entry_lines(leaf: str, node: yaml.Node) -> dict[str, int]:
    if not isinstance(node, yaml.MappingNode):
        return {}
    return {f"{leaf}.{text_of(key)}": line_of(key) for key, _ in node.value if isinstance(key, yaml.ScalarNode)}
