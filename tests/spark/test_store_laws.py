"""Law: whatever happens to one store of a flow, its tables equal a recomputation, or the update reports the problem.

`make campaign ARGS="--only stores"` tries hundreds of cases.
"""

from __future__ import annotations

import os
import shutil
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession
from tests.tiers import ASKED, LONGEST_S, examples

from headrace.errors import PipelineError, Problems
from headrace.model.outcome import UpdateState

pytestmark = [pytest.mark.spark, pytest.mark.timeout(LONGEST_S)]

LAW = settings(
    max_examples=examples(few=10, many=20),
    derandomize=ASKED is None,
    deadline=None,
    database=None,
    print_blob=True,
    phases=[Phase.explicit, Phase.generate, *([Phase.shrink] if ASKED else [])],
    suppress_health_check=list(HealthCheck),
)
SOURCE = 'spark.readStream.schema("id INT, n INT").json({landing!r})'
KINDS = {
    "added": f"""
@dp.table
def target():
    return {SOURCE}
""",
    "judged": f"""
@dp.table
@dp.expect_or_quarantine("chosen", "id % 3 <> 0")
def target():
    return {SOURCE}
""",
    "merged": f"""
@dp.temporary_view
def events():
    return {SOURCE}.selectExpr("id % 5 AS id", "n")

dp.create_streaming_table("target")
dp.create_auto_cdc_flow(target="target", source="events", keys=["id"], sequence_by="n")
""",
    "delivered": f"""
dp.create_sink("target", "delta", {{{{"path": {{out!r}}}}}})

@dp.append_flow(target="target", name="target")
def deliver():
    return {SOURCE}
""",
}
STATEFUL = f"""
@dp.table
def target():
    return {SOURCE}.dropDuplicates(["id"])
"""
# What becomes of a store between two updates, by the places of its files in the storage.
FLOW = "checkpoints/default/target/target"
STORES = {
    "checkpoint": f"{FLOW}/0",
    "record": f"{FLOW}/flow.json",
    "flow": FLOW,
    "table": "tables/default/target",
    "quarantine": "tables/default/target_quarantine",
    "memory": "system/cdc/default/target",
    "event log": "system/events",
    "sink": "../out",
    "all but the sink": ".",
}
CASES = [(store, fate) for store in STORES for fate in ("is restored", "is gone")]
CASES += [("checkpoint", "loses its newest batch"), ("checkpoint", "is torn")] * 3
# What its user may delete: rows that were set aside are gone then, and of a pipeline nothing is left to compare with.
CASES.remove(("quarantine", "is gone"))
CASES.remove(("all but the sink", "is gone"))


@dataclass
class Story:
    """A pipeline of one flow, and copies of its storage after each update."""

    kind: str
    pipeline: object
    landed: list[int] = field(default_factory=list)
    copies: list[Path] = field(default_factory=list)

    @property
    def storage(self):
        return Path(self.pipeline.settings.storage)

    def land(self):
        first = len(self.landed)
        fresh = range(first, first + 4)
        self.landed += fresh
        self.pipeline.land(f"landing/{first:04}.json", [{"id": number, "n": number} for number in fresh])

    def keep(self):
        kept = self.pipeline.folder / "kept" / str(len(self.copies))
        shutil.copytree(self.storage, kept / "storage")
        if (self.pipeline.folder / "out").exists():
            shutil.copytree(self.pipeline.folder / "out", kept / "out")
        self.copies.append(kept / "storage")

    def befalls(self, store, fate, back):
        """One store becomes what it was after an earlier update, or something that no update leaves."""
        place, copy = (
            (self.storage / STORES[store]).resolve(),
            self.copies[-1 - min(back, len(self.copies) - 1)] / STORES[store],
        )
        if fate == "is restored":
            _remove(place)
            if copy.is_file():
                shutil.copy(copy, place)
            elif copy.exists():
                shutil.copytree(copy, place)
        elif fate == "is gone":
            _remove(place)
        elif fate == "loses its newest batch":
            for folder in ("commits", "offsets"):
                self._newest(folder).unlink()
        else:
            self._newest(("commits", "offsets")[back]).write_bytes(b"")
        forget_tables()

    def _newest(self, folder):
        files = (self.storage / STORES["checkpoint"] / folder).glob("[0-9]*")
        file = max(files, key=lambda found: int(found.name))
        file.with_name(f".{file.name}.crc").unlink(missing_ok=True)
        return file

    def update(self, **how):
        """The error of an update; None where it has completed."""
        try:
            result = self.pipeline.run(**how)
        except (Problems, PipelineError) as error:
            found = error.errors[0] if isinstance(error, Problems) else error
            return found.code, found.hint
        if result.state is UpdateState.COMPLETED:
            return None
        return result.outcome.error["code"], result.outcome.error["hint"]

    def check(self, *, twice=False):
        """The tables have what landed; a sink may have it *twice* where everything was delivered again."""
        ids = self.landed
        if self.kind == "judged":
            aside = SparkSession.active().read.format("delta").load(str(self.storage / STORES["quarantine"]))
            assert Counter(row["id"] for row in aside.select("row.id").collect()) == Counter(ids[::3])
            ids = [number for number in ids if number % 3]
        if self.kind == "merged":
            newest = {number % 5: number for number in ids}
            found = SparkSession.active().read.format("delta").load(str(self.storage / STORES["table"])).collect()
            assert {row["id"]: row["n"] for row in found} == newest
            return
        table = str(self.pipeline.folder / "out" if self.kind == "delivered" else self.storage / STORES["table"])
        found = self.ids(table)
        if twice and self.kind == "delivered":
            assert set(found) == set(ids)
        else:
            assert found == Counter(ids)

    def ids(self, table):
        return Counter(row["id"] for row in SparkSession.active().read.format("delta").load(table).collect())


def forget_tables():
    """Let the process read the logs of tables anew, which are not what they were."""
    SparkSession.active()._jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()


def _remove(place):
    if place.is_file():
        place.unlink()
    shutil.rmtree(place, ignore_errors=True)


@pytest.fixture(scope="module")
def story(tmp_path_factory, headrace_session):
    """A pipeline of a kind after three updates; each time the same, at the same place, which checkpoints name."""
    from headrace.testing.driver import Pipeline, write_project  # noqa: PLC0415 - with Spark, for tests that need it

    kept: dict[str, Story] = {}

    def made(kind):
        if kind not in kept:
            folder = tmp_path_factory.mktemp(kind) / "project"
            text = KINDS.get(kind, STATEFUL).format(landing=str(folder / "landing"), out=str(folder / "out"))
            write_project(folder, {"transformations/code.py": f"from headrace import pipelines as dp\n{text}"}, {})
            told = kept[kind] = Story(kind, Pipeline(folder, folder / "storage", os.environ))
            for _ in range(3):
                told.land()
                assert told.update() is None
                told.keep()
            shutil.copytree(folder, folder.with_name("kept"))
        told = kept[kind]
        folder = told.pipeline.folder
        shutil.rmtree(folder)
        shutil.copytree(folder.with_name("kept"), folder)
        forget_tables()
        return Story(kind, told.pipeline, list(told.landed), told.copies[:-1])

    return made


@given(
    kind=st.sampled_from(sorted(KINDS)),
    case=st.sampled_from(CASES),
    back=st.integers(0, 1),
    lands=st.booleans(),
)
@LAW
def test_no_row_is_lost_silently_when_a_store_is_restored_torn_or_deleted(story, kind, case, back, lands):
    told = story(kind)
    told.befalls(*case, back)
    # Sinks are asked what they have when there is something to deliver; a flow without its record has another identity.
    if lands or case[0] == "sink" or (kind == "delivered" and case == ("record", "is gone")):
        told.land()

    refused, twice = told.update(), False
    if refused is not None and refused[0] == "FLOW.CHECKPOINT_TORN":
        told.pipeline.project.checkpoints().repair("target")
        refused = told.update()
    if refused is not None:
        assert "headrace " in refused[1], refused
        twice = True
        asked = told.update(full_refresh=["target"])
        if asked is not None:
            # Nobody knows whether what was read is still there; here it is.
            assert (asked[0], "--accept-data-loss" in asked[1], case[1]) == ("PLAN.DATA_LOSS", True, "is gone")
            assert told.update(full_refresh=["target"], accept_data_loss=True) is None
    told.check(twice=twice)
    told.land()
    assert told.update() is None
    told.check(twice=twice)


def test_unreadable_state_is_reported_and_a_checkpoint_reset_recovers_the_flow(story):
    told = story("stateful")
    for file in (told.storage / STORES["checkpoint"] / "state").rglob("*.changelog"):
        file.write_bytes(b"")
    # What the process has in memory would do.
    SparkSession.active()._jvm.org.apache.spark.sql.execution.streaming.state.StateStore.stop()
    told.land()

    code, hint = told.update()

    assert (code, "--reset-checkpoint target" in hint) == ("FLOW.STATE_UNREADABLE", True)
    assert told.update(reset_checkpoint=["target"]) is None
