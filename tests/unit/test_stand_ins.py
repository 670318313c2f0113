"""``dlt`` and ``pyspark.pipelines`` are ours while a project's files load, and what they were before afterwards."""

from __future__ import annotations

import sys
import types

import pyspark
import pytest

from headrace.model.names import Naming
from headrace.project.files import load_files

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
    def loaded(text):
        file = tmp_path / "tables.py"
        file.write_text(text, encoding="utf-8")
        place = {"root": tmp_path, "import_root": tmp_path, "naming": Naming(), "configuration": {}, "globals_": {}}
        return load_files((file,), **place)

    before = list(sys.path)
    yield loaded
    sys.path[:] = before


def test_all_names_of_the_module_are_one_when_a_file_loads(load):
    definitions, problems = load(FILE)

    assert problems == ()
    assert [str(dataset.name) for dataset in definitions.datasets] == ["orders"]


@pytest.mark.parametrize("text", [FILE, "import dlt\nraise OSError"], ids=["loads", "raises"])
def test_the_real_modules_are_back_when_the_files_are_loaded(load, monkeypatch, text):
    other = types.ModuleType("dlt")
    monkeypatch.setitem(sys.modules, "dlt", other)
    monkeypatch.delitem(sys.modules, "pyspark.pipelines", raising=False)
    monkeypatch.delattr(pyspark, "pipelines", raising=False)

    load(text)

    assert sys.modules["dlt"] is other
    assert "pyspark.pipelines" not in sys.modules
    assert not hasattr(pyspark, "pipelines")
