"""The record of published tables in a storage, and what is shown of it."""

from __future__ import annotations

import pytest

from headrace.catalogs.record import (
    Publication,
    PublicationRecord,
    PublicationState,
    read_publications,
    write_publications,
)
from headrace.settings.storage import StorageLayout

RECORD = PublicationRecord(
    (
        Publication("lake", "sales", "orders", "orders", PublicationState.PUBLISHED),
        Publication("lake", "sales", "items", "items", PublicationState.PENDING),
        Publication("lake", "sales", "old", "old", PublicationState.REMOVED),
    ),
    {"lake": "the metastore cannot be reached"},
)
# As the first version wrote it.
STORED = """{"format": 1, "problems": {}, "tables": [
 {"catalog": "lake", "dataset": "orders", "schema": "sales", "state": "published", "table": "orders"}]}"""


@pytest.fixture
def layout(tmp_path):
    return StorageLayout(str(tmp_path))


def test_a_record_is_read_as_it_was_written(layout):
    write_publications(layout, RECORD)

    assert read_publications(layout) == RECORD


def test_a_record_of_the_first_version_is_read(layout, tmp_path):
    (tmp_path / "system").mkdir()
    (tmp_path / "system" / "catalogs.json").write_text(STORED, encoding="utf-8")

    assert read_publications(layout).publications == RECORD.publications[:1]


@pytest.mark.parametrize("text", ["", "{", "[]", '{"tables": [{}], "problems": {}}', '{"tables": 1, "problems": {}}'])
def test_a_record_that_cannot_be_read_counts_as_none(layout, tmp_path, text):
    (tmp_path / "system").mkdir()
    (tmp_path / "system" / "catalogs.json").write_text(text, encoding="utf-8")

    assert read_publications(layout) == PublicationRecord()


def test_each_table_is_shown_with_what_is_not_done_yet():
    assert list(RECORD.describe()) == [
        "published: lake.sales.orders",
        "published: lake.sales.items (not published yet)",
        "published: lake.sales.old (no longer in the pipeline; the entry and the table stay)",
        "catalog lake is not up to date, the next update repairs it: the metastore cannot be reached",
    ]
