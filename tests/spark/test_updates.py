"""Updates: what is started and why, what fails alone, what is tried again, who may run."""

from __future__ import annotations

import random

import pytest

from headrace.errors import PipelineError
from headrace.events.types import FlowStateChanged
from headrace.model.outcome import FlowState, UpdateState
from headrace.testing import Crashed, Failpoint

pytestmark = pytest.mark.spark

VIEWS = """
    @dp.table(schema="id INT")
    def source():
        return spark.readStream.schema("id INT").json("unused")

    @dp.materialized_view
    def doubled():
        return spark.sql("WITH known AS (SELECT id FROM source) SELECT id * 2 AS id FROM known")

    @dp.materialized_view
    @dp.expect("positive", "id > 0")
    def judged():
        return spark.read.table("source")

    @dp.materialized_view
    def unchanged():
        return spark.read.table("source").groupBy().count()

    @dp.materialized_view
    def below():
        return spark.read.table("unchanged")

    @dp.table
    def stream():
        return spark.readStream.table("source")
    """


def rows(*numbers):
    return [{"id": number} for number in numbers]


def started(result):
    return {name for name, state in result.states.items() if state is FlowState.COMPLETED}


@pytest.fixture(scope="module")
def views_after_one_update(prepared):
    def set_up(shared_project):
        pipeline = shared_project(VIEWS).given("source", rows(1), rows(2))
        assert started(pipeline.run()) == {"doubled", "judged", "unchanged", "below", "stream"}
        return pipeline

    return prepared(set_up)


@pytest.fixture
def views(views_after_one_update):
    return views_after_one_update.restored()


def test_an_update_recomputes_only_changed_datasets(views):
    pipeline = views
    assert pipeline.plan().empty, pipeline.plan().describe()

    pipeline.project.sql("OPTIMIZE source", write=True)
    assert pipeline.plan().empty, pipeline.plan().describe()

    file = pipeline.folder / "transformations" / "project.py"
    file.write_text(file.read_text().replace("id * 2", "id * 3").replace("id > 0", "id > 1"))
    changed = pipeline.run()
    assert started(changed) == {"doubled", "judged"}
    assert changed.failed("judged") == {"positive": 1}

    more = pipeline.given("source", rows(3)).run()
    assert started(more) == {"doubled", "judged", "unchanged", "below", "stream"}
    assert (more.rows("doubled"), more.rows("below")) == (rows(3, 6, 9), [{"count": 3}])
    assert more.counts("stream").rows_written == 1


FAILING = """
    @dp.materialized_view
    def sound():
        return spark.range(1)

    @dp.materialized_view
    def broken():
        return spark.sql("SELECT CAST(text AS INT) AS id FROM VALUES ('x') AS t(text)")

    @dp.materialized_view
    def reads_broken():
        return spark.read.table("broken")

    @dp.table
    def reads_that():
        return spark.readStream.table("reads_broken")

    @dp.materialized_view
    def reads_sound():
        return spark.read.table("sound")
    """


def test_an_update_without_changes_runs_no_spark_jobs(views, headrace_session):
    tables = views.folder / "storage" / "tables"
    commits, work = sorted(tables.rglob("_delta_log/*")), works_of_spark(headrace_session)

    result = views.run()

    assert set(result.states.values()) == {FlowState.UP_TO_DATE, FlowState.EXCLUDED}
    assert works_of_spark(headrace_session) == work
    assert sorted(tables.rglob("_delta_log/*")) == commits


def works_of_spark(session):
    """How many works there were; a query begins with one for its first batch at the latest."""
    return session.sparkContext._jsc.sc().dagScheduler().nextJobId()


def test_only_dependents_of_a_failed_flow_are_skipped(project):
    result = project(FAILING).run()

    assert result.state is UpdateState.FAILED
    assert result.states == {
        "sound": FlowState.COMPLETED,
        "broken": FlowState.FAILED,
        "reads_broken": FlowState.SKIPPED,
        "reads_that": FlowState.SKIPPED,
        "reads_sound": FlowState.COMPLETED,
    }
    assert result.flow("broken").attempts == 1
    assert result.outcome.error["params"]["condition"] == "CAST_INVALID_INPUT"
    assert result.outcome.error["location"]["file"] == "transformations/project.py"


FLAKY = """
    from pathlib import Path

    CALLS = Path(__file__).with_name("calls")

    @dp.materialized_view
    def flaky():
        calls = int(CALLS.read_text()) if CALLS.exists() else 0
        CALLS.write_text(str(calls + 1))
        # The first call resolves, the second is the first attempt.
        if calls == 1:
            raise ConnectionResetError("gone for a moment")
        return spark.range(1)
    """


def test_a_transient_failure_is_retried_after_one_second(project):
    moves = []

    result = project(FLAKY).run(on_event=moves.append)

    assert (result.state, result.flow("flaky").attempts) == (UpdateState.COMPLETED, 2)
    retrying = next(move for move in moves if isinstance(move, FlowStateChanged) and move.state is FlowState.RETRYING)
    assert "in 1 s" in retrying.reason
    assert result.flow("flaky").duration_s >= 1


def test_a_second_update_is_refused_while_one_runs(project):
    pipeline = project("""
        @dp.materialized_view
        def one():
            return spark.range(1)
        """)
    refused = []

    def try_another(event):
        if isinstance(event, FlowStateChanged) and not refused:
            with pytest.raises(PipelineError) as error:
                pipeline.project.run()
            refused.append(error.value.code)

    result = pipeline.run(on_event=try_another)

    assert refused == ["LEASE.HELD"]
    assert result.state is UpdateState.COMPLETED


FILES = """
    @dp.table
    @dp.expect_or_drop("positive", "id > 0")
    def landed():
        return spark.readStream.schema("id INT").json(spark.conf.get("landing"))

    @dp.table
    def copied():
        return spark.readStream.table("landed")
    """


def test_a_flow_starts_when_its_source_has_new_data_or_a_batch_is_unfinished(project, tmp_path):
    pipeline = project(FILES, configuration={"landing": str(tmp_path / "project" / "landing")})
    pipeline.land("landing/a 1.json", rows(1))
    pipeline.run()
    # Of the folders below, Spark reads those of partitions and no others.
    pipeline.land("landing/deeper/0.json", rows(0))
    assert pipeline.plan().empty, pipeline.plan().describe()

    pipeline.land("landing/2.json", rows(2, -2))
    assert [step.reason for step in pipeline.plan().flows] == ["1 new file", 'reads "landed", updated first']
    with pytest.raises(Crashed):
        pipeline.crash_at(Failpoint.COUNTED).run()
    assert pipeline.restart().plan().step_for("landed").reason == "batch 1 is unfinished"

    result = pipeline.run()
    assert result.rows("copied") == rows(1, 2)
    assert pipeline.plan().empty, pipeline.plan().describe()


def test_the_graph_does_not_depend_on_the_order_of_the_files(project):
    texts = {
        "a": "CREATE STREAMING TABLE a AS SELECT * FROM STREAM(b)",
        "b": "CREATE MATERIALIZED VIEW b AS SELECT c.id FROM c JOIN d ON c.id = d.id",
        "c": "CREATE TEMPORARY VIEW c AS SELECT * FROM d",
        "d": "CREATE MATERIALIZED VIEW d AS SELECT 1 AS id",
    }
    found = set()
    for seed in range(3):
        order = random.Random(seed).sample(sorted(texts), len(texts))
        files = {f"transformations/{place}.sql": texts[name] for place, name in enumerate(order)}
        graph = project(files=files).project.validate()
        found.add("\n".join(sorted(graph.describe().split("\n"))))

    assert len(found) == 1
