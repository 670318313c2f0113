"""Metrics of flows from a storage, without Spark: unread commits of tables, old epochs, waiting batches."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake

from headrace.checkpoints.initial_offsets import DeltaPosition, create_initial_checkpoint
from headrace.delta_log.tables import TableVersion
from headrace.metrics import catalogue
from headrace.metrics.dataset_lag import DefinedFlow
from headrace.metrics.samples import Samples
from headrace.model.names import QualifiedName
from headrace.project.inspection.flow_storage import add_stored_flows
from headrace.settings.load import nearest_settings
from headrace.storage.flow_record import FlowRecord, write_record
from headrace.storage.inventory import stored_tables
from headrace.storage.spill_queue import BatchToSpill, spill_batch, spill_folders

QUERY = "00000000-0000-0000-0000-000000000001"


class Storage:
    """The table ``raw`` with one commit a minute; ``clean`` streams it, ``report`` is computed from ``raw``."""

    def __init__(self, folder: Path) -> None:
        (folder / "pipeline.yml").write_text("name: shop\n")
        self.settings = nearest_settings(folder, profile=None, overrides={}, environ={})
        self.layout, naming = self.settings.layout, self.settings.naming
        self.raw = self.layout.table(naming, QualifiedName("raw"))
        for version in range(3):
            write_deltalake(self.raw, pa.table({"id": [version]}), mode="append")
            commit = Path(self.raw, "_delta_log", f"{version:020}.json")
            actions = [json.loads(line) for line in commit.read_text().splitlines()]
            for info in (action["commitInfo"] for action in actions if "commitInfo" in action):
                info["timestamp"] = 60_000 * version
            commit.write_text("\n".join(map(json.dumps, actions)))
        self.table_id = str(DeltaTable(self.raw).metadata().id)

    def folder(self, flow: str) -> Path:
        return Path(self.layout.flow_state(self.settings.naming, QualifiedName(flow), flow)).parent

    def streams(self, version: int, table_id: str, epoch: int = 0) -> None:
        write_record(self.folder("clean") / "flow.json", FlowRecord(epoch=epoch, flow="clean", dataset="clean"))
        checkpoint = self.folder("clean") / str(epoch)
        create_initial_checkpoint(checkpoint, QUERY, [DeltaPosition(table_id, version)])

    def computed(self, version: int) -> None:
        inputs = {"raw": TableVersion(self.table_id, version)}
        write_record(self.folder("report") / "flow.json", FlowRecord(inputs=inputs, flow="report", dataset="report"))

    def metrics(self) -> Samples:
        flows = {name: DefinedFlow(name, ("raw",)) for name in ("clean", "report")}
        flows["raw"] = DefinedFlow("raw", (), is_instant=True)
        tables = {
            str(DeltaTable(path).metadata().id): path for _, path in stored_tables(self.layout, self.settings.naming)
        }
        samples = Samples()
        add_stored_flows(samples, self.settings, flows, tables, 200.0)
        return samples


@pytest.fixture
def storage(tmp_path):
    return Storage(tmp_path)


def lags(storage):
    return {dataset: round(lag) for (dataset,), lag in storage.metrics().of(catalogue.LOCAL_LAG).items()}


def test_a_dataset_is_as_old_as_the_oldest_commit_that_its_flow_has_not_read(storage):
    storage.streams(1, storage.table_id)
    storage.computed(2)

    assert lags(storage) == {"raw": 0, "clean": 140, "report": 0}


def test_the_lag_of_a_flow_that_reads_something_else_or_has_not_run_is_unknown(storage):
    storage.streams(1, "another table")

    assert lags(storage) == {"raw": 0}


def test_old_epochs_and_waiting_batches_are_counted(storage):
    for epoch in (0, 1, 2):
        storage.streams(3, storage.table_id, epoch)
    queue = spill_folders(storage.folder("clean"), "clean")["clean"]
    write = partial(pq.write_table, pa.table({"id": [1, 2]}))
    for batch in (5, 6):
        spill_batch(
            queue, BatchToSpill("t", 2, batch), lambda folder: folder.mkdir() or write(folder / "a.parquet"), int
        )

    samples = storage.metrics()

    assert samples.of(catalogue.OLD_EPOCHS) == {("clean",): 2}
    assert samples.of(catalogue.SINK_WAITING_BATCHES) == {("clean", "clean"): 2}
    assert samples.of(catalogue.SINK_WAITING_ROWS) == {("clean", "clean"): 4}
