"""Metrics of flows from a storage, without Spark: unread commits of tables, old epochs, waiting batches."""

from __future__ import annotations

import json
import os
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake

from headrace.checkpoints.initial_offsets import DeltaPosition, create_initial_checkpoint
from headrace.delta_log.tables import TableVersion
from headrace.events.types import (
    BatchDone,
    DatasetDefined,
    FlowDefined,
    FlowLagMetrics,
    FlowStateChanged,
    SinkDefined,
    StreamProgress,
)
from headrace.metrics import catalogue
from headrace.metrics.fold import EventFold
from headrace.metrics.samples import Samples
from headrace.model.datasets import Kind
from headrace.model.names import QualifiedName
from headrace.model.outcome import FilesBacklog, FlowCounts, FlowState, PartitionLag
from headrace.model.stream_progress import SourceProgress, StreamBatches
from headrace.project.inspection.flow_storage import add_stored_flows
from headrace.settings.load import nearest_settings
from headrace.storage.flow_record import FlowRecord, write_record
from headrace.storage.inventory import stored_tables
from headrace.storage.spill_queue import (
    BatchToSpill,
    remove_spilled_batch,
    spill_batch,
    spill_folders,
    spilled_batches,
)

START = datetime.fromtimestamp(100, UTC)
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
        self.is_sink, self.events = False, []

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
        fold = EventFold()
        for flow in (
            SinkDefined("clean", "kafka") if self.is_sink else DatasetDefined("clean", Kind.TABLE),
            FlowDefined("raw", "raw", once=True),
            *(FlowDefined(name, name, ("raw",)) for name in ("clean", "report")),
            *self.events,
        ):
            fold.apply(flow, START, "u")
        tables = {
            str(DeltaTable(path).metadata().id): path for _, path in stored_tables(self.layout, self.settings.naming)
        }
        add_stored_flows(fold.samples, self.settings, fold, tables, 200.0)
        return fold.samples


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


def reported(*sources, lag=(), backlog=()):
    """The events of a running stream: which sources it streams, and what it has not read."""
    progress = StreamBatches(0, 1, START, 5, sources=tuple(SourceProgress(name, 1) for name in sources))
    return [
        FlowStateChanged("clean", "clean", FlowState.RUNNING),
        StreamProgress("clean", "clean", 0, "q", "r", progress),
        FlowLagMetrics("clean", "clean", tuple(lag), tuple(backlog)),
    ]


TOPIC = [PartitionLag("orders", 0, 5, 9)]


@pytest.mark.parametrize(
    ("events", "expected"),
    [
        (reported("KafkaV2[Subscribe[orders]]", lag=TOPIC), 100),
        (reported("AutoLoader", backlog=[FilesBacklog("/in", 2, 9, datetime.fromtimestamp(40, UTC))]), 160),
        (reported("AutoLoader", backlog=[FilesBacklog("/in", 0, 0)]), 0),
        (reported("KafkaV2[Subscribe[orders]]", "Unknown", lag=TOPIC), None),
        (reported("AutoLoader", backlog=[FilesBacklog("/in", 2, 9)]), None),
    ],
)
def test_the_lag_of_a_running_stream_over_other_sources_is_what_it_reports(storage, events, expected):
    storage.streams(1, "another table")
    storage.events = events

    assert lags(storage).get("clean") == expected


def spill(storage, *batches):
    """Let batches of two rows wait for the sink, since their numbers in seconds since 1970."""
    queue = spill_folders(storage.folder("clean"), "clean")["clean"]
    write = partial(pq.write_table, pa.table({"id": [1, 2]}))
    for number in batches:
        spill_batch(
            queue, BatchToSpill("t", 2, number), lambda folder: folder.mkdir() or write(folder / "a.parquet"), int
        )
        waiting = spilled_batches(queue)[-1]
        os.utime(waiting.data, (number, number))
    return queue


def test_old_epochs_and_waiting_batches_are_counted(storage):
    for epoch in (0, 1, 2):
        storage.streams(3, storage.table_id, epoch)
    spill(storage, 5, 6)

    samples = storage.metrics()

    assert samples.of(catalogue.OLD_EPOCHS) == {("clean",): 2}
    assert samples.of(catalogue.SINK_WAITING_BATCHES) == {("clean", "clean"): 2}
    assert samples.of(catalogue.SINK_WAITING_ROWS) == {("clean", "clean"): 4}
    assert samples.of(catalogue.SINK_WAITING_BYTES)["clean", "clean"] > 500


def test_the_last_delivery_is_that_of_rows_and_not_of_a_batch_that_waits(storage):
    storage.is_sink = True
    storage.streams(3, storage.table_id)
    assert storage.metrics().of(catalogue.SINK_WAITING_BATCHES) == {("clean", "clean"): 0}
    assert storage.metrics().of(catalogue.SINK_LAST_DELIVERY) == {}

    # START is when the batch was done, be it delivered or spilled.
    storage.events = [BatchDone("clean", "clean", 0, 0, FlowCounts(2))]
    assert storage.metrics().of(catalogue.SINK_LAST_DELIVERY) == {("clean", "clean"): 100}
    queue = spill(storage, 5, 6)
    assert storage.metrics().of(catalogue.SINK_LAST_DELIVERY) == {("clean", "clean"): 5}
    remove_spilled_batch(spilled_batches(queue)[0])
    os.utime(queue / ".delivered", (50, 50))
    assert storage.metrics().of(catalogue.SINK_LAST_DELIVERY) == {("clean", "clean"): 50}
