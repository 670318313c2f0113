"""Keys of a YAML document, such as the settings file, as data."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from functools import cached_property
from types import MappingProxyType

from headrace.options.option import Treatment

# How a section is switched off. YAML 1.1, which other tools may have written, reads them all as the boolean false.
OFF_WORDS = ("off", "Off", "OFF", "false", "False", "FALSE")


class ValueType(Enum):
    """The type of a value; the value of the member is the phrase used in messages."""

    TEXT = "a string"
    # Read as text, however YAML understands it.
    SCALAR = "a string, a number, or true or false"
    BOOLEAN = "true or false"
    NUMBER = "a whole number"
    DECIMAL = "a number"
    TEXTS = "a list of strings"
    MAP = "a mapping of strings"
    SECTION = "a mapping"
    SECTIONS = "a list of mappings"
    TEXT_OR_SECTION = "a string or a mapping"
    NAMED_SECTIONS = "a mapping of mappings"
    SWITCHED_SECTIONS = "a mapping of mappings, or of `off`"
    # Not checked further: the whole value is accepted without effect, or refused.
    ANY_MAP = "a mapping of any values"
    ANY_LIST = "a list of any values"


@dataclass(frozen=True)
class Key:
    """One key. In ``path``, ``[]`` stands for each item of a list and ``*`` for any name.

    ``reason`` says why a key has no effect or is refused, ``fix`` what to do. A refused key is allowed with an
    empty value: null, false, or empty. ``required``, ``least`` (of a number), ``choices`` and ``pattern`` (of a string)
    limit the values.
    """

    path: str
    type: ValueType
    treatment: Treatment
    about: str
    default: str = ""
    reason: str = ""
    fix: str = ""
    in_profile: bool = False
    required: bool = False
    least: int | None = None
    choices: tuple[str, ...] = ()
    # In the syntax that Python and JSON schemas share. The loader reports what is wrong.
    pattern: str = ""

    @property
    def parent(self) -> str:
        """Path of the mapping that contains the key; empty at the top level."""
        return self.path.rpartition(".")[0]

    @property
    def leaf(self) -> str:
        """The key as written."""
        return self.path.rpartition(".")[2]


@dataclass(frozen=True)
class DocumentErrors:
    """The error conditions of one kind of document."""

    unreadable: str = "SETTINGS.UNREADABLE"
    syntax: str = "SETTINGS.SYNTAX"
    duplicate_key: str = "SETTINGS.DUPLICATE_KEY"
    unknown_key: str = "SETTINGS.UNKNOWN_KEY"
    wrong_type: str = "SETTINGS.WRONG_TYPE"
    wrong_value: str = "SETTINGS.WRONG_VALUE"
    refused: str = "SETTINGS.REFUSED"


@dataclass(frozen=True)
class KeyTable:
    """All keys of one kind of document.

    Attributes:
        keys: the keys.
        page: the reference page that lists them.
        repeated: the path of a mapping that can have top-level keys too, those with ``in_profile``; empty for none.
        errors: the error conditions of its documents.
    """

    keys: tuple[Key, ...]
    page: str
    repeated: str = ""
    errors: DocumentErrors = field(default_factory=DocumentErrors)

    def below(self, path: str) -> Mapping[str, Key]:
        """The keys of the mapping at *path* (empty: the top level), by name."""
        return self._by_parent.get(path, MappingProxyType({}))

    def parents_of(self, leaf: str) -> Iterator[str]:
        """Paths of the mappings that may contain a key with this name, without the top level."""
        return (key.parent for key in self.keys if key.leaf == leaf and key.parent)

    @cached_property
    def _by_parent(self) -> Mapping[str, Mapping[str, Key]]:
        found: dict[str, dict[str, Key]] = {}
        for key in self.keys:
            found.setdefault(key.parent, {})[key.leaf] = key
        if self.repeated:
            found.setdefault(self.repeated, {}).update({key.leaf: key for key in self.keys if key.in_profile})
        return {path: MappingProxyType(keys) for path, keys in found.items()}


def used(
    path: str,
    kind: ValueType,
    about: str,
    default: str = "",
    *,
    in_profile: bool = False,
    required: bool = False,
    least: int | None = None,
    choices: tuple[str, ...] = (),
    pattern: str = "",
) -> Key:
    """A key that is used."""
    return Key(path, kind, Treatment.USED, about, default, "", "", in_profile, required, least, choices, pattern)


def accepted(path: str, kind: ValueType, about: str, reason: str) -> Key:
    """A key that is accepted without effect."""
    return Key(path, kind, Treatment.ACCEPTED, about, reason=reason)


def refused(
    path: str, kind: ValueType, about: str, reason: str, fix: str, default: str = "", *, in_profile: bool = False
) -> Key:
    """A key that is refused, with what to do instead."""
    return Key(path, kind, Treatment.REFUSED, about, default, reason, fix, in_profile)
