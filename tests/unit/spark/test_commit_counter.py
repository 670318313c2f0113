"""The batches that Spark's own Delta sink commits: each is recorded with its own duration."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from headrace.delta_log.tables import commit_file
from headrace.graph.resolved_flows import Mode
from headrace.model.batch_commit import BatchCommit
from headrace.spark.tables.commit_counter import CommitCounter

QUERY_ID = "0b6a3a9c"


class Query:
    """Tells of batches as Spark does: the number of each, and how long it took."""

    def __init__(self):
        self.isActive = True
        self.told = []
        self._jsq = self

    def tell(self, batch_id, duration_ms):
        self.told.append(SimpleNamespace(batchId=lambda: batch_id, batchDuration=lambda: duration_ms))

    def recentProgress(self):  # noqa: N802 - Spark's name
        return self.told


class Context:
    """Keeps the events; nothing was counted before."""

    def __init__(self, path):
        self.events = []
        self.reporting = SimpleNamespace(emit=self.events.append, known_counts=lambda *_batch: None)
        self._path = path

    def table_path(self, _target):
        return self._path


@pytest.fixture
def made(make, tmp_path):
    """A counter with its query, a function that commits batches, and one that gives what was recorded of each."""
    path, query = str(tmp_path / "orders"), Query()
    context = Context(path)
    write_deltalake(path, pa.table({"id": pa.array([], pa.int32())}))
    counter = CommitCounter(context, make.flow("orders", "~raw", mode=Mode.APPEND), 0, QUERY_ID, 0, query)

    def commit(batch_id):
        info = {"operationParameters": {"queryId": QUERY_ID, "epochId": str(batch_id)}}
        file = commit_file(Path(path), batch_id + 1)
        added = {"path": f"{batch_id}.parquet", "size": 700 + batch_id, "dataChange": True}
        actions = ({"commitInfo": {"operation": "STREAMING UPDATE", **info}}, {"add": added})
        file.write_text("\n".join(map(json.dumps, actions)))

    return counter, query, commit, lambda: [(event.batch_id, event.duration_ms) for event in context.events]


def test_each_batch_is_recorded_with_the_duration_that_spark_reports(made):
    counter, query, commit, recorded = made
    for batch_id, duration_ms in enumerate((70, 1200)):
        commit(batch_id)
        query.tell(batch_id, duration_ms)
    # Spark looked again, and found nothing new.
    query.tell(2, 3)

    counter.count()

    assert recorded() == [(0, 70), (1, 1200)]


def test_a_batch_is_recorded_only_after_spark_reports_its_duration(made):
    counter, query, commit, recorded = made
    commit(0)
    query.tell(0, 70)
    commit(1)

    counter.count()
    before = recorded()
    query.tell(1, 1200)
    counter.count()

    assert [event.commit for event in counter._context.events] == [BatchCommit(1, 1, 700), BatchCommit(2, 1, 701)]
    assert before == [(0, 70)]
    assert recorded() == [(0, 70), (1, 1200)]


def test_a_batch_has_no_duration_if_the_query_ends_before_reporting_it(made):
    counter, query, commit, recorded = made
    commit(0)
    query.isActive = False

    counter.count()

    assert recorded() == [(0, None)]
