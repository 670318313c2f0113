"""Rows in quarantine, made anew by the corrected query of the records that they came from."""

from __future__ import annotations

import pytest

from headrace.errors import PipelineError
from headrace.testing import Crashed, Failpoint

pytestmark = pytest.mark.spark

# The price is a hundred times too small, until the query is corrected.
QUERY = """
    @dp.table
    @dp.expect_or_quarantine("at least one", "price >= 1")
    def prices():
        records = {records}
        return records.selectExpr("topic", "partition", "offset", "CAST(value AS STRING) / 10000 AS price")
    """
TOPIC = 'spark.readStream.format("kafka").options(**{given!r}).load()'
RAW = """
    @dp.table(schema="topic STRING, partition INT, offset BIGINT, value STRING")
    def raw():
        return spark.readStream.schema("topic STRING, partition INT, offset BIGINT, value STRING").json("unused")
    """


def of_topic(kafka, topic):
    given = {"kafka.bootstrap.servers": kafka.servers, "subscribe": topic, "startingOffsets": "earliest"}
    return QUERY.replace("{records}", TOPIC.replace("{given!r}", repr(given)))


def record(offset, value, partition=0):
    return {"topic": "t", "partition": partition, "offset": offset, "value": value}


def prices(pipeline):
    return sorted(row["price"] for row in pipeline.rows("prices"))


def states(pipeline):
    rows = pipeline.rows("prices_quarantine")
    return sorted((row["source"]["partition"], row["source"]["offset"], row["status"]) for row in rows)


def changed(pipeline, old, new):
    file = pipeline.folder / "transformations" / "project.py"
    text = file.read_text()
    assert old in text
    file.write_text(text.replace(old, new))


@pytest.mark.parametrize(
    "point",
    [
        Failpoint.WRITTEN,
        *(
            pytest.param(point, marks=pytest.mark.long(guard="its other cases"))
            for point in (None, Failpoint.BEFORE_WRITE, Failpoint.MARKED_REPLAYED)
        ),
    ],
)
def test_a_replay_from_source_reads_records_again_and_writes_them_once(project, kafka, point):
    topic = kafka.topic(partitions=2)
    kafka.produce(topic, "900", "20000", "100")
    kafka.produce(topic, "30000", "700", partition=1)
    pipeline = project(of_topic(kafka, topic))
    pipeline.run()
    assert states(pipeline) == [(0, 0, "open"), (0, 2, "open"), (1, 1, "open")]
    changed(pipeline, "10000", "100")

    if point is None:
        pipeline.replay("prices", from_source=True)
    else:
        with pytest.raises(Crashed):
            pipeline.crash_at(point).replay("prices", from_source=True)
        if point is Failpoint.WRITTEN:
            # What is in the table already is not read again.
            kafka.forget(topic, below=3)
        result = pipeline.restart().run()
        assert result.error is None

    assert prices(pipeline) == [1.0, 2.0, 3.0, 7.0, 9.0]
    assert {state for _, _, state in states(pipeline)} == {"replayed"}


def refusal(pipeline, name="prices"):
    """The code of the error of a replay, and what it says."""
    error = pipeline.replay(name, from_source=True).outcome.error
    return error["code"], error["detail"]


def test_a_replay_from_source_is_rejected_when_records_are_missing(project, kafka):
    topic = kafka.topic()
    kafka.produce(topic, "900", "800", "20000")
    pipeline = project(of_topic(kafka, topic))
    pipeline.run()
    kafka.forget(topic, below=1)

    code, detail = refusal(pipeline)

    assert code == "REPLAY.NOT_FROM_SOURCE"
    assert "1 of 2 records" in detail
    assert states(pipeline) == [(0, 0, "open"), (0, 1, "open")]


PARTS = "transform(split(value, ','), part -> part / 100)"
# What is changed in the query of each table, its records, and why these are not read again.
REFUSED = {
    "without_offsets": (('"topic", "partition", "offset", "CAST', '"CAST'), ["900"], "lack topic, partition or offset"),
    "exploded": (
        ('"topic", "partition"', '"explode(array(1, 2)) AS n", "topic", "partition"'),
        ["900"],
        "several rows per record",
    ),
    "repeated": (("", ""), ["900", "900"], "are duplicates"),
    "of_parts": (
        ("CAST(value AS STRING) / 10000", f"explode({PARTS})"),
        ["900,50", "70"],
        "the table already has other rows from 1 of the records",
    ),
}


def test_a_replay_from_source_is_rejected_when_it_would_not_be_exact(project):
    text, records = RAW, []
    # Each table has the records of a partition of its own.
    for partition, (name, ((old, new), values, _)) in enumerate(REFUSED.items()):
        assert old in QUERY
        table = QUERY.replace("{records}", f'spark.readStream.table("raw").where("partition = {partition}")')
        text += table.replace(old, new).replace("prices", name)
        offsets = [5] * len(values) if name == "repeated" else range(5, 5 + len(values))
        records += [record(offset, value, partition) for offset, value in zip(offsets, values, strict=True)]
    pipeline = project(text).given("raw", records)
    pipeline.run()
    assert [row["price"] for row in pipeline.rows("of_parts")] == [9.0]
    changed(pipeline, f"explode({PARTS})", f"{PARTS}[0]")

    found = {name: refusal(pipeline, name) for name in REFUSED}

    assert {code for code, _ in found.values()} == {"REPLAY.NOT_FROM_SOURCE"}
    assert {name: reason for name, (_, _, reason) in REFUSED.items() if reason not in found[name][1]} == {}
    with pytest.raises(PipelineError) as caught:
        pipeline.replay("repeated", from_source=True, changes=["price=1"])
    assert caught.value.code == "REPLAY.SET_FROM_SOURCE"


def of_table(project, old="", new=""):
    text = RAW + QUERY.replace("{records}", 'spark.readStream.table("raw")')
    assert old in text
    return project(text.replace(old, new))


@pytest.mark.long(
    guard="tests/spark/test_replay_from_source.py::test_a_replay_from_source_reads_records_again_and_writes_them_once"
)
@pytest.mark.parametrize(
    "point", [pytest.param(None, marks=pytest.mark.long(guard="its other cases")), Failpoint.WRITTEN]
)
def test_a_replay_from_source_counts_dropped_and_quarantined_rows_despite_a_crash(project, point):
    rule = '    @dp.expect_or_drop("no seven", "price <> 7")\n    def prices'
    pipeline = of_table(project, "    def prices", rule)
    pipeline.given("raw", [record(5, "900"), record(6, "700"), record(7, "20000"), record(8, "50")])
    pipeline.run()
    changed(pipeline, "10000", "100")

    if point is not None:
        with pytest.raises(Crashed):
            pipeline.crash_at(point).replay("prices", from_source=True)
    pipeline.restart().replay("prices", from_source=True) if point is None else pipeline.restart().run()

    assert prices(pipeline) == [2.0, 9.0]
    # The last one breaks the rule as before.
    replayed = [(0, offset, "replayed") for offset in (5, 6)]
    assert states(pipeline) == [*replayed, (0, 8, "open"), (0, 8, "replayed")]
    counts = pipeline.project.events().flow_totals()["prices"]
    assert (counts.rows_written, counts.rows_dropped, counts.rows_quarantined) == (2, 1, 4)


@pytest.mark.long(
    guard="tests/spark/test_dead_letters.py::test_a_replay_writes_rows_that_the_fixed_query_accepts_and_keeps_the_others"
)
def test_a_failed_replay_from_source_does_not_block_the_next_update(project):
    pipeline = of_table(project)
    first = pipeline.given("raw", [record(5, "900"), record(6, "20000")]).run()
    assert first.error is None, first.outcome.error
    changed(pipeline, "CAST(value AS STRING) / 10000", "CAST(value AS STRING) / int(offset <> 5)")

    replayed = pipeline.replay("prices", from_source=True)
    pipeline.given("raw", [record(7, "3")])
    result = pipeline.restart().run()

    assert (replayed.error is None, result.error) == (False, None)
    assert prices(pipeline) == [2.0, 3.0]
    assert states(pipeline) == [(0, 5, "open")]
