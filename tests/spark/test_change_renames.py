"""A table that changes are merged into takes along what is remembered of them when it is renamed."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from headrace.runtime.failpoints import Failpoint
from headrace.testing import Crashed

pytestmark = pytest.mark.spark

TEXT = """
    from pathlib import Path

    @dp.temporary_view
    def events():
        event = "id INT, city STRING, version INT, gone BOOLEAN"
        return spark.readStream.schema(event).json(str(Path(__file__).parents[1] / "landing"))

    dp.create_streaming_table("{name}")
    events = {{"keys": ["id"], "sequence_by": "version", "apply_as_deletes": "gone"}}
    dp.create_auto_cdc_flow("{name}", "events", **events, except_column_list=["gone", "version"])
    """
UPSERTED = [{"id": key, "city": "Oslo", "version": 5} for key in (1, 2)]
DELETED = [{"id": 1, "version": 7, "gone": True}]
LATE = [{"id": 1, "city": "Rome", "version": 6}, {"id": 2, "city": "Rome", "version": 4}]


@pytest.fixture
def renamed(project):
    """A pipeline in which a row was deleted, under the table's new name, and with events that come too late for it."""
    pipeline = project(TEXT.format(name="people"))
    pipeline.land("landing/1.json", [*UPSERTED, *DELETED])
    pipeline.run()
    code, settings = (pipeline.folder / name for name in ("transformations/project.py", "pipeline.yml"))
    code.write_text(code.read_text(encoding="utf-8").replace("people", "users"), encoding="utf-8")
    said = yaml.safe_load(settings.read_text(encoding="utf-8"))
    settings.write_text(yaml.safe_dump({**said, "renames": {"datasets": {"people": "users"}}}), encoding="utf-8")
    pipeline.land("landing/2.json", LATE)
    return type(pipeline)(pipeline.folder, Path(pipeline.settings.storage), {})


@pytest.mark.long(guard="tests/spark/test_change_renames.py::test_a_crash_during_a_rename_leaves_nothing_behind")
def test_a_late_event_is_compared_with_events_retained_under_the_old_name(renamed):
    result = renamed.run()

    assert result.rows("users") == [{"id": 2, "city": "Oslo"}]


def test_a_crash_during_a_rename_leaves_nothing_behind(renamed):
    before = renamed.folder / "storage" / "system" / "cdc" / "default" / "people"
    assert before.exists()
    with pytest.raises(Crashed):
        renamed.crash_at(Failpoint.RENAMED, skip=2).run()
    renamed.restart()

    result = renamed.run()

    assert result.rows("users") == [{"id": 2, "city": "Oslo"}]
    assert not before.exists()
