"""A small shop whose storage is written by hand: a table ``raw``, which the flow ``orders`` streams into its table."""

from __future__ import annotations

import json
import shutil
import socket
import uuid
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import psutil
import pyarrow as pa
import pytest
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake

from headrace.assistant.doctor.checklist import Checklist
from headrace.assistant.doctor.diagnose import Diagnosis
from headrace.assistant.doctor.facts import Machine
from headrace.assistant.doctor.findings import Edit
from headrace.cli.main import call
from headrace.events.envelope import Origin
from headrace.events.log import EventLog
from headrace.events.types import (
    BatchDone,
    DatasetDefined,
    Event,
    ExternalInput,
    FlowDefined,
    FlowStateChanged,
    UpdateCreated,
    UpdateStateChanged,
)
from headrace.model.datasets import Kind
from headrace.model.outcome import FlowCounts, FlowState, UpdateState
from headrace.project.inspection.diagnosis.machine_facts import out_of_memory, why_volatile
from headrace.project.inspection.diagnosis.pipeline_doctor import PipelineDoctor
from headrace.settings.load import load_settings
from headrace.settings.settings import Settings
from headrace.storage.flow_record import FlowRecord, read_record, write_record

START = datetime(2026, 11, 27, 10, tzinfo=UTC)
LATER = START + timedelta(minutes=1)
SETTINGS = """\
name: shop
alerts:
  deliver:
    ops: {webhook: "http://127.0.0.1:8080/"}
"""
PROGRAM = """\
from headrace import pipelines as dp


@dp.table(comment="Orders as they come")
def raw():
    return spark.readStream.format("cloudFiles").option("cloudFiles.format", "json").load("landing")


@dp.table(comment="Orders with an amount")
@dp.expect_or_drop("paid", "amount > 0")
def orders():
    return spark.readStream.table("raw")
"""
DEFINED = (
    DatasetDefined("raw", Kind.STREAMING_TABLE, comment="Orders as they come"),
    DatasetDefined("orders", Kind.STREAMING_TABLE, expectations=("paid",), comment="Orders with an amount"),
    FlowDefined("raw", "raw", external_inputs=(ExternalInput("auto loader", "landing"),)),
    FlowDefined("orders", "orders", ("raw",)),
)


class Shop:
    """A project with a storage of two batches and a completed update; faults are done to it afterwards."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.storage = folder / "storage"
        self.write("pipeline.yml", SETTINGS)
        self.write("transformations/orders.py", PROGRAM)
        self.raw = str(self.storage / "tables" / "default" / "raw")
        self.orders = str(self.storage / "tables" / "default" / "orders")
        self.now = START + timedelta(minutes=5)

    def fill(self) -> None:
        """The storage after a healthy update."""
        for batch in (0, 1):
            write_deltalake(self.raw, pa.table({"id": [batch]}), mode="append")
            self.commits(batch)
            self.plans(batch)
        record = FlowRecord(started_at=1.0, flow="orders", dataset="orders", mode="append", pipeline="p")
        write_record(self.flow_folder / "flow.json", record)
        self.update(*self.batches("orders", 2))

    @property
    def flow_folder(self) -> Path:
        return self.storage / "checkpoints" / "default" / "orders" / "orders"

    @property
    def settings(self):
        return load_settings(self.folder / "pipeline.yml", environ={})

    def write(self, name: str, text: str) -> Path:
        file = self.folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        return file

    def commits(self, batch: int, *, epoch: int = 0) -> None:
        properties = CommitProperties(app_transactions=[Transaction(f"headrace:p:orders:{epoch}", batch)])
        write_deltalake(self.orders, pa.table({"id": [batch]}), mode="append", commit_properties=properties)

    def plans(self, batch: int, *, epoch: int = 0, conf: dict[str, str] | None = None) -> None:
        """A completed batch, which has read one more version of ``raw``."""
        checkpoint = self.flow_folder / str(epoch)
        for name in ("offsets", "commits"):
            (checkpoint / name).mkdir(parents=True, exist_ok=True)
        (checkpoint / "metadata").write_text(json.dumps({"id": "3f2d"}))
        table = str(DeltaTable(self.raw).metadata().id)
        offset = {"reservoirId": table, "reservoirVersion": batch + 1, "index": -1, "isStartingVersion": False}
        header = {"batchWatermarkMs": 0, "batchTimestampMs": 1, "conf": conf or {}}
        (checkpoint / "offsets" / str(batch)).write_text(f"v1\n{json.dumps(header)}\n{json.dumps(offset)}")
        (checkpoint / "commits" / str(batch)).write_text('v2\n{"nextBatchWatermarkMs":0}')

    def batches(self, flow: str, count: int) -> list[Event]:
        return [BatchDone(flow, flow, 0, number, FlowCounts(1), duration_ms=100) for number in range(count)]

    def update(
        self,
        *events: Event,
        state: UpdateState | None = UpdateState.COMPLETED,
        at: datetime = START,
        config: dict[str, object] | None = None,
        pipeline: str = "p",
        defined: tuple[Event, ...] = DEFINED,
        step_s: float = 0.001,
    ) -> None:
        """Record an update, an event each step; without a state it has not ended."""
        origin, clock = Origin(pipeline, "shop", str(uuid.uuid4())), iter(range(1_000_000))
        flows = {(one.flow, one.dataset) for one in defined if isinstance(one, FlowDefined)}
        done = FlowState.COMPLETED if state is UpdateState.COMPLETED else FlowState.RUNNING
        own = {event.flow for event in events if isinstance(event, FlowStateChanged)}
        states = [FlowStateChanged(flow, name, done) for flow, name in sorted(flows) if flow not in own]
        with EventLog(
            str(self.storage / "system" / "events"),
            origin=origin,
            clock=lambda: at + timedelta(seconds=step_s * next(clock)),
            new_id=lambda: str(uuid.uuid4()),
            maintenance=lambda _path, _compact: None,
        ) as log:
            created = UpdateCreated("USER_ACTION", config or {})
            for event in (created, *defined, UpdateStateChanged(UpdateState.RUNNING), *states, *events):
                log.emit(event)
            if state is not None:
                log.emit(UpdateStateChanged(state))

    def diagnosis(self, name: str | None = None) -> Diagnosis:
        return self.doctor.diagnose(name)

    def checklist(self) -> Checklist:
        return self.doctor.check()

    @property
    def doctor(self) -> PipelineDoctor:
        return PipelineDoctor(self.settings, {}, self.now.timestamp, self.read_machine)

    def read_again_from(self, version: int) -> None:
        """The flow has read up to a version of ``raw``, and no more."""
        file = self.flow_folder / "0" / "offsets" / "1"
        *header, offset = file.read_text().splitlines()
        file.write_text("\n".join([*header, json.dumps({**json.loads(offset), "reservoirVersion": version})]))

    def read_machine(self, settings: Settings, started_at: float) -> Machine:
        """A machine whose only file system in memory is the folder ``memory`` of the project."""
        return Machine(
            memory_bytes=16 << 30,
            volatile=why_volatile(Path(settings.layout.root), [(self.folder / "memory", "tmpfs")], ()),
            out_of_memory=out_of_memory(Path(settings.layout.logs) / "spark.log", started_at),
        )

    def hold_lease(self) -> None:
        """As if this process ran an update."""
        me = psutil.Process()
        process = {"pid": me.pid, "started_at": me.create_time()}
        held = {"held_since": START.timestamp(), "renewed_at": START.timestamp()}
        lease = {"number": 1, "host": socket.gethostname(), "python": process, "jvm": None, **held}
        (self.storage / "lease.json").write_text(json.dumps(lease))

    def checks(self) -> list[str]:
        return [finding.check.check_id for finding in self.diagnosis().findings]

    def apply(self, edit: Edit) -> None:
        """Do what a finding says, to the letter."""
        file = self.folder / edit.file
        file.write_text(edit.applied_to(file.read_text()))

    def run(self, command: str) -> int:
        """Run a command of a finding in the project."""
        program, *words = command.split()
        assert program == "headrace"
        return call(["--project", str(self.folder), *words])


@pytest.fixture(scope="session")
def filled(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("shop")
    Shop(folder).fill()
    return folder


@pytest.fixture
def shop(filled, tmp_path) -> Shop:
    shutil.copytree(filled, tmp_path, dirs_exist_ok=True)
    return Shop(tmp_path)


def first(shop):
    """The first finding, and the names of all."""
    findings = shop.diagnosis().findings
    return findings[0], [finding.check.check_id for finding in findings]


def failed(code, message="it broke", **error):
    return FlowStateChanged("orders", "orders", FlowState.FAILED, error={"code": code, "message": message, **error})


def program(shop, text):
    shop.write(
        "transformations/orders.py",
        f"from headrace import pipelines as dp\nfrom pyspark.sql import functions as F\n{text}",
    )


def record_of(shop, **changes):
    return replace(read_record(shop.flow_folder / "flow.json"), **changes)


def recompute(shop, flow):
    """The flow has a record, and needs no checkpoint."""
    file = shop.flow_folder.parents[1] / flow / flow / "flow.json"
    write_record(file, record_of(shop, flow=flow, dataset=flow, mode="replace"))


def without_checkpoint(shop):
    recompute(shop, "orders")
    shutil.rmtree(shop.flow_folder / "0")
