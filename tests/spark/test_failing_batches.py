"""Batches that a query or a sink fails with as a whole: set aside, while the stream goes on with those behind them."""

from __future__ import annotations

import json

import pytest
from deltalake import DeltaTable
from tests.crashed_updates import die_in_turn, in_turn_or_alone
from tests.delivery_cases import SOURCE, ids, jdbc, rows_of_delta
from tests.servers.receiver import running_receiver

from headrace.model.outcome import UpdateState
from headrace.testing import Crashed, Failpoint

pytestmark = pytest.mark.spark

ALONE = pytest.mark.long(guard="its other cases")
# A batch in which a name is not a number fails.
CAST = 'selectExpr("id", "string(int(name)) AS name")'
QUERY = (
    SOURCE
    + f"""
    @dp.table(spark_conf={{"headrace.failing_batches": "quarantine"}})
    def numbers():
        return stream().{CAST}
    """
)
# The same in a function of Python, which takes many rows at a time: nobody knows which of them it fails with.
PYTHON = (
    SOURCE
    + """
    def counted(parts):
        for part in parts:
            for name in part["name"]:
                int(name)
            yield part

    @dp.table(spark_conf={"headrace.failing_batches": "quarantine"})
    def numbers():
        return stream().mapInPandas(counted, "id INT, name STRING")
    """
)
# A sink that does not take batches with a row called "poison"; what it takes is beside the project.
SINK = (
    SOURCE
    + """
    import json
    from pathlib import Path

    @dp.foreach_batch_sink(name="out")
    def out(rows, batch_id):
        found = [row.asDict() for row in rows.collect()]
        if any(row["name"] == "poison" for row in found):
            raise ValueError("no poison here")
        place = Path({folder!r}) / f"{batch_id}-{min(row['id'] for row in found)}.json"
        place.write_text(json.dumps(found))

    @dp.append_flow(target={target}, spark_conf={{"headrace.failing_batches": "quarantine"}})
    def deliver():
        return stream()
    """
)


def batch(first, *names):
    return [{"id": first + number, "name": name} for number, name in enumerate(names)]


def sink_text(folder, target='"out"'):
    return (
        SINK.replace("{folder!r}", repr(str(folder))).replace("{target}", target).replace("{{", "{").replace("}}", "}")
    )


def taken(folder):
    return sorted(row["id"] for file in folder.glob("*.json") for row in json.loads(file.read_text()))


def aside(pipeline, dataset, flow):
    """The rows that were set aside as parts of whole batches, as pairs of the batch and the row's id."""
    place = pipeline.folder / "storage" / "checkpoints" / "default" / dataset / flow / "failing_rows"
    rows = DeltaTable(place).to_pyarrow_table().to_pylist() if place.exists() else []
    return sorted((row["batch_id"], json.loads(row["row"])["id"]) for row in rows if row["whole"])


def counts_of(pipeline, flow):
    counts = pipeline.project.events().flow_totals()[flow]
    return counts.rows_written, counts.rows_quarantined


@pytest.mark.parametrize(
    "deaths",
    in_turn_or_alone(
        ALONE,
        *(Failpoint.QUARANTINED, Failpoint.COUNTED),
        alone=(Failpoint.BEFORE_QUARANTINE, Failpoint.QUARANTINED, (Failpoint.COUNTED, 1)),
    ),
)
def test_a_batch_that_fails_in_the_query_becomes_dead_letters_with_all_its_rows(project, deaths):
    pipeline = project(QUERY).given("source", batch(0, "1", "2"), batch(2, "3", "x", "5"), batch(5, "6"))

    die_in_turn(lambda: pipeline.run("numbers"), pipeline, *deaths)
    result = pipeline.run("numbers")

    assert result.state is UpdateState.COMPLETED, result.outcome.error
    assert ids(pipeline.rows("numbers")) == [0, 1, 5]
    assert aside(pipeline, "numbers", "numbers") == [(1, 2), (1, 3), (1, 4)]
    assert counts_of(pipeline, "numbers") == (3, 3)


def test_a_replay_sends_a_whole_batch_through_the_fixed_query(project):
    pipeline = project(PYTHON).given("source", batch(0, "1", "x"))
    pipeline.run("numbers")
    assert aside(pipeline, "numbers", "numbers") == [(0, 0), (0, 1)]
    mended(pipeline, "int(name)", "len(name)")

    pipeline.replay("numbers")

    assert ids(pipeline.rows("numbers")) == [0, 1]
    assert pipeline.project.quarantine_list() == ()


def test_a_batch_with_too_many_failing_rows_becomes_dead_letters_as_a_whole(project):
    both = '{"headrace.failing_batches": "quarantine", "headrace.failing_rows": "quarantine"}'
    text = QUERY.replace('{"headrace.failing_batches": "quarantine"}', both)
    few, many = batch(0, "1", "x", "3"), batch(3, *["x"] * 10)
    pipeline = project(text).given("source", few, many, batch(13, "4"))

    pipeline.run("numbers")

    assert ids(pipeline.rows("numbers")) == [0, 2, 13]
    assert aside(pipeline, "numbers", "numbers") == [(1, number) for number in range(3, 13)]
    assert counts_of(pipeline, "numbers") == (3, 11)


@pytest.mark.long(
    guard=(
        "tests/spark/test_failing_batches.py::test_a_batch_that_fails_in_the_query_becomes_dead_letters_with_all_its_rows",
        "tests/spark/test_dead_letters.py::test_a_flow_with_a_nondeterministic_query_fails_when_a_row_fails",
    )
)
def test_a_failing_batch_of_a_nondeterministic_query_becomes_dead_letters(project):
    assert CAST in QUERY
    text = QUERY.replace(CAST, f'{CAST}.withColumn("at", F.rand())')
    pipeline = project(text).given("source", batch(0, "x"), batch(1, "2"))

    pipeline.run("numbers")

    assert ids(pipeline.rows("numbers")) == [1]
    assert aside(pipeline, "numbers", "numbers") == [(0, 0)]


@pytest.mark.long(
    guard=(
        "tests/spark/test_failing_batches.py::test_a_batch_that_fails_in_the_query_becomes_dead_letters_with_all_its_rows",
        "tests/spark/test_failing_batches.py::test_a_replay_sends_a_whole_batch_through_the_fixed_query",
    )
)
def test_a_flow_stopped_by_consecutive_failing_batches_continues_after_their_replay(project):
    pipeline = project(QUERY).given("source", *(batch(number, "x") for number in range(2)))
    pipeline.run("numbers")
    pipeline.given("source", *(batch(number, "x") for number in range(2, 4)))

    failed = pipeline.run("numbers")
    assert failed.error == "ROWS.BATCHES_FAIL"
    assert aside(pipeline, "numbers", "numbers") == [(0, 0), (1, 1), (2, 2)]
    mended(pipeline, "int(name)", "length(name)").replay("numbers")
    result = pipeline.run("numbers")

    assert result.state is UpdateState.COMPLETED, result.outcome.error
    assert ids(pipeline.rows("numbers")) == [0, 1, 2, 3]


def test_a_failing_batch_of_a_stateful_flow_fails_the_flow(project):
    text = QUERY.replace(CAST, 'selectExpr("int(name) AS id").dropDuplicates()')
    assert "dropDuplicates" in text
    pipeline = project(text).given("source", batch(0, "1"), batch(1, "x"))

    result = pipeline.run("numbers")

    assert result.error == "ROWS.STATEFUL"


@pytest.mark.parametrize(
    "deaths",
    in_turn_or_alone(
        ALONE,
        *(Failpoint.QUARANTINED, Failpoint.DELIVERY_RECORDED),
        alone=(Failpoint.BEFORE_QUARANTINE, Failpoint.QUARANTINED, Failpoint.DELIVERY_RECORDED, Failpoint.COUNTED),
    ),
)
def test_a_batch_that_fails_in_a_sink_becomes_dead_letters_and_later_ones_are_delivered(project, tmp_path, deaths):
    pipeline = project(sink_text(tmp_path)).given("source", batch(0, "a", "poison"), batch(2, "c"), batch(3, "d"))

    die_in_turn(pipeline.run, pipeline, *deaths)
    result = pipeline.run()

    assert result.state is UpdateState.COMPLETED, result.outcome.error
    assert taken(tmp_path) == [2, 3]
    assert aside(pipeline, "out", "deliver") == [(0, 0), (0, 1)]
    assert counts_of(pipeline, "deliver") == (2, 2)


def test_a_replay_delivers_a_failed_batch_with_new_values(project, tmp_path):
    pipeline = project(sink_text(tmp_path)).given("source", batch(0, "a", "poison"), batch(2, "c"))
    pipeline.run()
    shown = pipeline.project.quarantine_show("out")
    assert {row[shown.columns.index("error")] for row in shown.rows} == {"ValueError: no poison here"}

    pipeline.replay("out", changes=["name='cured'"])

    assert taken(tmp_path) == [0, 1, 2]
    assert pipeline.project.quarantine_list() == ()


def test_a_batch_that_fails_in_one_sink_is_delivered_to_the_others(project, tmp_path):
    lake = f'\n    dp.create_sink("lake", "delta", {{"path": {str(tmp_path / "lake")!r}}})\n'
    pipeline = project(lake + sink_text(tmp_path, '["out", "lake"]'))
    pipeline.given("source", batch(0, "a", "poison"), batch(2, "c"))

    pipeline.run()

    assert taken(tmp_path) == [2]
    assert ids(rows_of_delta(tmp_path / "lake")) == [0, 1, 2]
    assert pipeline.project.quarantine_list() == (("deliver_targets", 2, {"sink.refused": 2}),)


def test_a_transient_sink_failure_makes_no_dead_letters(project, tmp_path):
    text = sink_text(tmp_path).replace('ValueError("no poison here")', 'ConnectionError("nobody there")')
    pipeline = project(text).given("source", batch(0, "poison"), batch(1, "b"))

    result = pipeline.run()

    assert result.state is UpdateState.FAILED
    assert (taken(tmp_path), aside(pipeline, "out", "deliver")) == ([], [])


def test_dead_letters_are_removed_when_the_batch_passes_on_retry(project, tmp_path):
    pipeline = project(sink_text(tmp_path)).given("source", batch(0, "a", "poison"))
    with pytest.raises(Crashed):
        pipeline.crash_at(Failpoint.QUARANTINED).run()
    assert aside(pipeline, "out", "deliver") == [(0, 0), (0, 1)]
    file = pipeline.folder / "transformations" / "project.py"
    text = file.read_text()
    assert '== "poison"' in text
    file.write_text(text.replace('== "poison"', '== "venom"'))

    pipeline.restart().run()

    assert (taken(tmp_path), aside(pipeline, "out", "deliver")) == ([0, 1], [])


def mended(pipeline, old, new):
    file = pipeline.folder / "transformations" / "project.py"
    text = file.read_text()
    assert old in text
    file.write_text(text.replace(old, new))
    return pipeline.restart()


@pytest.mark.long(
    guard="tests/unit/test_failing_batches.py::test_failed_batches_among_the_most_recent_ones_reach_the_limit"
)
def test_a_flow_fails_when_many_of_the_last_batches_became_dead_letters(project):
    pairs = ((batch(2 * number, "x"), batch(2 * number + 1, "1")) for number in range(12))
    pipeline = project(QUERY).given("source", *(one for pair in pairs for one in pair))

    result = pipeline.run("numbers")

    assert result.error == "ROWS.BATCHES_FAIL"
    assert len(aside(pipeline, "numbers", "numbers")) == 10


@pytest.mark.long(
    guard=(
        "tests/spark/test_failing_batches.py::test_a_replay_sends_a_whole_batch_through_the_fixed_query",
        "tests/spark/test_dead_letters.py::test_a_replay_writes_rows_that_the_fixed_query_accepts_and_keeps_the_others",
        "tests/unit/runtime/test_bisect.py::test_bisection_stops_when_more_rows_fail_than_allowed",
    )
)
def test_a_replay_writes_the_passing_rows_of_a_batch_although_many_still_fail(project):
    both = '{"headrace.failing_batches": "quarantine", "headrace.failing_rows": "quarantine"}'
    text = QUERY.replace('{"headrace.failing_batches": "quarantine"}', both)
    assert "int(name)" in text
    pipeline = project(text).given("source", batch(0, *["x"] * 120, *["y"] * 150, "1"))
    pipeline.run("numbers")
    assert len(aside(pipeline, "numbers", "numbers")) == 271
    mended(pipeline, "int(name)", "int(replace(name, 'x', '7'))")

    pipeline.replay("numbers")

    assert ids(pipeline.rows("numbers")) == [*range(120), 270]
    assert pipeline.project.quarantine_list() == (("numbers", 150, {"query.failed": 150}),)


def test_a_batch_partly_accepted_by_a_server_fails_the_flow_without_dead_letters(project):
    with running_receiver() as server:
        server.answer = lambda request, _: 422 if any(row["name"] == "poison" for row in request.rows) else 200
        options = {"url": server.url, "rowsPerRequest": 1, "concurrency": 1}
        text = SOURCE + f'\n    dp.create_sink("out", "http", {options!r})\n' + DELIVER
        pipeline = project(text).given("source", batch(0, "a", "poison", "c"))

        result = pipeline.run()

    assert result.error == "SINK.HTTP_ROW"
    assert aside(pipeline, "out", "deliver") == []


DELIVER = """
    @dp.append_flow(target="out", spark_conf={"headrace.failing_batches": "quarantine"})
    def deliver():
        return stream()
    """


@pytest.mark.parametrize(
    ("forbids", "error"),
    [
        pytest.param("ADD CHECK (id <> 1)", None, id="a row"),
        pytest.param(
            "RENAME TO gone",
            "JDBC.WRITE",
            id="the table",
            marks=pytest.mark.long(
                guard="tests/spark/test_failing_batches.py::test_a_transient_sink_failure_makes_no_dead_letters"
            ),
        ),
    ],
)
def test_a_batch_for_a_database_becomes_dead_letters_only_for_row_errors(project, postgres, out_orders, forbids, error):
    postgres.execute(f"ALTER TABLE out_orders {forbids}")
    pipeline = project(SOURCE + jdbc(postgres) + DELIVER).given("source", batch(0, "a", "b"), batch(2, "c"))

    result = pipeline.run()

    if error is None:
        assert (ids(out_orders()), aside(pipeline, "out", "deliver")) == ([2], [(0, 0), (0, 1)])
    else:
        assert aside(pipeline, "out", "deliver") == []
    assert result.state is UpdateState.COMPLETED or error is not None


@pytest.mark.long(
    guard=(
        "tests/spark/test_spill_queue.py::test_spilled_rows_that_a_sink_rejects_become_dead_letters",
        "tests/spark/test_failing_batches.py::test_a_batch_for_a_database_becomes_dead_letters_only_for_row_errors",
        "tests/spark/test_failing_batches.py::test_a_transient_sink_failure_makes_no_dead_letters",
    )
)
def test_an_error_of_a_spilled_batch_makes_no_dead_letters_of_the_next_batch(project, postgres, out_orders):
    text = SOURCE + jdbc(postgres, fallback="storage") + DELIVER
    pipeline = project(text).given("source", batch(0, "a"))
    with postgres.unavailable():
        pipeline.run()
    postgres.execute("ALTER TABLE out_orders ADD CHECK (id <> 0)")

    pipeline.given("source", batch(1, "b"), batch(2, "c")).run()

    assert aside(pipeline, "out", "deliver") == []


def test_two_sinks_can_fail_on_the_same_batch(project, tmp_path):
    text = sink_text(tmp_path, '["out", "other"]')
    other = """
    @dp.foreach_batch_sink(name="other")
    def other(rows, batch_id):
        out(rows, batch_id)
    """
    text = text.replace("    @dp.append_flow", other.rstrip(" ") + "\n    @dp.append_flow").replace(
        "        out(rows, batch_id)", "        raise KeyError(batch_id)"
    )
    pipeline = project(text).given("source", batch(0, "poison"))

    result = pipeline.run()

    assert result.state is UpdateState.COMPLETED, result.outcome.error
    assert pipeline.project.quarantine_list() == (("deliver_targets", 2, {"sink.refused": 2}),)


@pytest.mark.long(
    guard=(
        "tests/spark/test_rejected_rows.py::test_rows_rejected_by_a_database_become_dead_letters_and_the_others_are_written",
        "tests/spark/test_failing_batches.py::test_a_batch_for_a_database_becomes_dead_letters_only_for_row_errors",
    )
)
def test_rows_rejected_by_a_database_stay_dead_letters_when_the_batch_is_retried(project, postgres, out_orders):
    both = '{"headrace.failing_batches": "quarantine", "headrace.failing_rows": "quarantine"}'
    postgres.execute("ALTER TABLE out_orders ADD CHECK (name <> 'bad')")
    text = DELIVER.replace('{"headrace.failing_batches": "quarantine"}', both)
    pipeline = project(SOURCE + jdbc(postgres) + text).given("source", batch(0, "a", "bad", "c"), batch(3, "d"))
    with pytest.raises(Crashed):
        pipeline.crash_at(Failpoint.WRITTEN).run()

    pipeline.restart().run()

    assert ids(out_orders()) == [0, 2, 3]
    assert counts_of(pipeline, "deliver") == (3, 1)
    assert pipeline.project.quarantine_list() == (("out", 1, {"sink.refused": 1}),)


@pytest.mark.long(
    guard="tests/spark/test_failing_batches.py::test_dead_letters_are_removed_when_the_batch_passes_on_retry"
)
def test_dead_letters_are_removed_when_the_batch_passes_with_the_setting_turned_off(project, tmp_path):
    pipeline = project(sink_text(tmp_path)).given("source", batch(0, "a", "poison"))
    with pytest.raises(Crashed):
        pipeline.crash_at(Failpoint.QUARANTINED).run()
    mended(pipeline, '== "poison"', '== "venom"')
    mended(pipeline, ', spark_conf={"headrace.failing_batches": "quarantine"}', "").run()

    assert (taken(tmp_path), aside(pipeline, "out", "deliver")) == ([0, 1], [])
    assert pipeline.project.quarantine_list() == ()


REPLAY_DEATHS = (
    (Failpoint.WRITTEN, Failpoint.DELIVERY_RECORDED),
    (Failpoint.WRITTEN,),
    (Failpoint.DELIVERY_RECORDED,),
    (Failpoint.MARKED_REPLAYED,),
)


@pytest.mark.parametrize(
    "deaths",
    [(), *(pytest.param(points, marks=ALONE) for points in REPLAY_DEATHS)],
    ids=lambda points: " ".join(point.value for point in points) or "none",
)
def test_a_replay_delivers_the_passing_batches_and_the_stream_continues(project, tmp_path, deaths):
    cured = batch(0, "poison"), batch(1, "venom"), batch(2, "poison")
    pipeline = project(sink_text(tmp_path)).given("source", *cured)
    mended(pipeline, 'row["name"] == "poison"', 'row["name"] in ("poison", "venom")').run()
    assert taken(tmp_path) == []
    mended(pipeline, '("poison", "venom")', '("venom",)')

    die_in_turn(lambda: pipeline.replay("out"), pipeline, *deaths)
    replayed = pipeline.replay("out")
    pipeline.given("source", batch(3, "d"))
    result = pipeline.run()

    # What was about to be marked is all that was left to do.
    assert replayed.error == (None if Failpoint.MARKED_REPLAYED in deaths else "FLOW.USER_CODE")
    assert result.state is UpdateState.COMPLETED
    assert taken(tmp_path) == [0, 2, 3]
    assert aside_open(pipeline) == [1]
    mended(pipeline, '("venom",)', "()").replay("out")
    assert (taken(tmp_path), aside_open(pipeline)) == ([0, 1, 2, 3], [])


def aside_open(pipeline):
    shown = pipeline.project.quarantine_show("out")
    status, row = shown.columns.index("status"), shown.columns.index("row")
    return sorted(json.loads(one[row])["id"] for one in shown.rows if one[status] == "open")


@pytest.mark.long(guard="tests/spark/test_failing_batches.py::test_a_replay_delivers_a_failed_batch_with_new_values")
def test_a_replay_delivers_a_failed_batch_of_an_update_flow(project, tmp_path):
    text = sink_text(tmp_path).replace("@dp.append_flow(", "@dp.update_flow(")
    pipeline = project(text).given("source", batch(0, "a", "poison"), batch(2, "c"))
    pipeline.run()
    assert aside(pipeline, "out", "deliver") == [(0, 0), (0, 1)]

    pipeline.replay("out", changes=["name='cured'"])

    assert (taken(tmp_path), pipeline.project.quarantine_list()) == ([0, 1, 2], ())


NOTES = """
    from pathlib import Path as Place
    from pyspark.sql.datasource import DataSource, DataSourceWriter, WriterCommitMessage

    class Notes(DataSource):
        @classmethod
        def name(cls):
            return "notes"

        def writer(self, schema, overwrite):
            return NotesWriter(self.options["place"])

    class NotesWriter(DataSourceWriter):
        def __init__(self, place):
            self.place = place

        def write(self, rows):
            import json, uuid
            found = [row.asDict() for row in rows]
            if any(row["name"] == "poison" for row in found):
                raise ValueError("no poison")
            if found:
                Place(self.place, uuid.uuid4().hex + ".json").write_text(json.dumps(found))
            return WriterCommitMessage()

    spark.dataSource.register(Notes)
    dp.create_sink("notes", "notes", {"place": {place!r}})
    dp.create_sink("lake", "delta", {"path": {lake!r}})

    @dp.append_flow(target=["notes", "lake"], spark_conf={"headrace.failing_batches": "quarantine"})
    def deliver():
        return stream().coalesce(1)
    """


@pytest.mark.long(
    guard=(
        "tests/spark/test_failing_batches.py::test_a_batch_that_fails_in_one_sink_is_delivered_to_the_others",
        "tests/spark/test_failing_batches.py::test_a_replay_delivers_a_failed_batch_with_new_values",
        "tests/spark/test_sinks.py::test_a_python_data_source_can_be_a_sink",
    )
)
def test_a_python_data_source_that_fails_on_a_batch_can_be_one_of_several_sinks(project, tmp_path):
    (tmp_path / "notes").mkdir()
    text = NOTES.replace("{place!r}", repr(str(tmp_path / "notes"))).replace("{lake!r}", repr(str(tmp_path / "lake")))
    pipeline = project(SOURCE + text).given("source", batch(0, "a", "poison"), batch(2, "c"))

    result = pipeline.run()

    assert result.state is UpdateState.COMPLETED, result.outcome.error
    assert (taken(tmp_path / "notes"), ids(rows_of_delta(tmp_path / "lake"))) == ([2], [0, 1, 2])
    pipeline.replay("deliver_targets", changes=["name='cured'"])
    assert taken(tmp_path / "notes") == [0, 1, 2]
