"""What left the code is removed when it is named, with its rows only if that is accepted."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from headrace.errors import PipelineError
from headrace.graph.analysis import SourceKind
from headrace.graph.resolved_flows import Mode
from headrace.model.names import Naming, QualifiedName
from headrace.plan.steps import Plan
from headrace.project.clean import CleanRequest, clean_storage
from headrace.settings.load import load_settings
from headrace.storage.flow_record import FlowRecord, write_record
from headrace.storage.inactive import inactive_entries
from headrace.storage.removal import removal_folder
from headrace.storage.renaming import CurrentNames


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

    def flow(self, dataset, flow):
        file = Path(self.layout.flow_state(Naming(), QualifiedName(dataset), flow))
        write_record(file, FlowRecord(started_at=1.0, flow=flow, dataset=dataset, mode="append"))

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
    assert storage.clean("second") == ["flow"]
    assert (storage.left, removal_folder(storage.layout).exists()) == ({"gone"}, False)


def test_a_flow_with_undelivered_batches_is_removed_only_if_their_loss_is_accepted(storage):
    folder = Path(storage.layout.flow_state(Naming(), QualifiedName("orders"), "second")).parent
    (folder / "waiting" / "only" / f"{1:012}.0.3.{'0' * 32}").mkdir(parents=True)

    assert storage.code("second") == "CHECKPOINTS.HAS_ROWS"
    assert storage.clean("second", accept_data_loss=True) == ["flow"]


@pytest.mark.parametrize("name", ["orders", "nothing", "a b"])
def test_what_the_code_defines_is_never_removed(storage, name):
    assert storage.code(name, accept_data_loss=True) == "CHECKPOINTS.NOT_INACTIVE"


@pytest.mark.parametrize("reads", ["source", "path"])
def test_a_table_that_a_flow_reads_is_not_removed(storage, reads):
    flow = storage.graph.flows[0]
    how = (
        {"sources": (storage.make.source(SourceKind.DATASET, "gone"),)}
        if reads == "source"
        else {"external_tables": (storage.layout.table(Naming(), QualifiedName("gone")),)}
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
