"""A pipeline whose update is reported: a topic, three tables, a view and a sink."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

import pytest
from tests.lineage_schemas import check_run_event

from headrace.events.types import (
    BatchDone,
    DatasetDefined,
    FlowDefined,
    FlowStateChanged,
    SinkDefined,
    StreamProgress,
    UpdateCreated,
    UpdateStateChanged,
)
from headrace.lineage.facets import Repository
from headrace.lineage.run_events import Producer, RunEvents
from headrace.model.batch_commit import BatchCommit
from headrace.model.column_lineage import ColumnLineage, ColumnUse, OutputColumn, Use
from headrace.model.dataset_id import DatasetId
from headrace.model.datasets import Kind
from headrace.model.expectation_facts import NOT_NULL, ExpectationFacts
from headrace.model.expectations import Action, ExpectationCount
from headrace.model.external_input import ExternalInput
from headrace.model.location import Location
from headrace.model.outcome import FlowCounts, FlowState, UpdateState
from headrace.model.stream_progress import SourceProgress, StreamBatches

UPDATE = "6f5b0c1e-4a55-4f0b-9d8e-0d8f3a2b1c4d"
START = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
TOPIC = DatasetId("kafka://broker:9092", "orders")
PRODUCER = Producer(
    "shop",
    "shop",
    UPDATE,
    600.0,
    "1.2.3",
    "4.2.0",
    Repository("https://git.example.com/shop/pipelines.git", "https://git.example.com/shop/pipelines/blob", "daily"),
)


def schema(**columns):
    fields = [{"name": name, "type": kind, "nullable": True, "metadata": {}} for name, kind in columns.items()]
    return {"type": "struct", "fields": fields}


def uses(*given):
    return tuple(ColumnUse(dataset, column, use) for dataset, column, use in given)


def at(seconds):
    return START + timedelta(seconds=seconds)


AMOUNTS = {"type": "struct", "fields": [{"name": "net", "type": "long", "nullable": True, "metadata": {}}]}
TABLES = "tables/default"
DEFINITIONS = (
    DatasetDefined(
        "orders",
        Kind.STREAMING_TABLE,
        f"/data/{TABLES}/orders",
        ("has id",),
        schema=schema(id="long", total="string"),
        facts=(ExpectationFacts("has id", NOT_NULL, "id"),),
    ),
    DatasetDefined("known", Kind.TEMPORARY_VIEW),
    DatasetDefined(
        "sums", Kind.MATERIALIZED_VIEW, "s3a://lake/tables/default/sums", schema=schema(id="long", sums=AMOUNTS)
    ),
    SinkDefined("posted", "http", {}, (DatasetId("https://api.example.com", "/"),)),
    FlowDefined(
        "orders",
        "orders",
        external_inputs=(ExternalInput("stream", "kafka orders", (TOPIC,)),),
        columns=ColumnLineage(
            (
                OutputColumn("id", uses((TOPIC, "key", Use.TRANSFORMATION))),
                OutputColumn("total", uses((TOPIC, "value", Use.TRANSFORMATION))),
            )
        ),
        location=Location("transformations/orders.py", 12),
    ),
    FlowDefined(
        "known",
        "known",
        inputs=("orders",),
        mode="VIEW",
        columns=ColumnLineage(
            (OutputColumn("id", uses(("orders", "id", Use.IDENTITY))), OutputColumn("one")),
            uses(("orders", "total", Use.FILTER)),
        ),
    ),
    FlowDefined(
        "sums",
        "sums",
        inputs=("known",),
        mode="MATERIALIZED_VIEW",
        columns=ColumnLineage(
            (
                OutputColumn("id", uses(("known", "id", Use.IDENTITY))),
                OutputColumn("sums", uses(("known", "one", Use.AGGREGATION), ("known", "id", Use.CONDITIONAL))),
            ),
            uses(("known", "id", Use.GROUP_BY)),
        ),
    ),
    FlowDefined("post", "posted", inputs=("orders",)),
)
BEGIN = (UpdateCreated("USER_ACTION", {"continuous": False}, git_commit="a" * 40), *DEFINITIONS)


def state(flow, name, **given):
    target = next(one.dataset for one in DEFINITIONS if isinstance(one, FlowDefined) and one.flow == flow)
    return FlowStateChanged(flow, target, FlowState(name), **given)


def batch(flow, number, rows, **given):
    target = next(one.dataset for one in DEFINITIONS if isinstance(one, FlowDefined) and one.flow == flow)
    counts = FlowCounts(rows_written=rows, expectations=(ExpectationCount("has id", Action.DROP, rows, 1),))
    given = {"commit": BatchCommit(number + 1, 2, 100 * rows), **given}
    return BatchDone(flow, target, 0, number, counts, **given)


def progress(flow, **rows):
    sources = tuple(SourceProgress(source, count) for source, count in rows.items())
    found = StreamBatches(0, 1, START, 100, sources=sources, input_rows=sum(rows.values()))
    return StreamProgress(flow, flow, 0, "q", "r", found)


def ended(name):
    return UpdateStateChanged(UpdateState(name))


class Reported:
    """The events of lineage that an update makes, each of which is checked with the schemas."""

    def __init__(self, producer=PRODUCER):
        self.runs = RunEvents(producer)
        self.events = []
        for event in BEGIN:
            self.add(event)

    def add(self, event, seconds=0):
        return self._checked(self.runs.add(event, at(seconds)))

    def lost(self, seconds):
        return self._checked(self.runs.lost(at(seconds)))

    def _checked(self, events):
        for event in events:
            # What is sent.
            check_run_event(json.loads(json.dumps(event)))
        self.events += events
        return events

    def names(self):
        return [(event["eventType"], event["job"]["name"]) for event in self.events]


@pytest.fixture
def update():
    return Reported()
