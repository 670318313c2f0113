"""Selections of a real update: what is said before a table is rebuilt, and the one command that mends its branch."""

from __future__ import annotations

import shlex

import pytest

from headrace.events.types import Warned
from headrace.model.outcome import UpdateState

pytestmark = pytest.mark.spark

BRANCH = """
    @dp.table
    def orders():
        return spark.readStream.schema("id INT").json(spark.conf.get("landing"))

    @dp.temporary_view
    def recent():
        return spark.readStream.table("orders").where("id > 0")

    @dp.table(table_properties={"headrace.tags": "nightly"})
    def clean():
        return spark.readStream.table("recent")

    @dp.materialized_view
    def total():
        return spark.read.table("clean").agg(F.sum("id").alias("total"))

    @dp.table
    def audit():
        return spark.readStream.table("clean").select((F.col("id") * 2).alias("double"))
    """


def selection_of(command):
    words = shlex.split(command)
    assert words[:3] == ["headrace", "run", "--full-refresh"]
    return words[3].split(",")


@pytest.fixture
def branch(project, tmp_path):
    pipeline = project(BRANCH, configuration={"landing": str(tmp_path / "landing")})
    (tmp_path / "landing").mkdir()
    (tmp_path / "landing" / "1.json").write_text('{"id": 1}\n{"id": 2}\n')
    assert pipeline.run().state is UpdateState.COMPLETED
    return pipeline


@pytest.mark.long(
    guard=(
        "tests/unit/plan/test_branches.py::test_all_streams_that_fail_next_are_named_with_the_selection_that_includes_them",
        "tests/spark/test_selections.py::test_only_what_was_modified_runs",
    )
)
def test_the_hinted_command_mends_a_branch_below_a_table_that_was_rebuilt_alone(branch):
    (notice,) = branch.plan(full_refresh=["orders"]).notices
    told = []
    alone = branch.run(full_refresh=["orders"], on_event=told.append)
    failed = branch.run()

    assert (notice.facts["flows"], notice.facts["command"]) == (["clean"], "headrace run --full-refresh orders+")
    assert [event.message for event in told if isinstance(event, Warned)][:1] == [notice.message]
    assert [found["code"] for found in alone.outcome.to_json()["notices"]] == ["FLOW.INPUT_CLEARED"]
    assert (failed.outcome.error["code"], alone.state) == ("FLOW.INPUT_REBUILT", UpdateState.COMPLETED)
    assert failed.outcome.error["hint"].endswith(": headrace run --full-refresh clean+")
    mended = branch.run(full_refresh=selection_of(failed.outcome.error["params"]["command"]))
    assert (mended.state, branch.run().state) == (UpdateState.COMPLETED, UpdateState.COMPLETED)
    for name in ("orders", "clean", "total", "audit"):
        assert mended.rows(name) == branch.recomputed(name)


def test_only_what_was_modified_runs(branch):
    nothing = branch.run("state:modified+")
    file = next(branch.folder.rglob("transformations/*.py"))
    file.write_text(file.read_text().replace('F.col("id") * 2', 'F.col("id") * 3'))

    assert (nothing.state, nothing.outcome.to_json()["notices"][0]["code"]) == (
        UpdateState.COMPLETED,
        "SELECTION.NOTHING_MODIFIED",
    )
    assert [str(loss.dataset) for loss in branch.plan(full_refresh=["state:modified"]).losses] == ["audit"]
    assert branch.run(full_refresh=["tag:nightly+"], exclude=["total"]).rows("audit") == [{"double": 3}, {"double": 6}]
