"""What identifies a query that reads files does not depend on the machine, nor on where the storage is."""

from __future__ import annotations

from dataclasses import replace

import pytest

from headrace.autoloader.reading.plan import ReadPlan
from headrace.autoloader.source import Source as Reader
from headrace.graph.analysis import Source, SourceKind
from headrace.spark.analysis.plans import without_reader_paths

READER = Reader(
    given={"cloudFiles.format": "json", "note": 'a "quoted" } brace'},
    path="/data/landing",
    plan=ReadPlan("json", {"type": "struct", "fields": []}, "/data/landing"),
    ledgers="/old/storage/_ledgers",
    schema_location="/old/storage/auto_loader/0",
    tasks=2,
)
ELSEWHERE = replace(READER, ledgers="/new/_ledgers", schema_location="/new/auto_loader/0", tasks=64)
OTHERS = [replace(READER, path="/data/other"), replace(READER, given={"cloudFiles.format": "csv"})]


def plan_of(reader):
    return f'Project [{{"given": no reader}}]\n+- StreamingRelationV2 [source={reader.to_json()}], [id#0]'


def source_of(reader):
    return Source(SourceKind.AUTO_LOADER, reader.to_json())


def test_query_identity_does_not_depend_on_storage_paths_or_the_number_of_tasks():
    assert without_reader_paths(plan_of(READER)) == without_reader_paths(plan_of(ELSEWHERE))
    assert source_of(READER).digest == source_of(ELSEWHERE).digest


@pytest.mark.parametrize("other", OTHERS)
def test_query_identity_changes_with_the_path_or_options_of_its_reader(other):
    assert without_reader_paths(plan_of(READER)) != without_reader_paths(plan_of(other))
    assert source_of(READER).digest != source_of(other).digest
    assert not source_of(READER).is_same(source_of(other).digest)


def test_a_source_matches_the_digest_that_version_0_1_stored():
    # 0.1 has taken all of the reader's text.
    assert source_of(READER).is_same("auto loader:ed45f8d7cca20b17f7ff628933591ae8")
    assert not source_of(ELSEWHERE).is_same("auto loader:ed45f8d7cca20b17f7ff628933591ae8")


def test_a_plan_without_file_readers_is_unchanged():
    assert without_reader_paths("Project [a#0]\n+- Range (0, 1)") == "Project [a#0]\n+- Range (0, 1)"
