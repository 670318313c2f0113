"""State that is carried over to new names, however often it is interrupted."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest

from headrace.graph.resolved_flows import Mode
from headrace.model.names import Naming, QualifiedName
from headrace.model.views import ViewDefinition
from headrace.plan.renames import Rename, RenameKind
from headrace.plan.steps import ViewChange, ViewStep
from headrace.settings.storage import StorageLayout
from headrace.storage.change_detection import StoredState
from headrace.storage.flow_record import FlowRecord, write_record
from headrace.storage.history import StoredHistory
from headrace.storage.inventory import flows_of
from headrace.storage.renaming import CurrentNames, RelocatedLayout, StoredRenames
from headrace.storage.view_definitions import apply_view_step, stored_view, view_files

NAMING = Naming()
OLD, NEW = QualifiedName("old"), QualifiedName("new", "mart")
DATASET = Rename(RenameKind.DATASET, str(OLD), str(NEW), NEW, OLD)
FLOW = Rename(RenameKind.FLOW, "north", "region", NEW, OLD)
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
        stored.apply(rename, at)


@pytest.mark.parametrize("moves", range(MOVES))
def test_an_interrupted_rename_keeps_all_state_reachable_and_is_completed_later(layout, moves):
    stored = StoredRenames(layout, NAMING)
    seen_now = RelocatedLayout(layout.root, datasets={NEW: OLD}, flows_before={"region": "north"})
    assert [Path(place).is_dir() for place in places(seen_now)] == [True] * 4
    at = dying(moves)

    with pytest.raises(DiedError):
        carry_all_out(stored, at)

    assert [Path(place).is_dir() for place in places(seen_now)] == [True] * 4
    assert [stored.conflict(rename) for rename in (DATASET, FLOW)] == [None, None]
    carry_all_out(stored, dying(MOVES))
    assert [Path(place).is_dir() for place in places(layout)] == [True] * 4
    assert [stored.is_pending(rename) for rename in (DATASET, FLOW)] == [False, False]
    assert not Path(layout.table(NAMING, OLD)).exists()


def test_a_renamed_flow_keeps_its_original_identity(layout):
    stored = StoredRenames(layout, NAMING)

    carry_all_out(stored, dying(MOVES))

    found = {flow.name: (flow.record.identity, flow.record.former_names) for flow in flows_of(layout, NAMING, NEW)}
    assert found == {"mart.new": ("old", {"old": 3}), "region": ("north", {"north": 3})}


def test_a_new_name_that_already_has_state_is_a_conflict(layout):
    taken = layout.quarantine(NAMING, NEW)
    Path(taken).mkdir(parents=True)

    assert StoredRenames(layout, NAMING).conflict(DATASET) == taken


def test_a_view_definition_is_found_before_and_after_its_rename(tmp_path):
    layout = StorageLayout(str(tmp_path))
    apply_view_step(ViewStep(OLD, ViewChange.CREATE, "", ViewDefinition(OLD, "SELECT 1", None, "s")), layout, NAMING)
    stored, seen_now = StoredRenames(layout, NAMING), RelocatedLayout(layout.root, datasets={NEW: OLD})
    assert (stored.is_pending(DATASET), stored_view(seen_now, NAMING, NEW).query) == (True, "SELECT 1")

    stored.apply(DATASET, dying(1))

    assert [name for name, _ in view_files(layout, NAMING)] == [NEW]
    assert (stored.is_pending(DATASET), stored_view(seen_now, NAMING, NEW).query) == (False, "SELECT 1")


@pytest.mark.parametrize("moves", [0, 1, 2, MOVES])
def test_flows_with_a_pending_rename_are_not_reported_as_inactive(layout, make, moves):
    left = FlowRecord(epoch=3, started_at=1.0, mode="append")
    for flow in ("old", "north", "gone"):
        write_record(Path(layout.flow_state(NAMING, OLD, flow)), left)
    with suppress(DiedError):
        carry_all_out(StoredRenames(layout, NAMING), dying(moves))
    flows = [make.flow(name, mode=Mode.APPEND) for name in (str(NEW), "region")]
    graph = make.graph(*(replace(flow, flow=replace(flow.flow, target=NEW)) for flow in flows))
    where = RelocatedLayout(layout.root, datasets={NEW: OLD}, flows_before={"region": "north"})
    state = StoredState(where, NAMING, "p", lambda: 0.0, lambda _flow, _dataset: None)

    past = StoredHistory(where, NAMING, state, CurrentNames({OLD: NEW}, {"north": "region"}))

    assert past.former_stream_flows(graph, NEW) == ("gone",)
    assert [(found.dataset, found.flow) for found in past.inactive(graph)] == [(str(NEW), "gone")]
