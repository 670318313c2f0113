"""Compares two versions of a table without a JVM, where the result is the one of ``headrace diff``; or says why not.

Only files that the versions do not share are read, and only up to a size. The comparison is whole or not made: if a
column, a file or a value needs Spark, there are no numbers at all.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from deltalake import DeltaTable
from deltalake.exceptions import DeltaError

from headrace.delta_log.readable_versions import commit_info
from headrace.delta_log.select_rows import plain_column_types, select_rows, unread_features
from headrace.delta_log.tables import open_table
from headrace.delta_log.version_difference import VersionFiles, are_within, differing_files, rows_of, table_of_files
from headrace.model.comparable_types import ComparedColumn, compared_columns
from headrace.model.differing_rows import DifferingRows, Row, differing_rows
from headrace.model.names import InvalidName
from headrace.model.schema_difference import schema_differences
from headrace.model.table_diff import DiffRequest, DiffSide, RowCounts, TableDiff, shared_examples
from headrace.project.inspection.diff_keys import diff_key
from headrace.project.inspection.diff_versions import VersionToRead, versions_to_read
from headrace.project.inspection.plain_query import has_plain_semantics
from headrace.project.inspection.private_tables import hidden_tables
from headrace.settings.settings import Settings

# More than these, only Spark reads: in bytes of files, and in values, which are rows times columns.
MOST_BYTES = 16 * 1024 * 1024
MOST_VALUES = 1_000_000
_PRIVATE = "The table is private."
_SPARK_SETTINGS = "Settings of Spark in this project, or in the environment of this process, may change the result."
_NO_COLUMN = "The versions have no column in common."
_OUTSIDE = "The versions have files outside of the folder of the table."
_NO_COUNTS = "The log does not say how many rows the files have."
_FOR_SPARK = "A value or a file can only be read by Spark, or the file is gone."


@dataclass(frozen=True)
class PlainDiff:
    """The comparison of two versions.

    Attributes:
        request: the question.
        diff: its answer; None if only Spark has it.
        reason: why only Spark has it.
    """

    request: DiffRequest
    diff: TableDiff | None = None
    reason: str = ""

    @property
    def command(self) -> tuple[str, ...]:
        """The command that compares the versions with Spark."""
        versions = [word for version in self.request.versions for word in ("--version", str(version))]
        keys = [word for key in self.request.key for word in ("--key", key)]
        return ("headrace", "diff", *versions, *keys, "--", self.request.name)


class _NeedsSparkError(Exception):
    """Why the versions cannot be compared here."""


def plain_diff(settings: Settings, environ: Mapping[str, str], request: DiffRequest) -> PlainDiff:
    """How two versions of a table differ, or why only Spark can find out.

    Args:
        settings: the pipeline's.
        environ: the environment variables.
        request: the table, its versions and the key; of this project alone.

    Raises:
        PipelineError: DIFF.UNKNOWN, DIFF.VIEW, DIFF.NO_VERSION, DIFF.VERSION_GONE, DIFF.ONE_VERSION,
            DIFF.NO_KEY_COLUMN; STORAGE.*.
    """
    first, second = versions_to_read(settings, settings, request)
    try:
        if not has_plain_semantics(settings, environ):
            raise _NeedsSparkError(_SPARK_SETTINGS)  # noqa: TRY301 - the first of many reasons
        return PlainDiff(request, _diff(first, second, request))
    except _NeedsSparkError as error:
        return PlainDiff(request, reason=str(error))


def _diff(first: VersionToRead, second: VersionToRead, request: DiffRequest) -> TableDiff:
    _check_shown(first)
    tables = [_table(side) for side in (first, second)]
    fields = [json.loads(table.schema().to_json())["fields"] for table in tables]
    columns = compared_columns(fields[0], fields[1])
    _check_columns(tables, columns)
    files = differing_files(first.path, first.version, second.version)
    totals = [rows_of(one.files) for one in files]
    key = diff_key(first.name, request.key, columns, dict(tables[1].metadata().configuration))
    found = _compared(tables, files, columns, key.positions, request.examples)
    counts = [
        -1 if total is None else total - found.changed - only
        for total, only in zip(totals, (found.only_first, found.only_second), strict=True)
    ]
    if counts[0] != counts[1] or counts[0] < 0:
        raise _NeedsSparkError(_NO_COUNTS)
    names = sorted((number for number, rows in found.columns.items() if rows), key=lambda n: (-found.columns[n], n))
    return TableDiff(
        name=first.name,
        first=_described(first, files[0]),
        second=_described(second, files[1]),
        key=tuple(columns[number].name for number in key.positions),
        key_origin=key.origin,
        schema=schema_differences(fields[0], fields[1]),
        rows=RowCounts(counts[0], found.changed, found.only_first, found.only_second, found.repeated_keys),
        columns={columns[number].name: found.columns[number] for number in names},
        examples=shared_examples(found.examples, request.examples),
    )


def _check_shown(read: VersionToRead) -> None:
    try:
        name = read.settings.naming.canonical(read.name)
    except InvalidName:
        return
    if hidden_tables({name: read.path}):
        raise _NeedsSparkError(_PRIVATE)


def _table(read: VersionToRead) -> DeltaTable:
    table = open_table(read.path, read.version)
    if table is None:
        raise _NeedsSparkError(_FOR_SPARK)
    features = unread_features(table)
    if features:
        raise _NeedsSparkError(f"The table has features that only Spark is known to read: {', '.join(features)}.")
    return table


def _check_columns(tables: Sequence[DeltaTable], columns: Sequence[ComparedColumn]) -> None:
    """Each column that both versions have is of a type that is read here, and of one type in both."""
    types = [plain_column_types(table) or {} for table in tables]
    for column in columns:
        kinds = [of_table[name] for of_table, name in zip(types, column.names, strict=True)]
        if not all(kinds):
            raise _NeedsSparkError(
                f'Only Spark is known to read the column "{column.name}": its type, or its partitions.'
            )
        if kinds[0] != kinds[1]:
            raise _NeedsSparkError(f'The type of the column "{column.name}" differs.')
    if any(len({name.casefold() for name in one}) < len(one) for one in types):
        raise _NeedsSparkError("Two columns have the same name in other letters.")
    if not columns:
        raise _NeedsSparkError(_NO_COLUMN)


def _compared(
    tables: Sequence[DeltaTable],
    files: Sequence[VersionFiles],
    columns: Sequence[ComparedColumn],
    key: Sequence[int],
    examples: int,
) -> DifferingRows:
    _check_size(files, len(columns))
    sides = [
        _rows(of_version, table, [column.names[side] for column in columns])
        for side, (of_version, table) in enumerate(zip(files, tables, strict=True))
    ]
    return differing_rows(sides[0], sides[1], [column.name for column in columns], key, examples)


def _check_size(files: Sequence[VersionFiles], columns: int) -> None:
    differing = [file for of_version in files for file in of_version.differing]
    size, rows = sum(file.size for file in differing), rows_of(replace(file, deleted_rows=0) for file in differing)
    if not are_within(differing):
        raise _NeedsSparkError(_OUTSIDE)
    if rows is None:
        raise _NeedsSparkError(_NO_COUNTS)
    if size > MOST_BYTES or rows * columns > MOST_VALUES:
        most = f"{MOST_BYTES >> 20} MiB of files and {MOST_VALUES:,} values"
        raise _NeedsSparkError(
            f"The versions differ by {len(differing):,} files with {rows:,} rows and {size:,} bytes. "
            f"Up to {most} are compared here."
        )


def _rows(files: VersionFiles, table: DeltaTable, names: Sequence[str]) -> Iterable[Row]:
    expected = rows_of(files.differing)
    if not files.adds:
        return ()
    try:
        with table_of_files(files, table.schema().to_json()) as extract:
            found = select_rows(extract, names, "", None)
    except (DeltaError, OSError) as error:
        raise _NeedsSparkError(_FOR_SPARK) from error
    if found is None or len(found) != expected:
        raise _NeedsSparkError(_FOR_SPARK)
    return found


def _described(read: VersionToRead, files: VersionFiles) -> DiffSide:
    info = commit_info(read.path, read.version)
    return DiffSide(
        label=f"version {read.version}",
        version=read.version,
        operation=info.operation,
        committed_at=info.committed_at,
        rows=rows_of(files.files) or 0,
        files=len(files.files),
        size=sum(file.size for file in files.files),
        read_files=len(files.differing),
        read_size=sum(file.size for file in files.differing),
        project=str(read.settings.root),
        profile=read.settings.profile,
    )
