"""A holder of the lease that was stopped before it clears a table, was taken over and goes on: it clears nothing."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from deltalake import DeltaTable

from headrace.delta_log.table_layout import table_layout
from headrace.delta_log.tables import table_state
from headrace.errors import PipelineError
from headrace.graph.select import Selection
from headrace.model.schema import Schema
from headrace.project.resolution.resolve_request import ResolveRequest
from headrace.spark.delta.fencing import write_fenced
from headrace.spark.expectations.quarantine_table import widen_quarantine
from headrace.spark.expectations.quarantine_writer import create_quarantine

pytestmark = pytest.mark.spark

# Above that of any lease in a test.
TERM = 1000
CLUSTERED = """
    @dp.table(
        schema="id SMALLINT COMMENT 'which', kind STRING",
        comment="all of them",
        table_properties={"delta.appendOnly": "false", "owner": "us"},
        cluster_by=["kind"],
    )
    @dp.expect_or_quarantine("positive", "id > 0")
    def numbers():
        return spark.readStream.schema("id SMALLINT, kind STRING").json("{data}")
"""


STRICT = """
    @dp.table(
        schema="id SMALLINT NOT NULL COMMENT 'which', kind STRING",
        comment="all of them",
        table_properties={"delta.appendOnly": "false", "owner": "us"},
        partition_cols=["kind"],
    )
    def numbers():
        return spark.readStream.schema("id SMALLINT, kind STRING").json("{data}")
"""


@pytest.fixture(scope="module")
def numbers_after_one_update(prepared, tmp_path_factory):
    data = tmp_path_factory.mktemp("data")
    (data / "a.json").write_text("".join(json.dumps({"id": number, "kind": "x"}) + "\n" for number in (1, 2, -1)))

    def set_up(shared_project):
        pipeline = shared_project(CLUSTERED.replace("{data}", str(data)))
        pipeline.run()
        return pipeline

    return prepared(set_up)


@pytest.fixture
def cleared(numbers_after_one_update):
    """A pipeline with rows, and what clears its table as the holder of a number."""
    pipeline = numbers_after_one_update.restored()
    opened = pipeline.project
    resolved = opened._resolver.resolve(ResolveRequest(opened._planning.tables.kept_schema(Selection())))
    dataset = next(iter(resolved.graph.datasets))
    path = opened.settings.layout.table(opened.settings.naming, dataset.name)

    def clear(term):
        resolved.catalog.replace_table(dataset, term)
        create_quarantine(resolved.catalog.session, f"{path}_quarantine", dataset.schema.nullable, term)

    return pipeline, clear, path, resolved.catalog.session, dataset


def count(path):
    return DeltaTable(path).to_pyarrow_table().num_rows


def put_back(session, path):
    for table, rows in ((path, 2), (f"{path}_quarantine", 1)):
        old = session.read.format("delta").option("versionAsOf", 1).load(table)
        assert old.count() == rows
        old.write.format("delta").mode("append").save(table)


def test_only_the_current_lease_holder_clears_a_table_and_its_quarantine(cleared):
    _, clear, path, session, _ = cleared
    clear(TERM)
    assert (count(path), count(f"{path}_quarantine")) == (0, 0)
    put_back(session, path)

    clear(TERM - 1)
    assert (count(path), count(f"{path}_quarantine")) == (2, 1)
    clear(TERM)
    assert (count(path), count(f"{path}_quarantine")) == (0, 0)


def test_a_full_refresh_keeps_the_declared_properties_of_a_table(cleared):
    pipeline, _, path, _, _ = cleared

    def declared():
        table = DeltaTable(path)
        about = table.metadata()
        return table.schema().to_json(), about.description, about.configuration, table_layout(path)

    before = declared()
    pipeline.run(full_refresh=["numbers"])

    assert declared() == before


def test_only_the_current_lease_holder_widens_a_quarantine(cleared):
    _, _, path, session, dataset = cleared
    quarantine = f"{path}_quarantine"

    def widen(kind, term):
        text = dataset.schema.to_json().replace('"short"', f'"{kind}"')
        widen_quarantine(session, quarantine, Schema.from_json(text), term)
        return Schema.from_json(table_state(quarantine).schema.find("row").json_type).find("id").json_type

    assert widen("integer", TERM) == '"integer"'
    assert widen("long", TERM - 1) == '"integer"'
    assert widen("long", TERM) == '"long"'


def test_a_table_is_cleared_when_fencing_tokens_start_again(cleared):
    _, clear, path, session, _ = cleared
    clear(TERM)
    put_back(session, path)
    held = []

    write_fenced(path, 1, lambda: held.append("asked"), clear)

    assert (count(path), held) == (0, ["asked"])


def test_a_lost_lease_is_reported_before_anything_is_written(cleared):
    _, clear, path, session, _ = cleared
    clear(TERM)
    put_back(session, path)

    def fence():
        raise PipelineError("LEASE.LOST")

    with pytest.raises(PipelineError):
        write_fenced(path, TERM - 1, fence, clear)
    assert count(path) == 2


def test_only_the_current_lease_holder_clears_a_table_with_not_null_columns(project, tmp_path):
    data = tmp_path / "data"
    data.mkdir()
    (data / "a.json").write_text('{"id": 1, "kind": "x"}\n')
    pipeline = project(STRICT.replace("{data}", str(data)))
    pipeline.run()
    opened = pipeline.project
    resolved = opened._resolver.resolve(ResolveRequest(opened._planning.tables.kept_schema(Selection())))
    (dataset,) = resolved.graph.datasets
    path = opened.settings.layout.table(opened.settings.naming, dataset.name)

    def declared():
        table = DeltaTable(path)
        about = table.metadata()
        return table.schema().to_json(), about.description, about.configuration, about.partition_columns

    def put_one():
        old = resolved.catalog.session.read.format("delta").option("versionAsOf", 1).load(path)
        old.write.format("delta").mode("append").save(path)

    before, first = declared(), DeltaTable(path).metadata().id
    resolved.catalog.replace_table(dataset, TERM)
    cleared = (count(path), declared(), DeltaTable(path).metadata().id == first)
    put_one()
    resolved.catalog.replace_table(dataset, TERM - 1)
    kept = count(path)
    resolved.catalog.replace_table(dataset, TERM)

    assert (cleared, kept, count(path)) == ((0, before, False), 1, 0)
    assert [found.name for found in Path(path).parent.iterdir()] == ["numbers"]
    assert pipeline.run(full_refresh=["numbers"]).rows("numbers") == [{"id": 1, "kind": "x"}]
