from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from headrace.cli.init import make_project, templates
from headrace.settings.discover import find_settings
from headrace.settings.json_schema import EDITOR_COMMENT, SCHEMA_FILE, settings_schema
from headrace.settings.load import load_settings
from headrace.settings.source_files import source_files


@pytest.mark.parametrize("template", templates())
def test_new_project_is_complete(tmp_path: Path, template: str) -> None:
    files = make_project(tmp_path, "shop", template)

    settings = load_settings(find_settings(tmp_path / "shop"), environ={})
    assert settings.name == "shop"
    assert {file.suffix for file in source_files(settings)} == {".py", ".sql"}
    assert not [
        file for file in files if file.endswith(".tmpl") or "PROJECT_NAME" in (tmp_path / "shop" / file).read_text()
    ]
    assert (tmp_path / "shop" / ".gitignore").read_text().startswith("storage/")


def test_editors_find_the_schema_of_a_new_project(tmp_path: Path) -> None:
    make_project(tmp_path, "shop")

    first = (tmp_path / "shop" / "pipeline.yml").read_text().splitlines()[0]
    assert first == EDITOR_COMMENT
    assert json.loads((tmp_path / "shop" / first.partition("$schema=")[2]).read_text()) == settings_schema()


def test_schema_is_printed_and_written_to_a_new_folder(cli: Any, tmp_path: Path) -> None:
    _, printed, _ = cli("schema")
    code, out, _ = cli("schema", "--file", ".headrace/pipeline.schema.json")

    assert json.loads(printed) == settings_schema()
    assert (code, EDITOR_COMMENT in out) == (0, True)
    assert (tmp_path / SCHEMA_FILE).read_text() == printed


def test_a_schema_that_cannot_be_written_is_reported(cli: Any, tmp_path: Path) -> None:
    (tmp_path / "there").write_text("")

    code, out, _ = cli("schema", "--file", "there/schema.json", "--output", "json")

    assert (code, json.loads(out)["error"]["code"]) == (1, "SETTINGS.SCHEMA_NOT_WRITTEN")


def test_python_files_of_a_new_project_compile(tmp_path: Path) -> None:
    programs = [file for file in make_project(tmp_path, "shop") if file.endswith(".py")]

    assert [compile((tmp_path / "shop" / file).read_text(), file, "exec").co_filename for file in programs] == programs
    assert programs


def test_sample_data_of_a_new_project_is_deterministic_and_has_bad_records(tmp_path: Path) -> None:
    for name in ("first", "second"):
        make_project(tmp_path, name)

    first, second = ((tmp_path / name / "data/orders/day-001.json").read_text() for name in ("first", "second"))
    lines = first.splitlines()
    readable = [json.loads(line) for line in lines if line.endswith("}")]

    assert first == second
    assert 0 < len(lines) - len(readable) < 20
    assert any(order["quantity"] < 0 for order in readable)


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["../shop"], "INIT.NAME"),
        (["a/b"], "INIT.NAME"),
        ([""], "INIT.NAME"),
        (["there"], "INIT.EXISTS"),
        (["shop", "--template", "../medallion"], "INIT.UNKNOWN_TEMPLATE"),
    ],
)
def test_init_rejects_invalid_names_existing_folders_and_unknown_templates(
    cli: Any, tmp_path: Path, words: list[str], code: str
) -> None:
    (tmp_path / "there").mkdir()

    exit_code, out, _ = cli("init", *words, "--output", "json")

    assert (exit_code, json.loads(out)["error"]["code"]) == (2, code)
    assert [file.name for file in tmp_path.iterdir()] == ["there"]
