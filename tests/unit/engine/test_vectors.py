"""Which tables get deletion vectors without having been told so."""

from __future__ import annotations

import pytest

from headrace.cdc.feed import Feed
from headrace.cdc.shape import Shape
from headrace.graph.resolved import Mode
from headrace.graph.vectors import VECTORS_PROPERTY, as_made, marked_merged

FEED = Feed(Shape(("id",), ("id", "version")), "version", '"integer"', "{}", told_by_rows=True, told_in_merge=True)


@pytest.mark.parametrize("mode", [Mode.MERGE, Mode.SNAPSHOT])
def test_a_new_table_that_changes_are_merged_into_has_deletion_vectors(make, mode):
    assert made(make, mode).properties == {VECTORS_PROPERTY: "true"}


def test_a_table_that_is_there_is_asked_for_what_is_declared_alone(make):
    flow = make.flow("users", mode=Mode.MERGE, feed=FEED)

    assert not marked_merged(make.graph(flow).by_name, [flow])[flow.target].dataset.properties


@pytest.mark.parametrize(
    "said",
    [
        {"Delta.EnableDeletionVectors": "false"},
        {"delta.enableIcebergCompatV2": "true"},
        {"delta.universalFormat.enabledFormats": "iceberg"},
        {"delta.compatibility.symlinkFormatManifest.enabled": "true"},
    ],
)
def test_a_table_that_says_otherwise_or_is_to_be_read_otherwise_has_none(make, said):
    assert made(make, Mode.MERGE, said).properties == said
    assert not made(make, Mode.MERGE, defaults=said).properties


def test_a_table_that_rows_are_added_to_has_none(make):
    assert not made(make, Mode.APPEND).properties


def made(make, mode, said=None, defaults=None):
    flow = make.flow("users", mode=mode, feed=None if mode is Mode.APPEND else FEED)
    graph = make.graph(flow, properties=said or {})
    return as_made(marked_merged(graph.by_name, [flow])[flow.target], defaults or {}).dataset
