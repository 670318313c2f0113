"""What a commit changed, by its actions in Delta's log."""

from __future__ import annotations

import json

from headrace.delta_log.commit_changes import CommitChanges


def add(path, size=10, rows=None, **more):
    stats = {} if rows is None else {"stats": json.dumps({"numRecords": rows})}
    return {"add": {"path": path, "size": size, **stats, **more}}


def remove(path, **more):
    return {"remove": {"path": path, **more}}


def test_files_bytes_and_rows_of_new_files_are_counted():
    found = CommitChanges.of([{"commitInfo": {}}, add("a", 10, 3), add("b", 20, 4), remove("c", size=5)])

    assert found == CommitChanges(2, 1, 30, 5, 7)


def test_a_file_whose_rows_are_marked_as_deleted_is_neither_added_nor_removed():
    found = CommitChanges.of([remove("a", size=10), add("a", 10, 3), add("b", 20, 1)])

    assert found == CommitChanges(1, 0, 20, 0, 1)


def test_files_that_replace_others_without_a_change_of_rows_add_no_rows():
    found = CommitChanges.of([remove("a", size=10, dataChange=False), add("b", 10, 3, dataChange=False)])

    assert found == CommitChanges(1, 1, 10, 10, 0)


def test_what_the_commit_does_not_have_is_unknown():
    found = CommitChanges.of([add("a", 10), add("b", 10, 3), remove("c"), add("d", 1, stats="no JSON")])

    assert (found.rows_added, found.bytes_removed) == (None, None)
    assert CommitChanges.of([add("d", 1, stats="no JSON")]).rows_added is None


def test_the_columns_are_those_that_the_commit_has():
    metadata = {"metaData": {"schemaString": '{"type": "struct", "fields": []}'}}

    assert CommitChanges.of([metadata]).schema == '{"type": "struct", "fields": []}'
    assert CommitChanges.of([add("a", 1, 1)]).schema is None
