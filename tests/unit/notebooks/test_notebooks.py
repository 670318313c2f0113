"""What notebooks declare, and what is wrong with them: a Markdown file per case, with a block for each file.

``HEADRACE_GOLDEN=rewrite`` writes the results anew. A block ``x.ipynb`` holds cells between lines of dashes, and before
the first what is put into the notebook beside them.
"""

from __future__ import annotations

import json
import os
import re
import sys
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.errors import PipelineError, Problems
from headrace.model.location import Location
from headrace.model.names import Naming
from headrace.notebooks import read_notebook
from headrace.project.loading.files import load_files

CASES = sorted((Path(__file__).parent / "cases").glob("*.md"))
BLOCK = re.compile(r"^```(\S+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@pytest.fixture
def load(tmp_path):
    def loaded(files, *libraries):
        for name, text in files.items():
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / name).write_text(text, encoding="utf-8")
        return load_files(
            tuple(tmp_path / name for name in libraries or sorted(files)),
            root=tmp_path,
            import_root=tmp_path,
            naming=Naming(),
            configuration={"floor": "3"},
            globals_={},
        )

    before = list(sys.path)
    yield loaded
    sys.path[:] = before


def ipynb(*cells, **document):
    written = [{"cell_type": "code", "metadata": {}, "source": cell} for cell in cells]
    return json.dumps({"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": written, **document})


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.stem)
def test_notebooks_produce_the_expected_definitions_and_problems(case, load):
    text = case.read_text(encoding="utf-8")
    blocks = dict(BLOCK.findall(text))
    expected = blocks.pop("result")
    libraries = blocks.pop("load").split()
    files = {name: from_block(block) if name.endswith(".ipynb") else block for name, block in blocks.items()}

    found = described(load(files, *libraries))

    if os.environ.get("HEADRACE_GOLDEN") == "rewrite":
        case.write_text(text.replace(f"```result\n{expected}```", f"```result\n{found}```"), encoding="utf-8")
    else:
        assert found == expected


def from_block(block: str) -> str:
    beside, *cells = re.split(r"^-----\n", block, flags=re.MULTILINE)
    return ipynb(*(cell.rstrip("\n") for cell in cells), **json.loads(beside or "{}"))


def described(loaded) -> str:
    lines = [f"{d.kind.value} {d.name} at {d.location}" for d in loaded.definitions.datasets]
    lines += [f"flow {f.name} at {f.location}" for f in loaded.definitions.flows]
    lines += [problem.render() for problem in Problems(loaded.problems)] if loaded.problems else []
    return "".join(f"{line}\n" for line in lines)


def test_notebook_functions_share_a_namespace_that_workers_cannot_import(load):
    text = ipynb("import dlt\nFACTOR = 3", "def times(x): return FACTOR * x", "@dlt.table\ndef t(): return times(2)")

    loaded = load({"a.ipynb": text})

    (flow,) = loaded.definitions.flows
    assert loaded.problems == ()
    assert flow.query.function() == 6
    assert flow.query.function.__module__ not in sys.modules


def test_future_imports_do_not_affect_other_cells(load):
    text = ipynb("import dlt", "@dlt.table\ndef t(x: int = 0): return t.__annotations__")

    (flow,) = load({"a.ipynb": text}).definitions.flows

    assert flow.query.function() == {"x": int}


def test_only_unmet_package_versions_are_reported_as_notices(load):
    cell = "%pip install -q pytest 'pytest>=1' \"pytest<1\" --upgrade\ndbutils = 1\n%restart_python"

    loaded = load({"a.ipynb": ipynb(cell, cell)})

    assert loaded.problems == ()
    assert [code for code, _ in loaded.notices] == ["PACKAGE.OTHER_VERSION"]
    assert loaded.notices[0][1].startswith('"pytest<1" is required at a.ipynb cell 1 line 1, but ')


def test_requirements_file_is_read_from_the_folder_of_the_notebook(load, tmp_path):
    (tmp_path / "needed.txt").write_text("# tools\npytest>=1  # here\nno-such-package-as-this==1\n", encoding="utf-8")

    loaded = load({"a.ipynb": ipynb("%pip install -r needed.txt")})

    assert [problem.params["requirement"] for problem in loaded.problems] == ["no-such-package-as-this==1"]


def test_notebooks_run_by_other_notebooks_are_included(load, tmp_path):
    files = {"a.ipynb": ipynb("%run ./lib/b"), "lib/b.ipynb": ipynb("%run ./c"), "lib/c.py": "X = 1\n"}

    loaded = load(files, "a.ipynb")

    assert loaded.problems == ()
    assert loaded.notebooks == (tmp_path / "a.ipynb", tmp_path / "lib" / "b.ipynb", tmp_path / "lib" / "c.py")


def test_locations_sort_by_cell_number():
    places = [Location("a.ipynb cell 10", 1), Location("a.ipynb cell 9", 2), Location("a.ipynb cell 9", 1)]

    assert [str(place) for place in sorted(places, key=lambda place: place.reading_order)] == [
        "a.ipynb cell 9 line 1",
        "a.ipynb cell 9 line 2",
        "a.ipynb cell 10 line 1",
    ]
    assert places[0].to_json() == {"file": "a.ipynb", "cell": 10, "line": 1}


LINES = [
    "# MAGIC %sql",
    "# MAGIC x",
    "# MAGIC",
    "# COMMAND ----------",
    "%pip install x",
    "x = 1",
    "'''",
    "(",
    "%",
    "!",
]


@given(st.lists(st.sampled_from(LINES)), st.sampled_from(["\n", "\r\n"]))
def test_lines_of_a_cell_keep_their_numbers(lines, end):
    source = end.join(["# Databricks notebook source", *lines])

    for cell in read_notebook(source, ".py", "a.py"):
        kept = cell.padded.split("\n")
        for number, line in enumerate(kept, start=1):
            original = source.split(end)[number - 1]
            assert not line.strip() or number < cell.line or line.strip() in original
        assert all(source.split(end)[magic.line - 1].strip().endswith(magic.rest) for magic in cell.magics)


@given(
    st.text()
    | st.recursive(
        st.none() | st.integers() | st.text(),
        lambda inner: (
            st.lists(inner)
            | st.dictionaries(
                st.sampled_from(["nbformat", "cells", "metadata", "source", "cell_type", "language_info", "name"]),
                inner,
            )
        ),
    ).map(json.dumps)
)
def test_invalid_notebook_raises_only_pipeline_errors(text):
    with suppress(PipelineError):
        read_notebook(text, ".ipynb", "a.ipynb")
