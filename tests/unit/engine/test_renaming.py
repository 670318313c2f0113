"""State that is carried over to new names, however often it is interrupted."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.checkpoints.inventory import flows_of
from headrace.checkpoints.records import FlowRecord, write_record
from headrace.checkpoints.renaming import RelocatedLayout, StoredRenames
from headrace.model.names import Naming, QualifiedName
from headrace.plan.renames import Rename, Renamed
from headrace.settings.storage import StorageLayout

NAMING = Naming()
OLD, NEW = QualifiedName("old"), QualifiedName("new", "mart")
DATASET = Rename(Renamed.DATASET, str(OLD), str(NEW), NEW, OLD)
FLOW = Rename(Renamed.FLOW, "north", "region", NEW, OLD)
MOVES = 5


class DiedError(Exception):
    """What a crash is here."""


def dying(after):
    """What is called after each move, and dies after so many."""
    left = [after]

    def at():
        left[0] -= 1
        if left[0] < 0:
            raise DiedError

    return at


@pytest.fixture
def layout(tmp_path):
    """A storage with a table, its quarantine, its own flow in epoch 3 and another one."""
    layout = StorageLayout(str(tmp_path))
    for folder in (layout.table(NAMING, OLD), layout.quarantine(NAMING, OLD)):
        (Path(folder) / "_delta_log").mkdir(parents=True)
    for flow in ("old", "north"):
        write_record(Path(layout.flow_state(NAMING, OLD, flow)), FlowRecord(epoch=3))
        Path(layout.checkpoint(NAMING, OLD, flow, 3)).mkdir()
    return layout


def places(layout):
    """Where everything is under the new names."""
    flows = [layout.checkpoint(NAMING, NEW, flow, 3) for flow in (str(NEW), "region")]
    return [layout.table(NAMING, NEW), layout.quarantine(NAMING, NEW), *flows]


def carry_all_out(stored, at):
    for rename in (DATASET, FLOW):
        stored.carry_out(rename, at)


@pytest.mark.parametrize("moves", range(MOVES))
def test_everything_is_found_after_each_move_and_the_rest_is_moved_later(layout, moves):
    stored = StoredRenames(layout, NAMING)
    seen_now = RelocatedLayout(layout.root, {NEW: OLD}, {"region": "north"})
    assert [Path(place).is_dir() for place in places(seen_now)] == [True] * 4
    at = dying(moves)

    with pytest.raises(DiedError):
        carry_all_out(stored, at)

    assert [Path(place).is_dir() for place in places(seen_now)] == [True] * 4
    assert [stored.taken(rename) for rename in (DATASET, FLOW)] == [None, None]
    carry_all_out(stored, dying(MOVES))
    assert [Path(place).is_dir() for place in places(layout)] == [True] * 4
    assert [stored.pending(rename) for rename in (DATASET, FLOW)] == [False, False]
    assert not Path(layout.table(NAMING, OLD)).exists()


def test_a_flow_keeps_the_identity_that_it_began_with(layout):
    stored = StoredRenames(layout, NAMING)

    carry_all_out(stored, dying(MOVES))

    found = {flow.name: (flow.record.identity, flow.record.formerly) for flow in flows_of(layout, NAMING, NEW)}
    assert found == {"mart.new": ("old", {"old": 3}), "region": ("north", {"north": 3})}


def test_a_name_with_state_of_its_own_is_taken(layout):
    taken = layout.quarantine(NAMING, NEW)
    Path(taken).mkdir(parents=True)

    assert StoredRenames(layout, NAMING).taken(DATASET) == taken
