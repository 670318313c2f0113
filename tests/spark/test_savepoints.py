"""Restores of savepoints: interrupted ones, of one dataset, with sinks, and of what is gone, newer or older.

The law over all shapes of flows and all sources is in `test_savepoint_law.py`.
"""

from __future__ import annotations

import random

import pyarrow as pa
import pytest
from deltalake import write_deltalake
from tests.event_sources import FILES, EventSource
from tests.tiers import examples

from headrace.delta_log.tables import table_state
from headrace.errors import PipelineError, Problems
from headrace.graph.select import Selection
from headrace.model.erasure import ErasureRequest, parse_criterion
from headrace.model.outcome import UpdateState
from headrace.project.savepoints.create import SavepointRequest
from headrace.project.savepoints.savepoints import RestoreRequest
from headrace.storage.savepoints.manifest import SavepointKind

pytestmark = pytest.mark.spark

POLICY = (
    "tests/unit/project/test_automatic_savepoints.py::"
    "test_a_completed_update_makes_one_if_it_is_due_and_something_has_changed"
)
LAW = "tests/spark/test_savepoints.py::test_an_interrupted_restore_is_finished_by_the_next_update"
ONE = """
    @dp.table
    @dp.expect_or_drop("positive", "n > 0")
    def bronze():
        return events()
"""
FEW = f"""{ONE}
    @dp.table
    def totals():
        return spark.readStream.table("bronze").groupBy("id").agg(F.sum("n").alias("n"))

"""
NEWER = """
from headrace import pipelines as dp

@dp.table
def newer():
    return spark.readStream.table("bronze")
"""
SECOND = """
from headrace import pipelines as dp

@dp.append_flow(target="other", once=True)
def second():
    return spark.createDataFrame([(77, 77, None)], "id LONG, n LONG, at TIMESTAMP")
"""
SINK = """
    dp.create_sink("out", "delta", {"path": str(HERE / "out")})

    @dp.append_flow(target="out")
    def deliver():
        return spark.readStream.table("bronze").select("id", "n")
"""
BATCHES = (((1, 1), (2, 2), (2, -1)), ((1, 3), (3, 4), (3, -2)), ((2, 5), (4, 6)))


def ran(pipeline):
    outcome = pipeline.run().outcome
    assert outcome.state is UpdateState.COMPLETED, outcome.flows


def contents(pipeline, names):
    return {name: pipeline.rows(name) for name in names}


NAMES = ("bronze", "totals")


class Crash(BaseException):
    """The process dies."""


@pytest.mark.long(guard=LAW)
def test_crashes_at_any_steps_of_a_restore_are_finished_by_the_next_update(project):
    pipeline, savepoints, after = with_savepoint(project, FEW)
    steps = []
    savepoints.restore(RestoreRequest("calm"), steps.append)
    ran(pipeline)
    order = random.Random(3).sample(range(len(steps)), len(steps))
    for number in range(examples(few=1, many=2)):
        crashed_at = order[number % len(order)]
        crash_at(savepoints, crashed_at)
        ran(pipeline)

        assert contents(pipeline, NAMES) == after, steps[crashed_at]


def test_an_interrupted_restore_is_finished_by_the_next_update(project):
    pipeline, savepoints, after = with_savepoint(project, ONE, ("bronze",))
    crash_at(savepoints, random.Random(7).randrange(3, 7))

    with pytest.raises(PipelineError) as refused:
        savepoints.create(SavepointRequest("meanwhile"))

    assert refused.value.code == "SAVEPOINT.RESTORING"
    ran(pipeline)
    assert contents(pipeline, ("bronze",)) == after


def with_one_update(project, code):
    pipeline = project(FILES + code)
    source = EventSource(FILES, "files")
    source.add(pipeline, BATCHES[0])
    ran(pipeline)
    return pipeline, source


def with_savepoint(project, code, names=NAMES):
    pipeline, source = with_one_update(project, code)
    later = BATCHES[1:]
    savepoints = pipeline.project.savepoints
    savepoints.create(SavepointRequest("calm"))
    source.add(pipeline, [row for rows in later for row in rows])
    ran(pipeline)
    return pipeline, savepoints, contents(pipeline, names)


def crash_at(savepoints, step):
    left = [step]

    def reached(_):
        if not left[0]:
            raise Crash
        left[0] -= 1

    with pytest.raises(Crash):
        savepoints.restore(RestoreRequest("calm"), reached)


@pytest.mark.long(guard=LAW)
def test_files_that_a_vacuum_deleted_are_put_back(project):
    pipeline, savepoints, after = with_savepoint(project, FEW)
    session = pipeline.project.session()
    session.conf.set("spark.databricks.delta.retentionDurationCheck.enabled", "false")
    for name in NAMES:
        table = f"delta.`{pipeline.settings.layout.root}/tables/default/{name}`"
        session.sql(f"DELETE FROM {table} WHERE n = 1")
        session.sql(f"VACUUM {table} RETAIN 0 HOURS")
    assert savepoints.verify("calm") == ()

    savepoints.restore(RestoreRequest("calm"))

    ran(pipeline)
    assert contents(pipeline, NAMES) == after


@pytest.mark.long(guard=LAW)
def test_a_sink_keeps_what_it_has_and_reads_on_behind_the_restore(project):
    pipeline, savepoints, after = with_savepoint(project, FEW + SINK)
    out = str(pipeline.folder / "out")
    delivered = len(rows_at(out))

    savepoints.restore(RestoreRequest("calm"))
    ran(pipeline)

    # The rows after the savepoint were read again, and are delivered again.
    assert (delivered, len(rows_at(out))) == (6, 10)
    assert contents(pipeline, NAMES) == after


def rows_at(path):
    from deltalake import DeltaTable  # noqa: PLC0415 - for this test alone

    return DeltaTable(path).to_pyarrow_table().to_pylist()


@pytest.mark.long(guard=LAW)
def test_what_came_after_the_savepoint_starts_over_and_what_cannot_be_read_again_needs_consent(project):
    pipeline, savepoints, _ = with_savepoint(project, FEW)
    pipeline.write("transformations/more.py", NEWER)
    ran(pipeline)
    gone = max((pipeline.folder / "landing").iterdir())
    savepoints.create(SavepointRequest("later"))
    pipeline.project.erasures.erase(ErasureRequest((parse_criterion("id=1"),), (), keep_files=False))

    plan = savepoints.plan(RestoreRequest("calm", ("bronze",)))
    assert {flow.name: flow.action.name for flow in plan.flows}["newer"] == "STARTS_OVER"
    assert "erased" in plan.notes[-1]
    gone.unlink()
    with pytest.raises(PipelineError) as refused:
        savepoints.restore(RestoreRequest("calm"))
    assert (refused.value.code, str(gone) in refused.value.detail) == ("SAVEPOINT.LOSES", True)
    savepoints.restore(RestoreRequest("calm", accept_data_loss=True))
    ran(pipeline)
    assert pipeline.rows("newer") == pipeline.rows("bronze") != []


@pytest.mark.long(guard=LAW)
def test_a_quarantine_that_is_newer_than_the_savepoint_has_no_row_twice(project):
    pipeline = project(FILES + ONE)
    source = EventSource(FILES, "files")
    source.add(pipeline, BATCHES[0])
    ran(pipeline)
    savepoints = pipeline.project.savepoints
    savepoints.create(SavepointRequest("calm"))
    code = pipeline.folder / "transformations/project.py"
    code.write_text(code.read_text().replace("expect_or_drop", "expect_or_quarantine"))
    source.add(pipeline, BATCHES[1])
    ran(pipeline)
    quarantined = len(pipeline.rows("bronze_quarantine"))

    savepoints.restore(RestoreRequest("calm"))

    assert (quarantined, len(pipeline.rows("bronze_quarantine"))) == (1, 0)
    ran(pipeline)
    assert len(pipeline.rows("bronze_quarantine")) == 1


@pytest.mark.long(guard=LAW)
def test_one_dataset_goes_back_with_what_streams_read_from_it_and_the_others_stay(project):
    other = "\n    @dp.table\n    def other():\n        return events()\n"
    pipeline, savepoints, after = with_savepoint(project, FEW + other)
    pipeline.write("transformations/more.py", SECOND)
    ran(pipeline)
    others = pipeline.rows("other")
    table = f"{pipeline.settings.layout.root}/tables/default/other"
    before = table_state(table).version

    savepoints.restore(RestoreRequest("calm", ("bronze",)))

    assert table_state(table).version == before
    ran(pipeline)
    assert contents(pipeline, NAMES) == after
    assert pipeline.rows("other") == others


@pytest.mark.long(guard=POLICY)
def test_an_applied_plan_is_rolled_back_to_the_savepoint_before_it(project, tmp_path):
    pipeline = project(FILES + FEW, savepoints={"every": "update", "before_clearing": True})
    source = EventSource(FILES, "files")
    source.add(pipeline, BATCHES[0])
    ran(pipeline)
    before = contents(pipeline, NAMES)
    source.add(pipeline, BATCHES[1])
    changes, savepoints = pipeline.project.changes, pipeline.project.savepoints
    wanted = Selection(full_refresh=("totals",))
    plan_file = changes.file_of(changes.plan(wanted), wanted)
    changes.apply(plan_file, "change.plan.json")
    ran(pipeline)
    after = contents(pipeline, NAMES)

    kinds = [one.kind for one in savepoints.all()]
    assert kinds == [
        SavepointKind.SCHEDULED,
        SavepointKind.BEFORE_UPDATE,
        SavepointKind.BEFORE_PLAN,
        SavepointKind.SCHEDULED,
        SavepointKind.SCHEDULED,
    ]
    (made,) = (one for one in savepoints.all() if one.plan_id == plan_file.plan_id)
    savepoints.restore(RestoreRequest(made.id))
    assert contents(pipeline, NAMES) == before
    assert savepoints.write_code(made, tmp_path / "then") > 0
    assert (tmp_path / "then/transformations/project.py").read_text() == (
        pipeline.folder / "transformations/project.py"
    ).read_text()
    ran(pipeline)
    assert contents(pipeline, NAMES) == after


def test_a_savepoint_between_two_batches_is_refused_and_names_the_flow(project):
    pipeline, _ = with_one_update(project, FEW)
    table = f"{pipeline.settings.layout.root}/tables/default/bronze"
    rows = pa.Table.from_pylist([{"id": 9, "n": 9, "at": None}], table_schema(table))
    write_deltalake(table, rows, mode="append")

    with pytest.raises(Problems) as refused:
        pipeline.project.savepoints.create(SavepointRequest())

    assert {problem.code for problem in refused.value.errors} == {"SAVEPOINT.UNFINISHED"}
    assert {problem.params["flow"] for problem in refused.value.errors} == {"totals"}


def table_schema(path):
    from deltalake import DeltaTable  # noqa: PLC0415 - for this test alone

    return pa.schema(DeltaTable(path).schema())
