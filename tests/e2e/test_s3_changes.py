"""A change of a pipeline on S3: planned, approved, applied and rolled back through the command line."""

from __future__ import annotations

import json

import pytest
from tests.command_line import in_own_process

pytestmark = [
    pytest.mark.e2e,
    # Eleven commands that start a JVM.
    pytest.mark.timeout(1800),
    pytest.mark.long(
        guard=(
            "tests/spark/test_plan_files.py::test_a_change_is_planned_approved_and_applied",
            "tests/unit/stores/test_s3.py::test_the_store_decides_between_writers",
        )
    ),
]
CODE = """\
from headrace import pipelines as dp


@dp.table
def bronze():
    return spark.readStream.schema("id INT, n INT").json("{landing}")


@dp.table
def silver():
    return spark.readStream.table("bronze").where("n > 0")


@dp.materialized_view
def gold():
    return spark.read.table("silver").groupBy().count()
"""
SETTINGS = """\
name: shop
storage: {storage}
approval:
  mode: await
  required: [rebuild]
"""
ROWS = "SELECT 'silver' AS name, id, n FROM silver UNION ALL SELECT 'gold', NULL, `count` FROM gold ORDER BY name, id"
NEEDED, DRIFTED = 4, 5


@pytest.fixture
def shop(tmp_path, lake):
    """A project with its storage in a bucket, after an update."""
    (tmp_path / "transformations").mkdir()
    (tmp_path / "landing").mkdir()
    (tmp_path / "pipeline.yml").write_text(SETTINGS.format(storage=f"{lake}/shop"), encoding="utf-8")
    write(tmp_path)
    land(tmp_path, 0)
    run(tmp_path, "run")
    return tmp_path


def write(shop, condition="n > 0"):
    text = CODE.format(landing=shop / "landing").replace("n > 0", condition)
    (shop / "transformations" / "shop.py").write_text(text, encoding="utf-8")


def land(shop, number):
    lines = [json.dumps({"id": 10 * number + key, "n": key}) for key in range(5)]
    (shop / "landing" / f"{number}.json").write_text("\n".join(lines), encoding="utf-8")


def run(shop, *words, code=0):
    done = in_own_process(shop, *words)
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout + done.stderr


def rows(shop):
    done = in_own_process(shop, "--output", "json", "sql", ROWS)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_a_change_on_s3_is_planned_approved_applied_and_rolled_back(shop):
    before = rows(shop)
    write(shop, "n > 2")

    assert '+    return spark.readStream.table("bronze").where("n > 2")' in run(
        shop, "plan", "--diff", "--full-refresh", "silver+", "--out", "change.plan.json"
    )
    assert "PLAN.NOT_APPROVED" in run(shop, "apply", "change.plan.json", code=NEEDED)
    run(shop, "approve", "change.plan.json", "--as", "bob")
    write(shop, "n > 3")
    assert "PLAN.DRIFTED" in run(shop, "apply", "change.plan.json", code=DRIFTED)
    write(shop, "n > 2")
    assert rows(shop) == before
    run(shop, "apply", "change.plan.json")
    assert [row["n"] for row in rows(shop)] == [2, 3, 4]

    run(shop, "rollback", "--with-code", "then")
    assert rows(shop) == before
    assert '.where("n > 0")' in (shop / "then" / "transformations" / "shop.py").read_text(encoding="utf-8")
    write(shop)
    land(shop, 1)
    run(shop, "run")
    assert [row["n"] for row in rows(shop)] == [8, 1, 2, 3, 4, 1, 2, 3, 4]
