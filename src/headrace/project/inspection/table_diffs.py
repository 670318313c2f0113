"""Compares versions of a stored table, also with those of another project or profile; runs no code of either."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from headrace.delta_log.readable_versions import commit_info, earliest_version_with_files
from headrace.errors import InternalError, PipelineError
from headrace.model.comparable_types import compared_columns
from headrace.model.field_pairs import has_same_storage, without_ids
from headrace.model.schema_difference import schema_differences
from headrace.model.table_diff import DiffRequest, DiffSide, RowCounts, TableDiff, shared_examples
from headrace.project.inspection.diff_keys import diff_key
from headrace.project.inspection.diff_versions import VersionToRead, newest_versions, other_settings, versions_to_read
from headrace.project.resolution.open_catalog import open_catalog
from headrace.settings.secrets import Secrets
from headrace.settings.settings import Settings
from headrace.spark.comparison.row_comparison import RowComparison
from headrace.spark.comparison.table_versions import TableAtVersion, VersionFiles
from headrace.spark.errors.spark_errors import innermost
from headrace.spark.jvm.causes import chain
from headrace.spark.session.scoped_confs import with_confs

# A missing file must never look like missing rows.
_CONFS = {"spark.sql.files.ignoreMissingFiles": "false", "spark.sql.files.ignoreCorruptFiles": "false"}
_FILE_GONE = ("FileNotFoundException", "FILE_NOT_EXIST")


class TableDiffs:
    """Compares versions of tables.

    Args:
        settings: the pipeline's.
        secrets: the pipeline's.
        environ: the process environment.
    """

    def __init__(self, settings: Settings, secrets: Secrets, environ: Mapping[str, str]) -> None:
        self._settings = settings
        self._secrets = secrets
        self._environ = environ

    def compare(self, request: DiffRequest) -> TableDiff:
        """How two versions of a table differ. Reads only files that one of the versions has and the other has not.

        Raises:
            PipelineError: DIFF.* if the versions cannot be compared; STORAGE.*.
            Problems: the settings of the other project are wrong.
        """
        other = other_settings(self._settings, request, self._environ)
        return self._compare(request, other, *versions_to_read(self._settings, other, request))

    def compare_with(self, other: Settings, request: DiffRequest) -> TableDiff:
        """How the newest versions of a table in two storages differ.

        Args:
            other: the settings of the second storage.
            request: the table and its key; without versions, projects and profiles.

        Raises:
            PipelineError: as :meth:`compare`.
        """
        return self._compare(request, other, *newest_versions(self._settings, other, request.name))

    def _compare(self, request: DiffRequest, other: Settings, first: VersionToRead, second: VersionToRead) -> TableDiff:
        session = self._session(other)
        try:
            with with_confs(session, _CONFS):
                return _compared(session, first, second, request)
        except (PySparkException, Py4JJavaError) as error:
            raise self._problem(first, second, error) from error

    def _session(self, other: Settings) -> SparkSession:
        """A session that reaches both storages."""
        connectors = tuple(dict.fromkeys((*self._settings.all_connectors, *other.all_connectors)))
        return open_catalog(replace(self._settings, connectors=connectors), self._secrets, self._environ).session

    def _problem(
        self, first: VersionToRead, second: VersionToRead, error: PySparkException | Py4JJavaError
    ) -> PipelineError:
        causes = tuple(chain(error))
        if any(name in f"{cause.java_class} {cause.condition}" for cause in causes for name in _FILE_GONE):
            for side in (first, second):
                earliest = earliest_version_with_files(side.path, side.versions)
                if side.version < earliest:
                    return PipelineError(
                        "DIFF.FILES_GONE",
                        name=side.name,
                        version=side.version,
                        earliest=earliest,
                        newest=side.versions.newest,
                    )
        message = str(error) if isinstance(error, PySparkException) else innermost(causes).message
        reason = self._secrets.redact(message.strip().splitlines()[0]).rstrip(".")
        return PipelineError("DIFF.FAILED", name=first.name, reason=reason)


def _compared(session: SparkSession, first: VersionToRead, second: VersionToRead, request: DiffRequest) -> TableDiff:
    tables = [TableAtVersion(session, side.path, side.version) for side in (first, second)]
    fields = [table.fields for table in tables]
    if first.path != second.path:
        fields = [without_ids(one) for one in fields]
    columns = compared_columns(*fields)
    shares = first.path == second.path and has_same_storage(*fields)
    files = [tables[n].files_without(tables[1 - n] if shares else None) for n in (0, 1)]
    key = diff_key(first.name, request.key, columns, tables[1].properties)
    counts = [_row_count(table, of_table) for table, of_table in zip(tables, files, strict=True)]
    labels = _labels(first, second, request)
    diff = TableDiff(
        name=first.name,
        first=_described(first, files[0], counts[0], labels[0]),
        second=_described(second, files[1], counts[1], labels[1]),
        key=tuple(columns[number].name for number in key.positions),
        key_origin=key.origin,
        schema=schema_differences(*fields),
        compared_as_text=tuple(column.name for column in columns if column.is_compared_as_text),
    )
    if not columns:
        sides = [replace(side, read_files=0, read_size=0) for side in (diff.first, diff.second)]
        rows = RowCounts(only_first=counts[0], only_second=counts[1])
        return replace(diff, first=sides[0], second=sides[1], rows=rows)
    if not any(side.differing_total.files for side in files):
        return replace(diff, rows=RowCounts(unchanged=counts[0]))
    frames = [table.rows_of(of_table.differing) for table, of_table in zip(tables, files, strict=True)]
    comparison = RowComparison(columns, key.positions, request.examples)
    found = comparison.compare(frames[0], frames[1], (fields[0], fields[1]))
    unchanged = [counts[0] - found.changed - found.only_first, counts[1] - found.changed - found.only_second]
    if unchanged[0] != unchanged[1]:
        raise InternalError(f"the log of {first.path} or {second.path} has other numbers of rows than its files")
    names = sorted((number for number, rows in found.columns.items() if rows), key=lambda n: (-found.columns[n], n))
    return replace(
        diff,
        rows=RowCounts(unchanged[0], found.changed, found.only_first, found.only_second, found.repeated_keys),
        columns={columns[number].name: found.columns[number] for number in names},
        examples=shared_examples(found.examples, request.examples),
    )


def _row_count(table: TableAtVersion, files: VersionFiles) -> int:
    # The log says it, unless a writer has stored no statistics.
    return table.rows_of(files.files).count() if files.total.rows is None else files.total.rows


def _described(read: VersionToRead, found: VersionFiles, rows: int, label: str) -> DiffSide:
    info = commit_info(read.path, read.version)
    return DiffSide(
        label=label,
        version=read.version,
        operation=info.operation,
        committed_at=info.committed_at,
        rows=rows,
        files=found.total.files,
        size=found.total.size,
        read_files=found.differing_total.files,
        read_size=found.differing_total.size,
        project=str(read.settings.root),
        profile=read.settings.profile,
    )


def _labels(first: VersionToRead, second: VersionToRead, request: DiffRequest) -> tuple[str, str]:
    """Short names that tell the sides apart."""
    names = ["", ""]
    if second.settings.production is not None:
        names = ["production ", "stage "]
    elif request.has_other:
        settings = (first.settings, second.settings)
        names = [f"{one.profile or 'default'} " for one in settings]
        if request.other_project is not None:
            folders = [one.root.name for one in settings]
            names = [f"{one} " for one in (folders if folders[0] != folders[1] else [str(s.root) for s in settings])]
    return f"{names[0]}version {first.version}", f"{names[1]}version {second.version}"
