"""How many requests verbs make that read all flows of a storage on S3."""

from __future__ import annotations

import json
import time
import uuid
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import count

import pyarrow as pa
import pytest
from deltalake import CommitProperties, Transaction, write_deltalake
from tests.servers.faulty_proxy import running_proxy

from headrace.delta_log.tables import table_version
from headrace.events.envelope import Origin
from headrace.events.log import EventLog
from headrace.events.types import BatchDone
from headrace.graph.analysis import Source, SourceKind
from headrace.graph.resolved_flows import Mode
from headrace.graph.select import Selection
from headrace.model.names import Naming, QualifiedName
from headrace.plan.steps import Decision
from headrace.project.inspection.stored_project import StoredProject
from headrace.project.planning.plan_update import Planning
from headrace.project.test_harness import REAL
from headrace.settings.load import load_settings
from headrace.storage.flow_record import FlowRecord, write_record
from headrace.storage.flow_records import transaction_id
from headrace.storage.inventory import foreign_tables
from headrace.storage.listed_storage import reading_storage
from headrace.stores.connection import StoreConnection
from headrace.stores.connections import add_connection, delta_options
from headrace.stores.paths import storage_path

# The storage, three folders in it, all checkpoints, and the event log.
PER_PROJECT = 6
# Each three flows have three tables and a quarantine.
TABLES_OF_THREE = 4


class Pipeline:
    """A pipeline on S3 whose flows have nothing new: streams of files, streams of their tables, and views of these."""

    def __init__(self, folder, storage, environ, make, threes):
        (folder / "landing").mkdir(parents=True)
        (folder / "landing" / "a.csv").write_text("1\n")
        (folder / "pipeline.yml").write_text(f"name: shop\nstorage: {storage}\n")
        self.environ = environ
        self.settings = load_settings(folder / "pipeline.yml", profile=None, environ=environ)
        self.layout = self.settings.layout
        self.file = folder / "landing" / "a.csv"
        self.flows = [flow for number in range(threes) for flow in self._three(make, number)]
        self.graph = make.graph(*self.flows, schema="id integer")

    def _three(self, make, number):
        raw, clean, total = (f"{name}{number}" for name in ("raw", "clean", "total"))
        files = Source(SourceKind.FILES, json.dumps({"paths": [str(self.file.parent)], "recursive": False}))
        self._stream(raw, files, {"logOffset": 0})
        table_id = self._table(raw).table_id
        offset = {"reservoirId": table_id, "reservoirVersion": 2, "index": -1, "isStartingVersion": False}
        self._stream(clean, dataset := Source(SourceKind.DATASET, raw), offset)
        self.append(f"{clean}_quarantine", "quarantine", 0)
        self._view(total, clean)
        return (
            make.flow(raw, mode=Mode.APPEND, sources=(files,)),
            make.flow(clean, f"~{raw}", mode=Mode.APPEND, sources=(dataset,)),
            make.flow(total, clean),
        )

    def _stream(self, name, source, offset):
        for batch in range(2):
            self.append(name, name, batch)
        record = self.record_file(name)
        checkpoint = record.parent / "0"
        for batch in range(2):
            (checkpoint / "offsets" / str(batch)).write_bytes(f"v1\n{{}}\n{json.dumps(offset)}".encode())
            (checkpoint / "commits" / str(batch)).write_bytes(b'v1\n{"nextBatchWatermarkMs":0}')
        entry = {"path": f"file://{self.file}", "timestamp": 1, "batchId": 0}
        (checkpoint / "sources" / "0" / "0").write_bytes(f"v1\n{json.dumps(entry)}".encode())
        (checkpoint / "state" / "0" / "0" / "1.delta").write_bytes(b"x")
        (checkpoint / "metadata").write_bytes(b'{"id": "q"}')
        self._record(name, sources=(source.digest,), mode="append", state_signature=None)

    def _view(self, name, read):
        self.append(name, name, 0)
        inputs = {f"default.{read}": self._table(read), read: self._table(read)}
        self._record(name, inputs=inputs, target_id=self._table(name).table_id, mode="replace")

    def _record(self, name, **known):
        versions = {"table": self._table(name)}
        record = FlowRecord(
            fingerprint="f", started_at=time.time() - 60, flow=name, dataset=f"default.{name}", identity=name,
            pipeline=self.settings.id, table_versions=versions, **known,
        )  # fmt: skip
        write_record(self.record_file(name), record)

    def record_file(self, name):
        return storage_path(self.layout.flow_state(Naming(), QualifiedName(name), name))

    def path(self, name):
        return self.layout.table(Naming(), QualifiedName(name))

    def _table(self, name):
        return table_version(self.path(name))

    def append(self, name, flow="", batch=0):
        transaction = Transaction(transaction_id(self.settings.id, flow, 0), batch)
        write_deltalake(
            self.path(name),
            pa.table({"id": pa.array([batch], pa.int32())}),
            mode="append",
            storage_options=delta_options(self.path(name)),
            commit_properties=CommitProperties(app_transactions=[transaction]),
        )

    def log_batches(self, *flows):
        ids, clock = count(), datetime.now(UTC)
        with EventLog(
            self.layout.events,
            origin=Origin(pipeline_id=self.settings.id, pipeline_name="shop", update_id="u"),
            clock=lambda: clock + timedelta(microseconds=next(ids)),
            new_id=lambda: f"{next(ids):08}",
        ) as log:
            for flow in flows:
                log.emit(BatchDone(flow.name, str(flow.target), 0, 1))

    def plan(self):
        """What `headrace plan` reads of the storage: to resolve the project, and to plan it."""
        planning = Planning(self.settings, REAL)
        with reading_storage(self.layout):
            request = planning.tables.update_request(Selection(), skip_unavailable=True)
            assert not request.known
            for flow in self.graph.flows:
                request.kept_schema(self.graph.by_name[flow.target].dataset, [flow])
            assert not list(foreign_tables(self.layout, self.settings.naming))
            return planning.plan(self.graph, Selection())


@pytest.fixture(scope="module")
def network(s3):
    with running_proxy(s3.url) as proxy:
        yield proxy


@pytest.fixture
def pipeline(make, s3, network, monkeypatch, tmp_path):
    environ = {**s3.environ, "AWS_ENDPOINT_URL": network.url}
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    root = f"s3a://{s3.make_bucket(f'lake-{uuid.uuid4().hex[:12]}')}"
    add_connection(root, lambda: replace(StoreConnection.of_environment(s3.environ), endpoint=network.url))
    return lambda threes: Pipeline(tmp_path / str(threes), f"{root}/shop{threes}", environ, make, threes)


@pytest.fixture
def requests_of(network):
    # Logs of servers are not exact: now and then, one of the gateway lacks a request.
    def counted(read):
        network.requests()
        result = read()
        return result, network.requests()

    return counted


@pytest.mark.parametrize(
    "threes", [1, *(pytest.param(threes, marks=pytest.mark.long(guard="its other cases")) for threes in (2, 4))]
)
def test_verbs_that_read_all_flows_make_one_request_for_each_table(pipeline, requests_of, threes):
    stored = pipeline(threes)
    stored.log_batches(*stored.flows)
    project = StoredProject(stored.settings, stored.environ)
    verbs = {"plan": stored.plan, "checkpoints": project.checkpoints().health, "tables": project.tables}

    counts = {}
    for verb, read in verbs.items():
        first, again = requests_of(read), requests_of(read)
        assert first[0] == again[0]
        counts[verb] = len(again[1])

    assert {step.decision for step in stored.plan().flows} == {Decision.UP_TO_DATE}
    assert counts == dict.fromkeys(verbs, PER_PROJECT + TABLES_OF_THREE * threes)


def test_a_plan_sees_what_changed_since_the_plan_before(pipeline, requests_of):
    stored = pipeline(1)
    stored.log_batches(*stored.flows)
    stored.plan()
    stored.append("raw0")
    stored.log_batches(*stored.flows)

    plan, made = requests_of(stored.plan)

    decisions = {step.flow.name: (step.decision, step.reason) for step in plan.flows}
    assert decisions["raw0"][0] is Decision.UP_TO_DATE
    assert decisions["clean0"] == (Decision.START, '"raw0" has new rows')
    # Of the tables only the new commit is read.
    objects = [request for request in made if "/tables/" in request.partition("?")[0]]
    assert [request.rpartition("/")[2] for request in objects] == [f"{2:020d}.json"]


def test_a_writer_opens_the_event_log_once(pipeline, requests_of):
    stored = pipeline(1)
    stored.log_batches(*stored.flows)

    _, made = requests_of(lambda: stored.log_batches(*stored.flows))

    # delta-rs reads a commit for what the table is, and again for its files.
    assert (
        len([request for request in made if request.partition("?")[0].endswith(f"events/_delta_log/{0:020d}.json")])
        == 2
    )
