"""The cases of Auto Loader in tests/cases/auto_loader, which docs/reference/auto-loader-cases.md shows."""

from __future__ import annotations

import json
import os
import tomllib
from pathlib import Path

import pytest

from headrace.autoloader.evolution import UnknownFieldException, parse_new_fields, rows_of
from headrace.autoloader.preparing import Place, prepare
from headrace.autoloader.reading.plan import MalformedRecord
from headrace.autoloader.stream import all_tasks
from headrace.errors import PipelineError
from headrace.model.ddl import parse_struct
from headrace.model.schema import type_text

FOLDER = Path(__file__).resolve().parents[2] / "cases" / "auto_loader"
CASES = {
    f"{file.stem}: {case['title']}": case
    for file in sorted(FOLDER.glob("*.toml"))
    for case in tomllib.loads(file.read_text(encoding="utf-8"))["case"]
}
NOW_NS = 2_000_000_000 * 10**9
FIRST_S = 1_700_000_000


def columns(fields):
    return ", ".join(f"{field['name']} {type_text(field['type'])}" for field in fields)


def shown(value):
    return "NULL" if value is None else value


def row_of(row, names):
    """A row as the cases write it: without the path of the file, and without what is NULL beside the columns."""
    made = {name: shown(value) for name, value in row.items() if name in names or value is not None}
    for name in set(made) - set(names):
        made[name] = {key: inner for key, inner in json.loads(made[name]).items() if key != "_file_path"}
    return made


class Reader:
    """One reader of a case; its options add up from step to step."""

    def __init__(self, folder, case):
        self.source, self.place = folder / "in", Place(folder / "ledgers", folder / "schemas", NOW_NS)
        self.source.mkdir()
        self.options = {"cloudFiles.format": case["format"]}
        self.schema = case.get("schema")
        self.files = 0

    def write(self, files):
        for name, text in files.items():
            path = self.source / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text.strip() + "\n", encoding="utf-8")
            # Files are read in the order of their times.
            self.files += 1
            os.utime(path, (FIRST_S + self.files,) * 2)

    def prepared(self):
        schema = self.schema and parse_struct(self.schema)
        return prepare(self.options, str(self.source), schema, self.place)

    def run(self, step):
        self.write(step.get("files", {}))
        self.options |= step.get("options", {})
        if "stops_at" in step:
            with pytest.raises(UnknownFieldException) as raised:
                self.rows(self.prepared())
            assert list(parse_new_fields(str(raised.value)).names) == step["stops_at"]
            return
        if "fails" in step and step["fails"] != "MalformedRecord":
            with pytest.raises(PipelineError) as failed:
                self.prepared()
            assert failed.value.code == step["fails"]
            return
        source = self.prepared()
        fields = [*source.plan.data["fields"], *source.plan.partitions["fields"]]
        assert columns(fields) == columns(parse_struct(step["columns"])["fields"])
        if "fails" in step:
            with pytest.raises(MalformedRecord):
                self.rows(source)
        else:
            found = [row_of(row, [field["name"] for field in fields]) for row in self.rows(source)]
            assert found == step.get("rows", found)

    def rows(self, source):
        return [
            row for work in all_tasks(source, NOW_NS) for batch in rows_of(source, work) for row in batch.to_pylist()
        ]


@pytest.mark.parametrize("name", CASES)
def test_each_case_reads_the_documented_rows(tmp_path, name):
    case = CASES[name]
    reader = Reader(tmp_path, case)

    for step in (case, *case.get("then", ())):
        reader.run(step)
