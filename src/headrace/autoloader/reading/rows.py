"""Rows that are made one by one: values for the columns, and what is left over as the rescued column has it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import pyarrow as pa

from headrace.autoloader.ddl import field_of
from headrace.autoloader.reading.arrow_types import arrow_schema
from headrace.autoloader.reading.bad_records import BadRecords
from headrace.autoloader.reading.json_scan import Members, written
from headrace.autoloader.reading.limits import TOO_LONG, LongRecord
from headrace.autoloader.reading.opening import CorruptFile
from headrace.autoloader.reading.plan import CORRUPT, MalformedRecord, ReadPlan

_FILE_PATH = "_file_path"


def too_long(plan: ReadPlan, path: str, record: LongRecord, bad: BadRecords | None = None) -> Iterator[pa.RecordBatch]:
    """The row of a record that is longer than the limit, if there is one.

    Raises:
        MalformedRecord: the mode is FAILFAST.
        CorruptFile: there is no column that could say it.
    """
    rows = Rows(plan, path, bad)
    rows.add_too_long(record)
    if len(rows):
        yield rows.take()


def rescued_text(left: Members, path: str) -> str | None:
    """What the rescued column says of what is left over of a row; None when nothing is."""
    if not left:
        return None
    inner = [f"{json.dumps(name, ensure_ascii=False)}:{written(value)}" for name, value in _joined(left)]
    return "{" + ",".join([*inner, f"{json.dumps(_FILE_PATH)}:{json.dumps(path, ensure_ascii=False)}"]) + "}"


def _joined(left: Members) -> Iterable[tuple[str, Any]]:
    """What is left over with each name once: of several values of a name an array, of which no reader takes one."""
    by_name: dict[str, list[Any]] = {}
    for name, value in left:
        by_name.setdefault(name, []).append(value)
    if len(by_name) == len(left):
        return left
    return ((name, values[0] if len(values) == 1 else values) for name, values in by_name.items())


class Rows:
    """Rows of one file, kept as columns until they are taken as a batch.

    Args:
        plan: the columns, and what becomes of a record that cannot be read.
        path: the file.
        bad: where such records go instead, if anywhere.
    """

    def __init__(self, plan: ReadPlan, path: str, bad: BadRecords | None = None) -> None:
        self._plan = plan
        self._path = path
        self._bad = bad
        fields = list(plan.data["fields"])
        names = {field["name"] for field in fields}
        extra = [name for name in (plan.corrupt_column, plan.rescued_column) if name and name not in names]
        fields += [field_of(name, "string") for name in extra]
        self._schema = arrow_schema({"type": "struct", "fields": fields})
        self._columns: dict[str, list[Any]] = {field["name"]: [] for field in fields}
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def add(self, values: Mapping[str, Any], left: Members, record: str, *, misfit: str = "") -> None:
        """A row; columns that are not named are NULL.

        Where there is no column for what is rescued, a record with a *misfit* is one that cannot be read, as Spark has
        it (``FailureSafeParser``), but what fits of it is kept.

        Raises:
            MalformedRecord: it has one, and the mode is FAILFAST.
        """
        if misfit and self._plan.rescued_column is None:
            self.add_malformed(record, f"{misfit!r} does not fit", values)
        else:
            self._append(values, left)

    def add_malformed(
        self, record: str, reason: str, values: Mapping[str, Any] | None = None, left: Members | None = None
    ) -> None:
        """A record that could not be read: its text is in the corrupt column, else in the rescued one.

        Raises:
            MalformedRecord: the mode is FAILFAST.
        """
        if self._bad is not None and self._bad.takes(record, reason):
            return
        if self._plan.mode == "FAILFAST":
            raise MalformedRecord(self._path, record)
        if self._plan.mode == "DROPMALFORMED":
            return
        if self._plan.corrupt_column:
            self._append({**(values or {}), self._plan.corrupt_column: record}, left or Members())
        else:
            self._append(values or {}, Members([*(left or ()), (CORRUPT, record)]))

    def add_too_long(self, record: LongRecord) -> None:
        """A record that is longer than the limit: where it is, and how it begins, is in the rescued column.

        Raises:
            MalformedRecord: the mode is FAILFAST.
            CorruptFile: there is no column that could say it.
        """
        if self._bad is not None and self._bad.takes(record.text, record.reason):
            return
        if self._plan.mode == "FAILFAST":
            raise MalformedRecord(self._path, record.text)
        if self._plan.mode == "DROPMALFORMED":
            return
        said = Members()
        said.text = record.text
        if self._plan.corrupt_column:
            self._append({self._plan.corrupt_column: record.text}, Members())
        elif self._plan.rescued_column:
            self._append({}, Members([(TOO_LONG, said)]))
        else:
            raise CorruptFile(f"{self._path} cannot be read: {record.reason}, and no column has what is rescued")

    def _append(self, values: Mapping[str, Any], left: Members) -> None:
        # First, because what nests too deep is not written.
        rescued = rescued_text(left, self._path) if self._plan.rescued_column else None
        for name, column in self._columns.items():
            column.append(values.get(name))
        self._count += 1
        if self._plan.rescued_column:
            self._columns[self._plan.rescued_column][-1] = rescued

    def take(self) -> pa.RecordBatch:
        """The rows so far, in the order of the data columns, with the corrupt and the rescued column behind."""
        arrays = [
            pa.array(column, field.type) for column, field in zip(self._columns.values(), self._schema, strict=True)
        ]
        for column in self._columns.values():
            column.clear()
        self._count = 0
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema)
