"""A change from its plan to its update: planned into a file, approved, compared with what is there by then, applied."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

import pytest

from headrace.errors import PipelineError
from headrace.events.types import UpdateCreated
from headrace.graph.select import Selection
from headrace.model.outcome import UpdateState
from headrace.plan.plan_file import PlanFile
from headrace.project.open import Project

pytestmark = pytest.mark.spark

HEAD = "from headrace import pipelines as dp\n"
CODE = """
@dp.table
def bronze():
    return spark.readStream.schema("id INT, n INT").json(spark.conf.get("landing"))

@dp.table
def silver():
    return spark.readStream.table("bronze").where("n > 0")

@dp.materialized_view
def gold():
    return spark.read.table("silver").groupBy().count()
"""
CHANGED = CODE.replace("n > 0", "n > 1")
ALL = Selection()
FULL = Selection(full_refresh=("silver",))


@pytest.fixture
def shop(project, tmp_path):
    """A pipeline with rows, whose policy asks for an approval."""
    made = project(
        CODE,
        configuration={"landing": str(tmp_path / "project" / "landing")},
        approval={"mode": "await", "required": ["rebuild", "destructive"]},
    )
    made.land("landing/1.json", [{"id": number, "n": number} for number in range(5)])
    made.run()
    return made


def opened(shop) -> Project:
    """The project as a new process opens it."""
    return Project.open(shop.folder)


def planned(shop, selection=ALL) -> PlanFile:
    project = opened(shop)
    text = project.changes.file_of(project.plan(selection), selection).to_text()
    return PlanFile.parse(text, "change.plan.json")


def classes(plan_file):
    return [(change["class"], change["dataset"]) for change in plan_file.document["changes"]]


def apply(shop, plan_file, **more):
    return opened(shop).changes.apply(plan_file, "change.plan.json", **more)


def refusal(act) -> PipelineError:
    with pytest.raises(PipelineError) as raised:
        act()
    return raised.value


def test_a_change_is_planned_approved_and_applied(shop):
    shop.write("transformations/project.py", HEAD + CHANGED)
    forward = planned(shop)
    plan_file = planned(shop, FULL)

    diff = opened(shop).changes.diff(opened(shop).plan())

    not_run = refusal(lambda: opened(shop).run(full_refresh=["silver"]))
    not_approved = refusal(lambda: apply(shop, plan_file))
    events = []
    approved = plan_file.approved("bob", datetime.now(tz=UTC))
    outcome = apply(shop, approved, on_event=events.append)

    assert classes(forward)[:1] == [("forward_only", "silver")]
    (change, *_) = forward.document["changes"]
    assert (change["old_rows"]["rows"], change["old_rows"]["mend"]) == (4, "headrace run --full-refresh silver")
    assert [flow.flow for flow in diff.flows] == ["silver"]
    assert diff.flows[0].text.splitlines()[-2:] == [
        '-    return spark.readStream.table("bronze").where("n > 0")',
        '+    return spark.readStream.table("bronze").where("n > 1")',
    ]
    assert classes(plan_file)[0] == ("rebuild", "silver")
    (rebuild, *_) = plan_file.document["changes"]
    assert (rebuild["rows_cleared"], rebuild["rows_read"], rebuild["downstream"]) == (4, 5, ["gold"])
    assert (not_run.code, not_approved.code) == ("PLAN.NEEDS_APPROVAL", "PLAN.NOT_APPROVED")
    assert (not_run.condition.exit_code, not_approved.condition.exit_code) == (4, 4)
    assert "headrace plan --full-refresh silver --out change.plan.json" in not_run.hint
    assert outcome.state is UpdateState.COMPLETED
    assert [event.plan_id for event in events if isinstance(event, UpdateCreated)] == [plan_file.plan_id]
    assert [one.plan_id for one in opened(shop).savepoints.all()] == [plan_file.plan_id]
    assert shop.sql("SELECT count(*) AS n FROM silver").rows == ((3,),)
    assert refusal(lambda: apply(shop, approved)).code == "PLAN.DRIFTED"


def test_new_data_is_no_drift_and_everything_else_is(shop):
    at = datetime.now(tz=UTC)
    plan_file = planned(shop, FULL).approved("bob", at)
    before = sorted((file, file.stat().st_mtime_ns) for file in (shop.folder / "storage" / "tables").rglob("*"))

    shop.write("transformations/project.py", HEAD + CHANGED)
    code = refusal(lambda: apply(shop, plan_file))
    shop.write("transformations/project.py", HEAD + "from pyspark.sql import functions as F\n\n" + CODE)
    shop.land("landing/2.json", [{"id": 9, "n": 9}])
    old = PlanFile({**plan_file.document, "expires_at": (at - timedelta(hours=1)).isoformat()}).approved("bob", at)
    expired = refusal(lambda: apply(shop, old))
    untouched = sorted((file, file.stat().st_mtime_ns) for file in (shop.folder / "storage" / "tables").rglob("*"))

    assert (code.code, code.condition.exit_code) == ("PLAN.DRIFTED", 5)
    assert code.params["differences"] == "the code changed: transformations/project.py"
    assert "expired" in expired.params["differences"]
    assert untouched == before


def test_a_plan_is_refused_under_the_lease_if_the_storage_changed_after_it_was_compared(shop, monkeypatch):
    plan_file = planned(shop, FULL).approved("bob", datetime.now(tz=UTC))
    project = opened(shop)
    gate_module = type(project.changes)
    other = []

    def finish_renames():
        """What another update did between the comparison and the lease."""
        record = shop.folder / "storage" / "checkpoints" / "default" / "silver" / "silver" / "flow.json"
        text = json.loads(record.read_text())
        record.write_text(json.dumps({**text, "epoch": text["epoch"] + 1}))
        other.append(gate_module)

    monkeypatch.setattr(project._planning, "finish_renames", finish_renames)
    refused = refusal(lambda: project.changes.apply(plan_file, "change.plan.json"))

    assert other
    assert refused.params["differences"] == 'flow "silver" is in another epoch'
    assert shop.sql("SELECT count(*) AS n FROM silver").rows == ((4,),)
