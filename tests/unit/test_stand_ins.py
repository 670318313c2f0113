"""What loading a project's files leaves in the process: neither stand-ins nor modules of another project."""

from __future__ import annotations

import sys
import types

import pyspark
import pytest

from headrace.model.names import Naming
from headrace.project.loading.files import load_files

FILE = """
import dlt
from pyspark import pipelines as dp
from headrace import pipelines as own

assert dlt is dp is own


@dlt.table
def orders(): ...
"""


@pytest.fixture
def load(tmp_path):
    def loaded(text, folder=tmp_path):
        file = folder / "tables.py"
        file.write_text(text, encoding="utf-8")
        place = {"root": folder, "import_root": folder, "naming": Naming(), "configuration": {}, "globals_": {}}
        return load_files((file,), **place)

    before = list(sys.path)
    yield loaded
    sys.path[:] = before


def test_all_import_names_refer_to_one_module_while_a_file_loads(load):
    loaded = load(FILE)

    assert loaded.problems == ()
    assert [str(dataset.name) for dataset in loaded.definitions.datasets] == ["orders"]


@pytest.mark.parametrize("text", [FILE, "import dlt\nraise OSError"], ids=["loads", "raises"])
def test_the_real_modules_are_restored_after_the_files_are_loaded(load, monkeypatch, text):
    other = types.ModuleType("dlt")
    monkeypatch.setitem(sys.modules, "dlt", other)
    monkeypatch.delitem(sys.modules, "pyspark.pipelines", raising=False)
    monkeypatch.delattr(pyspark, "pipelines", raising=False)

    load(text)

    assert sys.modules["dlt"] is other
    assert "pyspark.pipelines" not in sys.modules
    assert not hasattr(pyspark, "pipelines")


def test_a_project_imports_its_own_module_if_another_project_has_the_same_name(load, tmp_path):
    names = []
    for project in ("a", "b", "a"):
        folder = tmp_path / project
        folder.mkdir(exist_ok=True)
        (folder / "naming_of_tables.py").write_text(f"NAME = 'of_{project}'\n", encoding="utf-8")
        text = "import dlt\nfrom naming_of_tables import NAME\n\n\n@dlt.table(name=NAME)\ndef table(): ...\n"
        loaded = load(text, folder)
        assert loaded.problems == ()
        names += [str(dataset.name) for dataset in loaded.definitions.datasets]

    assert names == ["of_a", "of_b", "of_a"]
    assert str(tmp_path / "b") not in sys.path


def test_modules_of_the_project_that_the_process_already_imported_stay_loaded(load, monkeypatch, tmp_path):
    script = types.ModuleType("__main__")
    script.__file__ = str(tmp_path / "script.py")
    monkeypatch.setitem(sys.modules, "__main__", script)

    load(FILE)
    load(FILE)

    assert sys.modules["__main__"] is script


@pytest.mark.parametrize("head", ["", "# Databricks notebook source\n"], ids=["file", "notebook"])
def test_an_assistant_tool_call_does_not_prevent_a_file_from_loading(load, head):
    loaded = load(f'{head}mcp__data-knowledge-base__get_document("pipeline", "lakeflow-pipelines")\n{FILE}')

    assert loaded.problems == ()
    assert [str(dataset.name) for dataset in loaded.definitions.datasets] == ["orders"]
