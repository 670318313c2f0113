"""`headrace sql` where no Java is: simple queries are answered, others say what is missing."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import write_deltalake
from tests.command_line import in_own_process


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    (tmp_path / "pipeline.yml").write_text("name: shop\n", encoding="utf-8")
    rows = pa.table({"id": pa.array([1, 2, None], pa.int64()), "name": ["a", "b", "c"]})
    for name in ("orders", "secret"):
        write_deltalake(tmp_path / "storage" / "tables" / "default" / name, rows)
    commit = tmp_path / "storage/tables/default/secret/_delta_log/00000000000000000000.json"
    text = commit.read_text(encoding="utf-8")
    commit.write_text(
        text.replace('"configuration":{}', '"configuration":{"headrace.private":"true"}'), encoding="utf-8"
    )
    return tmp_path


def test_a_simple_query_needs_no_java(shop: Path) -> None:
    environ = {"PATH": "", "JAVA_HOME": str(shop)}

    found = in_own_process(shop, "--output", "json", "sql", "SELECT ID, name FROM orders WHERE id > 1", environ=environ)

    assert (found.returncode, json.loads(found.stdout)) == (0, [{"ID": 2, "name": "b"}]), found.stderr


def test_a_private_table_is_not_read(shop: Path) -> None:
    environ = {"PATH": "", "JAVA_HOME": str(shop)}

    found = in_own_process(shop, "--output", "json", "sql", "SELECT * FROM secret", environ=environ)

    assert (found.returncode, "JAVA" in found.stdout) == (2, True), found.stdout
