"""What left the code is removed when it is named, with its rows only if that is accepted."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import CommitProperties, Transaction, write_deltalake

from headrace.checkpoints.epochs import read_epoch
from headrace.errors import PipelineError
from headrace.graph.analysis import SourceKind
from headrace.graph.resolved_flows import Mode
from headrace.graph.select import Selected
from headrace.model.datasets import Kind
from headrace.model.names import Naming, QualifiedName
from headrace.model.sinks import SinkDefinition
from headrace.plan.backfills import Backfill
from headrace.plan.steps import Plan
from headrace.plan.unfinished_clears import PendingClears
from headrace.plan.unrecoverable_rows import plan_clears
from headrace.project.clean import CleanRequest, clean_storage
from headrace.project.maintenance.lock import maintenance_lock
from headrace.settings.load import load_settings
from headrace.settings.storage import MonitoringFile
from headrace.storage.backfills import next_number, store_backfill, stored_backfills
from headrace.storage.change_detection import StoredState
from headrace.storage.flow_record import FlowRecord, write_record
from headrace.storage.health import health_of_flows
from headrace.storage.history import StoredHistory
from headrace.storage.inactive import inactive_entries
from headrace.storage.removal import removal_folder
from headrace.storage.renaming import CurrentNames

ORDERS = QualifiedName("orders")


class Storage:
    """A storage with the tables and flows of some datasets; the code defines only ``orders``."""

    def __init__(self, root, make):
        (root / "pipeline.yml").write_text("name: shop\n")
        self.settings = load_settings(root / "pipeline.yml", profile=None, environ={})
        self.layout = self.settings.layout
        self.make = make
        self.graph = make.graph(make.flow("orders", mode=Mode.APPEND))
        for name in ("orders", "gone", "empty"):
            self.flow(name, name)
            self.table(name, rows=0 if name == "empty" else 2)
        self.flow("orders", "second")

    def folder(self, dataset, flow):
        return Path(self.layout.flow_state(Naming(), QualifiedName(dataset), flow)).parent

    def flow(self, dataset, flow, epoch=0):
        record = FlowRecord(started_at=1.0, flow=flow, dataset=dataset, mode="append", epoch=epoch)
        write_record(self.folder(dataset, flow) / "flow.json", record)

    def checkpoint(self, dataset, flow, epoch, *, batches=1):
        checkpoint = self.folder(dataset, flow) / str(epoch)
        (checkpoint / "offsets").mkdir(parents=True)
        (checkpoint / "metadata").write_text('{"id": "q"}')
        for batch in range(batches):
            (checkpoint / "offsets" / str(batch)).write_text(f"v1\n{{}}\n{json.dumps({'logOffset': batch})}")
        return checkpoint

    def state(self):
        return StoredState(self.layout, Naming(), "shop", lambda: 0.0, lambda _flow, _dataset: None)

    def refresh_problems(self):
        """The codes of the problems that a full refresh of the table has."""
        history = StoredHistory(self.layout, Naming(), self.state())
        pending = PendingClears(frozenset(), frozenset(), frozenset())
        selected = Selected(frozenset({ORDERS}), frozenset({ORDERS}))
        return [problem.code for problem in plan_clears(self.graph, history, selected, {}, pending).problems]

    def table(self, name, rows):
        path = self.layout.table(Naming(), QualifiedName(name))
        write_deltalake(path, pa.table({"id": pa.array(range(rows), pa.int32())}))
        return path

    @property
    def plan(self):
        return Plan(self.graph, (), (), inactive=inactive_entries(self.graph, self.layout, Naming(), CurrentNames()))

    def clean(self, *names, **request):
        wanted = CleanRequest(inactive=names, **request)
        found = clean_storage(self.settings, {}, wanted, lambda: (), lambda: self.plan)
        return [part.kind.value for part in found.removed]

    def code(self, *names, **request):
        with pytest.raises(PipelineError) as refused:
            self.clean(*names, **request)
        return refused.value.code

    @property
    def left(self):
        return {entry.flow or entry.dataset for entry in self.plan.inactive}


@pytest.fixture
def storage(tmp_path, make):
    return Storage(tmp_path, make)


def test_a_table_with_rows_is_removed_only_if_their_loss_is_accepted(storage):
    refused = storage.code("gone")
    untouched = storage.left
    dry = storage.clean("gone", accept_data_loss=True, dry_run=True)
    removed = storage.clean("gone", accept_data_loss=True)

    assert (refused, untouched) == ("CHECKPOINTS.HAS_ROWS", {"gone", "empty", "second"})
    assert dry == removed == ["flow", "table"]
    assert storage.left == {"empty", "second"}
    assert not Path(storage.layout.flows(Naming(), QualifiedName("gone")), "gone").exists()


def test_an_empty_table_and_a_flow_without_rows_of_its_own_are_removed(storage):
    assert storage.clean("empty") == ["flow", "table"]
    assert storage.clean("second") == ["flow state"]
    assert (storage.left, removal_folder(storage.layout).exists()) == ({"gone"}, False)


def test_a_flow_with_undelivered_batches_is_removed_only_if_their_loss_is_accepted(storage):
    folder = Path(storage.layout.flow_state(Naming(), QualifiedName("orders"), "second")).parent
    (folder / "waiting" / "only" / f"{1:012}.0.3.{'0' * 32}").mkdir(parents=True)

    assert storage.code("second") == "CHECKPOINTS.HAS_ROWS"
    assert storage.clean("second", accept_data_loss=True) == ["flow state"]


@pytest.mark.parametrize("name", ["orders", "nothing", "a b"])
def test_what_the_code_defines_is_never_removed(storage, name):
    assert storage.code(name, accept_data_loss=True) == "CHECKPOINTS.NOT_INACTIVE"


@pytest.mark.parametrize("table", ["gone", "gone_quarantine"])
@pytest.mark.parametrize("reads", ["source", "path"])
def test_a_table_that_a_flow_reads_is_not_removed(storage, reads, table):
    storage.table("gone_quarantine", rows=1)
    flow = storage.graph.flows[0]
    how = (
        {"sources": (storage.make.source(SourceKind.DATASET, table),)}
        if reads == "source"
        else {"external_tables": (storage.layout.table(Naming(), QualifiedName(table)),)}
    )
    storage.graph = storage.make.graph(replace(flow, analysis=replace(flow.analysis, **how)))

    assert storage.code("gone", accept_data_loss=True) == "CHECKPOINTS.STILL_READ"


@pytest.mark.parametrize("removed_before", ["flow", "flow and table"])
def test_a_removal_that_crashed_can_be_repeated(storage, removed_before):
    whole = storage.clean("gone", accept_data_loss=True, dry_run=True)
    assert whole == ["flow", "table"]
    for part in ("checkpoints", "tables")[: 1 if removed_before == "flow" else 2]:
        moved = Path(storage.layout.root) / part / "default" / "gone"
        removal_folder(storage.layout).mkdir(parents=True, exist_ok=True)
        moved.rename(removal_folder(storage.layout) / part)

    if removed_before == "flow":
        assert storage.clean("gone", accept_data_loss=True) == ["table"]
    else:
        assert storage.code("gone", accept_data_loss=True) == "CHECKPOINTS.NOT_INACTIVE"
    assert ("gone" in storage.left, removal_folder(storage.layout).exists()) == (False, False)


def test_what_a_table_depends_on_outlives_a_flow_that_left(storage):
    folder = storage.folder("orders", "second")
    checkpoint = storage.checkpoint("orders", "second", 0)
    (folder / "delivered-0.json").write_text("{}")
    store_backfill(folder, Backfill(1, (), stream_starts_after=False, done=True))
    before = storage.refresh_problems()
    storage.clean("second")

    assert before == storage.refresh_problems() == ["PLAN.DATA_LOSS"]
    assert next_number(stored_backfills(folder, Naming().canonical)) == 2
    assert read_epoch(checkpoint).offset(0) == {"logOffset": 0}
    assert {entry.name for entry in folder.iterdir()} == {"flow.json", "loads", "delivered-0.json", "epoch-0.json"}


def test_a_flow_that_was_cleaned_is_listed_again_only_once_it_is_in_the_code_and_leaves(storage):
    storage.clean("second")
    flow = storage.make.flow("second", target="orders", mode=Mode.APPEND)
    listed, flows = (
        storage.left,
        [health.stored.name for health in health_of_flows(storage.layout, Naming(), "shop", {})],
    )
    # An update writes this record.
    write_record(storage.folder("orders", "second") / "flow.json", storage.state().progress_of(flow))

    assert (listed, flows) == ({"gone", "empty"}, ["empty", "gone", "orders"])
    assert storage.left == {"gone", "empty", "second"}


def test_an_interrupted_backfill_of_a_flow_that_left_is_closed(storage):
    folder = storage.folder("orders", "second")
    for number in (1, 2):
        store_backfill(folder, Backfill(number, (), stream_starts_after=False))
    rows = pa.table({"id": pa.array([7], pa.int32())})
    committed = CommitProperties(app_transactions=[Transaction(f"headrace:{storage.settings.id}:second:-1", 0)])
    path = storage.layout.table(Naming(), ORDERS)
    write_deltalake(path, rows, mode="append", commit_properties=committed)
    storage.clean("second")

    found = stored_backfills(folder, Naming().canonical)
    assert [(backfill.done, backfill.retired) for backfill in found] == [(True, False), (False, True)]


def test_files_of_auto_loader_stay_for_a_view_with_the_name_of_a_table_that_left(storage):
    storage.graph = storage.make.graph(
        storage.make.flow("orders", mode=Mode.APPEND), storage.make.flow("gone", mode=Mode.VIEW)
    )
    folder = storage.folder("gone", "gone")
    (folder / "auto_loader" / "0").mkdir(parents=True)

    assert storage.clean("gone", accept_data_loss=True) == ["flow", "table"]
    assert [entry.name for entry in folder.iterdir()] == ["auto_loader"]


def test_a_table_is_not_removed_while_it_is_unknown_who_reads_it(storage):
    orders = storage.make.flow("orders", mode=Mode.APPEND)
    storage.graph = storage.make.graph(orders, unavailable=[storage.make.unavailable("away")])

    assert storage.code("gone", accept_data_loss=True) == "CHECKPOINTS.READERS_UNKNOWN"
    assert storage.clean("second") == ["flow state"]


def test_the_table_of_a_sink_without_a_flow_that_can_run_is_not_inactive(storage):
    sink = SinkDefinition("delta", Naming(), {"tableName": "gone"})
    away = storage.make.unavailable("out", kind=Kind.SINK, sink=sink)
    storage.graph = storage.make.graph(storage.make.flow("orders", mode=Mode.APPEND), unavailable=[away])

    assert {entry.dataset for entry in storage.plan.inactive if entry.flow is None} == {"empty"}


@pytest.mark.parametrize("part", ["tables", "checkpoints"])
def test_a_table_with_another_one_below_it_is_not_removed(storage, part):
    if part == "tables":
        inner = Path(storage.layout.table(Naming(), QualifiedName("gone"))) / "inner"
        write_deltalake(str(inner), pa.table({"id": pa.array([1], pa.int32())}))
    else:
        record = FlowRecord(started_at=1.0, flow="f", dataset="default.gone.inner", mode="append")
        write_record(storage.folder("gone", "inner") / "f" / "flow.json", record)

    assert storage.code("gone", accept_data_loss=True) == "CHECKPOINTS.CONTAINS_OTHERS"


def test_a_name_of_several_flows_is_refused_and_the_dataset_chooses_one(storage):
    storage.graph = storage.make.graph(*(storage.make.flow(name, mode=Mode.APPEND) for name in ("orders", "more")))
    storage.flow("more", "second")

    assert storage.code("second") == "CHECKPOINTS.WHICH_FLOW"
    assert storage.clean("more.second") == ["flow state"]
    assert {(entry.dataset, entry.flow) for entry in storage.plan.inactive if entry.flow} == {("orders", "second")}


def test_what_left_the_code_is_not_removed_beside_maintenance(storage):
    lock = Path(storage.layout.monitoring(MonitoringFile.MAINTENANCE_LOCK))
    with maintenance_lock(lock):
        refused = storage.code("second")

    assert (refused, storage.clean("second")) == ("MAINTENANCE.RUNNING", ["flow state"])


def test_a_checkpoint_of_a_crashed_reset_does_not_count_as_the_epoch_before(storage):
    storage.flow("orders", "orders", epoch=3)
    for epoch, batches in enumerate((1, 1, 0, 0)):
        storage.checkpoint("orders", "orders", epoch, batches=batches)
    (health,) = (flow for flow in health_of_flows(storage.layout, Naming(), "shop", {}) if flow.stored.name == "orders")

    found = clean_storage(storage.settings, {}, CleanRequest(unused_since=9e9), lambda: (health,), lambda: storage.plan)

    assert [part.path.name for part in found.removed] == ["0", "2"]
