"""The cost of a scrape of metrics: `python bench/scrape.py [BATCHES]`, without Java.

Writes an event log with 100,000 batches of ten flows, each with two expectations and two metrics of users, and a
report of its stream for every tenth batch. Then it collects the metrics: first without a snapshot, then with the one of
the scrape before, with and without a hundred new batches. Prints seconds.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from itertools import islice
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

import pyarrow as pa
from deltalake import write_deltalake

from headrace.events.envelope import Origin, Stamp, to_row
from headrace.events.schema import SCHEMA
from headrace.events.types import BatchDone, Event, StreamProgress, UpdateCreated
from headrace.metrics.exposition import prometheus_text
from headrace.model.custom_metrics import MetricValue
from headrace.model.expectations import Action, ExpectationCount
from headrace.model.outcome import FlowCounts
from headrace.model.stream_progress import StreamBatches
from headrace.project.inspection.stored_project import StoredProject
from headrace.settings.load import nearest_settings

BATCHES, FLOWS, ROWS_PER_APPEND, REPEATS = 100_000, 10, 50_000, 5
START = datetime(2026, 11, 1, tzinfo=UTC)


def events(first: int, batches: int) -> Iterator[Event]:
    """The events of batches from number *first* on."""
    for number in range(first, first + batches):
        flow, batch_id = f"flow_{number % FLOWS}", number // FLOWS
        rules = tuple(ExpectationCount(f"rule {rule}", Action.DROP, 990, 10) for rule in range(2))
        metrics = (MetricValue("value", 12.5, is_total=True), MetricValue("newest", number, is_total=False))
        yield BatchDone(flow, flow, 0, batch_id, FlowCounts(980, 20, 0, rules, metrics=metrics), 400)
        if batch_id % 10 == 0:
            phases = {"latest_offset": 20, "query_planning": 60, "wal_commit": 30, "add_batch": 280, "commit_batch": 10}
            done = StreamBatches(batch_id, 10, START, 4000, phases, 10_000, 900.0, 2500.0)
            yield StreamProgress(flow, flow, 0, "q", "r", done)


def write(path: str, found: Iterator[Event], first_row: int) -> int:
    """Append events to the log in few commits; returns the number of the next row."""
    origin = Origin("p", "scrape", "u")
    while chunk := list(islice(found, ROWS_PER_APPEND)):
        rows = []
        for event in chunk:
            stamp = Stamp(first_row, START + timedelta(seconds=first_row), "bench", "bench")
            rows.append(to_row(event, origin=origin, stamp=stamp))
            first_row += 1
        write_deltalake(path, pa.Table.from_pylist(rows, SCHEMA), mode="append")
    return first_row


def seconds(work: Callable[[], object]) -> float:
    """How long *work* takes."""
    began = time.monotonic()
    work()
    return time.monotonic() - began


def main() -> None:
    """Measure and print."""
    batches = int(sys.argv[1]) if len(sys.argv) > 1 else BATCHES
    with TemporaryDirectory() as text:
        (Path(text) / "pipeline.yml").write_text("name: scrape\n", encoding="utf-8")
        project = StoredProject(nearest_settings(Path(text), profile=None, overrides={}, environ={}), {})
        path = project.settings.layout.events

        def scrape() -> None:
            prometheus_text("scrape", project.metrics())

        next_row = write(path, iter([UpdateCreated("USER_ACTION"), *events(0, batches)]), 0)
        print(f"first scrape of {batches} batches: {seconds(scrape):.2f} s")
        print(f"next ones, nothing new: {median(seconds(scrape) for _ in range(REPEATS)):.3f} s")
        times = []
        for repeat in range(REPEATS):
            next_row = write(path, events(batches + 100 * repeat, 100), next_row)
            times.append(seconds(scrape))
        print(f"next ones, 100 new batches each: {median(times):.3f} s")


if __name__ == "__main__":
    main()
