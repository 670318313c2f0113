"""Tests of the whole pipeline: crashes at each point of an update leave no trace."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from headrace.assistant.design.blueprint import Blueprint, Dataset, DatasetKind
from headrace.assistant.design.files.bronze_tests import bronze_test_text, conftest_text
from headrace.assistant.design.files.change_tests import changes_tests
from headrace.assistant.design.files.late_tests import sessions_tests, windows_tests
from headrace.assistant.design.files.python_text import literal
from headrace.assistant.design.files.row_tests import clean_tests, dedup_tests, enrich_tests, join_tests
from headrace.assistant.design.files.sample_records import has_wrong_records
from headrace.assistant.design.files.sink_tests import sink_tests
from headrace.assistant.design.files.test_rows import GivenRows
from headrace.assistant.design.requirements import ErrorPolicy, Output
from headrace.runtime.failpoints import Failpoint

# Columns that say when a row was written, and in which folder its record was.
_OF_THE_RUN = ("ingested_at", "source_file", "source_source_file")

_RENDERERS: Mapping[DatasetKind, Callable[[GivenRows, Dataset, Output], str]] = {
    DatasetKind.CLEAN: clean_tests,
    DatasetKind.DEDUP: dedup_tests,
    DatasetKind.ENRICH: enrich_tests,
    DatasetKind.WINDOWS: windows_tests,
    DatasetKind.SESSIONS: sessions_tests,
    DatasetKind.JOIN: join_tests,
    DatasetKind.SCD1: changes_tests,
    DatasetKind.SCD2: changes_tests,
    DatasetKind.SINK: sink_tests,
}


def test_files(blueprint: Blueprint, delay_s: float) -> dict[str, str]:
    """The test modules, by path."""
    found = {"tests/conftest.py": conftest_text(blueprint)}
    given = GivenRows(blueprint, delay_s)
    for dataset in blueprint.datasets:
        if dataset.kind is DatasetKind.BRONZE:
            found[f"tests/test_{dataset.name}.py"] = bronze_test_text(dataset, blueprint)
        elif dataset.output is not None:
            found[f"tests/test_{dataset.name}.py"] = _RENDERERS[dataset.kind](given, dataset, dataset.output)
    if blueprint.tables:
        found["tests/test_crashes.py"] = _crashes(blueprint)
    return found


def failpoints(blueprint: Blueprint) -> list[Failpoint]:
    """The points at which updates of the sample can crash one after the other: each is reached after those before."""
    found = []
    wrong = any(has_wrong_records(bronze.source, blueprint) for bronze in blueprint.of(DatasetKind.BRONZE))
    if blueprint.requirements.on_error is ErrorPolicy.QUARANTINE and wrong:
        found += [Failpoint.BEFORE_QUARANTINE, Failpoint.QUARANTINED]
    written = [d for d in blueprint.tables if d.kind is not DatasetKind.BRONZE or not d.source.is_debezium]
    if written:
        found += [Failpoint.BEFORE_WRITE, Failpoint.WRITTEN]
    if blueprint.of(DatasetKind.SINK):
        found += [Failpoint.STAGED, Failpoint.BEFORE_PUBLISH, Failpoint.PUBLISHED]
    return [*found, Failpoint.COUNTED]


def _crashes(blueprint: Blueprint) -> str:
    tables = [dataset.name for dataset in blueprint.tables]
    points = [point.value for point in failpoints(blueprint)]
    return f'''"""Crashes at each point, one after the other, lose no row and repeat none."""

import pytest

from headrace.testing import Crashed

TABLES = {literal(tables)}
FAILPOINTS = {literal(points)}
# Columns with another value in each run.
OF_THE_RUN = {literal(list(_OF_THE_RUN))}


def rows_of(pipeline):
    """The rows of all tables, as far as they are the same in each run."""
    return {{
        table: [
            {{name: value for name, value in row.items() if name not in OF_THE_RUN}}
            for row in pipeline.rows(table)
        ]
        for table in TABLES
    }}


def test_crashes_leave_no_trace(pipeline):
    without_crash = pipeline(pipeline.folder)
    without_crash.run()

    for failpoint in FAILPOINTS:
        with pytest.raises(Crashed):
            pipeline.crash_at(failpoint).run()
    pipeline.restart().run()

    assert rows_of(pipeline) == rows_of(without_crash)
'''
