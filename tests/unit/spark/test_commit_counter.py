"""The batches that version 0.1 left to Delta's own sink: each is counted once, by the version that continues it."""

from __future__ import annotations

import json
from types import SimpleNamespace

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from headrace.delta_log.tables import commit_file
from headrace.graph.resolved_flows import Mode
from headrace.model.batch_commit import BatchCommit
from headrace.model.datasets import Kind
from headrace.spark.tables.commit_counter import count_sink_commits
from headrace.storage.flow_record import FlowRecord

QUERY_ID = "0b6a3a9c"


@pytest.fixture
def counted(make, tmp_path):
    """Counts the commits of two batches of a query, between which another one committed."""
    table, checkpoint = tmp_path / "orders", tmp_path / "checkpoint"
    checkpoint.mkdir()
    (checkpoint / "metadata").write_text(json.dumps({"id": QUERY_ID}), encoding="utf-8")
    write_deltalake(table, pa.table({"id": pa.array([], pa.int32())}))
    for version, query_id, batch_id in ((1, QUERY_ID, 0), (2, "another", 7), (3, QUERY_ID, 1)):
        parameters = {"queryId": query_id, "epochId": str(batch_id)}
        actions = (
            {"commitInfo": {"operation": "STREAMING UPDATE", "operationParameters": parameters}},
            {"txn": {"appId": query_id, "version": batch_id}},
            {
                "add": {
                    "path": f"{version}.parquet",
                    "size": 700,
                    "modificationTime": 0,
                    "dataChange": True,
                    "partitionValues": {},
                }
            },
        )
        commit_file(table, version).write_text("\n".join(map(json.dumps, actions)), encoding="utf-8")

    flow, events = make.flow("orders", "~raw", mode=Mode.APPEND), []
    target = SimpleNamespace(kind=Kind.STREAMING_TABLE)

    def count(record, *known):
        reporting = SimpleNamespace(
            emit=events.append, known_counts=lambda _flow, _epoch, batch: batch in known or None
        )
        context = SimpleNamespace(
            graph=SimpleNamespace(by_name={flow.target: target}),
            reporting=reporting,
            state=SimpleNamespace(checkpoint=lambda _flow, _epoch: checkpoint),
            table_path=lambda _name: str(table),
        )
        return count_sink_commits(context, flow, record).counted_version, [event.commit for event in events]

    return count


FIRST, SECOND = BatchCommit(1, 1, 700), BatchCommit(3, 1, 700)


@pytest.mark.parametrize(
    ("version", "known", "recorded"),
    [(0, (), [FIRST, SECOND]), (1, (), [SECOND]), (0, (0,), [SECOND]), (3, (), [])],
    ids=["none counted", "first counted", "first recorded before a crash", "all counted"],
)
def test_each_batch_of_the_query_is_recorded_once(counted, version, known, recorded):
    assert counted(FlowRecord(counted_version=version), *known) == (3, recorded)
