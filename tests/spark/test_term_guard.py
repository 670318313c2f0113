"""A holder of the lease that was stopped before it clears a table, was taken over and goes on: it clears nothing."""

from __future__ import annotations

import json

import pytest
from deltalake import DeltaTable

from headrace.checkpoints.layouts import table_layout
from headrace.graph.select import Selection
from headrace.spark.delta_tables import empty_frame
from headrace.spark.set_aside import widen_quarantine
from headrace.spark.target import make_quarantine

pytestmark = pytest.mark.spark

# Above that of any lease in a test.
TERM = 1000
CLUSTERED = """
    @dp.table(
        schema="id INT COMMENT 'which', kind STRING",
        comment="all of them",
        table_properties={"delta.appendOnly": "false", "owner": "us"},
        cluster_by=["kind"],
    )
    @dp.expect_or_quarantine("positive", "id > 0")
    def numbers():
        return spark.readStream.schema("id INT, kind STRING").json("{data}")
"""


@pytest.fixture
def cleared(project, tmp_path):
    """A pipeline with rows, and what clears its table as the holder of a number."""
    data = tmp_path / "data"
    data.mkdir()
    (data / "a.json").write_text("".join(json.dumps({"id": number, "kind": "x"}) + "\n" for number in (1, 2, -1)))
    pipeline = project(CLUSTERED.replace("{data}", str(data)))
    before = pipeline.run()
    opened = pipeline.project
    resolved = opened._resolver.resolve(opened._planning.kept(Selection()))
    dataset = next(iter(resolved.graph.datasets))
    path = opened.settings.layout.table(opened.settings.naming, dataset.name)

    def clear(term):
        resolved.catalog.replace_table(dataset, term)
        empty = empty_frame(resolved.catalog.session, dataset.schema.nullable)
        make_quarantine(resolved.catalog.session, f"{path}_quarantine", empty, term)

    return before, clear, path, resolved.catalog.session, dataset


def count(path):
    return DeltaTable(path).to_pyarrow_table().num_rows


def put_back(session, path):
    for table, rows in ((path, 2), (f"{path}_quarantine", 1)):
        old = session.read.format("delta").option("versionAsOf", 1).load(table)
        assert old.count() == rows
        old.write.format("delta").mode("append").save(table)


def test_a_table_is_cleared_by_each_holder_and_by_none_that_was_taken_over(cleared):
    _, clear, path, session, _ = cleared
    clear(TERM)
    assert (count(path), count(f"{path}_quarantine")) == (0, 0)
    put_back(session, path)

    clear(TERM - 1)
    assert (count(path), count(f"{path}_quarantine")) == (2, 1)
    clear(TERM)
    assert (count(path), count(f"{path}_quarantine")) == (0, 0)


def test_a_cleared_table_is_as_it_was_declared(cleared):
    _, clear, path, _, _ = cleared
    table = DeltaTable(path)
    before = (
        table.schema().to_json(),
        table.metadata().description,
        table.metadata().configuration,
        table_layout(path),
    )

    clear(TERM)

    table = DeltaTable(path)
    after = (table.schema().to_json(), table.metadata().description, table.metadata().configuration, table_layout(path))
    assert after == before


def test_a_quarantine_is_widened_by_none_that_was_taken_over(cleared):
    _, clear, path, session, dataset = cleared
    quarantine = f"{path}_quarantine"
    wide = type(dataset.schema).from_json(dataset.schema.to_json().replace('"integer"', '"long"'))
    clear(TERM)
    widen_quarantine(session, quarantine, wide, TERM)
    version = DeltaTable(quarantine).version()

    widen_quarantine(session, quarantine, dataset.schema.nullable, TERM - 1)

    assert DeltaTable(quarantine).version() == version
