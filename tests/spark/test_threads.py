"""What an update leaves in its process: nothing that grows with the number of updates and flows."""

from __future__ import annotations

import threading
import time

import pytest

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
"""


def test_streams_leave_no_threads(project, tmp_path):
    made = project(FLOWS.format(landing=tmp_path / "in"))
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "0.json").write_text('{"id": 1}\n')
    before = threading.active_count()

    result = made.run()

    assert set(result.states.values()) == {"COMPLETED"}
    deadline = time.monotonic() + 10
    while threading.active_count() > before + 2 and time.monotonic() < deadline:
        time.sleep(0.05)
    assert threading.active_count() <= before + 2
