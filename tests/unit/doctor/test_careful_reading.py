"""The doctor on a storage that is torn, used by an update, or of another pipeline; and what it reads of the machine."""

from __future__ import annotations

import shutil
import tarfile
from pathlib import Path

import pytest
from tests.unit.doctor.conftest import START

from headrace.checkpoints.state_damage import find_state_damage
from headrace.project.inspection.diagnosis.machine_facts import why_volatile

ARCHIVE = Path(__file__).parents[2] / "fixtures" / "storage_0_1" / "storage.tar.gz"
CHECKPOINT = "storage/checkpoints/live_shop/sold_clicks/sold_clicks/0"


def test_an_event_log_that_cannot_be_read_is_listed_and_the_rest_is_examined(shop):
    for commit in (shop.storage / "system" / "events" / "_delta_log").glob("*.json"):
        commit.write_text("{")
    (shop.flow_folder / "0" / "commits" / "1").write_text("")

    diagnosis = shop.diagnosis()

    assert [finding.check.check_id for finding in diagnosis.findings] == ["checkpoint-torn"]
    assert {one.part for one in diagnosis.unread} == {
        "the event log",
        "the batches in the event log",
    }


def test_a_program_that_is_no_python_is_listed_and_the_rest_is_examined(shop):
    shop.write("transformations/orders.py", "def orders(:\n")

    diagnosis = shop.diagnosis()

    assert (diagnosis.findings, [one.part for one in diagnosis.unread]) == ((), ["the program text of orders.py"])


def test_a_file_that_another_user_owns_is_a_finding_and_nothing_else_fails(shop):
    file = shop.flow_folder / "0" / "commits" / "1"
    file.unlink()
    # A folder in place of a file raises the same kind of error as a missing permission, which root always has.
    file.mkdir()

    finding = shop.diagnosis().findings[0]

    assert finding.check.check_id == "checkpoint-missing"
    assert str(file) in finding.evidence


@pytest.mark.parametrize("name", ["checkpoints", "tables", "system"])
def test_a_storage_without_one_of_its_folders_is_examined(shop, name):
    shutil.rmtree(shop.storage / name)

    assert shop.diagnosis().unread == ()


def test_a_running_update_is_no_fault(shop):
    shop.hold_lease()
    shop.update(state=None, at=START)

    assert shop.checks() == []


@pytest.fixture(scope="module")
def archived(tmp_path_factory):
    folder = tmp_path_factory.mktemp("archived")
    with tarfile.open(ARCHIVE) as archive:
        own = [one for one in archive.getmembers() if one.name.startswith(CHECKPOINT)]
        archive.extractall(folder, members=own, filter="data")
    return folder / CHECKPOINT


@pytest.fixture
def checkpoint(archived, tmp_path):
    shutil.copytree(archived, tmp_path / "0")
    return tmp_path / "0"


def newest_changes(checkpoint):
    return max((checkpoint / "state").rglob("*.changelog"), key=lambda file: int(file.name.partition("_")[0]))


def emptied(checkpoint):
    newest_changes(checkpoint).write_bytes(b"")


def cut_off(checkpoint):
    file = newest_changes(checkpoint)
    file.write_bytes(file.read_bytes()[:-7])


def removed(checkpoint):
    newest_changes(checkpoint).unlink()


@pytest.mark.parametrize(
    ("damage", "reason"),
    [(emptied, "the file is empty"), (cut_off, "bytes instead of"), (removed, "of the state is missing")],
)
def test_damage_of_sparks_own_state_files_is_found(checkpoint, damage, reason):
    assert find_state_damage(checkpoint) is None

    damage(checkpoint)

    assert reason in find_state_damage(checkpoint).reason


def test_state_of_a_batch_that_was_not_completed_may_be_damaged(checkpoint):
    newest = max(int(file.name) for file in (checkpoint / "commits").iterdir() if file.name.isdigit())
    (checkpoint / "commits" / str(newest)).unlink()

    emptied(checkpoint)

    assert find_state_damage(checkpoint) is None


@pytest.mark.parametrize(
    ("folder", "why"),
    [
        ("/srv/shop/storage", ""),
        ("/srv/fast/storage", "is in memory: /srv/fast is a tmpfs"),
        ("/srv/fast/disk/storage", ""),
        ("/var/tmp/storage", "is in /var/tmp, a folder for temporary files"),
    ],
)
def test_a_folder_is_volatile_by_the_innermost_mount_or_as_a_temporary_folder(folder, why):
    mounts = [(Path("/"), "ext4"), (Path("/srv/fast"), "tmpfs"), (Path("/srv/fast/disk"), "xfs")]

    assert why_volatile(Path(folder), mounts, [Path("/var/tmp")]) == why
