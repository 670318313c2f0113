"""What an update leaves in its process: nothing that grows with the number of updates and flows."""

from __future__ import annotations

import threading
import time

import pytest
from pyspark.sql.streaming import StreamingQueryListener
from tests.recorded_updates import heard

from headrace.events.types import BatchDone

pytestmark = pytest.mark.spark

# Streams that call Python for each batch.
FLOWS = """
    def make(number):
        @dp.table(name="t" + str(number))
        @dp.expect("known", "id IS NOT NULL")
        def table():
            return spark.readStream.schema("id INT").json("{landing}")

    for number in range(4):
        make(number)

    @dp.table
    def written_by_delta():
        return spark.readStream.schema("id INT").option("maxFilesPerTrigger", 1).json("{landing}")
"""


class Durations(StreamingQueryListener):
    """How long Spark says that the batches of a table took, by their numbers."""

    def __init__(self, table):
        self.table, self.took_ms = table, {}

    def onQueryProgress(self, event):  # noqa: N802 - the name is Spark's
        progress = event.progress
        if self.table in progress.sink.description and progress.numInputRows > 0:
            self.took_ms[progress.batchId] = progress.batchDuration

    def onQueryStarted(self, event): ...  # noqa: N802 - the name is Spark's

    def onQueryIdle(self, event): ...  # noqa: N802 - the name is Spark's

    def onQueryTerminated(self, event): ...  # noqa: N802 - the name is Spark's


def test_streams_leave_no_threads_and_report_the_duration_of_each_batch(project, headrace_session, tmp_path):
    made = project(FLOWS.format(landing=tmp_path / "in"))
    (tmp_path / "in").mkdir()
    for number in range(3):
        (tmp_path / "in" / f"{number}.json").write_text('{"id": 1}\n')
    before = threading.active_count()

    durations = Durations("written_by_delta")
    headrace_session.streams.addListener(durations)
    try:
        result, events = heard(made)
        deadline = time.monotonic() + 10
        while len(durations.took_ms) < 3 and time.monotonic() < deadline:
            time.sleep(0.05)
    finally:
        headrace_session.streams.removeListener(durations)

    assert set(result.states.values()) == {"COMPLETED"}
    deadline = time.monotonic() + 10
    while threading.active_count() > before + 2 and time.monotonic() < deadline:
        time.sleep(0.05)
    assert threading.active_count() <= before + 2
    written = [event for event in events if isinstance(event, BatchDone) and event.flow == "written_by_delta"]
    assert {event.batch_id: event.duration_ms for event in written} == durations.took_ms
    assert len(written) == 3
