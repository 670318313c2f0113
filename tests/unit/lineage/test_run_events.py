"""The events of OpenLineage that the events of an update's log make."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.lineage_schemas import check_run_event
from tests.tiers import examples
from tests.unit.lineage.conftest import (
    DEFINITIONS,
    PRODUCER,
    TOPIC,
    UPDATE,
    Reported,
    at,
    batch,
    ended,
    progress,
    state,
)

from headrace.events.envelope import Origin, Stamp, from_row, to_row
from headrace.events.types import FlowDefined, SinkDefined, TableEvaluated
from headrace.lineage.run_events import RunEvents
from headrace.model.expectations import Action, ExpectationCount

GOLDEN = Path(__file__).parent / "golden"
ENDS = {"COMPLETE", "FAIL", "ABORT"}


def says(name, events):
    text = json.dumps(events, indent=1)
    file = GOLDEN / f"{name}.json"
    if os.environ.get("HEADRACE_GOLDEN") == "rewrite":
        file.write_text(f"{text}\n", encoding="utf-8")
    assert file.read_text(encoding="utf-8") == f"{text}\n"


def test_a_flow_of_a_stream_starts_and_completes_with_its_counts(update):
    update.add(state("orders", "STARTING"), 1)
    update.add(state("orders", "RUNNING"), 2)
    update.add(batch("orders", 0, 10), 3)
    update.add(progress("orders", **{"KafkaV2[Subscribe[orders]]": 12}), 3)
    update.add(state("orders", "COMPLETED"), 4)

    says("stream", update.events)


def test_a_materialized_view_comes_from_what_is_behind_the_view_that_it_reads(update):
    update.add(state("sums", "STARTING"), 1)
    update.add(state("sums", "RUNNING"), 2)
    update.add(batch("sums", 0, 5), 3)
    update.add(TableEvaluated("sums", "sums", (ExpectationCount("unique", Action.FAIL, 1, 0),)), 3)
    update.add(state("sums", "COMPLETED"), 4)

    says("view", update.events)


def test_a_failed_flow_reports_its_error_without_what_addresses_hold(update):
    error = {"code": "JDBC.READ", "message": "no answer of https://me:secret@host/x?sig=secret"}
    update.add(state("post", "STARTING"), 1)

    update.add(state("post", "FAILED", error=error), 2)

    assert update.names() == [("START", "posted.post"), ("FAIL", "posted.post")]
    failed = update.events[1]["run"]["facets"]["errorMessage"]
    assert failed["message"] == "[JDBC.READ] no answer of https://host/x"
    assert [one["name"] for one in update.events[1]["outputs"]] == ["/"]


def test_a_flow_that_does_nothing_is_not_reported(update):
    for name in ("STARTING", "UP_TO_DATE"):
        update.add(state("orders", name))
    for name in ("UP_TO_DATE", "SKIPPED", "EXCLUDED", "CANCELED"):
        update.add(state("sums", name))
    update.add(ended("COMPLETED"))

    assert update.events == []


def test_a_run_that_goes_on_is_reported_at_most_every_period_with_what_happened_since(update):
    update.add(state("orders", "STARTING"))
    update.add(state("orders", "RUNNING"))
    for number in range(100):
        update.add(batch("orders", number, 10), 20 * number)
    update.add(state("orders", "COMPLETED"), 2000)

    reported = [
        (event["eventType"], event["outputs"][0]["outputFacets"]["outputStatistics"]["rowCount"])
        for event in update.events[1:]
    ]
    assert reported == [("RUNNING", 310), ("RUNNING", 300), ("RUNNING", 300), ("COMPLETE", 90)]
    batches = [event["run"]["facets"]["headrace_batch"] for event in update.events[1:]]
    assert [(one["first_batch"], one["last_batch"], one["table_version"]) for one in batches] == [
        (0, 30, 31),
        (31, 60, 61),
        (61, 90, 91),
        (91, 99, 100),
    ]


def test_a_batch_that_is_recorded_twice_counts_once(update):
    for _ in range(2):
        update.add(batch("orders", 0, 10))
    (completed,) = update.add(state("orders", "COMPLETED"))

    assert completed["outputs"][0]["outputFacets"]["outputStatistics"]["rowCount"] == 10


def test_retries_are_one_run(update):
    for name in ("STARTING", "RUNNING", "RETRYING", "STARTING", "RUNNING", "COMPLETED", "RUNNING"):
        update.add(state("orders", name))

    assert [kind for kind, _ in update.names()] == ["START", "COMPLETE"]


@pytest.mark.parametrize(("name", "kind"), [("COMPLETED", "COMPLETE"), ("FAILED", "FAIL"), ("CANCELED", "ABORT")])
def test_an_update_ends_the_runs_that_have_not_ended(update, name, kind):
    update.add(state("orders", "RUNNING"))
    update.add(state("sums", "STARTING"))

    update.add(ended(name))

    assert update.names() == [("START", "orders.orders"), (kind, "orders.orders")]


def test_runs_of_a_process_that_is_gone_are_aborted_once(update):
    update.add(state("orders", "RUNNING"))
    update.add(state("post", "RUNNING"))
    update.add(state("post", "COMPLETED"))

    (aborted,) = update.lost(60)

    assert (aborted["eventType"], aborted["job"]["name"]) == ("ABORT", "orders.orders")
    assert "is gone" in aborted["run"]["facets"]["errorMessage"]["message"]
    assert update.lost(61) == []


def test_a_fan_out_writes_to_what_its_members_write_to(update):
    update.add(SinkDefined("all", "fan_out", {"targets": "posted, orders"}))
    update.add(FlowDefined("spread", "all", inputs=("sums",)))

    (started,) = update.add(replace(state("post", "RUNNING"), flow="spread", dataset="all"))

    assert [(one["namespace"], one["name"]) for one in started["outputs"]] == [
        ("https://api.example.com", "/"),
        ("file", "/data/tables/default/orders"),
    ]


def test_rows_read_belong_to_the_source_that_they_were_read_from(update):
    update.add(FlowDefined("post", "posted", inputs=("orders", "sums"), external_inputs=DEFINITIONS[4].external_inputs))
    sources = {"DeltaSource[file:/data/tables/default/orders]": 3, "KafkaV2[Subscribe[orders]]": 4, "KinesisSource": 5}
    update.add(state("post", "RUNNING"))
    update.add(progress("post", **sources))

    (completed,) = update.add(state("post", "COMPLETED"))

    rows = {one["name"]: one.get("inputFacets", {}).get("inputStatistics", {}) for one in completed["inputs"]}
    assert {name: facet.get("rowCount") for name, facet in rows.items()} == {
        "/data/tables/default/orders": 3,
        "tables/default/sums": None,
        TOPIC.name: 4,
    }


def test_events_of_an_older_version_make_events_without_what_they_do_not_have(update):
    (defined,) = (one for one in DEFINITIONS if isinstance(one, FlowDefined) and one.flow == "orders")
    row = to_row(defined, origin=Origin("p", "shop", UPDATE), stamp=Stamp(1, at(0), "i", "x"))
    details = json.loads(row["details"])
    for key in ("column_lineage", "location", "trigger"):
        details["flow_definition"].pop(key, None)
    details["flow_definition"]["external_inputs"][0].pop("datasets")
    old = from_row({**row, "details": json.dumps(details)})
    update.add(old)

    (started,) = update.add(state("orders", "RUNNING"))

    assert (old.columns, old.location) == (None, None)
    assert [(one["namespace"], one["name"]) for one in started["inputs"]] == [("shop", "kafka orders")]
    assert "columnLineage" not in started["outputs"][0]["facets"]
    assert "sourceCodeLocation" not in started["job"]["facets"]


def test_an_update_whose_id_is_no_uuid_has_runs_with_ids_all_the_same():
    producer = replace(PRODUCER, update_id="u1", repository=None, spark_version="")

    (event,) = Reported(producer).add(state("orders", "RUNNING"))

    check_run_event(event)
    assert set(event["run"]["facets"]) == {"parent"}


# What can happen to a flow, in any order.
STEPS = st.one_of(
    st.tuples(
        st.just("state"),
        st.sampled_from(["orders", "sums", "post"]),
        st.sampled_from(
            [
                *("QUEUED", "STARTING", "RUNNING", "IDLE", "RETRYING", "COMPLETED"),
                *("FAILED", "SKIPPED", "UP_TO_DATE", "CANCELED", "EXCLUDED"),
            ]
        ),
    ),
    st.tuples(st.just("batch"), st.sampled_from(["orders", "sums"]), st.integers(0, 9)),
    st.tuples(st.just("progress"), st.sampled_from(["orders", "post"]), st.integers(0, 9)),
)


def played(runs, steps):
    for kind, flow, what in steps:
        event = {"state": state, "progress": lambda flow, rows: progress(flow, source=rows)}.get(
            kind, lambda flow, number: batch(flow, number, 7)
        )(flow, what)
        yield from runs.add(event, at(0))


@settings(max_examples=examples(40, 2000))
@given(st.lists(STEPS, max_size=30), st.sampled_from(["COMPLETED", "FAILED", "CANCELED", None]))
def test_each_started_run_ends_exactly_once_and_has_the_same_id_in_any_process(steps, end):
    def events():
        runs = RunEvents(replace(PRODUCER, every_s=0.001))
        found = list(played(runs, steps))
        return found + (runs.lost(at(9)) if end is None else runs.add(ended(end), at(9)))

    first, again = events(), events()

    assert first == again
    by_run = {}
    for event in first:
        by_run.setdefault(event["run"]["runId"], []).append(event["eventType"])
    for kinds in by_run.values():
        assert kinds[0] == "START"
        assert [kind for kind in kinds if kind in ENDS] == [kinds[-1]]
        assert kinds.count("START") == 1


@settings(max_examples=examples(40, 2000))
@given(st.lists(st.tuples(st.integers(0, 20), st.integers(1, 9)), max_size=30))
def test_the_rows_of_all_events_of_a_run_are_those_of_its_batches(batches):
    runs = RunEvents(replace(PRODUCER, every_s=2.0))
    events = runs.add(state("orders", "RUNNING"), at(0))
    newest, rows = -1, 0
    for seconds, (number, written) in enumerate(batches):
        events += runs.add(batch("orders", number, written), at(seconds))
        rows += written if number > newest else 0
        newest = max(newest, number)
    events += runs.add(state("orders", "COMPLETED"), at(99))

    reported = [event["outputs"][0].get("outputFacets", {}).get("outputStatistics") for event in events]
    assert sum(one["rowCount"] for one in reported if one) == rows
