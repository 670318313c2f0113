"""``badRecordsPath``, and that a task which is run again does not write its records twice."""

from __future__ import annotations

import json

import pytest

from headrace.autoloader.evolution import rows_of
from headrace.autoloader.preparing import Place, prepare
from headrace.autoloader.stream import all_tasks
from headrace.model.ddl import parse_struct

NOW_NS = 1_704_164_645 * 10**9


@pytest.fixture
def read(tmp_path):
    """The rows of files, and what lies below the folder of bad records."""
    source, bad = tmp_path / "in", tmp_path / "bad"
    source.mkdir()

    def read(kind, text, columns, **options):
        path = source / f"a.{kind}"
        path.write_text(text, encoding="utf-8")
        given = {"cloudFiles.format": kind, "badRecordsPath": str(bad), **options}
        place = Place(tmp_path / "ledgers", None, now_ns=NOW_NS)
        made = prepare(given, str(source), parse_struct(columns), place)
        work = all_tasks(made, 2**62)
        rows = [row for one in work for batch in rows_of(made, one) for row in batch.to_pylist()]
        again = [row for one in work for batch in rows_of(made, one) for row in batch.to_pylist()]
        assert again == rows
        files = {str(file.relative_to(bad).parent): file.read_text() for file in bad.rglob("part-*")}
        return rows, {name: [json.loads(line) for line in lines.splitlines()] for name, lines in files.items()}, path

    return read


@pytest.mark.parametrize(
    ("kind", "text", "bad", "options"),
    [
        ("json", '{"a":1}\n{"a":"x"}\n{broken\n', ['{"a":"x"}', "{broken"], {}),
        ("csv", "1\nx\n2,3\n", ["x", "2,3"], {}),
        ("xml", "<r><a>1</a></r><r><a>x</a></r><r><a></r>", ["<r><a>x</a></r>", "<r><a></r>"], {"rowTag": "r"}),
    ],
)
def test_malformed_records_are_written_to_the_bad_records_path(read, kind, text, bad, options):
    rows, files, path = read(kind, text, "a INT", **options)

    assert rows == [{"a": 1}]
    ((folder, lines),) = files.items()
    assert folder == "20240102T030405/bad_records"
    assert [line["record"] for line in lines] == bad
    assert all(line["path"] == str(path) and line["reason"] for line in lines)


def test_a_type_mismatch_is_rescued_if_there_is_a_rescued_data_column(read):
    rows, files, _ = read("json", '{"a":"x"}\n{broken\n', "a INT", rescuedDataColumn="_rescued")

    assert len(rows) == 1
    assert [line["record"] for line in files["20240102T030405/bad_records"]] == ["{broken"]


def test_an_unreadable_file_is_skipped_and_recorded_in_bad_files(read):
    rows, files, path = read("json", "no gzip", "a INT", pathGlobFilter="*.json")
    assert rows == []
    assert list(files) == ["20240102T030405/bad_records"]

    path.rename(path.with_suffix(".json.gz"))
    rows, files, _ = read("csv", "1", "a INT", pathGlobFilter="*.gz")

    assert rows == []
    assert files["20240102T030405/bad_files"][0]["path"].endswith("a.json.gz")
