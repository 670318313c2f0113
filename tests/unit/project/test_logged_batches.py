"""The newest batches in the event log, which an update asks for in each of its plans."""

from __future__ import annotations

import shutil
from datetime import UTC, datetime
from itertools import count

import pytest

from headrace.events.envelope import Origin
from headrace.events.log import EventLog
from headrace.events.types import BatchDone
from headrace.model.outcome import FlowCounts
from headrace.project.planning.logged_batches import LoggedBatches
from headrace.settings.load import load_settings

NOON = datetime(2026, 11, 20, 12, tzinfo=UTC)


class Log:
    """An event log of a project, to which one writer adds batches."""

    def __init__(self, folder):
        (folder / "pipeline.yml").write_text("name: shop\n", encoding="utf-8")
        self.settings = load_settings(folder / "pipeline.yml", environ={})
        self.folder = folder / "storage" / "system" / "events"
        self._ids = count()

    def add(self, batch):
        origin = Origin("p", "shop", "u")
        new_id = lambda: f"{next(self._ids):04}"  # noqa: E731 - one line for the writer
        with EventLog(str(self.folder), origin=origin, clock=lambda: NOON, new_id=new_id) as log:
            log.emit(BatchDone("orders", "orders", 0, batch, FlowCounts(rows_written=1)))


@pytest.fixture
def log(tmp_path):
    return Log(tmp_path)


def test_each_plan_sees_the_batches_that_were_recorded_before_it(log):
    logged = LoggedBatches(log.settings, {})
    found = [logged("orders", "orders")]
    for batch in (0, 1):
        log.add(batch)
        logged.invalidate()
        found.append(logged("orders", "orders"))

    assert found == [None, (0, 0), (0, 1)]


def test_a_log_that_was_replaced_by_an_older_copy_is_read_again(log, tmp_path):
    logged = LoggedBatches(log.settings, {})
    log.add(0)
    shutil.copytree(log.folder, tmp_path / "copy")
    log.add(1)
    newest = logged("orders", "orders")
    shutil.rmtree(log.folder)
    shutil.copytree(tmp_path / "copy", log.folder)
    logged.invalidate()

    assert (newest, logged("orders", "orders")) == ((0, 1), (0, 0))


def test_the_second_plan_reads_no_rows_of_an_unchanged_log(log):
    logged = LoggedBatches(log.settings, {})
    log.add(0)
    first = logged("orders", "orders")
    # Without its rows, the log cannot be read.
    for file in log.folder.glob("*.parquet"):
        file.unlink()
    logged.invalidate()

    assert logged("orders", "orders") == first == (0, 0)
