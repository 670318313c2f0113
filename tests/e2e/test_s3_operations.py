"""On S3: waiting batches, replays, dead letters, a backfill, an erasure and a rename keep each row once."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from tests.servers.receiver import running_receiver

pytestmark = [
    pytest.mark.e2e,
    # Nine updates in one JVM.
    pytest.mark.timeout(3600),
    pytest.mark.long(
        guard=(
            "tests/unit/storage/test_object_renames.py::test_what_counts_is_whole_wherever_a_rename_dies_and_the_next_update_completes_it",
            "tests/unit/delta_log/test_erased_values.py::test_old_files_and_values_of_a_table_in_a_bucket_are_removed",
            "tests/unit/storage/test_spill_queue.py::test_spilled_batches_keep_their_order_across_epochs",
        )
    ),
]
ANN = "ann@x.example"
LATER = [["bob"], ["cai"], ["dan"], ["eve"], ["fay"]]
FOUND = {
    "down": ["COMPLETED", 1],
    "up": ["COMPLETED", 0],
    "quarantine": [["cai", "open"]],
    "dead letters": [[ANN], ["bob"]],
    "released": ["COMPLETED"],
    "orders": [[ANN], ["bob"], ["cai"]],
    "replayed": ["COMPLETED"],
    "shares": [[ANN, 10.0], ["bob", 20.0], ["cai", 100.0]],
    "backfilled": ["COMPLETED"],
    "after backfill": ["COMPLETED"],
    "late": [[ANN], ["bob"], ["cai"], [ANN], ["dan"]],
    "erased": [True],
    "left": [],
    "after erasure": ["COMPLETED"],
    "renamed": ["COMPLETED"],
    "after rename": ["COMPLETED"],
    **dict.fromkeys(("sales", "customers", "late after rename", "totals"), LATER),
    "left of old name": [],
}


def test_each_row_is_kept_once_by_all_operations_on_s3(tmp_path, lake):
    is_up = tmp_path / "up"
    with running_receiver() as server:
        server.answer = lambda _request, _number: 200 if is_up.exists() else 503
        script = Path(__file__).with_name("s3_operations.py")
        words = [sys.executable, script, tmp_path / "shop", server.url, f"{lake}/shop", is_up]
        done = subprocess.run(words, capture_output=True, encoding="utf-8", check=False)

    assert json.loads(done.stdout or "{}") == FOUND, done.stderr[-5000:]
    # The released row of the quarantine is written by the replay, so that the sink's stream reads it too.
    assert sorted(row["email"] for row in server.taken) == sorted([ANN, ANN, *(name for (name,) in LATER)])
