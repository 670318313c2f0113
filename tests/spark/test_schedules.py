"""What updates record for schedules: the clause of a dataset, and the id of a request, which runs once."""

from __future__ import annotations

import pytest

from headrace.events.reader import EventReader
from headrace.project.scheduling.declared import declared

pytestmark = pytest.mark.spark

SCHEDULED = """
    @dp.materialized_view(schedule="SCHEDULE EVERY 2 HOURS")
    def numbers():
        return spark.range(3)

    @dp.materialized_view(schedule="trigger on update at most every interval 5 minutes")
    def doubled():
        return spark.sql("SELECT id * 2 AS id FROM numbers")
    """


def test_an_update_deploys_schedules_and_a_request_runs_once(project):
    """Guards the way of schedule= through the event log, and that --request-id is checked under the lease."""
    pipeline = project(SCHEDULED)
    first = pipeline.project.run(request_id="night-1")
    again = pipeline.project.run(request_id="night-1")
    other = pipeline.project.run(request_id="night-2")

    reader = EventReader(pipeline.project.settings.layout.events)
    found = declared(pipeline.project.settings, reader)

    assert (first.update_id, first.to_json()) == (again.update_id, again.to_json())
    assert other.update_id != first.update_id
    assert sorted((one.name, one.timing.describe()) for one in found.schedules) == [
        ("dataset:doubled", "update of what it reads"),
        ("dataset:numbers", "every 2 h"),
    ]
    assert list(found.tables_read_by("doubled")) == ["numbers"]
