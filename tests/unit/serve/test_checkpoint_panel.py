"""The checkpoint of a flow on its page: its newest batch, positions, size, and the ways out of a problem."""

from __future__ import annotations

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from tests.unit.serve.checkpoint_files import stored_checkpoint
from tests.unit.serve.conftest import definitions, plain, rendered

from headrace.events.types import UpdateStateChanged
from headrace.model.outcome import UpdateState

FLOW = "/p/shop/f/orders"
KAFKA = {"orders": {"0": 17, "1": 4}}


@pytest.fixture
def defined(shop):
    shop.update("u1", *definitions(), UpdateStateChanged(UpdateState.COMPLETED))
    return shop


def test_a_committed_batch_has_its_positions_age_and_size_and_how_to_check_it(defined, served):
    stored_checkpoint(defined, "orders", {"logOffset": 3}, KAFKA, batch=7, files=("/in/a.json", "/in/b.json"))
    browser = served(defined).sign_in()

    found = browser.call(f"{FLOW}.json").json["checkpoint"]
    page = plain(browser.call(FLOW).text)

    assert (found["commit"], found["mark"], found["planned"], found["done"]) == ("committed", "ok", 7, 7)
    assert [(one["source"], one["position"]) for one in found["sources"]] == [
        ("the files in /in", "2 files taken"),
        ('topic "orders"', "partition 0 at offset 17, partition 1 at offset 4"),
    ]
    assert found["files"] == 6
    assert found["bytes"] > 100
    assert "7, planned 2026-11-20 11:59:" in page
    assert "1 min ago" in page
    assert "headrace checkpoints verify" in page
    assert "headrace checkpoints show orders" in page


def test_positions_in_tables_are_found_by_the_tables_that_the_flow_reads(defined, served):
    for name in ("aaa", "orders"):
        write_deltalake(defined.table(name), pa.table({"id": [1]}))
    table_id = str(DeltaTable(defined.table("orders")).metadata().id)
    offset = {"reservoirId": table_id, "reservoirVersion": 1, "index": -1, "isStartingVersion": False}
    stored_checkpoint(defined, "revenue", offset)

    found = served(defined).sign_in().call("/p/shop/f/revenue.json").json["checkpoint"]

    assert found["sources"] == [{"source": 'table "orders"', "position": "read through version 0 of 0"}]


def test_a_planned_batch_is_finished_by_the_next_update(defined, served):
    stored_checkpoint(defined, "orders", KAFKA, batch=7, is_done=False)

    page = plain(served(defined).sign_in().call(FLOW).text)

    assert "batch 7 was planned and not completed: the next update finishes it; batch 6 is the newest" in page
    assert "headrace run --refresh orders finishes batch 7" in page


def test_a_damaged_checkpoint_is_bad_and_names_the_command_that_helps(defined, served):
    folder = stored_checkpoint(defined, "orders", KAFKA, batch=7)
    (folder / "0" / "commits" / "7").write_text("")
    browser = served(defined).sign_in()

    found = browser.call(f"{FLOW}.json").json["checkpoint"]
    page = browser.call(FLOW)

    assert (found["mark"], found["problem"]["code"]) == ("bad", "FLOW.CHECKPOINT_TORN")
    assert found["ways_out"][0]["command"] == "headrace checkpoints repair orders"
    assert (page.status, "cannot continue" in plain(page.text)) == (200, True)


def test_a_flow_without_a_checkpoint_or_without_a_record_says_so(defined, served):
    stored_checkpoint(defined, "revenue", mode="replace")
    browser = served(defined).sign_in()

    assert "The flow keeps no checkpoint" in browser.call("/p/shop/f/revenue").text
    assert browser.call(f"{FLOW}.json").json["checkpoint"] is None
    assert "the storage has no record of this flow" in browser.call(FLOW).text


def test_older_epochs_are_counted_beside_the_current_one(defined, served):
    stored_checkpoint(defined, "orders", KAFKA, batch=3)
    stored_checkpoint(defined, "orders", KAFKA, batch=1, epoch=1)

    found = served(defined).sign_in().call(f"{FLOW}.json").json["checkpoint"]

    assert (found["epoch"], found["planned"], found["old_epochs"]) == (1, 1, 1)


def test_a_storage_that_cannot_be_read_is_named_and_the_rest_is_shown(defined, served):
    folder = stored_checkpoint(defined, "orders", KAFKA, batch=7)
    (folder / "0" / "offsets" / "7").unlink()
    (folder / "0" / "offsets" / "7").mkdir()

    page = served(defined).sign_in().call(FLOW)

    assert (page.status, "Not everything could be read" in page.text) == (200, True)


def test_while_the_flow_runs_its_planned_batch_is_being_computed(defined, served):
    stored_checkpoint(defined, "orders", KAFKA, batch=7, is_done=False)
    document = served(defined).sign_in().call(f"{FLOW}.json").json

    page = plain(rendered("flow.html", {**document, "is_active": True}, {"batches": None, "history": []}))

    assert "batch 7 is being computed; batch 6 is the newest completed one" in page
