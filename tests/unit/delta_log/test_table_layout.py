"""What delta-rs does not tell of a table, read from its log."""

from __future__ import annotations

import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

from headrace.delta_log.table_layout import table_layout

PROTOCOL = {
    "minReaderVersion": 1,
    "minWriterVersion": 7,
    "writerFeatures": ["domainMetadata", "clustering", "appendOnly"],
}

ID = {"name": "id", "type": "integer", "nullable": True, "metadata": {}}
CITY = {"name": "city", "type": "string", "nullable": True, "metadata": {"delta.columnMapping.physicalName": "col-2"}}
ADDRESS = {
    "name": "address",
    "type": {"type": "struct", "fields": [CITY]},
    "nullable": True,
    "metadata": {"delta.columnMapping.physicalName": "col-1"},
}
DOMAIN = pa.struct({"domain": pa.string(), "configuration": pa.string(), "removed": pa.bool_()})


@pytest.fixture
def table(tmp_path):
    """Writes a log of one commit for each list of clustering columns."""

    def make(*clusterings, protocol=PROTOCOL, fields=(ID,), **properties):
        metadata = {
            "id": "t",
            "format": {"provider": "parquet", "options": {}},
            "schemaString": json.dumps({"type": "struct", "fields": list(fields)}),
            "partitionColumns": [],
            "configuration": properties,
            "createdTime": 0,
        }
        log = tmp_path / "_delta_log"
        log.mkdir()
        for version, columns in enumerate(clusterings):
            configuration = json.dumps({"clusteringColumns": [column.split(".") for column in columns]})
            domain = {"domain": "delta.clustering", "configuration": configuration, "removed": False}
            actions = [{"domainMetadata": domain}]
            actions += [{"protocol": protocol}, {"metaData": metadata}] if version == 0 else []
            (log / f"{version:020d}.json").write_text("".join(json.dumps(action) + "\n" for action in actions))
        return str(tmp_path)

    return make


def test_newest_clustering_columns_are_used(table):
    layout = table_layout(table(["id"], ["id", "address.city"]))

    assert layout.cluster_by == ("id", "address.city")
    assert layout.satisfies("delta.feature.appendOnly", "supported")
    assert layout.satisfies("delta.minWriterVersion", "8") is False
    assert layout.satisfies("quality", "gold") is None


def with_column(table, name, column):
    there = table.drop_columns([name]) if name in table.column_names else table
    return there.append_column(name, column)


@pytest.mark.parametrize(("domains", "found"), [(["id"], ("id",)), ([], ())])
def test_clustering_is_read_from_the_checkpoint_after_commits_are_deleted(table, tmp_path, domains, found):
    path = table(["id"], ["gone"])
    log = tmp_path / "_delta_log"
    DeltaTable(path).create_checkpoint()
    file = log / f"{1:020d}.checkpoint.parquet"
    rows = pq.read_table(file)
    configuration = json.dumps({"clusteringColumns": [domains]})
    said = {"domain": "delta.clustering", "configuration": configuration, "removed": False} if domains else None
    column = pa.array([said, *[None] * (len(rows) - 1)], DOMAIN)
    pq.write_table(with_column(rows, "domainMetadata", column), file)
    for commit in log.glob("*.json"):
        commit.unlink()

    assert table_layout(path).cluster_by == found


def test_clustering_columns_have_logical_names_with_column_mapping(table):
    mapped = {"delta.columnMapping.mode": "name"}

    assert table_layout(table(["col-1.col-2"], fields=[ADDRESS], **mapped)).cluster_by == ("address.city",)


def test_table_without_the_clustering_feature_is_not_clustered(table, tmp_path):
    plain = {"minReaderVersion": 1, "minWriterVersion": 2}

    assert table_layout(table([], protocol=plain)).cluster_by == ()
    assert table_layout(str(tmp_path / "nothing")).cluster_by == ()
