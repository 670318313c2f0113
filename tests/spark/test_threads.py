"""What an update leaves in its process: nothing that grows with the number of updates and flows."""

from __future__ import annotations

import threading
import time

import pytest
from tests.heard import heard

from headrace.events.types import BatchDone

pytestmark = pytest.mark.spark

# Streams that call Python for each batch.
FLOWS = """
    def make(number):
        @dp.table(name="t" + str(number))
        @dp.expect("known", "id IS NOT NULL")
        def table():
            return spark.readStream.schema("id INT").json("{landing}")

    for number in range(6):
        make(number)

    @dp.table
    def written_by_delta():
        return spark.readStream.schema("id INT").option("maxFilesPerTrigger", 1).json("{landing}")
"""


def test_no_thread_is_left_and_batches_have_their_own_durations_when_streams_have_ended(project, tmp_path):
    made = project(FLOWS.format(landing=tmp_path / "in"))
    (tmp_path / "in").mkdir()
    for number in range(3):
        (tmp_path / "in" / f"{number}.json").write_text('{"id": 1}\n')
    before = threading.active_count()

    result, events = heard(made)

    assert set(result.states.values()) == {"COMPLETED"}
    deadline = time.monotonic() + 10
    while threading.active_count() > before + 2 and time.monotonic() < deadline:
        time.sleep(0.05)
    assert threading.active_count() <= before + 2
    took_ms = [
        event.duration_ms for event in events if isinstance(event, BatchDone) and event.flow == "written_by_delta"
    ]
    (flow,) = (flow for flow in result.outcome.flows if flow.flow == "written_by_delta")
    assert len(took_ms) == 3
    assert 0 < sum(took_ms) <= flow.duration_s * 1000
