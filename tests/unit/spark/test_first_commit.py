"""The first commit of a table, and the checksum behind it, as any reader of Delta finds them."""

from __future__ import annotations

import json

import pytest
from deltalake import DeltaTable

from headrace.graph.resolved_flows import Mode
from headrace.spark.delta.first_commit import NewTable, make_plain_table


@pytest.fixture
def dataset(make):
    return make.graph(make.flow("t", mode=Mode.APPEND), schema="id integer, name string", comment="said").datasets[0]


def test_an_empty_table_is_created_with_the_checksum_of_its_commit(dataset, tmp_path):
    path = tmp_path / "t"

    made = make_plain_table(str(path), NewTable.of(dataset, {"delta.checkpointInterval": "100"}), 7, "some-id")

    table = DeltaTable(str(path))
    assert made
    assert (table.version(), table.metadata().id, table.metadata().description) == (0, "some-id", "said")
    log = path / "_delta_log"
    actions = [json.loads(line) for line in (log / f"{0:020d}.json").read_text().splitlines()]
    checksum = json.loads((log / f"{0:020d}.crc").read_text())
    assert [checksum["metadata"], checksum["protocol"]] == [actions[2]["metaData"], actions[1]["protocol"]]
    assert (checksum["numFiles"], checksum["tableSizeBytes"], checksum["allFiles"]) == (0, 0, [])


def test_an_existing_table_is_unchanged(dataset, tmp_path):
    path = str(tmp_path / "t")
    make_plain_table(path, NewTable.of(dataset, {}), 7, "some-id")

    assert not make_plain_table(path, NewTable.of(dataset, {}), 8, "other-id")
    assert DeltaTable(path).metadata().id == "some-id"


@pytest.mark.parametrize(
    ("layout", "is_plain"),
    [
        ({"partition_by": ("name",)}, True),
        ({"cluster_by": ("id", "name")}, True),
        ({"partition_by": ("nested",)}, False),
        ({"cluster_by": ("nested.id",)}, False),
        ({"partition_by": ("id", "name", "nested")}, False),
        ({"properties": {"delta.appendOnly": "true"}}, False),
    ],
)
def test_delta_creates_what_it_has_to_check(layout, is_plain):
    inner = {"type": "struct", "fields": [{"name": "id", "type": "long", "nullable": True, "metadata": {}}]}
    types = {"id": "long", "name": "string", "nested": inner}
    fields = [{"name": name, "type": kind, "nullable": True, "metadata": {}} for name, kind in types.items()]

    assert NewTable(json.dumps({"type": "struct", "fields": fields}), **layout).is_plain is is_plain
