"""What the log of a Delta table tells about a commit that a stream cannot read."""

from __future__ import annotations

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from headrace.delta_log.changed_sources import operation_of, schema_change


@pytest.fixture
def table(tmp_path):
    """Versions 0 and 1 of a table."""
    path = str(tmp_path / "table")
    for number in (1, 2):
        write_deltalake(path, pa.table({"id": [number]}), mode="append")
    return path


def test_an_operation_is_named_with_its_mode(table):
    DeltaTable(table).delete("id = 1")
    write_deltalake(table, pa.table({"id": [9]}), mode="overwrite")

    assert [operation_of(table, version) for version in (1, 2, 3)] == ["WRITE (Append)", "DELETE", "WRITE (Overwrite)"]


def test_a_missing_commit_has_an_unknown_operation(table):
    assert operation_of(table, 17) == "an unknown operation"
    assert operation_of("/nowhere", 0) == "an unknown operation"


def test_the_first_schema_change_is_found_and_other_metadata_is_ignored(table):
    DeltaTable(table).alter.set_table_properties({"delta.appendOnly": "false"})
    write_deltalake(table, pa.table({"id": [3], "more": ["x"]}), mode="append", schema_mode="merge")
    write_deltalake(table, pa.table({"name": ["x"]}), mode="overwrite", schema_mode="overwrite")

    found = [schema_change(table, first) for first in (1, 3, 4, 5)]

    assert [change and change.version for change in found] == [3, 3, 4, None]
    assert found[2].operation == "WRITE (Overwrite)"


def test_a_missing_table_has_no_schema_change(tmp_path):
    assert schema_change(str(tmp_path / "nowhere"), 0) is None
