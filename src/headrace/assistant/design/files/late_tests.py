"""Tests of windows and sessions: late events count until the watermark has passed."""

from __future__ import annotations

from headrace.assistant.design.blueprint import Dataset, event_time_read
from headrace.assistant.design.files.sample_rows import Row, time_text
from headrace.assistant.design.files.test_rows import GivenRows, aligned_s, constants
from headrace.assistant.design.requirements import Output


def windows_tests(given_rows: GivenRows, dataset: Dataset, output: Output) -> str:
    """The tests of a dataset."""
    size_s = output.size_s or 1.0
    base_s = aligned_s(size_s)
    times = {
        "FIRST": [base_s, base_s + size_s],
        "SECOND": [base_s + size_s / 4, base_s + size_s + 2 * (given_rows.delay_s + size_s)],
        "TOO_LATE": [base_s + size_s / 3],
    }
    title = f"{dataset.name}: a window counts the events that arrive before the watermark passes its end"
    start = time_text(base_s).replace("Z", "+00:00")
    return _late_test(given_rows, dataset, times, title, "window_start", start)


def sessions_tests(given_rows: GivenRows, dataset: Dataset, output: Output) -> str:
    """The tests of a dataset."""
    gap_s = output.gap_s or 1.0
    times = {
        "FIRST": [0.0, gap_s / 2],
        "SECOND": [gap_s / 4, 3 * gap_s + 2 * (given_rows.delay_s + gap_s)],
        "TOO_LATE": [gap_s / 3],
    }
    title = f"{dataset.name}: a session counts the events that arrive before the watermark passes its end"
    return _late_test(given_rows, dataset, times, title, "session_start", time_text(0.0).replace("Z", "+00:00"))


def _late_test(
    given_rows: GivenRows, dataset: Dataset, times: dict[str, list[float]], title: str, column: str, start: str
) -> str:
    """Late events count, later ones do not; a materialized view counts all."""
    first = given_rows.input(dataset)
    at = event_time_read(dataset, first)
    same = {key: given_rows.row(dataset, 0)[key] for key in dataset.keys if key in given_rows.row(dataset, 0)}
    rows: dict[str, list[Row]] = {}
    number = 0
    for name, seconds in times.items():
        rows[name] = []
        for second in seconds:
            rows[name].append(given_rows.row(dataset, number, **{**same, at: time_text(second)}))
            number += 1
    name, read = dataset.name, dataset.reads[0]
    head = f'''"""{title}."""

from datetime import datetime

START = datetime.fromisoformat("{start}")
{constants(**rows)}


def result_at_start(rows):
    return [row for row in rows if row["{column}"] == START]
'''
    if not dataset.is_stream:
        return f"""{head}

def test_a_late_event_counts(pipeline):
    pipeline.given("{read}", FIRST, SECOND)
    before = pipeline.run("{name}").rows("{name}")
    pipeline.given("{read}", TOO_LATE)

    after = pipeline.run("{name}").rows("{name}")

    assert len(result_at_start(before)) == len(result_at_start(after)) == 1
    assert after == pipeline.recomputed("{name}")
"""
    return f"""{head}

def test_a_late_event_counts_until_the_watermark_has_passed(pipeline):
    pipeline.given("{read}", FIRST)
    pipeline.run("{name}")
    assert result_at_start(pipeline.rows("{name}")) == []
    pipeline.given("{read}", SECOND)
    pipeline.run("{name}")

    found = result_at_start(pipeline.rows("{name}"))
    assert len(found) == 1
    assert found == result_at_start(pipeline.recomputed("{name}"))

    pipeline.given("{read}", TOO_LATE)
    pipeline.run("{name}")

    assert result_at_start(pipeline.rows("{name}")) == found
"""
