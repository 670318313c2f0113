"""Updates whose storage has no room left: they end with an error that says so, and the next one makes it whole."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from deltalake import DeltaTable
from tests.tiers import cases

from headrace.events.reader import EventReader

pytestmark = pytest.mark.e2e
HEADRACE = f"{sys.executable} -m headrace"
# In a mount namespace of its own, so that the disk ends with the script whatever happens.
IN_NAMESPACE = ("unshare", "--map-root-user", "--mount")
DISK_KIB = 16 * 1024
SCRIPT = """
mkdir -p storage && mount -t tmpfs -o size={disk}k tmpfs storage || exit 9
head -c {filled}K /dev/zero > storage/filler
{headrace} run > first.txt 2>&1
echo $? > first.code
rm storage/filler
{headrace} run > second.txt 2>&1
echo $? > second.code
cp -r storage kept
"""


def can_mount() -> bool:
    """Whether this user may make a disk of its own; a container can be told not to allow it."""
    if shutil.which(IN_NAMESPACE[0]) is None:
        return False
    tried = subprocess.run([*IN_NAMESPACE, "mount", "-t", "tmpfs", "tmpfs", "/mnt"], capture_output=True, check=False)
    return tried.returncode == 0


@pytest.mark.long(
    guard=(
        "tests/unit/cli/test_verbs.py::test_full_disk_is_reported_with_the_file_that_failed",
        "tests/unit/events/test_log_and_reader.py::test_unwritten_events_are_retried_after_a_storage_error",
        "tests/spark/test_exactly_once.py::test_no_row_is_lost_or_duplicated_when_an_update_crashes_within_a_batch",
    )
)
@pytest.mark.skipif(not can_mount(), reason="needs a disk of its own, which this user may not mount")
@pytest.mark.parametrize(
    ("left_kib", "code"),
    cases([(0, "STORAGE.FULL"), (150, "EVENTS.NOT_WRITTEN")], [(300, "EVENTS.NOT_WRITTEN")]),
)
def test_an_update_reports_a_full_disk_and_the_next_one_loses_no_data(tmp_path: Path, left_kib: int, code: str) -> None:
    subprocess.run([*HEADRACE.split(), "init", "shop"], cwd=tmp_path, check=True, capture_output=True)
    shop = tmp_path / "shop"
    script = SCRIPT.format(disk=DISK_KIB, filled=DISK_KIB - left_kib, headrace=HEADRACE)

    subprocess.run([*IN_NAMESPACE, "bash", "-c", script], cwd=shop, check=True, capture_output=True)

    first, second = (shop / "first.txt").read_text(), (shop / "second.txt").read_text()
    assert ((shop / "first.code").read_text(), (shop / "second.code").read_text()) == ("1\n", "0\n"), first + second
    assert f"error[{code}]" in first
    assert "No space left on device" in first
    assert "Traceback" not in first
    counts = EventReader(str(shop / "kept" / "system" / "events")).flow_totals()["orders"]
    assert (counts.rows_written, counts.rows_dropped, counts.rows_quarantined) == (492, 2, 6)
    assert DeltaTable(shop / "kept" / "tables" / "default" / "orders").to_pyarrow_table().num_rows == 492


WATCH = """
from pathlib import Path
from tests.alert_watch import AlertWatch
from headrace.settings.load import load_settings

watch = AlertWatch(load_settings(Path("pipeline.yml").absolute(), environ={}))
filler = Path("storage/filler")
before = watch.open_after(10)
filler.write_bytes(bytes(6 << 20))
full = watch.open_after(10)
filler.unlink()
print(before, full, watch.open_after(20))
"""


@pytest.mark.fires("disk_low")
@pytest.mark.skipif(not can_mount(), reason="needs a disk of its own, which this user may not mount")
def test_a_disk_that_fills_up_opens_an_alert_until_it_has_room(tmp_path: Path) -> None:
    (tmp_path / "pipeline.yml").write_text("name: shop\nalerts: {rules: {disk_low: {threshold: 4000000}}}\n")
    (tmp_path / "watch.py").write_text(WATCH)
    script = (
        f"mkdir storage && mount -t tmpfs -o size=8m tmpfs storage && mkdir storage/system && {sys.executable} watch.py"
    )
    environ = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}

    done = subprocess.run(
        [*IN_NAMESPACE, "bash", "-c", script], cwd=tmp_path, env=environ, capture_output=True, text=True, check=True
    )

    assert done.stdout == "set() {'disk_low'} set()\n"
