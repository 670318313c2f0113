"""A question about two versions of a table, and its answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from headrace.model.schema_difference import SchemaDifference

DEFAULT_EXAMPLES = 20


@dataclass(frozen=True)
class DiffRequest:
    """Which versions to compare, and how.

    Attributes:
        name: of the table.
        versions: at most two: of the first side, then of the second. Without a version of the first side, the second is
            the newest, and the first is the version before the newest commit that changed rows. With another project or
            profile, a side without a version has its newest.
        key: names of columns, in any case; a text may have several, with commas between them. Empty for the keys of the
            change data capture that writes the table, if there are any.
        other_project: a folder of the project that has the second side; None for this project.
        other_profile: the settings profile of the second side; None for that of this project.
        examples: the maximum number of examples of differences.
    """

    name: str
    versions: tuple[int, ...] = ()
    key: tuple[str, ...] = ()
    other_project: str | None = None
    other_profile: str | None = None
    examples: int = DEFAULT_EXAMPLES

    @property
    def has_other(self) -> bool:
        """True if the second side is in another project, or has another profile."""
        return self.other_project is not None or self.other_profile is not None


@dataclass(frozen=True)
class DiffSide:
    """A version of a table that was compared.

    Attributes:
        label: tells it from the other side.
        version: the version.
        operation: Delta's name of the operation that made it; None if the log no longer has the commit.
        committed_at: when, in ISO 8601; None if unknown.
        rows: its rows.
        files: its data files.
        size: their bytes.
        read_files: the files that were read, because the other side has not the same ones.
        read_size: their bytes.
        project: the folder of its project.
        profile: the settings profile; None for none.
    """

    label: str
    version: int
    operation: str | None = None
    committed_at: str | None = None
    rows: int = 0
    files: int = 0
    size: int = 0
    read_files: int = 0
    read_size: int = 0
    project: str = ""
    profile: str | None = None

    def to_json(self) -> dict[str, Any]:
        """The side for programs."""
        return {
            "label": self.label,
            "version": self.version,
            "operation": self.operation,
            "committed_at": self.committed_at,
            "project": self.project,
            "profile": self.profile,
            "rows": self.rows,
            "files": self.files,
            "bytes": self.size,
            "files_read": self.read_files,
            "bytes_read": self.read_size,
        }


class KeyOrigin(str, Enum):
    """Who named the key."""

    OPTION = "option"
    AUTO_CDC = "auto_cdc"


@dataclass(frozen=True)
class RowCounts:
    """How many rows differ.

    Law: the first side has ``unchanged + changed + only_first`` rows, the second ``unchanged + changed + only_second``.

    Attributes:
        unchanged: rows that are equal in both.
        changed: pairs of rows that differ and have the same key; 0 without a key.
        only_first: rows that only the first side has.
        only_second: rows that only the second side has.
        repeated_keys: keys that several of the differing rows of one side have. Their rows are in ``only_first`` and
            ``only_second``.
    """

    unchanged: int = 0
    changed: int = 0
    only_first: int = 0
    only_second: int = 0
    repeated_keys: int = 0

    @property
    def are_equal(self) -> bool:
        """True if both sides have the same rows."""
        return not (self.changed or self.only_first or self.only_second)


class ExampleKind(str, Enum):
    """What an example is one of."""

    CHANGED = "changed"
    ONLY_FIRST = "only_first"
    ONLY_SECOND = "only_second"
    REPEATED_KEY = "repeated_key"


@dataclass(frozen=True)
class Example:
    """A difference.

    Attributes:
        kind: of what.
        key: the key's columns and values; empty without a key.
        first: values in the first side: of a changed row those that differ, else all but the key.
        second: the same in the second side.
        rows: the number of such rows in the first and in the second side.
    """

    kind: ExampleKind
    key: Mapping[str, Any] = field(default_factory=dict)
    first: Mapping[str, Any] = field(default_factory=dict)
    second: Mapping[str, Any] = field(default_factory=dict)
    rows: tuple[int, int] = (1, 1)

    def to_json(self) -> dict[str, Any]:
        """The example for programs."""
        return {
            "kind": self.kind.value,
            "key": dict(self.key),
            "first": None if self.kind is ExampleKind.ONLY_SECOND else dict(self.first),
            "second": None if self.kind is ExampleKind.ONLY_FIRST else dict(self.second),
            "rows_first": self.rows[0],
            "rows_second": self.rows[1],
        }


@dataclass(frozen=True)
class TableDiff:
    """How two versions of a table differ.

    Attributes:
        name: of the table.
        first: the first side.
        second: the second side.
        key: the columns by which rows were matched, with their names in the second side; empty if whole rows were
            compared.
        key_origin: who named the key; None without one.
        schema: the differences between the schemas.
        rows: how many rows differ. Rows are compared by the columns that both sides have.
        columns: by the name of each column that differs in a changed row, the number of these rows.
        compared_as_text: columns whose types have no common type.
        examples: some differences.
    """

    name: str
    first: DiffSide
    second: DiffSide
    key: tuple[str, ...] = ()
    key_origin: KeyOrigin | None = None
    schema: tuple[SchemaDifference, ...] = ()
    rows: RowCounts = field(default_factory=RowCounts)
    columns: Mapping[str, int] = field(default_factory=dict)
    compared_as_text: tuple[str, ...] = ()
    examples: tuple[Example, ...] = ()

    @property
    def is_equal(self) -> bool:
        """True if schema and rows are equal."""
        return self.rows.are_equal and not self.schema

    def to_json(self) -> dict[str, Any]:
        """The difference for programs."""
        return {
            "table": self.name,
            "equal": self.is_equal,
            "first": self.first.to_json(),
            "second": self.second.to_json(),
            "key": list(self.key),
            "key_origin": None if self.key_origin is None else self.key_origin.value,
            "schema": [difference.to_json() for difference in self.schema],
            "rows": {
                "unchanged": self.rows.unchanged,
                "changed": self.rows.changed,
                "only_first": self.rows.only_first,
                "only_second": self.rows.only_second,
                "repeated_keys": self.rows.repeated_keys,
            },
            "columns": dict(self.columns),
            "compared_as_text": list(self.compared_as_text),
            "examples": [example.to_json() for example in self.examples],
        }


def shared_examples(examples: Sequence[Example], most: int) -> tuple[Example, ...]:
    """At most so many examples, of each kind as many as of the others if there are enough; their order stays."""
    left = {kind: sum(example.kind is kind for example in examples) for kind in ExampleKind}
    taken = dict.fromkeys(ExampleKind, 0)
    for _ in range(min(most, len(examples))):
        kind = min((kind for kind in ExampleKind if left[kind] > taken[kind]), key=lambda kind: taken[kind])
        taken[kind] += 1
    seen = dict.fromkeys(ExampleKind, 0)
    kept = []
    for example in examples:
        seen[example.kind] += 1
        if seen[example.kind] <= taken[example.kind]:
            kept.append(example)
    return tuple(kept)
