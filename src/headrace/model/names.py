"""Canonical names of datasets: all spellings of a name are one value."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property

_PART = re.compile(r"\w[\w \-]*", re.UNICODE)
_SPLIT = re.compile(r"`((?:[^`]|``)+)`|([^`.]+)")
_LEGACY_SCHEMA = "live"
_SESSION_CATALOG = "spark_catalog"
# Spark's ``SessionCatalog.validateName``: of a table, a view, a schema.
_IN_CATALOG = re.compile(r"[A-Za-z0-9_]+")
MAX_PART_LENGTH = 200
# Ends the name of the table of a dataset's quarantined rows.
QUARANTINE_SUFFIX = "_quarantine"


class InvalidName(ValueError):
    """An invalid dataset name; ``str()`` says why."""


@dataclass(frozen=True, eq=False)
class QualifiedName:
    """A dataset's canonical name, without parts that equal the pipeline's defaults.

    Equality ignores case, as in Spark.
    """

    name: str
    schema: str | None = None
    catalog: str | None = None

    @property
    def parts(self) -> tuple[str, ...]:
        """The parts that are present, outermost first."""
        return tuple(part for part in (self.catalog, self.schema, self.name) if part is not None)

    @cached_property
    def key(self) -> str:
        """The key for equality and ordering."""
        return "\x00".join(part.casefold() for part in self.parts)

    def __str__(self) -> str:
        return ".".join(self.parts)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, QualifiedName) and self.key == other.key

    def __hash__(self) -> int:
        return hash(self.key)

    def __lt__(self, other: QualifiedName) -> bool:
        return self.key < other.key


@dataclass(frozen=True)
class Naming:
    """The pipeline's default catalog and schema, and the current ones, which qualify names.

    ``catalog`` and ``schema`` are the pipeline's. ``current_catalog`` and ``current_schema`` differ from them
    after a ``USE`` in a SQL file.
    """

    schema: str = "default"
    catalog: str | None = None
    current_schema: str | None = None
    current_catalog: str | None = None

    def use(self, *, catalog: str | None = None, schema: str | None = None) -> Naming:
        """The same defaults with another current catalog or schema."""
        return Naming(
            schema=self.schema,
            catalog=self.catalog,
            current_schema=schema or self.current_schema,
            current_catalog=catalog or self.current_catalog,
        )

    def canonical(self, text: str) -> QualifiedName:
        """The canonical name for a spelling such as ``t``, ``LIVE.t``, ``sales.t`` or ``main.sales.`t```.

        Raises:
            InvalidName: no part, more than three, or a part that could escape from a path or a statement.
        """
        parts = split_name(text)
        for part in parts:
            check_part(part)
        if len(parts) == 2 and parts[0].casefold() == _LEGACY_SCHEMA:
            return QualifiedName(parts[1])
        if len(parts) > 3:
            raise InvalidName(f'a name has at most three parts, but "{text}" has {len(parts)}')
        name = parts[-1]
        schema = parts[-2] if len(parts) > 1 else self.current_schema
        catalog = parts[-3] if len(parts) > 2 else self.current_catalog
        return self._relative(name, schema, catalog)

    def qualified(self, name: QualifiedName) -> tuple[str | None, str, str]:
        """The full name: catalog (None if the pipeline has none), schema and name."""
        return name.catalog or self.catalog, name.schema or self.schema, name.name

    def _relative(self, name: str, schema: str | None, catalog: str | None) -> QualifiedName:
        own_catalogs = {_SESSION_CATALOG, (self.catalog or _SESSION_CATALOG).casefold()}
        if catalog is not None and catalog.casefold() not in own_catalogs:
            return QualifiedName(name, schema or self.schema, catalog)
        if schema is None or schema.casefold() == self.schema.casefold():
            return QualifiedName(name)
        return QualifiedName(name, schema)


def split_name(text: str) -> tuple[str, ...]:
    """The parts of a dotted name; backticks quote a part, and a doubled backtick is a backtick.

    Raises:
        InvalidName: an empty part or a stray backtick.
    """
    parts: list[str] = []
    position = 0
    text = text.strip()
    while True:
        match = _SPLIT.match(text, position)
        if not match:
            raise InvalidName(f'"{text}" is not a name')
        quoted, plain = match.groups()
        parts.append(quoted.replace("``", "`") if quoted is not None else plain.strip())
        position = match.end()
        if position == len(text):
            return tuple(parts)
        if text[position] != ".":
            raise InvalidName(f'"{text}" is not a name')
        position += 1


def check_part(part: str) -> None:
    """Accept letters, digits, underscores and, not at the ends, hyphens and spaces.

    Raises:
        InvalidName: the part contains anything else, such as a path, a quote or a control character.
    """
    if len(part) > MAX_PART_LENGTH:
        raise InvalidName(f"a part of a name has at most {MAX_PART_LENGTH} characters")
    if not _PART.fullmatch(part) or part.endswith(" "):
        raise InvalidName(f'"{part}" may contain only letters, digits and "_", and inside also "-" and spaces')


def check_in_catalog(part: str) -> None:
    """Accept the characters that Spark's catalog allows in the name of a table or a schema.

    Raises:
        InvalidName: the part contains anything else.
    """
    if not _IN_CATALOG.fullmatch(part):
        raise InvalidName(f'"{part}" may contain only a to z, digits and "_", because Spark allows only these')


def quoted(*parts: str) -> str:
    """The parts as one quoted SQL identifier; only this function quotes identifiers."""
    return ".".join("`" + part.replace("`", "``") + "`" for part in parts)


def sql_text(value: str) -> str:
    """A text as a SQL literal, for statements that take no parameters; only this function quotes texts."""
    return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"
