"""Whether a stage has read the same as production: streams below would miss rows otherwise, or get them again."""

from __future__ import annotations

import json
from contextlib import closing
from types import SimpleNamespace

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from headrace.autoloader.ledger.ledger import Ledger
from headrace.delta_log.tables import table_state
from headrace.project.staging.same_input import input_difference


def flow(folder, *offsets, streams=True):
    """A flow whose only batch ended at these offsets; none without any."""
    checkpoint = folder / "default/orders/orders/0"
    if offsets:
        (checkpoint / "offsets").mkdir(parents=True)
        lines = ["v1", "{}", *("-" if one is None else json.dumps(one) for one in offsets)]
        (checkpoint / "offsets/0").write_text("\n".join(lines))
    return SimpleNamespace(
        has_checkpoint=streams,
        stores=SimpleNamespace(checkpoint=checkpoint),
        stored=SimpleNamespace(file=checkpoint.parent / "flow.json"),
    )


def difference(tmp_path, then, now, pairs=(), tables=()):
    production, staged = flow(tmp_path / "production", *then), flow(tmp_path / "stage", *now)
    return input_difference(production, staged, dict(pairs), {state.table_id: state for state in tables})


@pytest.mark.parametrize(
    ("then", "now", "expected"),
    [
        ([], [], None),
        ([{"t": {"0": 5}}], [{"t": {"0": 5}}], None),
        ([{"t": {"0": 5}}], [{"t": {"0": 6}}], "its source 1 was read to other positions"),
        ([{"t": {"0": 5}}, 7], [{"t": {"0": 5}}, 8], "its source 2 was read to other positions"),
        ([{"t": {"0": 5}}], [], "only production has read anything"),
        ([], [{"t": {"0": 5}}], "only the stage has read anything"),
        ([1], [1, 2], "it reads other sources now"),
        ([1], [{"t": {"0": 5}}], "its source 1 was read to other positions"),
    ],
)
def test_offsets_that_can_only_be_compared_as_they_are_differ_unless_they_are_equal(tmp_path, then, now, expected):
    assert difference(tmp_path, then, now) == expected


def test_a_view_has_no_positions(tmp_path):
    view = flow(tmp_path, streams=False)

    assert input_difference(view, view, {}, {}) is None


def ledger_with(folder, *names):
    with closing(Ledger.create(folder)) as ledger:
        at = ledger.connection.execute("insert into folders (path, mtime_ns) values ('/in', 0)").lastrowid
        for name in names:
            values = (at, name)
            ledger.connection.execute(
                "insert into files (folder, name, size, mtime_ns, found_ms) values (?, ?, 1, 2, 3)", values
            )
        return ledger.id


@pytest.mark.parametrize(("files", "is_same"), [(("b", "a"), True), (("a", "c"), False), (("a", "b", "c"), False)])
def test_ledgers_are_the_same_if_they_have_the_same_files_in_any_order(tmp_path, files, is_same):
    ids = [
        ledger_with(tmp_path / side / "default/orders/orders/auto_loader/0/_ledgers", *names)
        for side, names in (("production", ("a", "b")), ("stage", files))
    ]

    found = difference(tmp_path, [{"ledger": ids[0], "number": 2}], [{"ledger": ids[1], "number": len(files)}])

    assert (found is None) == is_same


def position(table_id, version, index=-1):
    known = {"sourceVersion": 1, "reservoirId": table_id, "reservoirVersion": version, "index": index}
    return {**known, "isStartingVersion": False}


def test_a_table_is_read_to_the_same_position_if_nothing_is_left_to_read(tmp_path):
    path = str(tmp_path / "raw")
    for number in range(2):
        write_deltalake(path, pa.table({"id": [number]}), mode="append")
    table = table_state(path)
    now, earlier = position(table.table_id, 2), position(table.table_id, 1)

    assert difference(tmp_path / "a", [now], [position(table.table_id, 1, 0)], tables=[table]) is None
    assert difference(tmp_path / "b", [now], [earlier], tables=[table]) is not None
    # What the stage reads of its own table, production reads of the one that it replaces.
    assert difference(tmp_path / "c", [position("old", 9)], [position("new", 3)], pairs=[("new", "old")]) is None
    assert difference(tmp_path / "d", [position("old", 9)], [position("other", 9)]) is not None
