"""What must be read before rows can be erased, where rows are, and which datasets are computed again afterwards."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from headrace.delta_log.tables import TableVersion, table_state
from headrace.model.erasure import PlaceKind
from headrace.model.names import Naming
from headrace.settings.storage import StorageLayout
from headrace.storage.dead_letter_tables import dead_letter_table
from headrace.storage.dead_letters import (
    DeadLetter,
    DeadLetterBatch,
    clean_errors,
    count_errors,
    erase_dead_letters,
    matching_dead_letters,
    write_dead_letters,
)
from headrace.storage.erasable import delta_places, open_flows, recompute_later, stateful_flows
from headrace.storage.flow_record import FlowRecord, read_record, write_record
from headrace.storage.input_changes import input_change

NAMING = Naming()
NOW = DeadLetterBatch("orders", 0, 0, "u", at=None)


@pytest.fixture
def layout(tmp_path):
    return StorageLayout(str(tmp_path))


@pytest.fixture
def orders(layout):
    """A table of three versions, which a stream reads."""
    path = layout.table(NAMING, NAMING.canonical("orders"))
    for number in range(3):
        write_deltalake(path, pa.table({"id": [number]}), mode="append")
    return path


def state_of(path):
    found = table_state(path)
    assert found is not None
    return found


def stream(layout, path, version, index=-1, *, starting=False, done=True):
    """A flow whose newest batch ends at a position in a table."""
    folder = StorageLayout(layout.root).checkpoint(NAMING, NAMING.canonical("copies"), "copies", 0)
    offset = {
        "reservoirId": state_of(path).table_id,
        "reservoirVersion": version,
        "index": index,
        "isStartingVersion": starting,
    }
    write_record(layout_file(layout, "copies"), FlowRecord(flow="copies", started_at=1.0))
    for name, lines in (("offsets", ["{}", json.dumps(offset)]), *((("commits", ["{}"]),) if done else ())):
        target = layout_file(layout, "copies").parent / "0" / name
        target.mkdir(parents=True)
        (target / "0").write_text("\n".join(("v1", *lines)))
    return folder


def layout_file(layout, name):
    return Path(layout.flow_state(NAMING, NAMING.canonical(name), name))


@pytest.mark.parametrize(
    ("position", "reason"),
    [
        ({"version": 3}, None),
        ({"version": 2, "index": 0}, None),
        ({"version": 2}, 'it has not read all of "orders"'),
        ({"version": 2, "index": 0, "starting": True}, 'it has not read all of "orders"'),
        ({"version": 3, "starting": True}, 'it has not read all of "orders"'),
        ({"version": 3, "done": False}, 'batch 0, which reads "orders", is unfinished'),
    ],
)
def test_a_stream_is_behind_until_it_has_read_every_change(layout, orders, position, reason):
    stream(layout, orders, **position)

    found = open_flows(layout, NAMING, {"orders": state_of(orders)})

    assert [(flow.name, flow.reason) for flow in found] == ([("copies", reason)] if reason else [])


def test_commits_without_new_data_need_not_be_read(layout, orders):
    stream(layout, orders, 3)
    DeltaTable(orders).optimize.compact()

    assert open_flows(layout, NAMING, {"orders": state_of(orders)}) == ()


def test_an_unfinished_backfill_stops_an_erasure(layout, orders):
    stream(layout, orders, 3)
    loads = layout_file(layout, "copies").parent / "loads"
    loads.mkdir()
    (loads / "1.json").write_text(json.dumps({"ranges": [], "fences": False, "done": False, "retired": False}))

    (found,) = open_flows(layout, NAMING, {"orders": state_of(orders)})

    assert found.reason == "a backfill or a replay is unfinished"


def test_what_cannot_be_read_stops_an_erasure(layout, orders):
    stream(layout, orders, 3)
    folder = layout_file(layout, "copies").parent
    (folder / "0" / "offsets" / "1").write_text("v2\n{}\n{}")

    def reasons():
        return [(flow.name, flow.reason) for flow in open_flows(layout, NAMING, {"orders": state_of(orders)})]

    assert reasons() == [("copies", "batch 1 of its checkpoint cannot be read")]
    (folder / "flow.json").write_text("torn")
    ((name, reason),) = reasons()
    assert (name, "flow.json cannot be read" in reason) == ("copies", True)


def test_streams_with_a_checkpoint_elsewhere_in_the_storage_must_read_on(layout, orders):
    root = Path(layout.root)
    stream(layout, orders, 2)
    (root / "dbfs").mkdir()
    (layout_file(layout, "copies").parent / "0").rename(root / "dbfs" / "copy")
    (root / "dbfs" / "lost").symlink_to("nowhere")

    found = open_flows(layout, NAMING, {"orders": state_of(orders)})

    assert [(flow.name, flow.reason) for flow in found] == [
        ("dbfs/copy", 'it has not read all of "orders"'),
        ("unknown", "dbfs/lost is a link to nothing, and may have checkpoints"),
    ]


def test_a_dataset_computed_from_a_table_with_erased_rows_is_computed_again(layout, orders):
    state = state_of(orders)
    file = layout_file(layout, "revenue")
    known = TableVersion(state.table_id, state.version)
    write_record(file, FlowRecord(flow="revenue", started_at=1.0, inputs={"orders": known, "other": known}))
    assert input_change("orders", orders, state, read_record(file)) is None

    assert recompute_later(layout, NAMING, ["orders"]) == ("revenue",)

    assert input_change("orders", orders, state, read_record(file)) == '"orders" changed'
    assert read_record(file).inputs["other"] == known


def test_tables_quarantines_and_change_events_are_places_with_rows(layout, orders):
    write_record(layout_file(layout, "orders"), FlowRecord(flow="orders", started_at=1.0))
    scripted = "tables/sales/lines_quarantine"
    quarantine, changes = "tables/default/orders_quarantine", "system/cdc/default/customers"
    for folder in (quarantine, changes, "tables/sales/lines", scripted):
        write_deltalake(f"{layout.root}/{folder}", pa.table({"id": [1]}))

    found = {(place.kind, place.name, place.prefixes, place.table) for place in delta_places(layout, NAMING)}

    assert found == {
        (PlaceKind.TABLE, "orders", ((),), "orders"),
        (PlaceKind.QUARANTINE, "orders", (("row",),), "orders_quarantine"),
        (PlaceKind.TABLE, "sales.lines", ((),), "sales.lines"),
        (PlaceKind.TABLE, "sales.lines_quarantine", ((), ("row",)), "sales.lines_quarantine"),
        (PlaceKind.CHANGE_EVENTS, "customers", (("row",), ("key",)), None),
    }


def test_flows_with_state_are_named(layout, orders):
    stream(layout, orders, 3)
    assert stateful_flows(layout, NAMING) == ()
    (layout_file(layout, "copies").parent / "0" / "state" / "0").mkdir(parents=True)

    assert stateful_flows(layout, NAMING) == ("copies",)


def test_dead_letters_are_erased_by_their_record_and_others_lose_the_value_from_their_error(tmp_path):
    errors = {'{"id": 1}': "bad ann", '{"id": "ann"}': "bad ann", '{"id": 2}': "bad ann", '{"id": 3}': "bad"}
    write_dead_letters(tmp_path, NOW, [DeadLetter(row, error, None, {}) for row, error in errors.items()], lambda: None)

    ids = matching_dead_letters(tmp_path, lambda text: "ann" in text)
    cleaned = count_errors(tmp_path, without_ann, ids)
    erase_dead_letters(tmp_path, ids, lambda: None)
    clean_errors(tmp_path, without_ann, lambda: None)

    stored = DeltaTable(dead_letter_table(tmp_path)).to_pyarrow_table().sort_by("id").to_pylist()
    assert (ids, cleaned) == (["0-0-1"], 2)
    assert [(row["id"], row["error"]) for row in stored] == [("0-0-0", "bad *"), ("0-0-2", "bad *"), ("0-0-3", "bad")]
    assert count_errors(tmp_path, without_ann, []) == 0


def test_a_flow_without_dead_letters_has_none_to_erase(tmp_path):
    clean_errors(tmp_path, without_ann, lambda: None)

    assert matching_dead_letters(tmp_path, lambda _text: True) == []


def without_ann(text):
    return text.replace("ann", "*")
