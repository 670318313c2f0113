"""What happened between the batches of a flow: where each marker is, what it says, and the same as a list."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from tests.unit.serve.conftest import FAILURE, NOON, batch, definitions, plain, progress, state

from headrace.events.past_updates import PastUpdate
from headrace.events.recorded import Recorded
from headrace.events.types import FlowDefined, UpdateCreated, UpdateStateChanged
from headrace.model.outcome import FlowState, UpdateState
from headrace.serve.charts import marker_lanes
from headrace.serve.formats import iso
from headrace.serve.pages.flow_markers import MarkerKind, code_changes, flow_markers


def minute(number):
    return NOON + timedelta(minutes=number)


def shown(number, update_id="a", epoch=0):
    return {"started_at": iso(minute(number)), "recorded_at": None, "update_id": update_id, "epoch": epoch}


def past(number, update_id, **created):
    return PastUpdate(update_id, minute(number), UpdateCreated("SCHEDULE", **created), number)


def failed(number, message="it broke"):
    event = state("orders", FlowState.RETRYING, error={**FAILURE, "message": message})
    return Recorded(f"{number:04}", "a", minute(number), event)


def placed(batches, updates=(), failures=(), digests=None, since=None):
    changes = code_changes(updates, since)
    found = flow_markers(batches, updates, since, changes, failures, digests or {})
    return [(one.kind.value, one.place, one.count) for one in found], found


def test_updates_stand_before_their_first_batch_and_those_without_one_by_their_time():
    batches = [shown(1, "a"), shown(2, "a"), shown(11, "c"), shown(12, "c")]
    updates = [past(20, "d"), past(10, "c"), past(5, "b"), past(0, "a")]

    places, found = placed(batches, updates)

    # Two updates began between the second batch and the third; the list names the last one.
    assert places == [("update", 0, 1), ("update", 2, 2), ("update", 4, 1)]
    assert [one.update_id for one in found] == ["a", "c", "d"]


def test_earlier_updates_are_known_by_their_batches_but_not_the_one_that_began_before_the_picture():
    batches = [shown(1, "a"), shown(3, "b"), shown(5, "c")]

    places, _ = placed(batches, [past(4, "c")], since=minute(1))

    assert places == [("update", 1, 1), ("update", 2, 1)]


def test_failures_stand_between_the_batches_before_and_after_them():
    batches = [shown(1), shown(4)]

    places, found = placed(batches, failures=[failed(2, "first"), failed(3, "second"), failed(6, "third")])

    assert places == [("failure", 1, 2), ("failure", 2, 1)]
    assert [(one.text, one.code) for one in found] == [("second", "FLOW.FAILED"), ("third", "FLOW.FAILED")]


def test_a_new_epoch_and_a_backfill_are_marked_once_and_the_return_to_the_epoch_is_not():
    batches = [shown(1), shown(2, epoch=-1), shown(3), shown(4, epoch=1), shown(5, epoch=1)]

    places, found = placed(batches)

    assert places == [("epoch", 1, 1), ("epoch", 3, 1)]
    assert [one.text for one in found] == ["a backfill or replay began", "epoch 1 began: batches count from 0 again"]


def test_changed_code_says_whether_the_query_of_the_flow_changed():
    code = [{"code_digest": name, "git_commit": f"{name}-commit"} for name in ("x", "x", "y", "z")]
    updates = [past(number, f"u{number}", **created) for number, created in enumerate(code)][::-1]
    digests = {"u1": "q", "u2": "q", "u3": "r"}

    _, found = placed([], updates, digests=digests)
    changes = [one for one in found if one.kind is MarkerKind.CODE]

    assert [(change.before.update_id, change.after.update_id) for change in code_changes(updates, None)] == [
        ("u1", "u2"),
        ("u2", "u3"),
    ]
    assert [(one.count, one.text) for one in changes] == [
        (2, "code changed from commit y-commit to z-commit, and with it the query of this flow")
    ]
    assert [one.after.update_id for one in code_changes(updates, minute(3))] == ["u3"]
    # Versions that did not record the code say nothing of it.
    assert code_changes([past(1, "b", code_digest="y"), past(0, "a")], None) == []


def test_lanes_without_markers_take_no_space_and_markers_are_inside_of_the_picture():
    found = marker_lanes([("failure", 0), ("update", 30)], ["update", "code", "failure"], 30)
    none = marker_lanes([], ["update"], 0)

    assert [lane["lane"] for lane in found["lanes"]] == ["update", "failure"]
    assert all(-found["height"] - 8 < mark["y"] - 6 and mark["y"] + 6 < 0 for mark in found["marks"])
    assert [mark["x"] for mark in found["marks"]] == [0, 920]
    assert none == {"height": 0, "lanes": [], "marks": []}


def test_the_page_of_a_flow_has_the_picture_and_the_same_as_a_list(shop, served):
    """Guards what is read of the log: failures since the first batch, digests of queries, epochs of batches."""
    orders = next(one for one in definitions() if isinstance(one, FlowDefined))
    ends = UpdateStateChanged(UpdateState.COMPLETED)
    shop.update("u1", replace(orders, query_digest="q"), (5, batch(0)), ends, code_digest="x", git_commit="1111")
    shop.clock.at += timedelta(hours=1)
    error = {**FAILURE, "message": "the file ended too early"}
    retried = state("orders", FlowState.RETRYING, error=error)
    later = replace(batch(0), epoch=1)
    shop.update("u2", replace(orders, query_digest="r"), retried, later, ends, code_digest="y", git_commit="2222")
    browser = served(shop).sign_in()

    markers = browser.call("/p/shop/f/orders.json").json["markers"]
    page = browser.call("/p/shop/f/orders").text

    assert [one["kind"] for one in markers] == ["update", "failure", "epoch", "code", "update"]
    assert markers[1] | {"at": ""} == {
        "kind": "failure",
        "at": "",
        "text": "the file ended too early",
        "count": 1,
        "update_id": "u2",
        "code": "FLOW.FAILED",
    }
    assert markers[3]["text"] == "code changed from commit 1111 to 2222, and with it the query of this flow"
    assert page.count('<line class="marker"') == len(markers)
    listed = plain(page.partition("as a list: 5 entries")[2].partition("</table>")[0])
    assert all(one["text"] in listed for one in markers)


def test_batches_that_only_a_stream_reports_are_of_its_update(shop, served):
    shop.update("u1", *definitions(), progress(1, NOON), UpdateStateChanged(UpdateState.COMPLETED))

    batches = served(shop).sign_in().call("/p/shop/f/orders.json").json["batches"]

    assert {one["update_id"] for one in batches} == {"u1"}


def test_a_flow_that_never_had_a_batch_has_its_failures_as_a_list_without_a_picture(shop, served):
    shop.update("u1", *definitions(), state("orders", FlowState.FAILED, error=FAILURE))

    page = served(shop).sign_in().call("/p/shop/f/orders").text

    assert "as a list: 2 entries" in page
    assert '<svg class="chart"' not in page
