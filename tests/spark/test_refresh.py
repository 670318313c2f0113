"""Full refreshes and resets: what is lost is said first, and a flow starts exactly where it should."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from threading import Event

import pytest
from deltalake import DeltaTable

from headrace.errors import Problems
from headrace.graph.starts import format_timestamp
from headrace.model.outcome import UpdateState
from headrace.testing import Crashed, Failpoint

pytestmark = pytest.mark.spark

CHAIN = """
    @dp.table
    def bronze():
        return spark.readStream.schema("id INT").json(spark.conf.get("landing"))

    @dp.table
    @dp.expect_or_quarantine("positive", "id > 0")
    def silver():
        return spark.readStream.table("bronze")
    """
CALM = """
    @dp.table(schema="id INT")
    def source():
        return spark.readStream.schema("id INT").json("unused")

    @dp.table
    def target():
        return spark.readStream.table("source")
    """


def rows(*numbers):
    return [{"id": number} for number in numbers]


def ids(found):
    return sorted(row["id"] for row in found)


def codes(found):
    return [error.code for error in found.value]


@pytest.fixture(scope="module")
def chain_after_one_update(prepared):
    def set_up(shared_project):
        pipeline = shared_project(CHAIN, configuration={"landing": "landing"})
        pipeline.settings = replace(pipeline.settings, configuration={"landing": f"{pipeline.folder}/landing"})
        pipeline.land("landing/1 ä.json", rows(1, -1))
        pipeline.land("landing/2.json", rows(2, -2))
        assert pipeline.run().state is UpdateState.COMPLETED
        return pipeline

    return prepared(set_up)


@pytest.fixture
def chain(chain_after_one_update):
    """Files into a table, and that into another one; each of two files has brought a row and a bad one."""
    return chain_after_one_update.restored()


def test_a_full_refresh_lists_the_cleared_rows_and_recomputes_them(chain):
    plan = chain.plan(full_refresh=("bronze", "silver"))

    assert [(str(loss.dataset), loss.rows, loss.quarantined, loss.unrecoverable) for loss in plan.losses] == [
        ("bronze", 4, 0, False),
        ("silver", 2, 2, False),
    ]
    assert "/landing/1 ä.json of 20" in plan.losses[0].sources[0].oldest
    assert plan.losses[1].sources[0].oldest.startswith("version 0 of 20")
    assert chain.run(full_refresh=["bronze", "silver"]).state is UpdateState.COMPLETED
    assert ids(chain.rows("silver")) == [1, 2]
    assert chain.plan().empty


def test_a_full_refresh_clears_unrecoverable_rows_only_if_data_loss_is_accepted(chain):
    (chain.folder / "landing" / "1 ä.json").unlink()

    with pytest.raises(Problems) as found:
        chain.run(full_refresh=["bronze", "silver"])

    assert codes(found) == ["PLAN.DATA_LOSS", "PLAN.DATA_LOSS"]
    assert "1 of 2 files that were read is missing" in found.value.errors[0].detail
    assert found.value.errors[0].hint.endswith("add --accept-data-loss to the command.")
    assert ids(chain.rows("bronze")) == [-2, -1, 1, 2]
    # Alone, the second table can read the first one again, which still has all rows.
    chain.run(full_refresh=["silver"])
    assert ids(chain.rows("silver")) == [1, 2]

    result = chain.run(full_refresh_all=True, accept_data_loss=True)

    assert result.state is UpdateState.COMPLETED
    assert (ids(chain.rows("bronze")), ids(chain.rows("silver"))) == ([-2, 2], [2])
    assert chain.plan().empty


def test_a_full_refresh_of_a_reader_is_rejected_after_its_source_table_lost_rows(chain):
    (chain.folder / "landing" / "1 ä.json").unlink()
    chain.run(full_refresh=["bronze"], accept_data_loss=True)

    with pytest.raises(Problems) as found:
        chain.plan(full_refresh=("silver",))

    assert "was cleared and lost rows" in found.value.errors[0].detail


def test_an_interrupted_full_refresh_continues_without_asking_again(chain):
    (chain.folder / "landing" / "1 ä.json").unlink()

    with pytest.raises(Crashed):
        chain.crash_at(Failpoint.RESET_CLEARED).run(full_refresh=["bronze"], accept_data_loss=True)
    chain.restart().run("bronze")

    assert ids(chain.rows("bronze")) == [-2, 2]
    with pytest.raises(Problems):
        chain.plan(full_refresh=("silver",))


def test_a_stopped_full_refresh_does_not_clear_the_remaining_tables_later(chain):
    stop = Event()
    stop.set()
    chain.project.run(full_refresh_all=True, stop=stop)
    (chain.folder / "landing" / "1 ä.json").unlink()

    plan = chain.plan()
    chain.run()

    assert (plan.tables, plan.losses) == ((), ())
    assert (ids(chain.rows("bronze")), ids(chain.rows("silver"))) == ([-2, -1, 1, 2], [1, 2])


@pytest.mark.long(
    guard=(
        "tests/unit/plan/test_starts_and_losses.py::test_an_interrupted_clear_with_accepted_data_loss_continues_without_a_new_approval",
        "tests/unit/plan/test_plan.py::test_table_not_yet_cleared_by_an_interrupted_full_refresh_can_be_kept",
        "tests/spark/test_refresh.py::test_an_interrupted_full_refresh_continues_without_asking_again",
    )
)
def test_a_crashed_full_refresh_does_not_clear_unrecoverable_rows_of_a_reader(chain):
    with pytest.raises(Crashed):
        chain.crash_at(Failpoint.RESET_CLEARED).run(full_refresh_all=True)
    (chain.folder / "landing" / "1 ä.json").unlink()

    with pytest.raises(Problems) as found:
        chain.restart().plan()
    chain.run("bronze")
    chain.run(reset_checkpoint=["silver=latest"])

    assert [(error.code, str(error.params["name"])) for error in found.value] == [("PLAN.DATA_LOSS", "silver")]
    assert (ids(chain.rows("bronze")), ids(chain.rows("silver"))) == ([-2, 2], [1, 2])
    assert chain.plan().empty


@pytest.mark.long(
    guard="tests/spark/test_refresh.py::test_a_full_refresh_of_a_reader_is_rejected_after_its_source_table_lost_rows"
)
def test_lost_source_rows_still_need_confirmation_after_a_second_full_refresh(chain):
    (chain.folder / "landing" / "1 ä.json").unlink()
    chain.run(full_refresh=["bronze"], accept_data_loss=True)
    chain.run(full_refresh=["bronze"])

    with pytest.raises(Problems) as found:
        chain.run(full_refresh=["silver"])

    assert codes(found) == ["PLAN.DATA_LOSS"]
    assert ids(chain.rows("silver")) == [1, 2]


@pytest.mark.long(
    guard=(
        "tests/unit/plan/test_starts_and_losses.py::test_clearing_quarantined_rows_of_a_deleted_table_requires_accepting_data_loss",
        "tests/spark/test_refresh.py::test_a_full_refresh_clears_unrecoverable_rows_only_if_data_loss_is_accepted",
    )
)
def test_the_quarantine_of_a_deleted_table_is_kept_until_data_loss_is_accepted(chain):
    (chain.folder / "landing" / "1 ä.json").unlink()
    chain.run(full_refresh=["bronze"], accept_data_loss=True)
    shutil.rmtree(Path(chain.settings.storage) / "tables" / "default" / "silver")

    with pytest.raises(Problems) as found:
        chain.run()
    aside = ids(row["row"] for row in chain.rows("silver_quarantine"))
    chain.run(accept_data_loss=True)

    assert (codes(found), aside) == (["PLAN.DATA_LOSS"], [-2, -1])
    assert (ids(chain.rows("silver")), chain.plan().empty) == ([2], True)


def test_a_full_refresh_is_rejected_when_a_source_file_was_overwritten(chain):
    chain.land("landing/2.json", rows(3, -3))

    with pytest.raises(Problems) as found:
        chain.run(full_refresh_all=True)

    assert "1 of 2 files that were read is different now" in found.value.errors[0].detail


@pytest.mark.long(
    guard=(
        "tests/unit/plan/test_starts_and_losses.py::test_removals_before_the_first_version_of_the_delta_log_are_unknown",
        "tests/spark/test_refresh.py::test_a_full_refresh_clears_unrecoverable_rows_only_if_data_loss_is_accepted",
    )
)
def test_a_full_refresh_detects_data_loss_for_a_stream_that_skips_change_commits(project):
    pipeline = project(CALM.replace("readStream.table", 'readStream.option("skipChangeCommits", True).table'))
    pipeline.given("source", rows(1)).run("target")
    pipeline.given("source", rows(2)).run("target")
    DeltaTable(str(commits(pipeline)[0].parents[1])).create_checkpoint()
    commits(pipeline)[0].unlink()
    checkpoint = Path(pipeline.settings.storage) / "checkpoints" / "default" / "target" / "target" / "0"
    (checkpoint / "offsets" / "0").unlink()

    with pytest.raises(Problems) as found:
        pipeline.run(full_refresh=["target"])

    assert "its log starts at version 1" in found.value.errors[0].detail


@pytest.mark.long(
    guard=(
        "tests/unit/plan/test_plan.py::test_stream_that_reads_a_cleared_table_needs_a_full_refresh_too",
        "tests/spark/test_declared_schemas.py::test_a_reader_of_a_rebuilt_table_fails_with_a_hint_to_refresh_it",
    )
)
def test_the_plan_says_that_the_reader_of_a_cleared_table_needs_a_full_refresh(chain):
    plan = chain.plan(full_refresh=("bronze",))
    chain.run(full_refresh=["bronze"])

    said = "to continue, run: headrace run --full-refresh silver"
    assert plan.step_for("silver").reason == f'not selected; reads "bronze", cleared by this update; {said}'
    assert chain.plan().step_for("silver").reason == f'"bronze" was replaced since its last run; {said}'


def test_a_source_with_unknown_retention_counts_as_unrecoverable(project):
    pipeline = project("""
        @dp.table
        def ticks():
            return spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 5).load()
        """)
    pipeline.run()

    with pytest.raises(Problems) as found:
        pipeline.run(full_refresh_all=True)

    assert codes(found) == ["PLAN.DATA_LOSS"]
    with pytest.raises(Problems) as found:
        pipeline.run(reset_checkpoint=["ticks=latest"])
    assert codes(found) == ["RESET.CANNOT_START"]


@pytest.fixture(scope="module")
def calm_after_one_update(prepared):
    def set_up(shared_project):
        pipeline = shared_project(CALM).given("source", rows(1), rows(2), rows(3))
        pipeline.run("target")
        return pipeline

    return prepared(set_up)


@pytest.fixture
def calm(calm_after_one_update):
    """A stream that has read three commits of a table."""
    return calm_after_one_update.restored()


def commits(pipeline):
    folder = Path(pipeline.settings.storage) / "tables" / "default" / "source" / "_delta_log"
    return sorted(folder.glob("*.json"))


def test_a_checkpoint_reset_starts_at_the_requested_version_timestamp_or_end(calm):
    second = format_timestamp(commits(calm)[1].stat().st_mtime_ns // 1_000_000 / 1000)
    seen = []
    for start in ("version:2", f"timestamp:{second}", "latest"):
        before = len(calm.rows("target"))
        calm.run("target", reset_checkpoint=[f"target={start}"])
        seen.append(len(calm.rows("target")) - before)

    assert seen == [1, 2, 0]
    assert calm.plan().empty
    assert calm.given("source", rows(4)).run("target").counts("target").rows_written == 1
    checkpoints = Path(calm.settings.storage) / "checkpoints" / "default" / "target" / "target"
    assert {entry.name for entry in checkpoints.iterdir() if entry.is_dir()} == {"0", "1", "2", "3"}
    assert calm.project.events().flow_totals()["target"].rows_written == 3 + 3 + 1


def test_a_checkpoint_reset_outside_of_the_log_is_rejected_with_the_valid_range(calm):
    starts = ["version:9", "timestamp:2999-01-01"]

    details = []
    for start in starts:
        with pytest.raises(Problems) as found:
            calm.plan(reset_checkpoint=(f"target={start}",))
        details.append(found.value.errors[0].detail)

    assert details[0] == "Its log has version 0 to 3 (the next one)."
    assert details[1].startswith("Its log has 20")


def test_the_plan_shows_what_a_checkpoint_reset_reads_again(calm):
    plan = calm.plan(reset_checkpoint=("target=version:1",))

    step = plan.step_for("target")
    assert step.describe().splitlines() == [
        "start      target: checkpoint reset: starts at version:1, the table keeps its rows",
        '             reads table "source": version 1 and later',
    ]
    assert plan.to_json()["flows"][-1]["restart"]["start"] == "version:1"


@pytest.mark.long(
    guard=(
        "tests/unit/storage/test_stores.py::test_an_epoch_with_only_an_initial_checkpoint_is_ignored",
        "tests/spark/test_refresh.py::test_a_checkpoint_reset_starts_at_the_requested_version_timestamp_or_end",
    )
)
@pytest.mark.parametrize("start", ["latest", "earliest"])
def test_a_checkpoint_reset_that_crashes_has_no_effect(calm, start):
    with pytest.raises(Crashed):
        calm.crash_at(Failpoint.CHECKPOINT_CREATED).run("target", reset_checkpoint=[f"target={start}"])

    calm.restart().given("source", rows(4)).run("target")

    assert ids(calm.rows("target")) == [1, 2, 3, 4]
    calm.run("target", reset_checkpoint=["target=earliest"])
    assert ids(calm.rows("target")) == [1, 1, 2, 2, 3, 3, 4, 4]


def test_a_checkpoint_reset_to_the_end_skips_existing_files(chain):
    chain.run(reset_checkpoint=["bronze=latest"])
    chain.land("landing/3.json", rows(3))
    chain.run()

    assert ids(chain.rows("bronze")) == [-2, -1, 1, 2, 3]
    assert chain.plan().empty


def test_a_checkpoint_reset_of_a_stateful_flow_starts_only_at_the_earliest_position(project):
    pipeline = project("""
        @dp.table(schema="id INT")
        def source():
            return spark.readStream.schema("id INT").json("unused")

        @dp.table
        def unique():
            return spark.readStream.table("source").dropDuplicates(["id"])
        """).given("source", rows(1, 1, 2))
    pipeline.run("unique")

    with pytest.raises(Problems) as found:
        pipeline.run("unique", reset_checkpoint=["unique=latest"])
    assert codes(found) == ["RESET.STATEFUL"]
    pipeline.run("unique", reset_checkpoint=["unique"])

    assert ids(pipeline.rows("unique")) == [1, 1, 2, 2]


@pytest.mark.long(
    guard=(
        "tests/unit/plan/test_plan.py::test_lost_checkpoint_fails_the_flow_unless_the_table_is_cleared",
        "tests/spark/test_change_detection.py::test_a_stream_with_a_lost_checkpoint_does_not_append_to_a_table_with_rows",
        "tests/spark/test_refresh.py::test_a_checkpoint_reset_starts_at_the_requested_version_timestamp_or_end",
    )
)
def test_a_checkpoint_reset_recovers_a_flow_with_a_lost_checkpoint(calm):
    folder = Path(calm.settings.storage) / "checkpoints" / "default" / "target" / "target" / "0"
    folder.rename(folder.with_name("away"))

    assert calm.run("target").error == "FLOW.CHECKPOINT_LOST"
    calm.run("target", reset_checkpoint=["target=latest"])

    assert ids(calm.given("source", rows(4)).run("target").rows("target")) == [1, 2, 3, 4]
