"""Feature tables, and what was known at a time."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta

import pytest

from headrace import point_in_time
from headrace.errors import PipelineError

pytestmark = pytest.mark.spark

START = datetime(2024, 1, 1, tzinfo=UTC)
HISTORY = "id INT, score INT, __START_AT TIMESTAMP, __END_AT TIMESTAMP"

PROJECT = """
    from headrace import point_in_time

    @dp.table(schema="id INT, at TIMESTAMP, score INT, gone BOOLEAN, note STRING")
    def changes():
        return spark.readStream.schema("id INT, at TIMESTAMP, score INT, gone BOOLEAN, note STRING").json("unused")

    dp.create_feature_table(
        "features", "changes", ["id"], timestamp="at", columns=["score"], apply_as_deletes="gone"
    )

    @dp.materialized_view(schema="id INT, time TIMESTAMP, bought BOOLEAN")
    def labels():
        return spark.read.schema("id INT, time TIMESTAMP, bought BOOLEAN").json("unused")

    @dp.materialized_view
    def training():
        return point_in_time(spark.read.table("labels"), spark.read.table("features"), ["id"], at="time")
    """


def hour(number):
    return START + timedelta(hours=number)


def text(number):
    return hour(number).isoformat()


def test_labels_get_the_features_known_at_their_time_despite_later_changes(project):
    pipeline = project(PROJECT)
    pipeline.given("labels", [{"id": 1, "time": text(n), "bought": True} for n in (0, 1, 2, 3, 5, 6)])
    pipeline.given("changes", [{"id": 1, "at": text(3), "score": 30}, {"id": 1, "at": text(1), "score": 10}])
    pipeline.run("features")
    pipeline.given("changes", [{"id": 1, "at": text(5), "gone": True}, {"id": 1, "at": text(6), "score": 60}])

    result = pipeline.run()

    found = sorted((row["time"], row["score"]) for row in result.rows("training"))
    assert [score for _, score in found] == [None, 10, 10, 30, None, 60]
    newest = pipeline.sql("SELECT id, score FROM features WHERE __END_AT IS NULL").to_json()
    assert newest == [{"id": 1, "score": 60}]


@pytest.mark.parametrize("seed", [1, 2])
def test_a_point_in_time_join_equals_a_row_by_row_search(headrace_session, seed):
    chance = random.Random(seed)
    history, labels = [], []
    for key in range(5):
        times = sorted(chance.sample(range(40), 8))
        for begin, end in zip(times, [*times[1:], None], strict=True):
            until = None if end is None or chance.random() < 0.1 else hour(end - chance.choice([0, 0, 1]))
            history.append((key, chance.randrange(100), hour(begin), until))
    for _ in range(200):
        key = chance.choice([None, 0, 1, 2, 3, 4, 9])
        labels.append((key, chance.choice([None, *map(hour, range(45))]), chance.randrange(3)))

    def known(key, time):
        if key is None or time is None:
            return None
        before = [row for row in history if row[0] == key and row[2] <= time]
        newest = max(before, key=lambda row: row[2], default=None)
        return newest[1] if newest is not None and (newest[3] is None or time < newest[3]) else None

    found = point_in_time(
        headrace_session.createDataFrame(labels, "id INT, at TIMESTAMP, kind INT"),
        headrace_session.createDataFrame(history, HISTORY),
        ["id"],
        at="at",
        prefix="f_",
    )

    expected = sorted(str((key, time, kind, known(key, time))) for key, time, kind in labels)
    stamped = [
        (row["id"], row["at"] and row["at"].astimezone(UTC), row["kind"], row["f_score"]) for row in found.collect()
    ]
    assert sorted(map(str, stamped)) == expected


@pytest.mark.parametrize(
    ("labels", "features", "keys", "code"),
    [
        ("id INT, at TIMESTAMP", "id INT, score INT", ["id"], "FEATURES.NO_HISTORY"),
        ("id INT, at TIMESTAMP", HISTORY, ["ident"], "FEATURES.UNKNOWN_COLUMN"),
        ("id INT, at TIMESTAMP, Score INT", HISTORY, ["id"], "FEATURES.TAKEN"),
        ("id INT, at STRING", HISTORY, ["id"], "FEATURES.TIME_TYPE"),
        ("id DOUBLE, at TIMESTAMP", HISTORY, ["id"], "FEATURES.KEY_TYPE"),
        ("id INT, at TIMESTAMP", HISTORY, [], "FEATURES.NO_KEY"),
    ],
)
def test_labels_and_features_that_cannot_be_joined_are_refused(headrace_session, labels, features, keys, code):
    left, right = (headrace_session.createDataFrame([], schema) for schema in (labels, features))

    with pytest.raises(PipelineError) as refused:
        point_in_time(left, right, keys, at="at")

    assert refused.value.code == code


def test_a_join_uses_the_current_state_of_a_bitemporal_table_and_ignores_null_keys(headrace_session):
    history = [
        (1, 10, hour(0), None, hour(0), hour(5)),
        (1, 11, hour(0), None, hour(5), None),
        (None, 12, hour(0), None, hour(5), None),
    ]
    schema = f"{HISTORY}, __SYSTEM_START_AT TIMESTAMP, __SYSTEM_END_AT TIMESTAMP"
    features = headrace_session.createDataFrame(history, schema)
    labels = headrace_session.createDataFrame([(1, hour(1)), (None, hour(1))], "id BIGINT, at TIMESTAMP")

    found = point_in_time(labels, features, "id", at="at", columns="score")

    assert found.columns == ["id", "at", "score"]
    assert {(row["id"], row["score"]) for row in found.collect()} == {(1, 11), (None, None)}


EVERYTHING = """
    @dp.table(schema="id INT, at TIMESTAMP, score INT")
    def changes():
        return spark.readStream.schema("id INT, at TIMESTAMP, score INT").json("unused")

    dp.create_feature_table("features", "changes", ["id"], timestamp="at")
    """


def test_unchanged_values_add_no_feature_version(project):
    pipeline = project(EVERYTHING)
    pipeline.given("changes", [{"id": 1, "at": text(n), "score": n // 2} for n in (2, 3, 4)])

    result = pipeline.run()

    assert sorted(row["score"] for row in result.rows("features")) == [1, 2]


def test_a_stream_of_labels_is_refused(headrace_session):
    labels = headrace_session.readStream.format("rate").load()

    with pytest.raises(PipelineError, match="a stream"):
        point_in_time(labels, headrace_session.createDataFrame([], HISTORY), ["id"], at="timestamp")
