"""The law of the sinks: rows written, quarantined and dropped are together the rows of the function, come what may."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.conftest import as_files
from tests.crashed_updates import die_in_turn, in_turn_or_alone

from headrace.model.outcome import FlowCounts, FlowState, UpdateState
from headrace.spark.update.batch_target import transaction_version
from headrace.testing import Crashed, Failpoint

pytestmark = pytest.mark.spark

ALONE = pytest.mark.long(guard="its other cases")
IDS = frozenset(range(60))
BATCHES = [[{"id": number} for number in range(first, first + 30)] for first in (0, 30)]
RANDOM = """
    @dp.table(schema="id INT")
    def source():
        return spark.readStream.schema("id INT").json("unused")

    @dp.table
    @dp.expect_or_quarantine("coin", "rand() < 0.5")
    @dp.expect_or_drop("not a fifth", "id % 5 != 0")
    @dp.expect("small", "id < 50")
    def target():
        return spark.readStream.option("maxFilesPerTrigger", 1).table("source")
    """
PLAIN = """
    @dp.table(schema="id INT")
    def source():
        return spark.readStream.schema("id INT").json("unused")

    @dp.table
    def target():
        return spark.readStream.table("source")
    """
STATIC = """
    @dp.materialized_view(schema="id INT")
    def source():
        return spark.read.schema("id INT").json("unused")

    @dp.materialized_view
    @dp.expect_or_quarantine("even", "id % 2 = 0")
    def view():
        return spark.read.table("source")

    dp.create_streaming_table("ledger", expect_all_or_quarantine={"even": "id % 2 = 0"})

    @dp.append_flow(target="ledger", once=True)
    def opening():
        return spark.read.table("source")
    """


def ids(rows):
    return sorted(row["id"] for row in rows)


def aside(pipeline, name):
    return ids(row["row"] for row in pipeline.rows(f"{name}_quarantine"))


def total(pipeline, flow="target"):
    counts = pipeline.project.events().flow_totals().get(flow, FlowCounts())
    return counts.rows_written, counts.rows_quarantined, counts.rows_dropped


THIRDS = [[{"id": number} for number in range(first, first + 20)] for first in (0, 20, 40)]


@pytest.mark.parametrize(
    "deaths",
    [
        # The update that dies in a batch first makes the one before it whole.
        *in_turn_or_alone(
            ALONE,
            *(Failpoint.QUARANTINED, (Failpoint.WRITTEN, 1)),
            alone=(
                Failpoint.QUARANTINED,
                (Failpoint.QUARANTINED, 1),
                Failpoint.WRITTEN,
                (Failpoint.WRITTEN, 1),
                Failpoint.COUNTED,
            ),
        ),
        pytest.param(
            (Failpoint.QUARANTINED, (Failpoint.WRITTEN, 1), (Failpoint.COUNTED, 1)), id="all in turn", marks=ALONE
        ),
    ],
)
def test_no_row_is_lost_or_duplicated_when_an_update_crashes_within_a_batch(project, deaths):
    pipeline = project(RANDOM).given("source", *THIRDS)

    die_in_turn(lambda: pipeline.run("target"), pipeline, *deaths)
    result = pipeline.run("target")

    assert result.state is UpdateState.COMPLETED, result.outcome.error
    kept = [*ids(pipeline.rows("target")), *aside(pipeline, "target")]
    assert len(kept) == len(set(kept))
    assert {number for number in IDS if number % 5} <= set(kept)
    in_target, in_quarantine = len(pipeline.rows("target")), len(aside(pipeline, "target"))
    assert total(pipeline) == (in_target, in_quarantine, len(IDS) - len(kept))


def test_a_retried_batch_removes_quarantined_rows_that_now_pass(project):
    pipeline = project(RANDOM.replace("rand() < 0.5", "id < 0")).given("source", BATCHES[0])
    with pytest.raises(Crashed):
        pipeline.crash_at(Failpoint.QUARANTINED).run("target")
    left = aside(pipeline, "target")
    file = pipeline.folder / "transformations" / "project.py"
    file.write_text(file.read_text().replace("id < 0", "id >= 0"))

    pipeline.restart().run("target")

    assert len(left) == len(BATCHES[0])
    assert aside(pipeline, "target") == []
    assert ids(pipeline.rows("target")) == [row["id"] for row in BATCHES[0] if row["id"] % 5]


def test_a_native_stream_is_counted_once_when_an_update_crashes_after_it(project):
    pipeline = project(PLAIN).given("source", BATCHES[0])

    die_in_turn(lambda: pipeline.run("target"), pipeline, Failpoint.WRITTEN)
    pipeline.given("source", BATCHES[1])
    die_in_turn(lambda: pipeline.run("target"), pipeline, Failpoint.COUNTED)
    pipeline.run("target")

    assert ids(pipeline.rows("target")) == sorted(IDS)
    assert total(pipeline) == (len(IDS), 0, 0)


TRIES = st.tuples(st.integers(0, 2**26), st.integers(1, 2**24 - 1), st.integers(1, 2**12 - 1))


@given(TRIES, TRIES)
def test_a_later_batch_holder_or_attempt_has_a_higher_transaction_version(one, other):
    assert (transaction_version(*one) < transaction_version(*other)) == (one < other)
    assert transaction_version(*one) < 2**63


KEEPS_STATE = """
    @dp.table(schema="id INT, at TIMESTAMP")
    def source():
        return spark.readStream.schema("id INT, at TIMESTAMP").json("unused")

    def per_minute():
        rows = spark.readStream.option("maxFilesPerTrigger", 1).table("source").withWatermark("at", "0 seconds")
        return rows.groupBy(F.window("at", "1 minute").alias("w")).agg(F.count("*").alias("id")).select("w.start", "id")

    @dp.table
    def target():
        return per_minute()

    @dp.table
    @dp.expect_or_quarantine("many", "id > 1")
    def judged():
        return per_minute()

    @dp.table
    def whole():
        rows = spark.readStream.option("maxFilesPerTrigger", 1).table("source").withWatermark("at", "0 seconds")
        return rows.groupBy("id").count()
    """
MINUTES = [[{"id": n, "at": f"2026-01-01T00:0{minute}:{n:02}Z"} for n in range(minute)] for minute in range(1, 4)]


# The test of a native stream has the death after a batch was counted, too.
@pytest.mark.parametrize(
    "deaths",
    [
        pytest.param([(Failpoint.WRITTEN, 1)], id="written"),
        pytest.param([(Failpoint.COUNTED, 1)], id="counted", marks=ALONE),
        pytest.param([(Failpoint.WRITTEN, 1), (Failpoint.COUNTED, 1)], id="in turn", marks=ALONE),
    ],
)
@pytest.mark.parametrize("name", ["judged", *(pytest.param(name, marks=ALONE) for name in ("whole", "target"))])
def test_a_stateful_stream_continues_when_an_update_crashes_after_a_written_batch(project, name, deaths):
    pipeline = project(KEEPS_STATE, configuration={"spark.sql.shuffle.partitions": "1"}).given("source", *MINUTES)

    die_in_turn(lambda: pipeline.run(name), pipeline, *deaths)
    result = pipeline.run(name)

    assert result.state is UpdateState.COMPLETED, result.outcome.error
    assert pipeline.plan(name).empty, pipeline.plan(name).describe()
    found = {"target": [1, 2], "judged": [2], "whole": [0, 1, 2]}
    assert ids(pipeline.rows(name)) == found[name]
    assert total(pipeline, name)[1] == (name == "judged")


@pytest.mark.long(
    guard=(
        "tests/unit/storage/test_change_detection.py::test_a_stateful_stream_is_due_when_its_watermark_closed_unwritten_results",
        "tests/spark/test_exactly_once.py::test_a_stateful_stream_continues_when_an_update_crashes_after_a_written_batch",
    )
)
@pytest.mark.parametrize("trigger", ["once", "availableNow"])
def test_windows_closed_by_the_last_batch_are_written_without_new_input(project, trigger):
    once = """
    @dp.table(schema="id INT, at TIMESTAMP")
    def source():
        return spark.readStream.schema("id INT, at TIMESTAMP").json("unused")

    @dp.table(spark_conf={"pipelines.trigger": "once"})
    def target():
        rows = spark.readStream.table("source").withWatermark("at", "0 seconds")
        return rows.groupBy(F.window("at", "1 minute").alias("w")).agg(F.count("*").alias("id")).select("w.start", "id")
    """
    pipeline = project(once).given("source", *MINUTES)
    assert pipeline.run().rows("target") == []
    file = pipeline.folder / "transformations" / "project.py"
    file.write_text(file.read_text().replace('"once"', f'"{trigger}"'))

    pipeline.run()

    assert ids(pipeline.rows("target")) == [1, 2]
    assert pipeline.plan().empty, pipeline.plan().describe()
    assert total(pipeline) == (2, 0, 0)


def test_a_stream_starts_after_a_crash_before_its_first_batch_was_planned(project):
    pipeline = project(PLAIN).given("source", BATCHES[0])
    pipeline.plan()
    planned = pipeline.folder / "storage" / "checkpoints" / "default" / "target" / "target" / "0" / "offsets"
    planned.mkdir(parents=True)
    (planned / ".0.some-uuid.tmp").write_text("v1")
    (planned / "..0.some-uuid.tmp.crc").write_bytes(b"crc")

    result = pipeline.run("target")

    assert result.state is UpdateState.COMPLETED, result.outcome.error
    assert len(result.rows("target")) == 30


RULED = PLAIN.replace("@dp.table\n    def target", "@dp.table\n    @dp.expect('all', 'id >= 0')\n    def target")


@pytest.mark.parametrize(
    ("text", "next_text"),
    [pytest.param(PLAIN, RULED, id="come"), pytest.param(RULED, PLAIN, id="go", marks=ALONE)],
)
def test_expectations_can_be_added_or_removed_while_a_batch_is_unfinished(project, text, next_text):
    assert text != next_text
    pipeline = project(text).given("source", BATCHES[0])
    with pytest.raises(Crashed):
        pipeline.crash_at(Failpoint.WRITTEN).run("target")

    pipeline.write("transformations/project.py", as_files(next_text)["transformations/project.py"])
    pipeline.restart().given("source", BATCHES[1]).run("target")

    assert ids(pipeline.rows("target")) == sorted(IDS)
    assert total(pipeline) == (len(IDS), 0, 0)


VIEW = Failpoint.QUARANTINED, Failpoint.COUNTED
LEDGER = Failpoint.QUARANTINED, Failpoint.WRITTEN, Failpoint.COUNTED


@pytest.mark.parametrize(
    ("name", "deaths"),
    [
        pytest.param("ledger", LEDGER, id="ledger in turn"),
        # The rows of a view and those in its quarantine are two commits.
        pytest.param("view", VIEW[:1], id=f"view {VIEW[0].value}"),
        pytest.param("view", VIEW[1:], id=f"view {VIEW[1].value}", marks=ALONE),
        pytest.param("view", VIEW, id="view in turn", marks=ALONE),
        *(pytest.param("ledger", (point,), id=f"ledger {point.value}", marks=ALONE) for point in LEDGER),
    ],
)
def test_a_batch_flow_writes_its_rows_once_when_an_update_crashes_within_it(project, name, deaths):
    pipeline = project(STATIC).given("source", BATCHES[0])

    die_in_turn(lambda: pipeline.run(name), pipeline, *deaths)
    result = pipeline.run(name)

    assert result.state is UpdateState.COMPLETED, result.outcome.error
    assert ids(pipeline.rows(name)) == list(range(0, 30, 2))
    assert aside(pipeline, name) == list(range(1, 30, 2))


RESETS = (Failpoint.RESET_STARTED, Failpoint.RESET_QUARANTINE_CLEARED, Failpoint.RESET_CLEARED)


@pytest.mark.parametrize(
    "points",
    [
        # One that dies later is in the tests of full refreshes.
        pytest.param((Failpoint.RESET_QUARANTINE_CLEARED,), id="aside"),
        pytest.param((Failpoint.RESET_STARTED,), id="begun", marks=ALONE),
        pytest.param((Failpoint.RESET_CLEARED,), id="cleared", marks=ALONE),
        pytest.param(RESETS, id="in turn", marks=ALONE),
    ],
)
def test_the_next_update_finishes_a_crashed_full_refresh(project, points):
    pipeline = project(RANDOM.replace("rand() < 0.5", "id % 2 = 0")).given(
        "source", [{"id": number} for number in sorted(IDS)]
    )
    before = pipeline.run("target").rows("target")

    with pytest.raises(Crashed):
        pipeline.crash_at(points[0]).run(full_refresh=["target"])
    die_in_turn(lambda: pipeline.run("target"), pipeline.restart(), *points[1:])
    result = pipeline.run("target")

    assert result.flow("target").state is FlowState.COMPLETED
    assert pipeline.rows("target") == before
    assert aside(pipeline, "target") == [number for number in sorted(IDS) if number % 2]
    assert {row["epoch"] for row in pipeline.rows("target_quarantine")} == {1}


CHAIN = """
    from pathlib import Path

    @dp.table
    def first():
        return spark.readStream.schema("id INT").json(str(Path(__file__).parents[1] / "landing"))

    @dp.table
    @dp.expect_or_quarantine("even", "id % 2 = 0")
    def second():
        return spark.readStream.table("first")
    """


@pytest.mark.long(guard="tests/spark/test_exactly_once.py::test_the_next_update_finishes_a_crashed_full_refresh")
def test_the_next_update_finishes_a_full_refresh_of_all_that_crashed_between_tables(project):
    rule = '@dp.expect_or_quarantine("even", "id % 2 = 0")'
    assert rule in CHAIN
    pipeline = project(CHAIN.replace(rule, ""))
    pipeline.land("landing/a.json", [{"id": number} for number in range(6)])
    pipeline.run()

    with pytest.raises(Crashed):
        pipeline.crash_at(Failpoint.RESET_CLEARED).run(full_refresh_all=True)
    pipeline.restart().run("second")
    result = pipeline.run()

    assert result.state is UpdateState.COMPLETED, result.outcome.error
    assert [ids(pipeline.rows(name)) for name in ("first", "second")] == [[*range(6)]] * 2
    assert pipeline.plan().empty, pipeline.plan().describe()


def test_a_table_is_created_over_the_remains_of_a_crashed_creation(project):
    pipeline = project(CHAIN)
    pipeline.land("landing/a.json", [{"id": number} for number in range(6)])
    for table in ("first", "second", "second_quarantine"):
        log = pipeline.folder / "storage" / "tables" / "default" / table / "_delta_log"
        (log / "_staged_commits").mkdir(parents=True)
        (log / f".{0:020d}.json.0d6f.tmp").write_text('{"commitInfo"')

    result = pipeline.run()

    assert result.state is UpdateState.COMPLETED, result.outcome.error
    assert (ids(result.rows("second")), aside(pipeline, "second")) == ([0, 2, 4], [1, 3, 5])
