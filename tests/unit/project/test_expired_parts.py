"""Old epochs, and what left the code, are removed once they were unused for as long as the settings say."""

from __future__ import annotations

import json
import os
import time
from dataclasses import replace
from datetime import UTC, datetime
from itertools import count
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from headrace.events.envelope import Origin
from headrace.events.log import EventLog
from headrace.events.types import FlowDefined, UpdateCreated, UpdateStateChanged, Warned
from headrace.graph.resolved_flows import Mode
from headrace.model.maintenance import DAY_S, MaintenancePolicy, Task
from headrace.model.names import Naming, QualifiedName
from headrace.model.outcome import UpdateState
from headrace.plan.inactive import DATASET_INACTIVE, FLOW_INACTIVE
from headrace.plan.steps import Plan
from headrace.project.inspection.expired_parts import ExpiredParts
from headrace.project.lease import Lease
from headrace.settings.load import load_settings
from headrace.storage.flow_record import FlowRecord, write_record
from headrace.storage.health import health_of_flows
from headrace.storage.inactive import inactive_entries
from headrace.storage.renaming import CurrentNames

OLD = time.time() - 40 * DAY_S


class Storage:
    """The flow ``orders`` with four epochs; the table ``gone``, the empty ``empty`` and a flow have left the code."""

    def __init__(self, root, make):
        (root / "pipeline.yml").write_text("name: shop\n")
        settings = load_settings(root / "pipeline.yml", profile=None, environ={})
        self.layout = settings.layout
        policy = MaintenancePolicy(epochs_retain_s=30 * DAY_S, inactive_retain_s=30 * DAY_S)
        self.settings = replace(settings, maintenance=policy)
        self.graph = make.graph(make.flow("orders", mode=Mode.APPEND))
        for name, rows in (("orders", 2), ("gone", 2), ("empty", 0)):
            table = self.layout.table(Naming(), QualifiedName(name))
            write_deltalake(table, pa.table({"id": pa.array(range(rows), pa.int32())}))
            self.flow(name, name)
        self.flow("orders", "second")
        for epoch in range(4):
            self.checkpoint(epoch)
        for file in root.rglob("*"):
            os.utime(file, (OLD, OLD))
        self.log()

    def log(self):
        numbers = count()
        origin = Origin("shop", "shop", "u")
        clock = lambda: datetime.now(UTC)  # noqa: E731 - as the log wants it
        with EventLog(self.layout.events, origin=origin, clock=clock, new_id=lambda: f"{next(numbers):04}") as log:
            for event in (
                UpdateCreated("USER_ACTION"),
                Warned(DATASET_INACTIVE, "", None, "gone"),
                Warned(DATASET_INACTIVE, "", None, "empty"),
                Warned(FLOW_INACTIVE, "", "second", "orders"),
                FlowDefined("orders", "orders"),
                UpdateStateChanged(UpdateState.RUNNING),
            ):
                log.emit(event)

    def folder(self, dataset, flow):
        return Path(self.layout.flow_state(Naming(), QualifiedName(dataset), flow)).parent

    def flow(self, dataset, flow):
        epoch = 3 if flow == "orders" else 0
        record = FlowRecord(started_at=OLD, flow=flow, dataset=dataset, mode="append", epoch=epoch)
        write_record(self.folder(dataset, flow) / "flow.json", record)

    def checkpoint(self, epoch):
        folder = self.folder("orders", "orders") / str(epoch)
        (folder / "offsets").mkdir(parents=True)
        (folder / "metadata").write_text('{"id": "q"}')
        (folder / "offsets" / "0").write_text(f"v1\n{json.dumps({'batchTimestampMs': int(OLD * 1000)})}\n{{}}")

    def plan(self):
        return Plan(self.graph, (), (), inactive=inactive_entries(self.graph, self.layout, Naming(), CurrentNames()))

    def no_plan(self):
        raise AssertionError("a session was opened")

    def actions(self, task, *, dry_run=False, plan=None, **policy):
        settings = replace(self.settings, maintenance=replace(self.settings.maintenance, **policy))
        parts = ExpiredParts(settings, {}, self.health, plan or self.plan)
        return [(action.table, action.state.value) for action in parts.actions(task, dry_run=dry_run)]

    def health(self):
        return health_of_flows(self.layout, Naming(), "shop", {})

    @property
    def epochs(self):
        return {entry.name for entry in self.folder("orders", "orders").iterdir() if entry.is_dir()}


@pytest.fixture
def storage(tmp_path, make):
    return Storage(tmp_path, make)


def test_epochs_before_the_newest_two_are_removed_after_their_retention(storage):
    kept = storage.actions(Task.EPOCHS, epochs_retain_s=50 * DAY_S)
    planned = storage.actions(Task.EPOCHS, dry_run=True)
    before = storage.epochs
    done = storage.actions(Task.EPOCHS)

    assert (kept, planned, before) == ([], [("orders", "PLANNED")], {"0", "1", "2", "3"})
    assert (done, storage.epochs) == ([("orders", "DONE")], {"2", "3"})
    assert storage.actions(Task.EPOCHS) == []


def test_what_left_the_code_is_removed_after_its_retention_unless_it_has_rows(storage):
    expected = [("empty", "PLANNED"), ("gone", "SKIPPED"), ("orders.second", "PLANNED")]
    assert storage.actions(Task.INACTIVE, dry_run=True, plan=storage.no_plan) == expected

    done = storage.actions(Task.INACTIVE)

    assert done == [(name, "DONE" if state == "PLANNED" else state) for name, state in expected]
    assert {entry.flow or entry.dataset for entry in storage.plan().inactive} == {"gone"}
    assert storage.actions(Task.INACTIVE, plan=storage.no_plan) == [("gone", "SKIPPED")]


def test_what_the_code_defines_again_is_not_removed(storage):
    # The event log knows only what the latest update defined.
    plan = Plan(storage.graph, (), (), inactive=())

    found = storage.actions(Task.INACTIVE, plan=lambda: plan)

    assert {state for _, state in found} == {"SKIPPED"}


@pytest.mark.parametrize("policy", [{"inactive_retain_s": None}, {"inactive_retain_s": 50 * DAY_S}])
def test_nothing_is_removed_earlier_than_the_settings_say(storage, policy):
    assert storage.actions(Task.INACTIVE, plan=storage.no_plan, **policy) == []


def test_nothing_is_removed_while_an_update_runs(storage):
    with Lease(storage.layout.lease, "here", time.time):
        assert storage.actions(Task.EPOCHS) == [("orders", "SKIPPED")]
        states = dict(storage.actions(Task.INACTIVE))

    assert set(states.values()) == {"SKIPPED"}
    assert storage.epochs == {"0", "1", "2", "3"}
