"""Adoption: a pipeline goes on where a job has stopped, and a job where a pipeline has; no row twice, none lost."""

from __future__ import annotations

import json
import random
import shutil
import textwrap
from dataclasses import replace
from pathlib import Path

import pytest
from tests.spark_jobs import SCHEMA, Job, append, distinct, totals
from tests.tiers import examples

from headrace.checkpoints.offsets import query_id_of
from headrace.delta_log.tables import newest_version, table_state
from headrace.errors import PipelineError, Problems
from headrace.model.outcome import UpdateState
from headrace.project.adoption.adoption_plan import AdoptRequest
from headrace.project.adoption.release_plan import ReleaseRequest
from headrace.project.savepoints.create import SavepointRequest
from headrace.project.savepoints.savepoints import RestoreRequest
from headrace.storage.adopted_tables import Consent
from headrace.testing.result import rows_at

pytestmark = pytest.mark.spark

LAW = "tests/spark/test_adoption.py::test_an_update_goes_on_where_the_job_has_stopped"
HEAD = "from headrace import pipelines as dp\nfrom pyspark.sql import functions as F\n\n"
FIRST, SECOND, THIRD = ((1, 1), (2, 2)), ((1, 3), (3, 4)), ((2, 5), (4, 6))
QUERIES = {
    append: "return events()",
    totals: 'return events().groupBy("id").agg(F.sum("n").alias("n"))',
    distinct: 'return events().withWatermark("at", "10 minutes").dropDuplicates(["id"])',
}


def code_of(job, *, body="", name="orders"):
    """The same query as a dataset."""
    source = (
        f'spark.readStream.format("delta").load({str(job.folder / "raw")!r})'
        if job.reads_delta
        else f"spark.readStream.schema({SCHEMA!r}).json({str(job.folder / 'landing')!r})"
    )
    return f"""
    def events():
        return {source}

    @dp.table
    def {name}():
        {body or QUERIES[job.query]}
"""


@pytest.fixture
def job(headrace_session, tmp_path):
    """A job that has processed two files."""
    return started(Job(headrace_session, tmp_path / "job"))


def started(job):
    job.add(1, *FIRST)
    job.add(2, *SECOND)
    job.run()
    return job


def request_of(job, consents=frozenset(), *, checkpoint=True):
    checkpoints = {"": str(job.checkpoint)} if checkpoint else {}
    return AdoptRequest("orders", str(job.table), checkpoints, consents)


def adopted(project, job, consents=frozenset()):
    pipeline = project(code_of(job))
    pipeline.project.adoptions.adopt([request_of(job, consents)])
    return pipeline


def ran(pipeline, **options):
    result = pipeline.run(**options)
    assert result.state is UpdateState.COMPLETED, result.outcome.flows
    return result


def code_of_failure(call):
    with pytest.raises((PipelineError, Problems)) as error:
        call()
    return error.value.code if isinstance(error.value, PipelineError) else [one.code for one in error.value]


def refusal(pipeline):
    """Why an update does not write to the table: it does not start, or the flow fails."""
    try:
        return pipeline.run().error
    except Problems as problems:
        (problem,) = problems
        return problem.code


def all_rows(job, query=append):
    """What a job that has read everything has written, computed without a checkpoint."""
    again = Job(job.session, job.folder.with_name(f"again-{random.getrandbits(32)}"), query, job.mode)
    again.folder.mkdir()
    (again.folder / "landing").symlink_to(job.folder / "landing")
    again.run()
    return rows_at(str(again.table))


def files_in(folder):
    return {str(file.relative_to(folder)): file.stat().st_mtime_ns for file in folder.rglob("*") if file.is_file()}


def test_an_update_goes_on_where_the_job_has_stopped(project, job):
    """Guards the whole path for a job that appends: dry run, adoption, update; and that the table is not copied."""
    pipeline = project(code_of(job))
    before = files_in(job.folder)

    (planned,) = pipeline.project.adoptions.plan([request_of(job)])
    assert (planned.problems, planned.rows, planned.flows[0].next_batch) == ((), 4, 2)
    assert files_in(job.folder) == before
    assert not Path(pipeline.settings.storage, "tables").exists()
    pipeline.project.adoptions.adopt([request_of(job)])
    assert files_in(job.checkpoint) == {
        name.removeprefix("checkpoint/"): at for name, at in before.items() if name.startswith("checkpoint/")
    }
    job.add(3, *THIRD)
    result = ran(pipeline)

    assert result.written == 2
    assert rows_at(str(job.table)) == pipeline.rows("orders") == all_rows(job)
    assert ran(pipeline).written == 0
    graph = pipeline.project.graph().to_json()
    assert graph["datasets"][0]["path"] == str(job.table)


@pytest.mark.long(guard=LAW)
@pytest.mark.parametrize("with_function", [False, True], ids=["sink", "foreachBatch"])
@pytest.mark.parametrize(("query", "mode"), [(append, "append"), (totals, "complete"), (distinct, "append")])
@pytest.mark.parametrize("reads_delta", [False, True], ids=["files", "delta"])
def test_an_adopted_job_equals_the_job(project, headrace_session, tmp_path, query, mode, with_function, reads_delta):
    """Guards the law for sources, state and writers: job for some batches, adopt, run; equals the job for all."""
    batches = (FIRST, SECOND, THIRD)
    done = 2 if reads_delta == with_function else 1
    job = Job(headrace_session, tmp_path / "job", query, mode, with_function, reads_delta)
    for number, rows in enumerate(batches[:done]):
        job.add(number, *rows)
    job.run()
    pipeline = adopted(project, job)
    for number, rows in enumerate(batches[done:]):
        job.add(10 + number, *rows)
        ran(pipeline)
    now = rows_at(str(job.table))

    job.table.rename(job.folder / "adopted")
    job.run(job.folder / "fresh")

    assert now == rows_at(str(job.table))


@pytest.mark.parametrize(
    "has_batch",
    [
        pytest.param(True, id="written"),
        pytest.param(False, id="not written", marks=pytest.mark.long(guard="its other cases")),
    ],
)
def test_a_planned_batch_is_written_once(project, job, has_batch):
    """Guards the batch in which the job died: the table's transaction decides whether it is written again."""
    if has_batch:
        job.add(3, *THIRD)
        job.run()
        job.stop_before_done()
    else:
        job.stop_before_write(3, *THIRD)
    assert job.newest == (2, 1)
    pipeline = project(code_of(job))

    (planned,) = pipeline.project.adoptions.adopt([request_of(job)])
    assert planned.flows[0].committed == (2 if has_batch else 1)
    job.add(4, (9, 9))
    ran(pipeline)

    assert rows_at(str(job.table)) == all_rows(job)


def test_a_job_that_died_in_a_function_must_finish_its_batch_first(project, headrace_session, tmp_path):
    """Guards that nothing is guessed where no transaction says whether a batch was written; and the way on."""
    job = started(Job(headrace_session, tmp_path / "job", with_function=True))
    job.stop_before_done()
    pipeline = project(code_of(job))

    refused = code_of_failure(lambda: pipeline.project.adoptions.adopt([request_of(job)]))

    assert refused == ["ADOPT.BATCH_UNKNOWN"]
    assert not Path(pipeline.settings.storage, "system", "adopted").exists()


MERGED = """
    dp.create_streaming_table("current")
    dp.create_auto_cdc_flow("current", "orders", keys=["id"], sequence_by="n")
"""
OTHER_STATE = 'return events().groupBy("id").agg(F.sum("n").alias("n"))'
TWO_SOURCES = "return events().union(events())"
RATE = 'return spark.readStream.format("rate").load().selectExpr("value AS id", "value AS n", "timestamp AS at")'
OTHER_TYPE = 'return events().selectExpr("CAST(id AS STRING) AS id", "n", "at")'


@pytest.mark.parametrize(
    ("body", "code"),
    [
        pytest.param(OTHER_STATE, "ADOPT.OTHER_STATE", id="state"),
        pytest.param(TWO_SOURCES, "ADOPT.OTHER_SOURCES", id="number of sources"),
        pytest.param(RATE, "ADOPT.OTHER_SOURCES", id="kind of source"),
        pytest.param(OTHER_TYPE, "TABLE.TYPE_CHANGED", id="columns"),
    ],
)
def test_a_flow_that_does_something_else_is_refused(project, job, body, code):
    """Guards each comparison of the code with the checkpoint and the table, before anything is written."""
    pipeline = project(code_of(job, body=body))

    refused = code_of_failure(lambda: pipeline.project.adoptions.adopt([request_of(job)]))

    assert code in refused
    assert not Path(pipeline.settings.storage, "system", "adopted").exists()


def test_rows_are_cleared_only_with_consent(project, job):
    """Guards that a full refresh, a materialized view and a restore leave an adopted table as it is without consent."""
    pipeline = adopted(project, job)
    savepoints = pipeline.project.savepoints
    ran(pipeline)
    savepoints.create(SavepointRequest("calm"))
    job.add(3, *THIRD)
    ran(pipeline)
    version = newest_version(str(job.table))

    for options in ({"full_refresh": ["orders"]}, {"full_refresh_all": True}):
        assert code_of_failure(lambda given=options: pipeline.run(**given)) == ["ADOPT.NEEDS_CONSENT"]
    assert code_of_failure(lambda: savepoints.restore(RestoreRequest("calm"))) == ["ADOPT.NEEDS_CONSENT"]
    assert newest_version(str(job.table)) == version

    pipeline.project.adoptions.allow("orders", frozenset({Consent.CLEAR}))
    savepoints.restore(RestoreRequest("calm"))
    ran(pipeline)
    assert rows_at(str(job.table)) == all_rows(job)
    ran(pipeline, full_refresh=["orders"])
    assert rows_at(str(job.table)) == all_rows(job)
    assert Path(pipeline.settings.storage, "tables", "default", "orders").is_symlink()


def test_a_job_that_writes_again_stops_the_flow(project, job):
    """Guards the two programs that must not write the same input: the flow fails, and names the job."""
    pipeline = adopted(project, job)
    job.add(3, *THIRD)
    job.run()

    assert refusal(pipeline) == "ADOPT.JOB_WRITES"
    assert rows_at(str(job.table)) == all_rows(job)


def test_a_job_that_writes_meanwhile_is_not_adopted(project, job):
    """Guards the moment between the look at a checkpoint and its copy: nothing is left of the adoption."""
    pipeline = project(code_of(job))

    def job_goes_on(_):
        job.add(3, *THIRD)
        job.run()

    refused = code_of_failure(lambda: pipeline.project.adoptions.adopt([request_of(job)], job_goes_on))

    assert refused == "ADOPT.JOB_RUNS"
    assert pipeline.project.adoptions.all() == ()
    pipeline.project.adoptions.adopt([request_of(job)])
    job.add(4, (9, 9))
    ran(pipeline)
    assert rows_at(str(job.table)) == all_rows(job)


def test_a_table_without_a_checkpoint_waits_for_a_start(project, job):
    """Guards that rows are not read again by default, and that new input alone is read when that is asked for."""
    pipeline = project(code_of(job))
    pipeline.project.adoptions.adopt([request_of(job, checkpoint=False)])

    assert refusal(pipeline) == "ADOPT.NO_START"
    ran(pipeline, reset_checkpoint=["orders=latest"])
    job.add(3, *THIRD)
    ran(pipeline)

    assert rows_at(str(job.table)) == all_rows(job)


def test_a_released_table_goes_on_in_a_plain_job(project, job):
    """Guards the way back: rows stay, a job goes on with the checkpoint, and the pipeline does not write any more."""
    pipeline = adopted(project, job)
    job.add(3, *THIRD)
    ran(pipeline)
    to = job.folder / "handed-over"

    plan = pipeline.project.adoptions.releases.release(ReleaseRequest("orders", str(to)))
    assert (plan.rows, plan.is_adopted, query_id_of(to) != query_id_of(job.checkpoint)) == (6, True, True)
    job.add(4, (9, 9))
    job.run(to)

    assert rows_at(str(job.table)) == all_rows(job)
    assert refusal(pipeline) == "RELEASE.RELEASED"
    assert code_of_failure(lambda: pipeline.run(full_refresh=["orders"])) == ["RELEASE.RELEASED"]
    assert not Path(pipeline.settings.storage, "tables", "default", "orders").exists()
    pipeline.project.adoptions.adopt([AdoptRequest("orders", str(job.table), {"": str(to)})])
    job.add(5, (10, 10))
    ran(pipeline)
    assert rows_at(str(job.table)) == all_rows(job)


def plain(session):
    """A session of the process in which the state store is Spark's own default, as in a plain job."""
    found = session.newSession()
    default = "org.apache.spark.sql.execution.streaming.state.HDFSBackedStateStoreProvider"
    found.conf.set("spark.sql.streaming.stateStore.providerClass", default)
    found.conf.set("spark.sql.streaming.stateStore.checkpointFormatVersion", "1")
    return found


@pytest.mark.long(guard="tests/spark/test_adoption.py::test_a_released_table_goes_on_in_a_plain_job")
@pytest.mark.parametrize(("query", "mode"), [(totals, "complete"), (distinct, "append")])
def test_the_state_of_a_released_table_counts_in_a_plain_job(project, headrace_session, tmp_path, query, mode):
    """Guards that a job opens the state with the settings that the release names: sums go on, known ids stay known."""
    job = Job(plain(headrace_session), tmp_path / "job", query, mode)
    job.add(1, *FIRST)
    pipeline = project(code_of(job))
    ran(pipeline)
    job.add(2, *SECOND)
    ran(pipeline)
    table, to = Path(pipeline.settings.storage, "tables", "default", "orders"), job.folder / "handed-over"

    plan = pipeline.project.adoptions.releases.release(ReleaseRequest("orders", str(to)))
    for key, value in plan.flows[0].settings.items():
        job.session.conf.set(key, value)
    (job.folder / "orders").symlink_to(table)
    job.add(3, *THIRD)
    job.run(to)

    assert rows_at(str(table)) == all_rows(replace(job, session=headrace_session), query)
    assert any("its state is in the format" in note for note in plan.notes)


@pytest.mark.long(guard="tests/spark/test_adoption.py::test_a_released_table_goes_on_in_a_plain_job")
def test_state_that_spark_does_not_keep_is_not_released_as_a_checkpoint(project, headrace_session, tmp_path):
    """Guards the flows whose rows depend on more than Spark's state: refused by name, and released without progress."""
    job = Job(headrace_session, tmp_path / "job")
    job.add(1, *FIRST)
    pipeline = project(code_of(job) + MERGED)
    ran(pipeline)
    releases = pipeline.project.adoptions.releases

    with pytest.raises(Problems) as refused:
        releases.release(ReleaseRequest("current", str(job.folder / "to")))
    released = releases.release(ReleaseRequest("current", drops_progress=True))

    (problem,) = refused.value
    assert (problem.code, "--without-checkpoint" in problem.hint) == ("RELEASE.NOT_POSSIBLE", True)
    assert not (job.folder / "to").exists()
    assert released.rows == len(FIRST)


@pytest.mark.long(guard="tests/spark/test_adoption.py::test_a_released_table_goes_on_in_a_plain_job")
def test_a_table_that_was_made_here_is_released_where_it_lies(project, headrace_session, tmp_path):
    """Guards the release of an own table: it stays, nothing of the pipeline touches it, and it can come back."""
    job = Job(headrace_session, tmp_path / "job")
    job.add(1, *FIRST)
    pipeline = project(code_of(job))
    ran(pipeline)
    table, to = Path(pipeline.settings.storage, "tables", "default", "orders"), job.folder / "handed-over"
    other = project(code_of(job)).project.adoptions
    taken = AdoptRequest("orders", str(table), {"": str(job.checkpoint)})
    assert code_of_failure(lambda: other.plan([taken])) == "ADOPT.OTHER_PIPELINE"

    plan = pipeline.project.adoptions.releases.release(ReleaseRequest("orders", str(to)))
    (job.folder / "orders").symlink_to(table)
    job.add(2, *SECOND)
    job.run(to)

    assert (plan.location, plan.is_adopted) == (str(table), False)
    assert rows_at(str(table)) == all_rows(job)
    pipeline.write("transformations/project.py", HEAD + textwrap.dedent(code_of(job, name="others")))
    assert pipeline.project.plan().inactive == ()
    pipeline.write("transformations/project.py", HEAD + textwrap.dedent(code_of(job)))
    pipeline.project.adoptions.adopt([AdoptRequest("orders", str(table), {"": str(to)})])
    job.add(3, *THIRD)
    ran(pipeline)
    assert rows_at(str(table)) == all_rows(job)


class Crash(BaseException):
    """The process dies."""


def crash_at(call, step):
    left = [step]

    def reached(_):
        if not left[0]:
            raise Crash
        left[0] -= 1

    with pytest.raises(Crash):
        call(reached)


def test_crashes_at_any_step_are_finished_by_the_same_command(project, job):
    """Guards that each step of an adoption and a release can be repeated, and that no update runs in between."""
    pipeline = project(code_of(job))
    adoptions = pipeline.project.adoptions
    for step in random.Random(5).sample(range(5), examples(few=2, many=5)):
        crash_at(lambda reached: adoptions.adopt([request_of(job)], reached), step)
        assert refusal(pipeline) == "ADOPT.UNFINISHED"
    adoptions.adopt([request_of(job)])
    job.add(3, *THIRD)
    ran(pipeline)
    to = job.folder / "handed-over"
    # A flow that is retired is no step of the next call, so the last step comes last.
    for step in sorted(random.Random(6).sample(range(5), examples(few=2, many=5))):
        crash_at(lambda reached: adoptions.releases.release(ReleaseRequest("orders", str(to)), reached), step)
        assert refusal(pipeline) == "ADOPT.UNFINISHED"
    adoptions.releases.release(ReleaseRequest("orders", str(to)))
    job.add(4, (9, 9))
    job.run(to)

    assert rows_at(str(job.table)) == all_rows(job)


def test_an_interrupted_adoption_can_be_undone(project, job):
    """Guards the way back from an adoption that cannot be finished: table and checkpoint are the job's again."""
    pipeline = project(code_of(job))
    adoptions = pipeline.project.adoptions
    crash_at(lambda reached: adoptions.adopt([request_of(job)], reached), 3)

    assert adoptions.undo("orders") is not None
    job.add(3, *THIRD)
    job.run()
    adoptions.adopt([request_of(job)])
    ran(pipeline)

    assert rows_at(str(job.table)) == all_rows(job)


def test_a_rename_moves_the_link_and_not_the_table(project, job):
    """Guards that renames find an adopted table by its link, and leave it where it lies."""
    pipeline = adopted(project, job)
    ran(pipeline)
    code = textwrap.dedent(code_of(job, name="sales"))
    pipeline.write("transformations/project.py", HEAD + code)
    settings = pipeline.folder / "pipeline.yml"
    settings.write_text(settings.read_text() + "renames:\n  datasets:\n    orders: sales\n")
    renamed = type(pipeline)(pipeline.folder, Path(pipeline.settings.storage), {})
    job.add(3, *THIRD)
    ran(renamed)

    assert rows_at(str(job.table)) == all_rows(job)
    assert code_of_failure(lambda: renamed.run(full_refresh=["sales"])) == ["ADOPT.NEEDS_CONSENT"]


def test_a_copied_storage_does_not_write_to_the_table(project, job):
    """Guards two pipelines from one table: the copy refuses until it is made the owner."""
    pipeline = adopted(project, job)
    ran(pipeline)
    copy = pipeline.folder / "copy"
    shutil.copytree(pipeline.settings.storage, copy, symlinks=True)
    other = type(pipeline)(pipeline.folder, copy, {})
    job.add(3, *THIRD)

    assert refusal(other) == "ADOPT.STORAGE_COPIED"
    other.project.adoptions.claim("orders")
    ran(other)

    assert rows_at(str(job.table)) == all_rows(job)


def test_a_pipeline_of_spark_is_taken_over_in_one_go(project, job):
    """Guards where Spark's own pipelines keep checkpoints and tables, and that the rest is named."""
    folder = job.folder.with_name("sdp")
    chk = folder / "storage" / "_checkpoints" / "spark_catalog" / "default" / "orders" / "orders"
    chk.mkdir(parents=True)
    job.checkpoint.rename(chk / "0")
    (folder / "spark-warehouse").mkdir()
    table = folder / "spark-warehouse" / "orders"
    job.table.rename(table)
    (folder / "spark-pipeline.yml").write_text(f"name: shop\nstorage: file://{folder}/storage\nlibraries: []\n")
    more = """
    @dp.materialized_view
    def largest():
        return spark.read.table("orders").groupBy().agg(F.max("n").alias("n"))
"""
    pipeline = project(code_of(job) + more)
    adoptions = pipeline.project.adoptions

    found = adoptions.find_spark_pipeline(str(folder))
    adoptions.adopt(found.requests)
    job.add(3, *THIRD)
    ran(pipeline)

    assert list(found.left_out) == ["largest"]
    assert rows_at(str(table)) == all_rows(job)
    assert table_state(str(table)).path == str(table)
    events = pipeline.sql("SELECT details FROM event_log WHERE event_type = 'adoption'")
    assert json.loads(events.rows[0][0])["adoption"]["location"] == str(table)
