"""The event log keeps its events and loses the samples of erased rows and the values in other texts."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest

from headrace.delta_log.erased_values import without_texts
from headrace.events.envelope import Origin, from_row
from headrace.events.erased_texts import count_events, erase_from_events
from headrace.events.log import EventLog
from headrace.events.reader import EventReader
from headrace.events.types import FlowStateChanged, RowsSampled, UpdateCreated
from headrace.events.upkeep import RowsErased
from headrace.model.outcome import FlowState

ANN = "ann@x.example"


@pytest.fixture
def path(tmp_path):
    return str(tmp_path / "events")


def write(path, *events):
    ids = iter(range(100))
    origin = Origin("p", "p", "u")
    clock = lambda: datetime(2026, 1, 1, tzinfo=UTC)  # noqa: E731 - one value
    with EventLog(path, origin=origin, clock=clock, new_id=lambda: str(next(ids))) as log:
        for event in events:
            log.emit(event)


def clean(text):
    return without_texts(text, [ANN])


def is_ann(text):
    return json.loads(text).get("email") == ANN


def test_samples_and_values_are_removed_and_every_event_stays(path):
    rows = tuple(json.dumps({"email": email, "note": f"to {ANN}"}) for email in (ANN, "bob@x.example"))
    error = {"code": "FLOW.FAILED", "message": f"cannot cast {ANN}", "location": None}
    failed = FlowStateChanged("orders", "orders", FlowState.FAILED, error=error)
    write(path, UpdateCreated("USER"), RowsSampled("orders", "orders", 0, 0, "paid", rows), failed)

    counted = count_events(path, is_ann, clean)
    changed = erase_from_events(path, is_ann, clean, lambda: None)

    found = list(EventReader(path).events())
    assert (counted, changed, len(found)) == (2, 2, 3)
    assert ANN not in str(found)
    sampled, failed = from_row(found[1]), from_row(found[2])
    assert [json.loads(row)["email"] for row in sampled.rows] == ["bob@x.example"]
    assert failed.error["message"] == "cannot cast (erased)"
    assert erase_from_events(path, is_ann, clean, lambda: None) == 0


def test_nothing_is_written_without_an_event_log(path):
    assert erase_from_events(path, is_ann, clean, lambda: None) == 0
    assert not EventReader(path).exists


def test_an_erasure_is_recorded_without_values_and_is_no_update(path):
    event = RowsErased(("email",), {"table orders": 2}, user="eve")
    write(path, event)

    (row,) = EventReader(path).events()
    assert from_row(row) == event
    assert row["message"] == "rows of a person erased by eve: 2, found by email"
    assert EventReader(path).outcome() is None
