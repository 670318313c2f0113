"""The code of flows as it is deployed against the code of now."""

from __future__ import annotations

import json

import pytest

from headrace.model.location import Location
from headrace.plan.code_diff import NOT_KNOWN, ChangedFlow, code_diff

PYTHON = """\
from headrace import pipelines as dp
from lib import LIMIT


@dp.table
def bronze():
    return spark.readStream.json("/in")


@dp.table
@dp.expect("positive", "n > 0")
def silver():
    return spark.readStream.table("bronze").where("n > 0")
"""
CHANGED = PYTHON.replace('where("n > 0")', 'where("n > 1")')
SQL = "CREATE OR REFRESH STREAMING TABLE a AS SELECT 1 AS x;\n\nCREATE MATERIALIZED VIEW gold (n INT)\nAS SELECT {};\n"
LINE = PYTHON.splitlines().index("def silver():") + 1


def diff_of(before, now, file="a.py", line=LINE):
    return code_diff((ChangedFlow("silver", "silver", Location(file, line), before),), now)


def test_the_definition_of_a_changed_flow_is_compared_alone():
    found = diff_of(
        {"a.py": PYTHON, "lib.py": "LIMIT = 1\n"},
        {"a.py": f"import os\n{CHANGED}", "lib.py": "LIMIT = 2\n"},
        line=LINE + 1,
    )

    assert found.flows[0].text.splitlines() == [
        "--- deployed/a.py",
        "+++ now/a.py",
        "@@ -1,4 +1,4 @@",
        " @dp.table",
        ' @dp.expect("positive", "n > 0")',
        " def silver():",
        '-    return spark.readStream.table("bronze").where("n > 0")',
        '+    return spark.readStream.table("bronze").where("n > 1")',
    ]
    assert not found.files


def test_a_definition_is_found_in_the_file_that_it_was_moved_from():
    found = diff_of({"old.py": PYTHON}, {"a.py": CHANGED})

    assert found.flows[0].text.startswith("--- deployed/old.py\n+++ now/a.py\n")


def test_sql_statements_are_compared_by_what_they_create():
    found = diff_of({"a.sql": SQL.format("1 AS n")}, {"a.sql": f"-- more\n\n{SQL.format('2 AS n')}"}, "a.sql", 5)

    assert "-AS SELECT 1 AS n" in found.flows[0].text
    assert "+AS SELECT 2 AS n" in found.flows[0].text
    assert "SELECT 1 AS x" not in found.flows[0].text


@pytest.mark.parametrize("line", [LINE, 1])
def test_if_a_definition_is_the_same_or_unknown_the_files_that_changed_are_shown(line):
    before, now = {"a.py": PYTHON, "lib.py": "LIMIT = 1\n"}, {"a.py": PYTHON, "lib.py": "LIMIT = 2\n"}

    found = diff_of(before, now, line=line)

    assert found.flows[0].reason == "its definition is the same; other files changed: lib.py"
    assert list(found.files) == ["lib.py"]
    assert "-LIMIT = 1\n+LIMIT = 2" in found.describe()


def test_without_an_archive_the_deployed_code_is_not_known():
    found = diff_of(None, {"a.py": PYTHON})

    assert found.describe() == f"flow silver: {NOT_KNOWN}"
    assert found.to_json() == {
        "flows": [{"flow": "silver", "dataset": "silver", "diff": None, "reason": NOT_KNOWN}],
        "files": {},
    }


def test_notebooks_are_compared_by_their_cells_and_broken_files_as_they_are():
    def notebook(source, outputs):
        cell = {"cell_type": "code", "source": source, "outputs": outputs, "metadata": {}}
        document = {"nbformat": 4, "metadata": {"language_info": {"name": "python"}}, "cells": [cell]}
        return {"n.ipynb": json.dumps(document), "broken.py": "def ("}

    found = diff_of(notebook("x = 1", ["big"]), notebook("x = 2", []), "n.ipynb cell 1", 1)

    assert found.files["n.ipynb"].splitlines()[-2:] == ["-x = 1", "+x = 2"]


def test_nothing_changed_in_the_files_if_settings_did():
    assert "settings" in diff_of({"a.py": PYTHON}, {"a.py": PYTHON}).flows[0].reason
    assert code_diff((), {}).describe() == "no code of a deployed flow changed"
