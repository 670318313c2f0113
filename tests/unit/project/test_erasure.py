"""While rows are erased, neither maintenance nor an update runs; what is left of old files is told with a date."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from headrace.delta_log.erased_values import UnusedFiles
from headrace.errors import PipelineError
from headrace.model.erasure import Criterion, ErasureRequest, KeptFiles, PlaceKind
from headrace.model.names import QualifiedName
from headrace.project.erasure.exclusion import exclusive
from headrace.project.erasure.search import Search, kept_files
from headrace.project.maintenance.lock import maintenance_lock
from headrace.settings.load import nearest_settings
from headrace.settings.storage import MonitoringFile, StorageLayout
from headrace.storage.dead_letters import DeadLetter, DeadLetterBatch, write_dead_letters
from headrace.storage.flow_record import FlowRecord, write_record


def test_nothing_is_erased_during_maintenance_and_nothing_is_maintained_during_an_erasure(tmp_path):
    layout = StorageLayout(str(tmp_path))
    lock = Path(layout.monitoring(MonitoringFile.MAINTENANCE_LOCK))

    with maintenance_lock(lock), pytest.raises(PipelineError, match="or an erasure") as refused, exclusive(layout, {}):
        pass
    assert not layout.lease.exists()
    with exclusive(layout, {}) as lease, pytest.raises(PipelineError, match="or an erasure"), maintenance_lock(lock):
        lease.check()
    assert refused.value.code == "MAINTENANCE.RUNNING"


def test_files_that_may_belong_to_a_write_are_counted_with_the_day_on_which_all_can_be_deleted():
    first, second = UnusedFiles(unnamed=2, unnamed_until_s=86_400.0), UnusedFiles(unnamed=1, unnamed_until_s=3 * 86_400)
    elsewhere = UnusedFiles(kept_for="its log names files elsewhere")

    found = kept_files([("orders", first), ("lines", second), ("copy", elsewhere)])

    assert found == KeptFiles(3, "1970-01-05", (("copy", "its log names files elsewhere"),))
    assert kept_files([("orders", UnusedFiles())]) == KeptFiles()


@pytest.fixture
def storage(tmp_path):
    """A storage with a table without the column, and dead letters of its flow; returns the settings."""
    (tmp_path / "pipeline.yml").write_text("name: shop\n")
    settings = nearest_settings(tmp_path, profile=None, overrides={}, environ={})
    name = QualifiedName("orders")
    write_deltalake(settings.layout.table(settings.naming, name), pa.table({"id": [1]}))
    file = Path(settings.layout.flow_state(settings.naming, name, "orders"))
    write_record(file, FlowRecord(flow="orders", started_at=1.0))
    letter = DeadLetter('{"email": "ann@x.example"}', "bad", None, {})
    write_dead_letters(file.parent, DeadLetterBatch("orders", 0, 0, "u", at=None), [letter], lambda: None)
    return settings


def search(settings, column="email"):
    """A search that needs no session, because no table has the column."""
    return Search(settings, None, ErasureRequest((Criterion((column,), "ann@x.example"),)))


def test_rows_in_dead_letters_are_found_though_no_table_has_their_column(storage):
    found = search(storage).find()

    assert {(place.kind, place.name): place.rows for place in found.places if place.rows} == {
        (PlaceKind.DEAD_LETTERS, "orders"): 1
    }
    with pytest.raises(PipelineError) as unknown:
        search(storage, "emial").find()
    assert unknown.value.code == "ERASE.NO_COLUMN"


def test_folders_of_monitoring_are_searched_and_tables_of_scripts_are_named(storage):
    message = Path(storage.layout.monitoring(MonitoringFile.OUTBOX), "ops", "1.json")
    message.parent.mkdir(parents=True)
    message.write_text("ann@x.example failed")
    operations = storage.layout.monitoring(MonitoringFile.OPERATIONS)
    write_deltalake(operations, pa.table({"message": ["ann@x.example"]}))
    scripted = f"{storage.layout.root}/dbfs/mnt/people"
    write_deltalake(scripted, pa.table({"email": ["ann@x.example"]}))

    mentions = list(search(storage).mentions([]))
    _, not_searched = search(storage).targets()

    assert str(message) in mentions
    assert any(file.startswith(operations) and file.endswith(".parquet") for file in mentions)
    assert scripted in dict(not_searched)
