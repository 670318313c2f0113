"""What a worker is told: the columns to make of files, and what to do with what does not fit."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from headrace.autoloader.ddl import JsonType, field_of
from headrace.autoloader.reading.column_names import can_be_column
from headrace.autoloader.reading.limits import Limits

METADATA = "_metadata"
# The column for a record that cannot be read; where there is none, it is rescued under this name.
CORRUPT = "_corrupt_record"


@dataclass(frozen=True)
class ReadPlan:
    """How the files of one stream are read.

    Attributes:
        file_format: such as ``json``.
        data: the struct of the columns that come from the contents of files.
        partitions: the struct of the columns that come from key=value folders.
        rescued_column: the column for what has no place, or None.
        corrupt_column: the column, of type string, for records that cannot be read, or None.
        evolves: a field that is not in *data* ends the batch with :class:`UnknownFields`.
        metadata: whether there is a column ``_metadata``.
        bad_records: the folder for records and files that cannot be read, or None.
        plain_names: fields whose names have to be mapped in a table are no columns.
        ignores_folders: what key=value folders say is not rescued where no column has it.
        base: the folder below which folders may be partitions.
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
        """The plan as text."""
        # A flow is known by its readers: what earlier versions did not have is left out where it says nothing.
        later = ("plain_names", "ignores_folders")
        return json.dumps({key: value for key, value in asdict(self).items() if value or key not in later})

    @staticmethod
    def from_json(text: str) -> ReadPlan:
        """The plan behind :meth:`to_json`."""
        return ReadPlan(**json.loads(text))

    @property
    def limits(self) -> Limits:
        """How much of a file is held in memory at a time."""
        return Limits.of(self.format_options)

    @property
    def whole(self) -> JsonType:
        """The struct of all columns, in their order: data, partitions, rescued, metadata."""
        fields = [*self.data["fields"], *self.partitions["fields"]]
        if self.corrupt_column and not any(f["name"] == self.corrupt_column for f in fields):
            fields.append(field_of(self.corrupt_column, "string"))
        if self.rescued_column:
            fields.append(field_of(self.rescued_column, "string"))
        if self.metadata:
            fields.append(METADATA_FIELD)
        return {"type": "struct", "fields": fields}


def taken_names(plan: ReadPlan) -> frozenset[str]:
    """Names, case folded, that columns have which do not come from the contents of files."""
    names = [field["name"] for field in plan.partitions["fields"]]
    names += [name for name in (plan.rescued_column, plan.corrupt_column) if name]
    names += [METADATA] if plan.metadata else []
    return frozenset(name.casefold() for name in names)


def new_columns(plan: ReadPlan, names: Iterable[str]) -> list[str]:
    """Of paths of fields that the schema lacks, those that it can grow by."""
    return sorted({name for name in names if can_be_column(name, plain=plan.plain_names)})


class UnknownFields(Exception):
    """A file has fields that the schema lacks; ``names`` are paths from the top, ``file`` where the first one was."""

    def __init__(self, names: tuple[str, ...], file: str) -> None:
        super().__init__(", ".join(names))
        self.names = names
        self.file = file


class MalformedRecord(ValueError):
    """A record that cannot be read, where that is to end the batch."""

    def __init__(self, file: str, record: str) -> None:
        super().__init__(f"a record of {file} cannot be read: {record[:200]}")


def _required(name: str, kind: JsonType) -> dict[str, Any]:
    return {**field_of(name, kind), "nullable": False}


# As Spark's file sources have it (FileFormat.BASE_METADATA_FIELDS).
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
