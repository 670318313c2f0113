"""How far flows are behind, as the status tells it."""

from __future__ import annotations

from datetime import UTC, datetime

from headrace.cli.summary import outcome_text
from headrace.events.outcome import OutcomeBuilder
from headrace.events.types import FlowLagMetrics, FlowStateChanged, UpdateCreated
from headrace.model.outcome import FilesBacklog, FlowState, PartitionLag

NOW = datetime(2026, 11, 20, tzinfo=UTC)


def told(*lag, backlog=()):
    builder = OutcomeBuilder("u")
    builder.apply(UpdateCreated("USER_ACTION"), NOW)
    builder.apply(FlowStateChanged("orders", "orders", FlowState.RUNNING), NOW)
    builder.apply(FlowLagMetrics("orders", "orders", lag, backlog), NOW)
    builder.apply(FlowStateChanged("orders", "orders", FlowState.COMPLETED), NOW)
    return builder.outcome()


def test_lag_of_partitions_is_reported():
    outcome = told(PartitionLag("orders", 0, 5, 17), PartitionLag("orders", 1, 8, 8))

    assert "orders is 12 offsets behind (orders 0: 12)" in outcome_text(outcome)
    assert outcome.to_json()["flows"][0]["lag"] == [
        {"topic": "orders", "partition": 0, "offset": 5, "newest": 17, "behind": 12},
        {"topic": "orders", "partition": 1, "offset": 8, "newest": 8, "behind": 0},
    ]


def test_backlog_of_files_is_reported():
    outcome = told(backlog=(FilesBacklog("/data/in", 3, 1200), FilesBacklog("/data/done", 0, 0)))

    assert "orders: /data/in has 3 files to read (1200 bytes)" in outcome_text(outcome)
    assert outcome.to_json()["flows"][0]["backlog"] == [
        {"source": "/data/in", "files": 3, "bytes": 1200, "oldest_unread_at": None},
        {"source": "/data/done", "files": 0, "bytes": 0, "oldest_unread_at": None},
    ]


def test_flow_without_lag_or_backlog_is_not_reported_as_behind():
    text = outcome_text(told(PartitionLag("orders", 0, 8, 8), backlog=(FilesBacklog("/data/in", 0, 0),)))

    assert "behind" not in text
    assert "not read" not in text
