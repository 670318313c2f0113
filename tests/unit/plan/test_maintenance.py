"""What maintenance does with a table: when it is due, when it waits, and what it costs."""

from __future__ import annotations

from dataclasses import replace

import pytest

from headrace.delta_log.table_features import features_of
from headrace.delta_log.table_files import LiveFile, StoredFile
from headrace.model.maintenance import DAY_S, MaintenancePolicy, Task, VacuumScope
from headrace.plan.maintenance import (
    CUBE_BYTES,
    SMALL_FILE_BYTES,
    TARGET_FILE_BYTES,
    ActionState,
    Role,
    Size,
    TableFacts,
    table_action,
)
from headrace.plan.table_report import table_report

NOW = 1_800_000_000.0
MIB = 1024 * 1024
POLICY = MaintenancePolicy()
TABLE = TableFacts("orders", "/s/orders", Role.STREAMING)
BUSY = "a running update merges changes into it"


def small(count, day=None, start=0):
    partition = () if day is None else (("day", day),)
    return tuple(LiveFile(f"{day}-{number}", MIB, partition) for number in range(start, start + count))


def action(task, policy=POLICY, **facts):
    return table_action(task, replace(TABLE, **facts), policy, NOW)


def stored(name, age_days, size=100):
    return StoredFile(name, size, NOW - age_days * DAY_S)


def test_many_small_files_are_compacted_and_a_few_are_not():
    assert action(Task.COMPACT, files=small(20)) is None

    planned = action(Task.COMPACT, files=(*small(300), LiveFile("large", 5 * TARGET_FILE_BYTES)))

    assert planned.state is ActionState.PLANNED
    assert planned.before == Size(301, 940 * MIB)
    assert planned.after == Size(4, 940 * MIB)


def test_a_small_file_alone_in_its_partition_stays():
    alone = tuple(LiveFile(str(day), MIB, (("day", str(day)),)) for day in range(100))

    assert action(Task.COMPACT, files=alone) is None
    assert action(Task.COMPACT, files=(*alone, *small(21, "today"))).after.files == 101


def test_a_file_with_many_deleted_rows_is_rewritten_without_them():
    planned = action(Task.COMPACT, files=(LiveFile("a", SMALL_FILE_BYTES * 2, rows=100, deleted_rows=50),))

    assert (planned.reason, planned.after) == ("files with many deleted rows", Size(1, SMALL_FILE_BYTES))


@pytest.mark.parametrize("task", [Task.COMPACT, Task.CLUSTER, Task.RETENTION])
def test_rewrites_wait_while_a_running_update_could_conflict_with_them(task):
    files = small(50)
    facts = {"files": files, "expired_rows": 3}
    if task is Task.CLUSTER:
        facts |= {"z_order": ("k",), "unordered": frozenset(file.path for file in files)}

    assert action(task, **facts).state is ActionState.PLANNED
    waits = action(task, **facts, busy=BUSY)
    assert (waits.state, waits.reason) == (ActionState.SKIPPED, BUSY)


def test_a_table_is_z_ordered_again_once_a_fifth_of_its_bytes_is_not():
    files = tuple(LiveFile(str(number), 100 * MIB) for number in range(10))

    assert action(Task.CLUSTER, files=files, z_order=("k",), unordered=frozenset(["1"])) is None
    planned = action(Task.CLUSTER, files=files, z_order=("k", "j"), unordered=frozenset(["1", "2"]))
    assert planned.reason == "20% of the bytes are not Z-ordered by k, j"
    assert planned.partitions == ()


def test_only_changed_partitions_are_z_ordered():
    files = (*small(10, "1"), *small(10, "2"), *small(30, None))
    unordered = frozenset(file.path for file in small(5, "2"))

    planned = action(Task.CLUSTER, files=files, partition_by=("day",), z_order=("k",), unordered=unordered)

    assert planned.partitions == ((("day", "2"),),)
    assert "in 1 partition are" in planned.reason


def test_a_table_with_column_mapping_is_z_ordered_as_a_whole():
    files = (LiveFile("a", MIB, (("col-1f", "1"),)), LiveFile("b", MIB, (("col-1f", "2"),)))

    planned = action(Task.CLUSTER, files=files, partition_by=("day",), z_order=("k",), unordered=frozenset(["a"]))

    assert planned.partitions == ()


def test_a_large_clustered_table_is_clustered_before_a_fifth_of_it_is_new():
    old = tuple(LiveFile(f"old{number}", CUBE_BYTES, cube="c") for number in range(10))
    new = LiveFile("new", CUBE_BYTES // 5 + 1)
    facts = {"cluster_by": ("k",), "unordered": frozenset(["new"])}

    assert action(Task.CLUSTER, files=(*old, new), **facts).state is ActionState.PLANNED
    assert action(Task.CLUSTER, files=(*old, replace(new, size=CUBE_BYTES // 10)), **facts) is None


def test_z_ordering_compacts_so_that_compaction_does_not_come_before_it():
    files = small(50)
    facts = {"files": files, "z_order": ("k",)}

    assert action(Task.COMPACT, **facts, unordered=frozenset(file.path for file in files)) is None
    assert action(Task.COMPACT, **facts) is not None


@pytest.mark.parametrize(
    ("role", "scope", "state"),
    [
        (Role.VIEW, VacuumScope.VIEWS, ActionState.PLANNED),
        (Role.QUARANTINE, VacuumScope.VIEWS, ActionState.PLANNED),
        (Role.STREAMING, VacuumScope.VIEWS, ActionState.SKIPPED),
        (Role.STREAMING, VacuumScope.ALL, ActionState.PLANNED),
        (Role.VIEW, VacuumScope.OFF, ActionState.SKIPPED),
    ],
)
def test_vacuum_says_which_tables_it_leaves_out_and_what_they_hold(role, scope, state):
    found = action(
        Task.VACUUM,
        MaintenancePolicy(scope),
        role=role,
        stored=(stored("old", 8), stored("used", 90), stored("new", 6)),
        needed=frozenset(["used"]),
    )

    assert found.state is state
    assert found.reason.startswith("1 file, 100 bytes unused for 7 days")
    assert found.after == (Size(2, 200) if state is ActionState.PLANNED else None)


def test_young_files_stay_however_short_the_retention_is():
    # A running update may commit them later.
    facts = {"role": Role.VIEW, "stored": (stored("old", 1.1), stored("uncommitted", 0.9))}

    planned = action(Task.VACUUM, MaintenancePolicy(retain_s=0.0), **facts)

    assert planned.after == Size(1, 100)


def test_nothing_is_vacuumed_while_a_position_or_a_feature_is_unknown():
    view = {"role": Role.VIEW, "stored": (stored("old", 80),)}

    unknown = action(Task.VACUUM, **view, needed=None, kept_for="the position of x cannot be read")
    feature = action(Task.VACUUM, **view, features=features_of(["coldStorage"], {}))

    assert (unknown.state, unknown.reason) == (ActionState.SKIPPED, "the position of x cannot be read")
    assert (feature.state, feature.reason) == (ActionState.SKIPPED, "unknown table feature coldstorage")


def test_rows_are_not_deleted_from_a_table_that_a_stream_reads():
    found = action(Task.RETENTION, role=Role.QUARANTINE, expired_rows=4, streams=("default/a/a/0",))

    assert (found.state, found.rows) == (ActionState.SKIPPED, None)
    assert "default/a/a/0" in found.reason


def test_rows_are_not_deleted_from_a_table_while_it_is_unknown_which_streams_read_it():
    found = action(Task.RETENTION, role=Role.QUARANTINE, expired_rows=4, unknown_streams="dbfs/a cannot be listed")

    assert (found.state, found.reason) == (ActionState.SKIPPED, "dbfs/a cannot be listed")


def test_a_log_checkpoint_that_would_remove_commits_waits_for_the_stream_that_needs_them():
    facts = {"commits": 21, "log_kept_for": "default/a/a/0 needs version 3 and later of the log"}

    assert action(Task.CHECKPOINT, commits=20) is None
    # Without features, delta-rs writes it, and removes nothing.
    assert action(Task.CHECKPOINT, **facts).state is ActionState.PLANNED
    assert action(Task.CHECKPOINT, **facts, features=features_of(["clustering"], {})).state is ActionState.SKIPPED


@pytest.mark.parametrize("facts", [{"managed": False}, {"role": Role.OTHER}])
def test_tables_that_are_not_ours_to_maintain_are_left_alone(facts):
    full = {"files": small(99), "expired_rows": 9, "commits": 99, "stored": (stored("old", 99),)}

    assert [action(task, **full, **facts) for task in Task] == [None] * len(Task)


def test_the_report_has_figures_features_and_commands():
    facts = replace(
        TABLE,
        files=(*small(50), LiveFile("large", TARGET_FILE_BYTES, rows=1000, deleted_rows=100)),
        stored=(stored("old", 80, 3 * MIB),),
        features=features_of(["checkConstraints"], {}),
    )

    report = table_report(facts, POLICY, NOW, ("the property delta.constraints.positive",))

    assert [f"{label}: {text}" for label, text in report.describe()] == [
        "layout: 51 files, 178.0 MiB, 3.5 MiB on average; 50 small files",
        ": 100 deleted rows in these files (10%)",
        ": 1 file, 3.0 MiB on disk are unused",
        ("feature: checkConstraints (checks CHECK constraints) excludes: the creation of tables without Spark jobs"),
        "writer: small batches are written by Spark because of the property delta.constraints.positive",
        "advice: headrace maintain orders --only compact: 50 small files; 51 files, 178.0 MiB become about 2",
        ("advice: set maintenance.vacuum to all, then run headrace maintain orders: 1 file, 3.0 MiB unused"),
    ]
    assert report.to_json()["unused_bytes"] == 3 * MIB
    unknown = table_report(replace(facts, features=features_of(["coldStorage"], {})), POLICY, NOW)
    assert ("feature", "coldstorage is unknown to this version of Headrace") in [*unknown.describe()]
    assert unknown.unused == Size(0, 0)


def test_the_report_advises_the_setting_that_lets_a_streaming_table_be_vacuumed():
    facts = replace(TABLE, stored=(stored("old", 80, 3 * MIB),))

    (advice,) = table_report(facts, POLICY, NOW).advice

    assert advice.startswith("set maintenance.vacuum to all, then run headrace maintain orders: 1 file, 3.0 MiB unused")


def test_many_small_partitions_are_reported():
    files = tuple(LiveFile(str(day), MIB, (("day", str(day)),)) for day in range(200))

    (advice,) = table_report(replace(TABLE, files=files, partition_by=("day",)), POLICY, NOW).advice

    assert "200 partitions have 1.0 MiB on average" in advice
