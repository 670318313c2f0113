"""A change of a pipeline on S3: planned, approved, applied and rolled back through the command line."""

from __future__ import annotations

import json

import pytest
from tests.warm_process import warm_process

pytestmark = [
    pytest.mark.e2e,
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


class Shop:
    """A project, and commands on it in one JVM."""

    def __init__(self, folder, process):
        self.folder, self.process = folder, process
        self.plan = str(folder / "change.plan.json")

    def write(self, condition="n > 0"):
        text = CODE.format(landing=self.folder / "landing").replace("n > 0", condition)
        (self.folder / "transformations" / "shop.py").write_text(text, encoding="utf-8")

    def land(self, number):
        lines = [json.dumps({"id": 10 * number + key, "n": key}) for key in range(5)]
        (self.folder / "landing" / f"{number}.json").write_text("\n".join(lines), encoding="utf-8")

    def run(self, *words, code=0):
        done = self.process.run(self.folder, *words)
        assert done.returncode == code, done.stdout + done.stderr
        return done.stdout + done.stderr

    def rows(self):
        done = self.process.run(self.folder, "--output", "json", "sql", ROWS)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)


@pytest.fixture
def shop(tmp_path, lake):
    """A project with its storage in a bucket, after an update."""
    (tmp_path / "transformations").mkdir()
    (tmp_path / "landing").mkdir()
    (tmp_path / "pipeline.yml").write_text(SETTINGS.format(storage=f"{lake}/shop"), encoding="utf-8")
    with warm_process("s3", tmp_path) as process:
        made = Shop(tmp_path, process)
        made.write()
        made.land(0)
        made.run("run")
        yield made


def test_a_change_on_s3_is_planned_approved_applied_and_rolled_back(shop):
    before = shop.rows()
    shop.write("n > 2")

    assert '+    return spark.readStream.table("bronze").where("n > 2")' in shop.run(
        "plan", "--diff", "--full-refresh", "silver+", "--out", shop.plan
    )
    assert "PLAN.NOT_APPROVED" in shop.run("apply", shop.plan, code=NEEDED)
    shop.run("approve", shop.plan, "--as", "bob")
    shop.write("n > 3")
    assert "PLAN.DRIFTED" in shop.run("apply", shop.plan, code=DRIFTED)
    shop.write("n > 2")
    assert shop.rows() == before
    shop.run("apply", shop.plan)
    assert [row["n"] for row in shop.rows()] == [2, 3, 4]

    then = shop.folder / "then"
    shop.run("rollback", "--with-code", str(then))
    assert shop.rows() == before
    assert '.where("n > 0")' in (then / "transformations" / "shop.py").read_text(encoding="utf-8")
    shop.write()
    shop.land(1)
    shop.run("run")
    assert [row["n"] for row in shop.rows()] == [8, 1, 2, 3, 4, 1, 2, 3, 4]
