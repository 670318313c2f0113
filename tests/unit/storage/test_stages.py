"""Stages in a storage: their files, their names, and what a swap copies without Spark."""

from __future__ import annotations

import json
from contextlib import closing

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from headrace.autoloader.ledger.ledger import Ledger
from headrace.autoloader.ledger.positions import files_up_to
from headrace.autoloader.ledger.stored_ledgers import copy_ledgers
from headrace.autoloader.schemas.schema_store import SchemaStore, adopt_schema
from headrace.errors import PipelineError
from headrace.model.ddl import parse_struct
from headrace.model.names import Naming
from headrace.settings.staged_layout import StagedLayout
from headrace.settings.storage import StorageLayout
from headrace.storage.savepoints.pins import adopt_version
from headrace.storage.stages.manifest import (
    FlowStep,
    FlowToSwap,
    Stage,
    StagedFlow,
    Swap,
    TableStep,
    TableToSwap,
)
from headrace.storage.stages.stored import Stages

NAMING = Naming()


def stage(name="new"):
    flow = StagedFlow("orders", "orders", "checkpoints/default/orders/orders", "orders", 3, 2, "abc")
    return Stage("3fa2", name, ("orders",), (flow,), ("left out",), 1.5, "anna", "shop", "digest")


def swap(**fields):
    table = TableToSwap("orders", "tables/default/orders", TableStep.REPLACED, 4, {"headrace:shop:orders:3": 7})
    flow = FlowToSwap("orders", "orders", "checkpoints/default/orders/orders", FlowStep.STAGED, 3, 3)
    return Swap("id", "new", (table,), (flow,), **fields)


@pytest.fixture
def stages(tmp_path):
    return Stages(StorageLayout(str(tmp_path)))


def test_a_stage_is_found_as_it_was_stored_until_it_is_dropped(stages):
    stages.create(stage())

    assert stages.find("new") == stage()
    assert stages.all() == (stage(),)
    stages.drop("new")
    assert (stages.all(), stages.storage(stage()).parent.exists()) == ((), False)


@pytest.mark.parametrize("name", ["", "a/b", "..", "-x", "a" * 65, "a b"])
def test_a_name_that_is_no_part_of_a_path_is_refused(stages, name):
    with pytest.raises(PipelineError) as refused:
        stages.check_new(name)

    assert refused.value.code == "STAGE.NAME"


def test_a_name_is_taken_in_any_case_and_an_unknown_one_gets_a_suggestion(stages):
    stages.create(stage("orders"))

    with pytest.raises(PipelineError) as taken:
        stages.check_new("Orders")
    with pytest.raises(PipelineError) as again:
        stages.create(stage("orders"))
    with pytest.raises(PipelineError) as unknown:
        stages.find("ordres")

    assert [one.value.code for one in (taken, again, unknown)] == [
        "STAGE.NAME_TAKEN",
        "STAGE.NAME_TAKEN",
        "STAGE.UNKNOWN",
    ]
    assert 'Did you mean "orders"?' in unknown.value.hint


@pytest.mark.parametrize("text", ["", "{", "{}", '{"format": 99}', "[]"])
def test_a_torn_or_newer_stage_does_not_hide_the_others(stages, text):
    stages.create(stage("good"))
    file = stages.storage(stage("bad")).parent / "stage.json"
    file.parent.mkdir(parents=True)
    file.write_text(text)

    assert [one.name for one in stages.all()] == ["good"]
    assert [problem.code for problem in stages.problems()] == ["STAGE.UNREADABLE"]


def test_a_swap_is_known_from_its_begin_to_its_end(stages):
    stages.create(stage())
    assert stages.swap() is None
    stages.check_no_swap()

    stages.begin(swap(done=True))

    assert stages.swap() == swap(done=True)
    with pytest.raises(PipelineError) as refused:
        stages.check_no_swap()
    assert refused.value.code == "STAGE.SWAPPING"
    stages.end()
    assert stages.swap() is None


def test_a_torn_swap_stops_everything(stages, tmp_path):
    stages.create(stage())
    (tmp_path / "system/staging/swapping.json").write_text(json.dumps({"format": 1}))

    with pytest.raises(PipelineError) as refused:
        stages.swap()

    assert refused.value.code == "STAGE.UNREADABLE"


def test_a_stage_has_its_own_tables_and_reads_the_others_from_production():
    layout = StagedLayout(
        "/s/system/staging/new", production=StorageLayout("/s"), datasets=frozenset({NAMING.canonical("Orders")})
    )

    assert layout.table(NAMING, NAMING.canonical("orders")) == "/s/system/staging/new/tables/default/orders"
    assert layout.quarantine(NAMING, NAMING.canonical("orders")).startswith("/s/system/staging/new/")
    assert layout.table(NAMING, NAMING.canonical("raw")) == "/s/tables/default/raw"
    # What is written about a dataset is never that of production.
    assert layout.flow_state(NAMING, NAMING.canonical("raw"), "raw").startswith("/s/system/staging/new/")


def test_ledgers_are_copied_with_what_is_in_their_write_ahead_log_and_those_that_exist_stay(tmp_path):
    source, target = tmp_path / "stage", tmp_path / "production"
    with closing(Ledger.create(source)) as ledger:
        folder = ledger.connection.execute("insert into folders (path, mtime_ns) values ('/in', 0)").lastrowid
        for name in ("a", "b"):
            ledger.connection.execute(
                "insert into files (folder, name, size, mtime_ns, found_ms) values (?, ?, 1, 2, 3)", (folder, name)
            )
        offset = {"ledger": ledger.id, "number": 1}

        copy_ledgers(source, target)
        copy_ledgers(source, target)

    assert files_up_to([target], offset) == {("/in/a", 1, 2)}
    assert files_up_to([tmp_path / "nowhere"], offset) is None


def test_the_schema_of_a_stage_becomes_the_newest_version_once(tmp_path):
    old, new = parse_struct("id LONG"), parse_struct("id LONG, n LONG")
    SchemaStore(tmp_path / "production").add(old, 0)
    SchemaStore(tmp_path / "stage").add(new, 0)

    for _ in range(2):
        adopt_schema(tmp_path / "stage", tmp_path / "production")
    adopt_schema(tmp_path / "none", tmp_path / "production")

    store = SchemaStore(tmp_path / "production")
    assert (store.numbers(), store.latest().schema) == ([0, 1], new)


def test_the_files_of_a_version_are_links_in_the_folder_of_the_other_table(tmp_path):
    source, target = str(tmp_path / "stage"), str(tmp_path / "production")
    for number in (1, 2):
        write_deltalake(source, pa.table({"p": [number], "n": [number]}), mode="append", partition_by=["p"])
    write_deltalake(target, pa.table({"p": [9], "n": [9]}), partition_by=["p"])
    names = set(DeltaTable(source, version=0).file_uris())

    adopt_version(source, 0, target)
    adopt_version(source, 0, target)

    linked = {tmp_path / "production" / name.removeprefix(f"{source}/") for name in names}
    assert all(file.stat().st_nlink == 2 for file in linked)
    # Only its own commits say what is in a table.
    assert DeltaTable(target).to_pyarrow_table().to_pylist() == [{"p": 9, "n": 9}]
