"""What a swap would do and what it refuses, from the files of two storages alone."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import CommitProperties, Transaction, write_deltalake

from headrace.delta_log.tables import table_state
from headrace.model.change_classes import ChangeClass
from headrace.model.names import QualifiedName
from headrace.plan.plan_file import PlanFile
from headrace.project.staging.stage_storage import health, stage_settings
from headrace.project.staging.swap_document import swap_changes, swap_differences, swap_document
from headrace.project.staging.swap_facts import SwapFacts
from headrace.project.staging.swap_plan import plan_swap
from headrace.settings.settings import Settings
from headrace.storage.adopted_tables import AdoptedTables, Consent, Handover, TableRecord
from headrace.storage.flow_record import FlowRecord, read_record, write_record
from headrace.storage.flow_records import transaction_id
from headrace.storage.flow_stores import TABLE
from headrace.storage.stages.manifest import FlowStep, Stage, StagedFlow, TableStep

FOLDER = "checkpoints/default/{0}/{0}"
NOON = datetime(2026, 11, 25, 12, tzinfo=UTC)
KAFKA = {"topic": {"0": 5}}


def write_flow(root, name, epoch, offset, fingerprint="old", **record):
    """A stream that has written one batch of one row, up to an offset."""
    folder = Path(root) / FOLDER.format(name)
    checkpoint = folder / str(epoch)
    for kind, lines in (("offsets", ["{}", json.dumps(offset)]), ("commits", ["{}"])):
        (checkpoint / kind).mkdir(parents=True)
        (checkpoint / kind / "0").write_text("\n".join(["v1", *lines]))
    (checkpoint / "metadata").write_text(json.dumps({"id": f"{name}-{epoch}"}))
    known = {"mode": "append", "identity": name, "flow": name, "dataset": name, "pipeline": "shop", "started_at": 1.0}
    write_record(folder / "flow.json", FlowRecord(epoch=epoch, fingerprint=fingerprint, **known, **record))
    path = str(Path(root) / "tables/default" / name)
    done = CommitProperties(app_transactions=[Transaction(transaction_id("shop", name, epoch), 0)])
    write_deltalake(path, pa.table({"id": [1]}), mode="append", commit_properties=done)
    return table_state(path)


def position(table, version):
    known = {"sourceVersion": 1, "reservoirId": table.table_id, "reservoirVersion": version, "index": -1}
    return {**known, "isStartingVersion": False}


@pytest.fixture
def facts(tmp_path):
    """A stage of ``bronze``, which the stream ``below`` of production reads; both have read the same."""
    root = tmp_path / "storage"
    settings = Settings(
        file=tmp_path / "pipeline.yml", root=tmp_path, name="shop", id="shop", storage=str(root), root_path=tmp_path
    )
    flow = StagedFlow("bronze", "bronze", FOLDER.format("bronze"), "bronze", 1, 0, "old")
    stage = Stage("3fa2", "new", ("bronze",), (flow,), ("left out",), 0.0, None, "shop", "digest")
    staged = stage_settings(settings, stage)
    bronze = write_flow(root, "bronze", 0, KAFKA)
    write_flow(root, "below", 2, position(bronze, 1))
    write_flow(staged.storage, "bronze", 1, KAFKA, "new")

    def read():
        return SwapFacts(stage, settings, staged, health(settings), health(staged))

    return read


def test_a_swap_replaces_tables_goes_on_from_the_stage_and_moves_what_reads_them(facts):
    plan = plan_swap(facts())

    assert (plan.problems, plan.losses) == ((), ())
    (table,) = plan.swap.tables
    assert (table.path, table.step, table.version) == ("tables/default/bronze", TableStep.REPLACED, 0)
    assert table.batches == {"headrace:shop:bronze:1": 0}
    staged, moved = plan.swap.flows
    assert (staged.step, staged.before, staged.epoch) == (FlowStep.STAGED, 1, 1)
    assert (moved.name, moved.step, moved.before, moved.epoch) == ("below", FlowStep.MOVED, 2, 3)
    assert (moved.transaction, moved.committed, moved.table) == ("headrace:shop:below:3", 0, "tables/default/below")
    assert plan.notes == ('"below" keeps its rows, which are computed from the old rows',)


def change_record(facts, name, **changes):
    flow = next(flow for flow in facts().production if flow.stored.name == name)
    record = read_record(flow.stored.file)
    write_record(flow.stored.file, replace(record, **changes))


def open_batch(flow):
    (flow.stores.checkpoint / "commits/0").unlink()


def append(flow):
    write_deltalake(flow.stores.tables[TABLE], pa.table({"id": [2]}), mode="append")


def flow_of(flows, name):
    return next(flow for flow in flows if flow.stored.name == name)


@pytest.mark.parametrize(
    ("change", "code", "reason"),
    [
        (lambda facts: change_record(facts, "bronze", fingerprint="new"), "STAGE.PRODUCTION_CHANGED", "other code"),
        (lambda facts: change_record(facts, "bronze", epoch=4), "STAGE.PRODUCTION_CHANGED", "reset"),
        (lambda facts: change_record(facts, "below", resetting=True), "STAGE.READER_BEHIND", "reset"),
        (lambda facts: open_batch(flow_of(facts().own, "bronze")), "STAGE.UNFINISHED", "batch 0"),
        (lambda facts: open_batch(flow_of(facts().production, "below")), "STAGE.READER_BEHIND", "batch 0"),
        (lambda facts: append(flow_of(facts().production, "bronze")), "STAGE.READER_BEHIND", "not read all rows"),
    ],
)
def test_what_cannot_be_swapped_is_refused_with_its_reason(facts, change, code, reason):
    change(facts)

    (problem,) = plan_swap(facts()).problems

    assert (problem.code, reason in problem.detail) == (code, True)


def test_an_adopted_table_is_swapped_only_with_consent(facts, tmp_path):
    was = facts()
    flow = flow_of(was.production, "bronze")
    place, outside = Path(flow.stores.tables[TABLE]), tmp_path / "outside"
    place.rename(outside)
    place.symlink_to(outside)
    storage, records = str(was.root), AdoptedTables(was.settings.layout)
    record = TableRecord("bronze", str(outside), "id", storage, Handover.ADOPTED, changed_at=0.0)
    records.store(record)

    (problem,) = plan_swap(facts()).problems
    records.store(replace(record, consents=frozenset({Consent.CLEAR})))

    assert problem.code == "STAGE.TABLE"
    assert "headrace adopt bronze --allow clear" in problem.detail
    assert plan_swap(facts()).problems == ()


def test_rows_that_a_stream_below_would_miss_are_a_loss_and_without_such_a_stream_are_none(facts):
    offsets = flow_of(facts().own, "bronze").stores.checkpoint / "offsets/0"
    offsets.write_text(offsets.read_text().replace("5", "6"))

    (loss,) = plan_swap(facts()).losses
    (facts().root / FOLDER.format("below") / "flow.json").unlink()

    assert 'flow "bronze" has not read the same' in loss
    assert "below" in loss
    assert plan_swap(facts()).losses == ()


def test_a_flow_that_the_new_code_does_not_have_starts_over_and_a_new_one_is_taken(facts):
    was = facts()
    old = Path(str(was.root)) / "checkpoints/default/bronze/second/flow.json"
    write_record(old, FlowRecord(epoch=5, mode="once", identity="second", flow="second", dataset="bronze"))

    steps = {flow.name: (flow.step, flow.epoch) for flow in plan_swap(facts()).swap.flows}

    assert steps["second"] == (FlowStep.CLEARED, 6)
    assert was.staged.layout.table(was.settings.naming, QualifiedName("below")) == str(
        Path(str(was.root)) / "tables/default/below"
    )


def test_the_plan_of_a_swap_holds_until_anything_but_data_changes(facts):
    """Guards what an approval of a swap covers: another build of the stage, other steps and more rows are refused."""
    stage, plan = facts().stage, plan_swap(facts())
    file = PlanFile.parse(swap_document(stage, plan, "anna", NOON, accept_data_loss=False).to_text(), "p.json")
    grown = tuple(replace(change, rows=9) for change in plan.changes)
    moved = tuple(replace(flow, epoch=flow.epoch + 1) for flow in plan.swap.flows)

    def differences(stage=stage, plan=plan, at=NOON):
        return swap_differences(file, stage, plan, at)

    assert (file.stage, file.classes, file.rows_limit) == ("new", {ChangeClass.REBUILD}, 1)
    assert differences() == ()
    assert differences(replace(stage, id="77ab")) == ("stage new was built again",)
    assert differences(plan=replace(plan, changes=grown)) == ("it replaces 9 rows, and the plan allows 1",)
    assert differences(plan=replace(plan, swap=replace(plan.swap, flows=moved))) == (
        "other steps are planned for the flow below, bronze",
    )
    assert len(differences(at=NOON + timedelta(days=2))) == 1
    assert differences(plan=replace(plan, losses=("rows",))) == ("change that was not planned: restart of below",)


def test_a_stage_that_has_lost_rows_is_a_destructive_change(facts):
    """Guards that a policy for lost rows alone also stops such a swap."""
    stage, plan = replace(facts().stage, accept_data_loss=True), plan_swap(facts())

    (change,) = swap_changes(stage, plan)

    assert (change.change_class, change.rows_cleared, change.downstream) == (ChangeClass.DESTRUCTIVE, 1, ("below",))
