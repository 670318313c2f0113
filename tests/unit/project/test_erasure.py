"""While rows are erased, neither maintenance nor an update runs; what is left of old files is told with a date."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.delta_log.erased_values import UnusedFiles
from headrace.errors import PipelineError
from headrace.model.erasure import KeptFiles
from headrace.project.erasure.exclusion import exclusive
from headrace.project.erasure.search import kept_files
from headrace.project.maintenance.lock import maintenance_lock
from headrace.settings.storage import MonitoringFile, StorageLayout


def test_nothing_is_erased_during_maintenance_and_nothing_is_maintained_during_an_erasure(tmp_path):
    layout = StorageLayout(str(tmp_path))
    lock = Path(layout.monitoring(MonitoringFile.MAINTENANCE_LOCK))

    with maintenance_lock(lock), pytest.raises(PipelineError, match="or an erasure") as refused, exclusive(layout, {}):
        pass
    assert not Path(layout.lease).exists()
    with exclusive(layout, {}) as lease, pytest.raises(PipelineError, match="or an erasure"), maintenance_lock(lock):
        lease.check()
    assert refused.value.code == "MAINTENANCE.RUNNING"


def test_files_that_may_belong_to_a_write_are_counted_with_the_day_on_which_all_can_be_deleted():
    first, second = UnusedFiles(unnamed=2, unnamed_until_s=86_400.0), UnusedFiles(unnamed=1, unnamed_until_s=3 * 86_400)
    elsewhere = UnusedFiles(kept_for="its log names files elsewhere")

    found = kept_files([("orders", first), ("lines", second), ("copy", elsewhere)])

    assert found == KeptFiles(3, "1970-01-05", (("copy", "its log names files elsewhere"),))
    assert kept_files([("orders", UnusedFiles())]) == KeptFiles()
