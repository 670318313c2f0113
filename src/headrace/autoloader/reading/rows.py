"""Collect rows one by one: values of the columns, and the rest as JSON in the rescued data column."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import pyarrow as pa

from headrace.autoloader.reading.bad_records import BadRecords
from headrace.autoloader.reading.conversion.arrow_types import arrow_schema
from headrace.autoloader.reading.json_scan import Members, to_json_text
from headrace.autoloader.reading.limits import TOO_LONG, LongRecord
from headrace.autoloader.reading.opening import CorruptFile
from headrace.autoloader.reading.plan import CORRUPT, MalformedRecord, ReadPlan
from headrace.model.ddl import field_of

# The member of the rescued data with the path of the file.
RESCUED_PATH = "_file_path"


def long_record_rows(
    plan: ReadPlan, path: str, record: LongRecord, bad: BadRecords | None = None
) -> Iterator[pa.RecordBatch]:
    """Yield the row for a record that exceeds the limit, if there is one.

    Raises:
        MalformedRecord: the mode is FAILFAST.
        CorruptFile: no column can hold it.
    """
    rows = Rows(plan, path, bad)
    rows.add_too_long(record)
    if len(rows):
        yield rows.take()


def rescued_text(rescued: Members, path: str) -> str | None:
    """The value of the rescued data column for a row; None if nothing is rescued."""
    if not rescued:
        return None
    inner = [f"{json.dumps(name, ensure_ascii=False)}:{to_json_text(value)}" for name, value in _joined(rescued)]
    return "{" + ",".join([*inner, f"{json.dumps(RESCUED_PATH)}:{json.dumps(path, ensure_ascii=False)}"]) + "}"


def _joined(rescued: Members) -> Iterable[tuple[str, Any]]:
    """Make names unique: several values of a name become an array."""
    by_name: dict[str, list[Any]] = {}
    for name, value in rescued:
        by_name.setdefault(name, []).append(value)
    if len(by_name) == len(rescued):
        return rescued
    return ((name, values[0] if len(values) == 1 else values) for name, values in by_name.items())


def concat_batches(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    """One batch with the rows of several ones."""
    columns = [pa.concat_arrays(arrays) for arrays in zip(*(batch.columns for batch in batches), strict=True)]
    return pa.RecordBatch.from_arrays(columns, schema=batches[0].schema)


class Rows:
    """Collects rows of one file until they are taken as a batch.

    Args:
        plan: the columns, and how to treat corrupt records.
        path: the file.
        bad: collects corrupt records instead, if set.
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

    def add(self, values: Mapping[str, Any], rescued: Members, record: str, *, mismatch: str = "") -> None:
        """Add a row; missing columns are NULL.

        Without a rescued data column, a record with a type *mismatch* is corrupt, as in Spark (``FailureSafeParser``),
        but its other values are kept.

        Raises:
            MalformedRecord: the record has a mismatch, and the mode is FAILFAST.
        """
        if mismatch and self._plan.rescued_column is None:
            self.add_malformed(record, f"{mismatch!r} does not fit", values)
        else:
            self._append(values, rescued)

    def add_malformed(
        self, record: str, reason: str, values: Mapping[str, Any] | None = None, rescued: Members | None = None
    ) -> None:
        """Add a corrupt record: its text goes into the corrupt record column, else into the rescued data column.

        Raises:
            MalformedRecord: the mode is FAILFAST.
        """
        if self._bad is not None and self._bad.add(record, reason):
            return
        if self._plan.mode == "FAILFAST":
            raise MalformedRecord(self._path, record)
        if self._plan.mode == "DROPMALFORMED":
            return
        if self._plan.corrupt_column:
            self._append({**(values or {}), self._plan.corrupt_column: record}, rescued or Members())
        else:
            self._append(values or {}, Members([*(rescued or ()), (CORRUPT, record)]))

    def add_too_long(self, record: LongRecord) -> None:
        """Add a record that exceeds the limit: its position and first bytes are rescued.

        Raises:
            MalformedRecord: the mode is FAILFAST.
            CorruptFile: no column can hold it.
        """
        if self._bad is not None and self._bad.add(record.text, record.reason):
            return
        if self._plan.mode == "FAILFAST":
            raise MalformedRecord(self._path, record.text)
        if self._plan.mode == "DROPMALFORMED":
            return
        members = Members()
        members.text = record.text
        if self._plan.corrupt_column:
            self._append({self._plan.corrupt_column: record.text}, Members())
        elif self._plan.rescued_column:
            self._append({}, Members([(TOO_LONG, members)]))
        else:
            raise CorruptFile(f"{self._path} cannot be read: {record.reason}, and no column has what is rescued")

    def _append(self, values: Mapping[str, Any], rescued: Members) -> None:
        # First, because this fails for values that nest too deep.
        rescued_json = rescued_text(rescued, self._path) if self._plan.rescued_column else None
        for name, column in self._columns.items():
            column.append(values.get(name))
        self._count += 1
        if self._plan.rescued_column:
            self._columns[self._plan.rescued_column][-1] = rescued_json

    def take(self) -> pa.RecordBatch:
        """Take the collected rows as a batch: the data columns, then the corrupt and the rescued column."""
        arrays = [
            pa.array(column, field.type) for column, field in zip(self._columns.values(), self._schema, strict=True)
        ]
        for column in self._columns.values():
            column.clear()
        self._count = 0
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema)
