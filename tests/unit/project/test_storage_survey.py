"""What a look at the whole storage finds: unused files, what left the code, checkpoints that are lost; once an hour."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from headrace.events.types import FlowDefined, UpdateCreated, UpdateStateChanged, Warned
from headrace.metrics import catalogue
from headrace.metrics.fold import EventFold
from headrace.metrics.samples import Samples
from headrace.model.names import QualifiedName
from headrace.model.outcome import UpdateState
from headrace.plan.inactive import DATASET_INACTIVE, FLOW_INACTIVE
from headrace.project.inspection.storage_survey import current_survey
from headrace.settings.load import load_settings
from headrace.settings.storage import MonitoringFile
from headrace.storage.flow_record import FlowRecord, write_record

NOW = 1_795_000_000.0
START = datetime.fromtimestamp(NOW, UTC)


class Storage:
    """The table and the flow ``orders``, and what is left of ``gone``."""

    def __init__(self, root: Path) -> None:
        (root / "pipeline.yml").write_text("name: shop\n")
        self.settings = load_settings(root / "pipeline.yml", profile=None, environ={})
        self.layout, self.naming = self.settings.layout, self.settings.naming
        for name in ("orders", "gone"):
            write_deltalake(self.table(name), pa.table({"id": [1, 2]}))
            record = FlowRecord(flow=name, dataset=name, mode="append", started_at=1.0, running=False)
            write_record(self.folder(name) / "flow.json", record)
        self.checkpoint = self.folder("orders") / "0"
        self.checkpoint.mkdir()
        (self.checkpoint / "metadata").write_text('{"id": "q"}')
        self.fold = EventFold()
        for event in (
            UpdateCreated("USER_ACTION"),
            Warned(DATASET_INACTIVE, "", None, "gone"),
            Warned(FLOW_INACTIVE, "", "unknown", "orders"),
            FlowDefined("orders", "orders"),
            UpdateStateChanged(UpdateState.RUNNING),
        ):
            self.fold.apply(event, START, "u")

    def table(self, name: str) -> str:
        return self.layout.table(self.naming, QualifiedName(name))

    def folder(self, name: str) -> Path:
        return Path(self.layout.flow_state(self.naming, QualifiedName(name), name)).parent

    def metrics(self, metric, now=NOW, number=1, *, is_held=False):
        samples = Samples()
        current_survey(self.settings, self.fold, number, now, is_held=is_held).add_to(samples)
        return samples.of(metric)


@pytest.fixture
def storage(tmp_path):
    (tmp_path / "storage" / "system").mkdir(parents=True)
    return Storage(tmp_path)


def test_files_are_unused_if_they_are_older_than_the_retention_and_not_in_the_table(storage):
    write_deltalake(storage.table("orders"), pa.table({"id": [3]}), mode="overwrite")
    (current,) = (Path(file).name for file in DeltaTable(storage.table("orders")).file_uris())
    old = next(file for file in Path(storage.table("orders")).glob("*.parquet") if file.name != current)
    for file in (old, old.with_name(current)):
        os.utime(file, (NOW - 8 * 86_400,) * 2)

    assert storage.metrics(catalogue.UNREFERENCED) == {("orders",): old.stat().st_size, ("gone",): 0}


def test_what_left_the_code_has_the_size_of_all_its_files(storage):
    size = sum(file.stat().st_size for file in Path(storage.table("gone")).rglob("*") if file.is_file())
    size += (storage.folder("gone") / "flow.json").stat().st_size

    assert storage.metrics(catalogue.INACTIVE) == {("gone", ""): size}


def test_a_lost_checkpoint_is_found_between_updates_and_gone_as_soon_as_it_is_back(storage):
    lost = storage.checkpoint.rename(storage.checkpoint.with_name("moved"))

    # A flow that left the code does not matter, and a running update has verified its checkpoints itself.
    assert storage.metrics(catalogue.CHECKPOINT_PROBLEM) == {("orders", "FLOW.CHECKPOINT_LOST"): 1}
    assert storage.metrics(catalogue.CHECKPOINT_PROBLEM, is_held=True) == {}
    lost.rename(storage.checkpoint)
    assert storage.metrics(catalogue.CHECKPOINT_PROBLEM) == {}


def test_the_storage_is_looked_at_once_an_hour_and_its_checkpoints_after_each_update(storage):
    storage.metrics(catalogue.CHECKPOINT_PROBLEM)
    storage.checkpoint.rename(storage.checkpoint.with_name("moved"))

    found = [
        bool(storage.metrics(catalogue.CHECKPOINT_PROBLEM, now, number))
        for now, number in ((NOW + 3599, 1), (NOW + 3601, 1), (NOW + 10, 2), (NOW - 10, 1))
    ]
    assert found == [False, True, True, True]


@pytest.mark.parametrize("text", ["", "{}", '{"format": 2}', '{"format": 1, "at": "x"}'])
def test_a_damaged_file_is_as_none(storage, text):
    file = Path(storage.layout.monitoring(MonitoringFile.SURVEY))
    file.write_text(text)

    assert storage.metrics(catalogue.UNREFERENCED) == {("orders",): 0, ("gone",): 0}
    assert '"format": 1' in file.read_text()
