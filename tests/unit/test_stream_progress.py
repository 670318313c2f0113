"""Facts of several batches of a stream, from Spark's reports."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from headrace.model.stream_progress import combined

OPERATOR = {
    "operatorName": "dedupeWithinWatermark",
    "numRowsTotal": 0,
    "numRowsUpdated": 3,
    "numRowsRemoved": 1,
    "numRowsDroppedByWatermark": 0,
    "customMetrics": {"numDroppedDuplicateRows": 2},
    "memoryUsedBytes": 4096,
    "commitTimeMs": 7,
}


def report(number, second, rows, *, operators=(), event_time=None):
    return {
        "batchId": number,
        "timestamp": f"2026-11-27T10:00:{second:02}.000Z",
        "numInputRows": rows,
        "durationMs": {"addBatch": 300, "queryPlanning": 50, "commitOffsets": 0, "triggerExecution": 400},
        "eventTime": event_time or {},
        "stateOperators": list(operators),
        "sources": [{"description": "DeltaSource[file:/t]", "numInputRows": rows}],
    }


def at(second):
    return datetime(2026, 11, 27, 10, 0, second, tzinfo=UTC)


def test_rows_durations_and_phases_are_added_up():
    found = combined([report(4, 2, 30), report(5, 6, 10)], at(1))

    assert (found.batch_id, found.batches, found.started_at) == (5, 2, at(6))
    assert (found.input_rows, found.duration_ms) == (40, 800)
    assert (found.input_rows_per_second, found.processed_rows_per_second) == (8.0, 50.0)
    assert found.phases_ms == {"query_planning": 100, "add_batch": 600}
    assert found.slowest_phase == "add_batch"
    assert [(source.source, source.input_rows) for source in found.sources] == [("DeltaSource[file:/t]", 40)]


def test_the_rate_of_the_first_batch_is_unknown():
    assert combined([report(0, 2, 30)], None).input_rows_per_second is None


def test_state_is_that_of_the_newest_batch_and_its_changes_are_added_up():
    newest = {**OPERATOR, "memoryUsedBytes": 8192}

    (state,) = combined([report(0, 1, 3, operators=[OPERATOR]), report(1, 2, 3, operators=[newest])], None).operators

    assert (state.kind, state.rows_total, state.memory_bytes) == ("deduplication", None, 8192)
    assert (state.rows_updated, state.rows_removed, state.duplicates_dropped, state.commit_ms) == (6, 2, 4, 14)


def test_a_watermark_before_any_event_is_none_and_event_times_that_python_lacks_are_left_out():
    start = {"watermark": "1970-01-01T00:00:00.000Z", "max": "+10000-01-01T00:00:00.000Z"}
    later = {"watermark": "2026-11-27T09:00:00.000Z", "max": "2026-11-27T09:30:00.000Z"}

    first = combined([report(0, 1, 1, event_time=start)], None)
    both = combined([report(0, 1, 1, event_time=start), report(1, 2, 1, event_time=later)], None)

    assert (first.watermark, first.newest_event_time) == (None, None)
    assert both.watermark == datetime(2026, 11, 27, 9, tzinfo=UTC)
    assert both.newest_event_time == datetime(2026, 11, 27, 9, 30, tzinfo=UTC)


@pytest.mark.parametrize(
    ("description", "source"),
    [
        ("KafkaV2[Subscribe[orders]]", "KafkaV2[Subscribe[orders]]"),
        ("org.apache.spark.sql.execution.PythonMicroBatchStream@1f3a", "PythonMicroBatchStream"),
        ("Their source(url=jdbc:x?password=secret)", "Their"),
        ("", "source"),
    ],
)
def test_only_known_descriptions_of_sources_are_recorded(description, source):
    batch = {**report(0, 1, 1), "sources": [{"description": description, "numInputRows": 1}]}

    assert combined([batch], None).sources[0].source == source


def test_a_report_without_operators_is_no_hindrance():
    (state,) = combined([report(0, 1, 3), report(1, 2, 3, operators=[OPERATOR])], None).operators

    assert state.rows_updated == 3
