"""The read plan for workers: the columns to read from files, and how to treat values that do not fit."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from headrace.autoloader.reading.column_names import can_be_column
from headrace.autoloader.reading.limits import Limits
from headrace.model.ddl import JsonType, field_of

METADATA = "_metadata"
# The column for corrupt records; without it, they are rescued under this name.
CORRUPT = "_corrupt_record"


@dataclass(frozen=True)
class ReadPlan:
    """How the files of one stream are read.

    Attributes:
        file_format: such as ``json``.
        data: the struct of the columns from file contents.
        partitions: the struct of the columns from key=value folders.
        rescued_column: the rescued data column, or None.
        corrupt_column: the string column for corrupt records, or None.
        evolves: a field that is not in *data* fails the batch with :class:`UnknownFields`.
        metadata: whether there is a column ``_metadata``.
        bad_records: the folder for records and files that cannot be read, or None.
        plain_names: the table has no column mapping, so fields with special names are not columns.
        ignores_folders: do not rescue the values of key=value folders that are not columns.
        base: the folder below which folders can be partitions.
    """

    file_format: str
    data: JsonType
    base: str
    partitions: JsonType = field(default_factory=lambda: {"type": "struct", "fields": []})
    rescued_column: str | None = None
    corrupt_column: str | None = None
    evolves: bool = False
    metadata: bool = False
    case_sensitive: bool = True
    mode: str = "PERMISSIVE"
    time_zone: str = "UTC"
    missing_files: bool = False
    corrupt_files: bool = False
    bad_records: str | None = None
    plain_names: bool = False
    ignores_folders: bool = False
    format_options: Mapping[str, str] = field(default_factory=dict)

    def to_json(self) -> str:
        """The plan as JSON."""
        # Flows are identified by their readers, so newer fields are omitted while they have their default.
        later = ("plain_names", "ignores_folders")
        return json.dumps({key: value for key, value in asdict(self).items() if value or key not in later})

    @staticmethod
    def from_json(text: str) -> ReadPlan:
        """The inverse of :meth:`to_json`."""
        return ReadPlan(**json.loads(text))

    @property
    def limits(self) -> Limits:
        """The limits of what is in memory at a time."""
        return Limits.of(self.format_options)

    @property
    def all_columns(self) -> JsonType:
        """The struct of all columns, in their order: data, partitions, rescued, metadata."""
        fields = [*self.data["fields"], *self.partitions["fields"]]
        if self.corrupt_column and not any(f["name"] == self.corrupt_column for f in fields):
            fields.append(field_of(self.corrupt_column, "string"))
        if self.rescued_column:
            fields.append(field_of(self.rescued_column, "string"))
        if self.metadata:
            fields.append(METADATA_FIELD)
        return {"type": "struct", "fields": fields}


def reserved_names(plan: ReadPlan) -> frozenset[str]:
    """Case-folded names of columns that do not come from file contents."""
    names = [field["name"] for field in plan.partitions["fields"]]
    names += [name for name in (plan.rescued_column, plan.corrupt_column) if name]
    names += [METADATA] if plan.metadata else []
    return frozenset(name.casefold() for name in names)


def new_columns(plan: ReadPlan, names: Iterable[str]) -> list[str]:
    """Those of the new field paths that can become columns, sorted."""
    return sorted({name for name in names if can_be_column(name, plain_names=plan.plain_names)})


class UnknownFields(Exception):
    """A file has fields that are not in the schema; ``names`` are full paths, ``file`` is where the first one was."""

    def __init__(self, names: tuple[str, ...], file: str) -> None:
        super().__init__(", ".join(names))
        self.names = names
        self.file = file


class MalformedRecord(ValueError):
    """A record cannot be read, and the mode is FAILFAST."""

    def __init__(self, file: str, record: str) -> None:
        super().__init__(f"a record of {file} cannot be read: {record[:200]}")


def _required(name: str, kind: JsonType) -> dict[str, Any]:
    return {**field_of(name, kind), "nullable": False}


# As in Spark's file sources (FileFormat.BASE_METADATA_FIELDS).
METADATA_FIELD: Mapping[str, Any] = {
    "name": METADATA,
    "type": {
        "type": "struct",
        "fields": [
            _required("file_path", "string"),
            _required("file_name", "string"),
            _required("file_size", "long"),
            _required("file_block_start", "long"),
            _required("file_block_length", "long"),
            _required("file_modification_time", "timestamp"),
        ],
    },
    "nullable": False,
    "metadata": {},
}
