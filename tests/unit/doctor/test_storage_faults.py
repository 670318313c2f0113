"""Each fault of a runbook, done to a storage: the doctor names it first, and its command or its edit ends it."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
from datetime import timedelta
from functools import partial
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import write_deltalake
from tests.unit.doctor.conftest import (
    DEFINED,
    LATER,
    PROGRAM,
    SETTINGS,
    START,
    failed,
    first,
    recompute,
    record_of,
    without_checkpoint,
)

from headrace.cli.main import call
from headrace.events.types import (
    BatchDone,
    DatasetDefined,
    FlowStateChanged,
    Warned,
)
from headrace.model.datasets import Kind
from headrace.model.outcome import FlowCounts, FlowState, UpdateState
from headrace.storage.flow_record import write_record
from headrace.storage.spill_queue import BatchToSpill, spill_batch, spill_folders


def test_a_healthy_pipeline_has_no_finding(shop):
    diagnosis = shop.diagnosis()

    assert (diagnosis.findings, diagnosis.unread, diagnosis.next_step) == ((), (), None)


def torn(shop):
    (shop.flow_folder / "0" / "commits" / "1").write_text("")


def test_the_command_for_a_torn_checkpoint_repairs_it(shop):
    torn(shop)

    finding, names = first(shop)

    assert (names, finding.flow, finding.safe) == (["checkpoint-torn"], "orders", True)
    assert shop.run(finding.command) == 0
    assert shop.checks() == []


def damaged(shop):
    (shop.flow_folder / "0" / "metadata").write_text("{")


def missing(shop):
    shutil.rmtree(shop.flow_folder / "0")


def without_folder(shop):
    shutil.rmtree(shop.flow_folder)


def restored_from_a_copy(shop):
    for folder in ("offsets", "commits"):
        (shop.flow_folder / "0" / folder / "1").unlink()


def without_rows(shop):
    """The table as it was a batch before."""
    (Path(shop.orders) / "_delta_log" / f"{1:020}.json").unlink()


def torn_state(shop):
    store = shop.flow_folder / "0" / "state" / "0" / "0"
    store.mkdir(parents=True)
    for version in (1, 2):
        (store / f"{version}_ab.changelog").write_bytes(b"x" if version == 1 else b"")


def read_again(shop):
    """The flow has started over in another epoch, and its table kept the rows."""
    write_record(shop.flow_folder / "flow.json", record_of(shop, epoch=1, first_epoch=0))
    shop.plans(0, epoch=1)
    shop.commits(0, epoch=1)


def slow_source(shop):
    shop.update(
        failed("KAFKA.UNREACHABLE", "no Kafka broker answers", hint="Check the network."),
        state=UpdateState.FAILED,
        at=LATER,
    )


def lost_offsets(shop):
    shop.update(Warned("KAFKA.OFFSETS_LOST", 'flow "orders": lost 5 records', "orders", "orders"), at=LATER)


@pytest.mark.parametrize(
    ("fault", "check", "command"),
    [
        (damaged, "checkpoint-torn", "headrace run --full-refresh orders"),
        (missing, "checkpoint-missing", "headrace run --full-refresh orders"),
        (without_folder, "checkpoint-missing", "headrace run --full-refresh orders"),
        (restored_from_a_copy, "checkpoint-behind-table", "headrace run --full-refresh orders"),
        (without_rows, "data-lost", "headrace run --full-refresh orders"),
        (torn_state, "state-torn", "headrace run --full-refresh orders"),
        (read_again, "duplicates", "headrace run --full-refresh orders"),
        (slow_source, "source-unavailable", "headrace run"),
        (lost_offsets, "data-lost", None),
    ],
)
def test_a_fault_of_the_storage_is_named_first_with_its_command(shop, fault, check, command):
    fault(shop)

    finding, names = first(shop)

    assert (names, finding.flow, finding.command) == ([check], "orders", command)
    assert finding.safe == (command == "headrace run")


def test_the_edit_for_missing_monitoring_names_a_channel(shop):
    shop.write("pipeline.yml", "name: shop\n")

    finding, names = first(shop)

    assert names == ["no-monitoring"]
    shop.apply(finding.edit)
    assert shop.checks() == []


def test_the_edit_for_two_pipelines_in_one_storage_gives_one_of_them_its_own(shop):
    for number, pipeline in enumerate(("q", "p")):
        shop.update(pipeline=pipeline, at=LATER + timedelta(minutes=number))

    finding, names = first(shop)

    assert names == ["checkpoint-shared"]
    shop.apply(finding.edit)
    assert shop.settings.storage == str(shop.folder / "storage-shop")
    assert shop.checks() == []


def test_a_folder_of_checkpoints_that_is_a_link_to_another_is_shared(shop):
    other = shop.flow_folder.parent / "copy"
    other.symlink_to(shop.flow_folder)

    assert first(shop)[1][0] == "checkpoint-shared"


def test_the_edit_and_the_command_for_a_storage_in_memory_move_it_to_a_disk(shop):
    shop.write("pipeline.yml", f"{SETTINGS}storage: memory/storage\n")
    shutil.move(shop.storage, shop.folder / "memory" / "storage")

    finding, names = first(shop)

    assert (names, finding.edit.text, finding.safe) == (["checkpoint-volatile"], "storage: storage", True)
    shop.apply(finding.edit)
    subprocess.run(shlex.split(finding.command), check=True)
    assert shop.checks() == []
    assert (shop.flow_folder / "0" / "commits" / "1").is_file()


OUT_OF_MEMORY = """\
{at} ERROR Executor: Exception in task 0.0 in stage 3.0 (TID 7)
java.lang.OutOfMemoryError: Java heap space
\tat java.base/java.util.Arrays.copyOf(Arrays.java:3537)
"""


def test_the_edit_for_java_that_ran_out_of_memory_gives_it_more(shop):
    logs = shop.storage / "system" / "logs"
    logs.mkdir()
    at = LATER.astimezone().strftime("%Y-%m-%d %H:%M:%S.123")
    (logs / "spark.log").write_text(OUT_OF_MEMORY.format(at=at))
    assert shop.checks() == ["memory-tight"]
    # The kernel kills the process, which records no end.
    shop.update(state=None, at=LATER, config={"driver_memory_bytes": 2 << 30})

    finding, names = first(shop)

    assert names == ["memory-tight"]
    assert ("Java heap space" in finding.evidence, "process of the update is gone" in finding.evidence) == (True, True)
    shop.apply(finding.edit)
    assert shop.settings.spark_conf == {"spark.driver.memory": "4g"}
    assert shop.checks() == []


def test_an_error_of_java_before_the_latest_update_is_no_finding(shop):
    logs = shop.storage / "system" / "logs"
    logs.mkdir()
    at = (START - timedelta(hours=1)).astimezone().strftime("%Y-%m-%d %H:%M:%S.123")
    (logs / "spark.log").write_text(OUT_OF_MEMORY.format(at=at))

    assert shop.checks() == []


def test_an_update_whose_process_is_gone_may_have_run_out_of_memory(shop):
    shop.update(state=None, at=LATER)

    finding, names = first(shop)

    assert (names, finding.command, finding.safe) == (["memory-tight"], "headrace run", True)


def test_records_that_fail_a_flow_get_dead_letters_by_an_edit(shop):
    shop.update(
        failed("FLOW.USER_CODE", 'user code of flow "orders" raised an error'), state=UpdateState.FAILED, at=LATER
    )

    finding, names = first(shop)

    assert (names, finding.severity.value, finding.command) == (["errors-unhandled"], "error", "headrace run")
    shop.apply(finding.edit)
    assert shop.settings.on_failing_rows.accepts_rows


def test_new_fields_that_a_reader_refuses_are_accepted_after_an_edit(shop):
    reader = '.option("cloudFiles.schemaEvolutionMode", "failOnNewColumns")'
    shop.write("transformations/orders.py", PROGRAM.replace(".load(", f"{reader}.load("))
    error = {"code": "AUTO_LOADER.NEW_FIELDS_REFUSED", "message": "new fields: note"}
    shop.update(FlowStateChanged("raw", "raw", FlowState.FAILED, error=error), state=UpdateState.FAILED, at=LATER)

    finding, names = first(shop)

    assert (names, finding.flow, finding.command) == (["schema-mismatch"], "raw", "headrace run")
    shop.apply(finding.edit)
    assert '"cloudFiles.schemaEvolutionMode", "addNewColumns"' in (shop.folder / finding.edit.file).read_text()


def test_values_that_the_schema_cannot_hold_are_a_mismatch(shop):
    rows = FlowCounts(100, rows_rescued=6)
    recompute(shop, "raw")
    shop.update(BatchDone("raw", "raw", 0, 7, rows), at=LATER)

    finding, names = first(shop)

    assert (names, finding.dataset, "6.0%" in finding.evidence, finding.safe) == (
        ["schema-mismatch"],
        "raw",
        True,
        True,
    )


def test_many_small_files_are_found_with_the_limit_of_the_alert(shop):
    shop.write("pipeline.yml", f"{SETTINGS}  rules: {{small_files: {{threshold: 1}}}}\n")

    findings = shop.diagnosis().findings

    assert [(one.check.check_id, one.dataset, one.command) for one in findings] == [
        ("small-files", "raw", "headrace maintain raw"),
        ("small-files", "orders", "headrace maintain orders"),
    ]


def test_batches_that_wait_for_a_sink_are_found(shop):
    queue = spill_folders(shop.flow_folder, "orders")["orders"]
    write = partial(pq.write_table, pa.table({"id": [1, 2]}))
    spill_batch(queue, BatchToSpill("t", 2, 5), lambda folder: folder.mkdir() or write(folder / "a.parquet"), int)

    finding, names = first(shop)

    assert (names, finding.evidence) == (["sink-behind"], '1 batch with 2 rows wait for sink "orders" of flow "orders"')


def test_the_command_for_old_epochs_removes_them(shop):
    for epoch in (1, 2):
        shutil.copytree(shop.flow_folder / "0", shop.flow_folder / str(epoch))
        shop.commits(1, epoch=epoch)
    write_record(shop.flow_folder / "flow.json", record_of(shop, epoch=2, first_epoch=2))

    finding, names = first(shop)

    assert (names, finding.safe) == (["old-epochs"], True)
    assert shop.run(finding.command) == 0
    assert shop.checks() == []


def test_the_command_for_unused_files_removes_them(shop):
    write_deltalake(shop.raw, pa.table({"id": [7]}), mode="overwrite")
    recompute(shop, "raw")
    without_checkpoint(shop)
    for file in Path(shop.raw).rglob("*"):
        old = (shop.now - timedelta(days=40)).timestamp()
        os.utime(file, (old, old))

    finding, names = first(shop)

    assert (names, finding.dataset, finding.safe) == (["unvacuumed"], "raw", True)
    assert shop.run(finding.command) == 0
    assert shop.checks() == []


def test_the_verb_exits_with_1_and_its_json_has_the_next_command(shop, capsys):
    torn(shop)

    code = call(["--project", str(shop.folder), "--output", "json", "doctor", "orders"])

    document = json.loads(capsys.readouterr().out)
    assert (code, document["next"]) == (1, "headrace checkpoints repair orders")
    assert document["findings"][0].keys() == {
        *("check", "severity", "flow", "dataset", "evidence", "remedy", "command", "edit", "safe", "document")
    }


def test_an_unknown_flow_is_refused_with_a_suggestion(shop, capsys):
    code = call(["--project", str(shop.folder), "doctor", "order"])

    shown = capsys.readouterr().err
    assert (code, "DOCTOR.UNKNOWN" in shown, '"orders"' in shown) == (2, True, True)


def test_what_cannot_be_read_is_not_healthy(shop):
    log = shop.storage / "system" / "events" / "_delta_log"
    max(log.glob("*.json")).write_text("{")

    diagnosis = shop.diagnosis()

    assert (diagnosis.findings, diagnosis.is_healthy) == ((), False)
    assert diagnosis.next_step.startswith("Check that the storage is readable")


@pytest.mark.parametrize("name", ["orders", "ORDERS", "default.`orders`", "new_table"])
def test_a_dataset_is_known_in_each_form_of_its_name_and_before_it_has_run(shop, name):
    torn(shop)
    shop.write("transformations/new.py", "@dp.table\ndef new_table():\n    return spark.table('raw')\n")

    assert len(shop.diagnosis(name).findings) == (name != "new_table")


def test_a_flow_that_is_retried_has_no_command_while_its_update_runs(shop):
    shop.hold_lease()
    error = {"code": "KAFKA.UNREACHABLE", "message": "no Kafka broker answers"}
    shop.update(FlowStateChanged("orders", "orders", FlowState.RETRYING, error=error), state=None, at=LATER)

    finding, names = first(shop)

    assert (names, finding.severity.value, finding.command) == (["source-unavailable"], "warning", None)


FIELDS = {"id": "long", "note": "varchar(20)", "nothing": "void"}


def defined_as(shop, **fields):
    columns = [{"name": name, "type": kind, "nullable": True, "metadata": {}} for name, kind in fields.items()]
    schema = {"type": "struct", "fields": columns}
    orders = DatasetDefined("orders", Kind.STREAMING_TABLE, path=shop.orders, schema=schema, expectations=("paid",))
    shop.update(at=START + timedelta(minutes=1), defined=(DEFINED[0], orders, *DEFINED[2:]))


@pytest.mark.parametrize(
    ("stored", "evidence", "command"),
    [
        ({"id": [1], "note": ["a"], "extra": [True]}, None, None),
        ({"id": [1]}, "no column note of type string", "headrace run"),
        ({"id": pa.array([1], pa.int32()), "note": ["a"]}, "id as int, not bigint", "headrace run"),
        ({"id": ["1"], "note": ["a"]}, "id as string, not bigint", "headrace run --full-refresh orders"),
    ],
)
def test_a_table_whose_schema_somebody_has_changed_is_named_without_a_plan(shop, stored, evidence, command):
    without_checkpoint(shop)
    shutil.rmtree(shop.orders)
    write_deltalake(shop.orders, pa.table(stored))
    defined_as(shop, **FIELDS)

    found = [one for one in shop.diagnosis().findings if one.check.check_id == "schema-mismatch"]

    assert [(one.command, evidence in one.evidence) for one in found] == ([] if evidence is None else [(command, True)])
