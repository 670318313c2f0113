"""The files that two versions do not share are read as a table of their own: the rows are those of whole versions."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from tests.unit.delta_log.marked_rows import mark_deleted

from headrace.delta_log.select_rows import select_rows
from headrace.delta_log.version_difference import are_within, differing_files, rows_of, table_of_files

COLUMNS = ["id", "a b.c"]


def written(path, ids, mode="append", **more):
    columns = {"id": pa.array(ids, pa.int64()), "a b.c": pa.array([f"v{one}" for one in ids])}
    write_deltalake(path, pa.table({**columns, **more}), mode=mode, schema_mode="merge")


def read(files, table, columns=COLUMNS):
    """The rows of the files that the other version has not."""
    with table_of_files(files, table.schema().to_json()) as extract:
        return Counter(select_rows(extract, columns, "", None))


def whole(path, version):
    return Counter(select_rows(DeltaTable(path, version), COLUMNS, "", None))


def assert_nets_as_whole_versions(path, first, second):
    sides = differing_files(path, first, second)
    rows = [read(side, DeltaTable(path, version)) for side, version in zip(sides, (first, second), strict=True)]
    before, after = whole(path, first), whole(path, second)
    assert (rows[0] - rows[1], rows[1] - rows[0]) == (before - after, after - before)
    return sides


def test_only_files_that_one_version_has_are_read(tmp_path):
    path = str(tmp_path / "a table")
    for ids in ([1, 2], [3], [4, 5]):
        written(path, ids)

    first, second = assert_nets_as_whole_versions(path, 0, 2)

    assert ([len(side.files) for side in (first, second)], len(first.differing), len(second.differing)) == (
        [1, 3],
        0,
        2,
    )
    assert (rows_of(first.files), rows_of(second.files), rows_of(second.differing)) == (2, 5, 3)


def test_rewritten_files_and_columns_that_came_later_are_read_as_the_version_has_them(tmp_path):
    path = str(tmp_path / "t")
    written(path, [1, 2, 3])
    DeltaTable(path).delete("id = 2")
    written(path, [9], more=pa.array([1]))
    written(path, [1, 3], mode="overwrite")

    for first in range(4):
        for second in range(4):
            assert_nets_as_whole_versions(path, first, second)
    sides = differing_files(path, 3, 2)
    assert read(sides[1], DeltaTable(path, 2), ["id", "more"]) == Counter([(1, None), (3, None), (9, 1)])


@pytest.mark.parametrize("in_file", [True, False])
def test_deleted_rows_are_not_read(tmp_path, in_file):
    path = str(tmp_path / "t")
    written(path, [1, 2, 3, 4])
    mark_deleted(path, [1, 3], 1, in_file=in_file)

    first, second = assert_nets_as_whole_versions(path, 0, 1)

    assert (rows_of(first.differing), rows_of(second.differing)) == (4, 2)
    assert read(second, DeltaTable(path)) == Counter([(1, "v1"), (3, "v3")])


def test_after_a_checkpoint_the_files_are_the_same(tmp_path):
    path = str(tmp_path / "t")
    for ids in ([1], [2]):
        written(path, ids)
    mark = DeltaTable(path)
    mark.create_checkpoint()
    for commit in Path(path, "_delta_log").glob("*00.json"):
        commit.unlink()
    written(path, [3])

    assert_nets_as_whole_versions(path, 1, 2)


def test_files_elsewhere_and_unknown_numbers_of_rows_are_known_as_such(tmp_path):
    path = str(tmp_path / "t")
    written(path, [1])
    commit = next(Path(path, "_delta_log").glob("*.json"))
    text = commit.read_text()
    name = differing_files(path, 0, 0)[0].files[0].path
    found = {}
    for other in (f"../{name}", f"/tmp/{name}", f"a/../../{name}", f"s3://bucket/{name}", name):
        commit.write_text(text.replace(name, other).replace("numRecords", "numrecords"))
        files = differing_files(path, 0, 0)[0].files
        found[other] = (are_within(files), rows_of(files))

    assert {one for one, (is_within, _) in found.items() if is_within} == {name}
    assert {rows for _, rows in found.values()} == {None}


def test_a_file_that_is_gone_is_no_missing_rows(tmp_path):
    path = str(tmp_path / "t")
    written(path, [1])
    written(path, [2])
    _, second = differing_files(path, 0, 1)
    Path(path, second.differing[0].path).unlink()

    with pytest.raises(OSError, match="No such file"), table_of_files(second, DeltaTable(path).schema().to_json()):
        pass
