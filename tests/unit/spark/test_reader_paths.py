"""What identifies a query that reads files does not depend on the machine, nor on where the storage is."""

from __future__ import annotations

from dataclasses import replace

import pytest

from headrace.autoloader.reading.plan import ReadPlan
from headrace.autoloader.source import Source as Reader
from headrace.graph.analysis import Source, SourceKind
from headrace.spark.analysis.plans import without_ids_of_fallbacks, without_reader_paths

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


def kafka_plan(*ids, group="none#0"):
    """The plan of a grouped topic, with the ids that Spark gave to the columns of the reader beside the stream."""
    columns = ", ".join(f"{name}#{number}" for name, number in zip(("key", "value", "offset"), ids, strict=True))
    source = f"~StreamingRelationV2 , kafka, , [subscribe=t#9], [none#0, none#1], StreamingRelation kafka, [{columns}L]"
    return f"~Aggregate [{group}]\n+- {source}, name=<Unassigned>\n   +- ~StreamingRelation json, [none#{ids[0]}]"


def test_topics_have_the_same_plan_whenever_they_are_read():
    """Guards that a flow over a topic does not count as changed code in each update, and that other columns do."""
    now, later = kafka_plan(4, 5, 6), kafka_plan(18, 19, 20).replace("[none#18]", "[none#4]")

    assert without_ids_of_fallbacks(now) == without_ids_of_fallbacks(later)
    assert without_ids_of_fallbacks(now) != without_ids_of_fallbacks(kafka_plan(4, 5, 6, group="none#1"))
    assert without_ids_of_fallbacks(now) != without_ids_of_fallbacks(now.replace("offset#6", "timestamp#6"))
    # Columns that Spark has numbered for a comparison stay as they are.
    assert "[subscribe=t#9], [none#0, none#1]" in without_ids_of_fallbacks(now)
    assert without_ids_of_fallbacks(now).endswith("[none#4]")
