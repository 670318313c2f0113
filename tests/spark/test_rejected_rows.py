"""Rows that sinks reject: stored one by one while the others are delivered; shown, and replayed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.crashed_updates import die_in_turn, in_turn_or_alone
from tests.delivery_cases import FIRST, FLOW, IDS, SECOND, SOURCE, ids, jdbc, rows_of_delta, sink
from tests.servers.receiver import running_receiver

from headrace.errors import PipelineError
from headrace.model.outcome import UpdateState
from headrace.runtime import retry
from headrace.testing import Failpoint

pytestmark = pytest.mark.spark

ALONE = pytest.mark.long(guard="its other cases")

SPARING = FLOW.replace('target="out"', 'target="out", spark_conf={"headrace.failing_rows": "quarantine"}')


def refused(pipeline, sink="out"):
    """The ids of rows that were set aside, with what was said of each."""
    place = Path(pipeline.settings.storage) / "checkpoints" / "default" / sink / "deliver" / "failing_rows"
    rows = rows_of_delta(place) if place.exists() else []
    return sorted((int(json.loads(row["row"])["id"]), row["sink"], row["error"]) for row in rows)


DEATHS = in_turn_or_alone(ALONE, Failpoint.QUARANTINED, Failpoint.WRITTEN)


@pytest.mark.parametrize("deaths", DEATHS)
def test_rows_rejected_by_a_database_become_dead_letters_and_the_others_are_written(
    project, postgres, out_orders, deaths
):
    postgres.execute("ALTER TABLE out_orders ALTER COLUMN name TYPE varchar(5), ADD CHECK (id <> 2)")
    long = {"id": 9, "name": "much too long"}
    pipeline = project(SOURCE + jdbc(postgres) + SPARING).given("source", [*FIRST, long], [*SECOND, {"id": 0}])

    die_in_turn(pipeline.run, pipeline, *deaths)
    result = pipeline.run()

    assert result.state is UpdateState.COMPLETED, result.outcome.error
    assert ids(out_orders()) == [0, 1, 3, 4, 5, 6, 7]
    found = refused(pipeline)
    assert [(row, sink) for row, sink, _ in found] == [(0, "out"), (2, "out"), (9, "out")]
    assert "too long" in found[2][2]
    counts = pipeline.project.events().flow_totals()["deliver"]
    assert (counts.rows_written, counts.rows_quarantined) == (7, 3)


@pytest.mark.parametrize(
    "deaths",
    [pytest.param((), id="none"), *(pytest.param(*one.values, marks=ALONE, id=one.id) for one in DEATHS)],
)
def test_rows_rejected_by_a_server_become_dead_letters_and_the_others_are_delivered(project, tmp_path, deaths):
    with running_receiver() as server:
        server.answer = lambda request, _: 422 if {row["id"] for row in request.rows} & {2, 5} else 200
        text = SOURCE + sink("http", url=server.url, rowsPerRequest=4)
        text += f'\n    dp.create_sink("lake", "delta", {{"path": {str(tmp_path / "lake")!r}}})\n'
        text += SPARING.replace('target="out"', 'target=["out", "lake"]')
        pipeline = project(text).given("source", FIRST, SECOND)

        die_in_turn(pipeline.run, pipeline, *deaths)
        pipeline.run()

        assert ids(server.taken) == [0, 1, 3, 4, 6, 7]
    assert ids(rows_of_delta(tmp_path / "lake")) == IDS
    assert refused(pipeline, "deliver_targets") == [(2, "out", REFUSED), (5, "out", REFUSED)]
    counts = pipeline.project.events().flow_totals()["deliver"]
    assert (counts.rows_written, counts.rows_quarantined) == (6, 2)


REFUSED = 'status 422: {"said": "answer 422"}'


def test_a_flow_fails_when_a_sink_rejects_too_many_rows(project):
    with running_receiver() as server:
        server.answer = lambda _request, _number: 422
        pipeline = project(SOURCE + sink("http", url=server.url) + SPARING)
        pipeline.given("source", [{"id": number} for number in range(20)])

        result = pipeline.run()

    assert result.error == "ROWS.TOO_MANY_REFUSED"
    assert refused(pipeline) == []


@pytest.fixture
def refusing(project):
    """A server that has refused one row, and the pipeline that sends to it."""
    with running_receiver() as server:
        server.answer = lambda request, _: 422 if request.rows[0]["id"] == 2 else 200
        pipeline = project(SOURCE + sink("http", url=server.url, rowsPerRequest=1) + SPARING).given("source", FIRST)
        pipeline.run()
        yield pipeline


def test_rows_rejected_by_a_sink_are_shown_with_the_reason(refusing):
    shown = refusing.project.quarantine_show("out")

    assert refusing.project.quarantine_list() == (("out", 1, {"sink.refused": 1}),)
    assert dict(zip(shown.columns, shown.rows[0], strict=True))["error"] == REFUSED


def test_a_replay_of_several_causes_or_of_an_unknown_rule_is_rejected(refusing):
    for rules, code in ((["sink.refused", "query.failed"], "REPLAY.ONE_CAUSE"), (["no such"], "REPLAY.NOTHING")):
        with pytest.raises(PipelineError) as caught:
            refusing.replay("out", rules=rules)
        assert caught.value.code == code


@pytest.mark.parametrize(
    "deaths",
    [
        pytest.param((), marks=ALONE),
        *in_turn_or_alone(ALONE, *(Failpoint.WRITTEN, Failpoint.MARKED_REPLAYED)),
    ],
)
def test_a_replay_sends_rejected_rows_to_their_sink_again(project, postgres, out_orders, tmp_path, deaths):
    postgres.execute("ALTER TABLE out_orders ADD CONSTRAINT small CHECK (id NOT IN (2, 5))")
    text = SOURCE + jdbc(postgres)
    text += f'\n    dp.create_sink("lake", "delta", {{"path": {str(tmp_path / "lake")!r}}})\n'
    text += SPARING.replace('target="out"', 'target=["out", "lake"]')
    pipeline = project(text).given("source", FIRST, SECOND)
    pipeline.run()
    postgres.execute("ALTER TABLE out_orders DROP CONSTRAINT small, ADD CHECK (id <> 5)")

    if not deaths:
        result = pipeline.replay("deliver_targets", rules=["sink.refused"])
        counts = result.flow("deliver").counts
        assert (counts.rows_written, counts.rows_quarantined) == (1, 1)
    else:
        die_in_turn(lambda: pipeline.replay("deliver_targets"), pipeline, deaths[0])
        die_in_turn(lambda: pipeline.run("deliver_targets"), pipeline, *deaths[1:])
        pipeline.run("deliver_targets")

    assert ids(out_orders()) == [0, 1, 2, 3, 4, 6, 7]
    assert ids(rows_of_delta(tmp_path / "lake")) == IDS
    assert pipeline.project.quarantine_list() == (("deliver_targets", 1, {"sink.refused": 1}),)


def refused_by_both(project, postgres, server):
    """A flow into a database and to a server, each of which has refused rows of its own."""
    postgres.execute("ALTER TABLE out_orders ADD CONSTRAINT small CHECK (id NOT IN (2, 5))")
    server.answer = lambda request, _: 422 if request.rows[0]["id"] in (2, 3) else 200
    options = {"url": server.url, "rowsPerRequest": 1, "concurrency": 1, "maxAttempts": 1}
    text = SOURCE + jdbc(postgres) + f'\n    dp.create_sink("shop", "http", {options!r})\n'
    text += SPARING.replace('target="out"', 'target=["out", "shop"]')
    pipeline = project(text, max_flow_retries=2).given("source", FIRST, SECOND)
    pipeline.run()
    return pipeline


@pytest.mark.long(
    guard=(
        "tests/spark/test_rejected_rows.py::test_a_replay_sends_rejected_rows_to_their_sink_again",
        "tests/spark/test_spill_queue.py::test_a_partially_sent_batch_is_sent_again_with_the_same_keys",
    )
)
def test_a_retried_replay_processes_the_rows_that_it_started_with(project, postgres, out_orders, monkeypatch):
    monkeypatch.setattr(retry, "FIRST_DELAY_S", 0.05)
    with running_receiver() as server:
        pipeline = refused_by_both(project, postgres, server)
        postgres.execute("ALTER TABLE out_orders DROP CONSTRAINT small, ADD CHECK (id <> 5)")
        before = len(server.requests)
        server.answer = lambda _request, number: 503 if number == before + 1 else 200

        result = pipeline.replay("deliver_targets")

        assert result.state is UpdateState.COMPLETED, result.outcome.error
        assert ids(server.taken) == IDS
    assert ids(out_orders()) == [0, 1, 2, 3, 4, 6, 7]
    assert pipeline.project.quarantine_list() == (("deliver_targets", 1, {"sink.refused": 1}),)


@pytest.mark.long(
    guard=(
        "tests/spark/test_replay.py::test_a_crashed_replay_can_be_abandoned",
        "tests/spark/test_rejected_rows.py::test_a_replay_sends_rejected_rows_to_their_sink_again",
    )
)
def test_a_failed_replay_of_rejected_rows_can_be_abandoned(project, postgres, out_orders):
    with running_receiver() as server:
        pipeline = refused_by_both(project, postgres, server)

        result = pipeline.replay("deliver_targets", changes=["name=raise_error('no')"])
        pipeline.replay("deliver_targets", abandon=True)
        server.answer = lambda _request, _number: 200
        again = pipeline.replay("deliver_targets", changes=["name='mended'"])

    assert (result.state, again.state) == (UpdateState.FAILED, UpdateState.COMPLETED)
    assert {row["name"] for row in server.taken if row["id"] in (2, 3)} == {"mended"}


@pytest.mark.long(guard="tests/spark/test_rejected_rows.py::test_a_replay_sends_rejected_rows_to_their_sink_again")
def test_replayed_rejected_rows_have_the_columns_of_their_own_flow(project):
    with running_receiver() as server:
        server.answer = lambda request, _: 422 if request.rows[0]["id"] == 2 else 200
        text = SOURCE + sink("http", url=server.url, rowsPerRequest=1) + SPARING
        text += SPARING.replace("def deliver", "def names").replace("stream()", 'stream().select("id")')
        pipeline = project(text).given("source", FIRST)
        pipeline.run()
        server.answer = lambda _request, _number: 200

        pipeline.replay("out")

        assert sorted(map(list, server.taken[-2:])) == [["id"], ["id", "name"]]


def test_json_documents_are_written_unchanged_and_invalid_json_is_rejected(project, postgres, out_orders):
    postgres.execute("ALTER TABLE out_orders ALTER COLUMN name TYPE jsonb USING name::jsonb")
    rows = [{"id": 0, "name": '{"a": [1]}'}, {"id": 1}, {"id": 2, "name": "no document"}, {"id": 3, "name": "null"}]
    pipeline = project(SOURCE + jdbc(postgres) + SPARING).given("source", rows)

    pipeline.run()

    postgres.execute("DELETE FROM out_orders WHERE name IS NULL")
    assert {row["id"]: row["name"] for row in out_orders()} == {0: {"a": [1]}, 3: None}
    assert [row for row, _, _ in refused(pipeline)] == [2]
