"""Definitions that are removed, come back, or change kind or name: existing data is kept."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import pyarrow as pa
import pytest
import yaml
from deltalake import DeltaTable, write_deltalake

from headrace.errors import PipelineError, Problems
from headrace.model.outcome import FlowState, UpdateState
from headrace.testing import Crashed, Failpoint

pytestmark = pytest.mark.spark

BRONZE = """
@dp.table
def bronze():
    return spark.readStream.schema("id INT").json(spark.conf.get("landing"))
"""
SILVER = """
@dp.table
@dp.expect_or_quarantine("positive", "id > 0")
def silver():
    return spark.readStream.table("bronze")
"""
COPY = SILVER.replace('@dp.expect_or_quarantine("positive", "id > 0")\n', "")
GOLD = """
@dp.materialized_view
def gold():
    return spark.read.table("silver").groupBy().count()
"""
HEAD = "from headrace import pipelines as dp\n"


def rows(*numbers):
    return [{"id": number} for number in numbers]


def ids(found):
    return sorted(row["id"] for row in found)


class Code:
    """The pipeline's one file and its settings, written anew as the test goes on."""

    def __init__(self, pipeline):
        self.pipeline = pipeline
        self.settings = pipeline.folder / "pipeline.yml"

    def __call__(self, *parts):
        self.pipeline.write("transformations/project.py", HEAD + "".join(parts))
        return self.pipeline

    def renames(self, **renames):
        """The pipeline as a new process finds it, with these entries in its settings."""
        said = yaml.safe_load(self.settings.read_text())
        self.settings.write_text(yaml.safe_dump({**said, "renames": renames}))
        opened = type(self.pipeline)(self.pipeline.folder, Path(self.pipeline.settings.storage), {})
        self.pipeline = opened
        return opened


@pytest.fixture
def code(project, tmp_path):
    pipeline = project(BRONZE, configuration={"landing": str(tmp_path / "project" / "landing")})
    pipeline.land("landing/1.json", rows(1, -1))
    return Code(pipeline)


def test_a_removed_dataset_is_inactive_and_returns_with_its_state(code):
    code(BRONZE, SILVER, GOLD).run()
    pipeline = code(BRONZE)
    pipeline.land("landing/2.json", rows(2))
    plan = pipeline.plan()
    pipeline.run()

    assert [(left.dataset, left.flow) for left in plan.inactive] == [("gold", None), ("silver", None)]
    assert plan.to_json()["inactive"][0]["dataset"] == "gold"
    warned = [row["message"] for row in pipeline.project.events().events() if row["event_type"] == "warning"]
    assert sum('table "silver" is not in the code' in message for message in warned) == 1

    result = code(BRONZE, SILVER, GOLD).run("silver")

    assert (ids(result.rows("silver")), result.counts("silver").rows_written) == ([1, 2], 1)
    assert pipeline.plan().inactive == ()


FED = """
dp.create_streaming_table("fed")

@dp.append_flow(target="fed")
def one():
    return spark.readStream.table("bronze")
"""
AGGREGATED = FED.replace("one", "agg").replace('table("bronze")', 'table("bronze").groupBy("id").count()')
TWO = """
@dp.append_flow(target="fed")
def two():
    return spark.readStream.table("bronze").selectExpr("id * 10 AS id")
"""


@pytest.mark.long(
    guard=(
        "tests/unit/plan/test_starts_and_losses.py::test_rows_of_a_flow_removed_from_the_code_are_unrecoverable",
        "tests/spark/test_changed_definitions.py::test_a_removed_dataset_is_inactive_and_returns_with_its_state",
    )
)
def test_a_full_refresh_clears_rows_of_a_removed_flow_only_with_accept_data_loss(code):
    code(BRONZE, FED, TWO).run()
    pipeline = code(BRONZE, FED)

    assert [(left.dataset, left.flow) for left in pipeline.plan().inactive if left.flow] == [("fed", "two")]
    with pytest.raises(Problems) as found:
        pipeline.run(full_refresh=["fed"])
    assert 'flow "two" cannot read all of its sources again: the flow is no longer' in found.value.errors[0].detail
    pipeline.run(full_refresh=["fed"], accept_data_loss=True)
    assert ids(pipeline.rows("fed")) == [-1, 1]
    code(BRONZE, FED, TWO).run()

    assert ids(pipeline.rows("fed")) == [-10, -1, 1, 10]


def test_a_streaming_table_that_becomes_a_view_is_refused_until_a_full_refresh(code):
    code(BRONZE, COPY).run()
    as_view = COPY.replace("@dp.table", "@dp.materialized_view").replace("readStream", "read")
    pipeline = code(BRONZE, as_view)

    with pytest.raises(Problems) as found:
        pipeline.run()
    assert [error.code for error in found.value] == ["TABLE.KIND_CHANGED"]
    with pytest.raises(Problems) as found:
        pipeline.run(full_refresh=["silver"])
    assert [error.code for error in found.value] == ["PLAN.DATA_LOSS"]
    pipeline.run(full_refresh=["silver"], accept_data_loss=True)
    assert (ids(pipeline.rows("silver")), pipeline.plan().empty) == ([-1, 1], True)


@pytest.mark.long(
    guard=(
        "tests/unit/plan/test_starts_and_losses.py::test_a_changed_table_kind_or_flow_mode_requires_a_full_refresh",
        "tests/spark/test_changed_definitions.py::test_a_streaming_table_that_becomes_a_view_is_refused_until_a_full_refresh",
    )
)
def test_a_view_that_becomes_a_streaming_table_is_refused_until_a_full_refresh(code):
    as_view = COPY.replace("@dp.table", "@dp.materialized_view").replace("readStream", "read")
    pipeline = code(BRONZE, as_view)
    pipeline.run()

    with pytest.raises(Problems) as found:
        code(BRONZE, COPY).run()
    assert [error.code for error in found.value] == ["TABLE.KIND_CHANGED"]
    pipeline.run(full_refresh=["silver"])

    assert (ids(pipeline.rows("silver")), pipeline.plan().empty) == ([-1, 1], True)


RENAMED = (BRONZE.replace("bronze", "raw"), SILVER.replace("bronze", "raw").replace("silver", "clean"))


def test_a_rename_keeps_data_and_state_and_reads_nothing_twice(code):
    code(BRONZE, SILVER).run()
    code(*RENAMED)
    pipeline = code.renames(datasets={"bronze": "raw", "silver": "clean"})
    pipeline.land("landing/2.json", rows(2, -2))
    plan = pipeline.plan()

    result = pipeline.run()

    assert [(rename.old, rename.new) for rename in plan.renames] == [("bronze", "raw"), ("silver", "clean")]
    assert plan.tables == ()
    assert (ids(result.rows("raw")), ids(result.rows("clean"))) == ([-2, -1, 1, 2], [1, 2])
    assert (result.counts("raw").rows_written, result.counts("clean").rows_quarantined) == (2, 1)
    assert pipeline.plan().empty
    assert pipeline.plan().inactive == ()
    tables = Path(pipeline.settings.storage) / "tables" / "default"
    assert {entry.name for entry in tables.iterdir()} == {"raw", "clean", "clean_quarantine"}


@pytest.mark.long(
    guard=(
        "tests/spark/test_changed_definitions.py::test_a_rename_keeps_data_and_state_and_reads_nothing_twice",
        "tests/spark/test_change_renames.py::test_a_crash_during_a_rename_leaves_nothing_behind",
    )
)
def test_the_next_update_finishes_a_rename_that_crashed_halfway(code):
    code(BRONZE, SILVER).run()
    code(*RENAMED)
    pipeline = code.renames(datasets={"bronze": "raw", "silver": "clean"})
    pipeline.land("landing/2.json", rows(2, -2))

    with pytest.raises(Crashed):
        pipeline.crash_at(Failpoint.RENAMED, skip=3).run()
    pipeline.restart()
    assert pipeline.plan().tables == ()
    result = pipeline.run()

    assert result.state is UpdateState.COMPLETED
    assert (ids(result.rows("raw")), ids(result.rows("clean"))) == ([-2, -1, 1, 2], [1, 2])
    assert ids(row["row"] for row in result.rows("clean_quarantine")) == [-2, -1]


@pytest.mark.long(
    guard=(
        "tests/unit/storage/test_renaming.py::test_a_renamed_flow_keeps_its_original_identity",
        "tests/spark/test_exactly_once.py::test_no_row_is_lost_or_duplicated_when_an_update_crashes_within_a_batch",
        "tests/spark/test_changed_definitions.py::test_a_rename_keeps_data_and_state_and_reads_nothing_twice",
    )
)
def test_a_batch_committed_under_the_old_name_is_not_repeated_under_the_new_one(code):
    code(BRONZE, SILVER).run()
    code.pipeline.land("landing/2.json", rows(2, -2))
    with pytest.raises(Crashed):
        code.pipeline.crash_at(Failpoint.COUNTED, skip=1).run()
    code.pipeline.restart()
    code(BRONZE, SILVER.replace("silver", "clean"))
    pipeline = code.renames(datasets={"silver": "clean"})

    result = pipeline.run()

    assert ids(result.rows("clean")) == [1, 2]
    assert ids(row["row"] for row in result.rows("clean_quarantine")) == [-2, -1]
    totals = pipeline.project.events().flow_totals()
    assert sum(totals[name].rows_written for name in ("silver", "clean") if name in totals) == 2


@pytest.mark.long(
    guard=(
        "tests/unit/plan/test_starts_and_losses.py::test_a_new_flow_with_a_former_name_of_another_flow_gets_a_new_identity",
        "tests/unit/storage/test_renaming.py::test_a_renamed_flow_keeps_its_original_identity",
        "tests/spark/test_changed_definitions.py::test_a_rename_keeps_data_and_state_and_reads_nothing_twice",
    )
)
def test_a_renamed_flow_keeps_its_progress_and_a_new_flow_can_take_its_old_name(code):
    code(BRONZE, FED, TWO).run()
    code(BRONZE, FED.replace("def one", "def first"), TWO)
    pipeline = code.renames(flows={"one": "first"})
    moved = pipeline.run()
    code(BRONZE, FED.replace("def one", "def first"), TWO.replace("two", "one"))
    pipeline = code.renames(flows={})

    again = pipeline.run()

    assert moved.flow("first").state is FlowState.UP_TO_DATE
    assert again.counts("fed").rows_written == 2
    assert ids(again.rows("fed")) == [-10, -10, -1, 1, 10, 10]


UNCLEAR = {
    "the old name is still there": ((BRONZE, SILVER), {"datasets": {"silver": "clean"}}, "RENAME.STILL_DEFINED"),
    "nothing has the new name": ((BRONZE,), {"datasets": {"silver": "clear"}}, "RENAME.NOT_DEFINED"),
    "two renames in a row": (
        RENAMED,
        {"datasets": {"silver": "clean", "clean": "cleaner", "bronze": "raw"}},
        "RENAME.CHAIN",
    ),
    "no flow has the new name": ((BRONZE,), {"flows": {"silver": "clear"}}, "RENAME.NOT_DEFINED"),
}


@pytest.mark.long(
    guard=(
        "tests/unit/plan/test_starts_and_losses.py::test_invalid_or_conflicting_renames_are_refused",
        "tests/spark/test_changed_definitions.py::test_a_rename_to_a_table_with_rows_is_refused",
    )
)
def test_an_invalid_rename_is_refused(code):
    code(BRONZE, SILVER).run()
    found = {}

    for case, (parts, renames, _) in UNCLEAR.items():
        code(*parts)
        with pytest.raises(Problems) as refused:
            code.renames(**renames).plan()
        found[case] = [error.code for error in refused.value]

    missing = {case: found[case] for case, (_, _, expected) in UNCLEAR.items() if expected not in found[case]}
    assert missing == {}


def test_a_rename_to_a_table_with_rows_is_refused(code):
    code(BRONZE, BRONZE.replace("bronze", "raw")).run()
    code(BRONZE.replace("bronze", "raw"))
    pipeline = code.renames(datasets={"bronze": "raw"})

    with pytest.raises(Problems) as found:
        pipeline.run()

    assert [error.code for error in found.value] == ["RENAME.TAKEN"]


@pytest.mark.long(
    guard=(
        "tests/unit/storage/test_renaming.py::test_an_interrupted_rename_keeps_all_state_reachable_and_is_completed_later",
        "tests/unit/storage/test_renaming.py::test_flows_with_a_pending_rename_are_not_reported_as_inactive",
        "tests/spark/test_changed_definitions.py::test_a_rename_keeps_data_and_state_and_reads_nothing_twice",
    )
)
def test_a_full_refresh_reports_a_rename_and_finishes_it_after_a_crash(code):
    code(BRONZE, COPY).run()
    code(RENAMED[0], COPY.replace("bronze", "raw").replace("silver", "clean"))
    pipeline = code.renames(datasets={"bronze": "raw", "silver": "clean"})

    with pytest.raises(Crashed):
        pipeline.crash_at(Failpoint.RENAMED).run(full_refresh=["raw", "clean"])
    warned = [row["message"] for row in pipeline.project.events().events() if row["event_type"] == "warning"]
    result = pipeline.restart().run(full_refresh=["raw", "clean"])

    assert 'dataset "bronze" is renamed to "raw" and keeps its data and state' in warned
    assert (ids(result.rows("raw")), ids(result.rows("clean")), pipeline.plan().renames) == ([-1, 1], [-1, 1], ())


@pytest.mark.long(
    guard=(
        "tests/unit/plan/test_starts_and_losses.py::test_a_flow_that_replaces_its_table_does_not_overwrite_rows_of_other_flows",
        "tests/spark/test_dataset_names.py::test_a_dataset_does_not_replace_a_table_from_another_writer",
    )
)
def test_a_view_does_not_replace_a_table_from_another_writer(code):
    code(BRONZE).run()
    path = Path(code.pipeline.settings.storage) / "tables" / "default" / "fresh"
    write_deltalake(str(path), pa.table({"count": [7]}))
    pipeline = code(BRONZE, GOLD.replace("gold", "fresh").replace("silver", "bronze"))

    with pytest.raises(Problems) as found:
        pipeline.run()

    assert [error.code for error in found.value] == ["TABLE.ROWS_OF_OTHERS"]
    assert pipeline.run(full_refresh=["fresh"]).rows("fresh") == [{"count": 2}]
    assert pipeline.plan().empty


CHANGES = {
    "another kind": (BRONZE, SILVER.replace("@dp.table", "@dp.materialized_view").replace("readStream", "read")),
    "a view of a table": (BRONZE, SILVER.replace("@dp.table", "@dp.temporary_view").replace("_quarantine", "_drop")),
    "another source": (BRONZE.replace('"landing")', '"landing") + "/none*"'), SILVER),
    "once instead of a stream": (BRONZE, FED.replace('"fed")\ndef', '"fed", once=True)\ndef').replace("Stream", "")),
    "nothing is left": ("\n@dp.materialized_view\ndef other():\n    return spark.range(1)\n",),
}
MORE_CHANGES = {
    "a dataset leaves": (BRONZE,),
    "another name without a map": RENAMED,
    "another type": (BRONZE, SILVER.replace('table("bronze")', 'table("bronze").selectExpr("CAST(id AS STRING) id")')),
    "partitions": (BRONZE, SILVER.replace("@dp.table", '@dp.table(partition_cols=["id"])')),
    "an aggregate in the place of a flow": (BRONZE, AGGREGATED),
}


def contents(pipeline):
    """Every row of every table in the storage, by the table's path."""
    root = Path(pipeline.settings.storage) / "tables" / "default"
    return {
        entry.name: sorted(map(str, DeltaTable(str(entry)).to_pyarrow_table().to_pylist()))
        for entry in sorted(root.iterdir())
    }


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param(CHANGES, id="a few"),
        pytest.param(
            {**CHANGES, **MORE_CHANGES},
            id="all",
            marks=pytest.mark.long(guard="its other cases"),
        ),
    ],
)
def test_no_code_change_deletes_rows(code, changes):
    code(BRONZE, SILVER, FED).run()
    before = contents(code.pipeline)
    lost = {}
    for change, parts in changes.items():
        with suppress(Problems, PipelineError):
            code(*parts).run()
        after = contents(code.pipeline)
        gone = {name: found for name, found in before.items() if set(found) - set(after.get(name, ()))}
        lost.update({change: gone} if gone else {})

    assert lost == {}
    assert code(BRONZE, SILVER, FED).run().state is UpdateState.COMPLETED
    assert contents(code.pipeline)["silver"] == before["silver"]
