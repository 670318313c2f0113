"""What new tables get without having been told so."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from headrace.cdc.feed import ChangeFeed
from headrace.cdc.scd_spec import ScdSpec
from headrace.graph.new_tables import (
    MAPPING,
    VECTORS_PROPERTY,
    needs_column_mapping,
    with_default_properties,
    with_merge_keys,
)
from headrace.graph.resolved_flows import Mode
from headrace.model.schema import Schema

FEED = ChangeFeed(
    ScdSpec(("id",), ("id", "version")), "version", '"integer"', "{}", derivable_from_rows=True, derivable_in_merge=True
)
ROWS = {"headrace.cdc.rows": '{"keys": ["id"], "scd_type": "1"}'}

FIELD = {"name": "n;m", "type": "long", "nullable": True, "metadata": {}}


@pytest.mark.parametrize("mode", [Mode.MERGE, Mode.SNAPSHOT])
def test_new_merge_target_has_deletion_vectors(make, mode):
    assert made(make, mode).properties == {VECTORS_PROPERTY: "true", **ROWS}


def test_existing_table_gets_only_declared_properties(make):
    flow = make.flow("users", mode=Mode.MERGE, feed=FEED)

    assert not with_merge_keys(make.graph(flow).by_name, [flow])[flow.target].dataset.properties


@pytest.mark.parametrize(
    "said",
    [
        {"Delta.EnableDeletionVectors": "false"},
        {"delta.enableIcebergCompatV2": "true"},
        {"delta.universalFormat.enabledFormats": "iceberg"},
        {"delta.compatibility.symlinkFormatManifest.enabled": "true"},
    ],
)
def test_new_merge_target_has_no_deletion_vectors_if_disabled_or_incompatible(make, said):
    assert made(make, Mode.MERGE, said).properties == {**said, **ROWS}
    assert made(make, Mode.MERGE, defaults=said).properties == ROWS


def test_new_append_target_has_no_deletion_vectors(make):
    assert not made(make, Mode.APPEND).properties


def made(make, mode, said=None, defaults=None):
    flow = make.flow("users", mode=mode, feed=None if mode is Mode.APPEND else FEED)
    graph = make.graph(flow, properties=said or {})
    return with_default_properties(with_merge_keys(graph.by_name, [flow])[flow.target], defaults or {}).dataset


@pytest.mark.parametrize(
    ("columns", "mapped"),
    [
        ([("sum(amount)", "long")], True),
        ([("a b", "long")], True),
        ([("parts", {"type": "struct", "fields": [FIELD]})], True),
        ([("total", "long"), ("größe", "decimal(10,2)")], False),
    ],
    ids=["an expression", "a space", "within a struct", "plain names"],
)
def test_new_table_with_special_column_names_gets_column_mapping(make, columns, mapped):
    dataset = replace(make.graph(make.flow("t")).by_name[make.flow("t").target], schema=schema_of(*columns))

    assert with_default_properties(dataset, {}).dataset.properties == (MAPPING if mapped else {})
    said = {"delta.columnMapping.mode": "id"}
    assert with_default_properties(dataset, said).dataset.properties == {}


@pytest.mark.parametrize(
    ("declared", "deployed", "mapped"),
    [
        ({}, {}, True),
        ({}, {"delta.columnMapping.mode": "none"}, True),
        ({}, MAPPING, False),
        ({"Delta.ColumnMapping.Mode": "none"}, {}, False),
        ({"delta.columnMapping.mode": "id"}, {}, False),
    ],
)
def test_existing_table_gets_column_mapping_when_needed_unless_declared_otherwise(declared, deployed, mapped):
    special = schema_of(("a b", "long"))

    assert needs_column_mapping(special, declared, deployed) is mapped
    assert not needs_column_mapping(schema_of(("ab", "long")), declared, deployed)


def schema_of(*columns):
    fields = [{"name": name, "type": kind, "nullable": True, "metadata": {}} for name, kind in columns]
    return Schema.from_json(json.dumps({"type": "struct", "fields": fields}))
