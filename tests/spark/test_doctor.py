"""Faults of real updates: the doctor names each first, and after its edits and commands the counts reconcile.

The files and events are Spark's own here; the faults of ``tests/unit/doctor`` are written by hand.
"""

from __future__ import annotations

import shlex
import shutil
from pathlib import Path

import pytest

from headrace.assistant.doctor.facts import Machine
from headrace.model.outcome import FlowState
from headrace.project.inspection.diagnosis.pipeline_doctor import PipelineDoctor

pytestmark = pytest.mark.spark

FILES = {
    "transformations/shop.py": """
from pathlib import Path
from pyspark.sql import functions as F
from headrace import pipelines as dp

PROJECT = Path(__file__).parent.parent


@dp.table
def orders():
    return (
        spark.readStream.format("cloudFiles")
        .option("cloudFiles.format", "json")
        .option("cloudFiles.schemaEvolutionMode", "failOnNewColumns")
        .option("cloudFiles.inferColumnTypes", "true")
        .load(str(PROJECT / "landing"))
    )


@dp.table
def lines():
    return spark.readStream.option("maxFilesPerTrigger", 1).table("given")


@dp.table
def numbers():
    return spark.readStream.table("lines").select("id", F.col("text").cast("int").alias("number"))


@dp.table
def hours():
    clicks = spark.readStream.option("maxFilesPerTrigger", 1).table("clicks")
    return clicks.withWatermark("at", "1 minute").groupBy(F.window("at", "1 hour")).count()


@dp.materialized_view
def given():
    return spark.createDataFrame([], "id INT, text STRING")


@dp.materialized_view
def clicks():
    return spark.createDataFrame([], "id INT, at TIMESTAMP")
"""
}


class Patient:
    """A pipeline, and what the doctor says of it."""

    def __init__(self, pipeline):
        self.pipeline = pipeline

    def findings(self, name=None):
        doctor = PipelineDoctor(self.pipeline.settings, {}, read_machine=lambda *_: Machine())
        return [one for one in doctor.diagnose(name).findings if one.check.check_id != "no-monitoring"]

    def heal(self, finding):
        """Do what a finding says: its edit to the letter, then its command."""
        if finding.edit is not None:
            file = self.pipeline.folder / finding.edit.file
            file.write_text(finding.edit.applied_to(file.read_text()))
        program, verb, *words = shlex.split(finding.command)
        assert (program, verb) == ("headrace", "run")
        assert words[:1] in ([], ["--full-refresh"])
        return type(self)(self.reopened()).pipeline.run(full_refresh=words[1:])

    def reopened(self):
        """The pipeline with the settings as they are now."""
        again = type(self.pipeline)(self.pipeline.folder, Path(self.pipeline.settings.storage), {})
        again._stand_ins = self.pipeline._stand_ins
        self.pipeline = again
        return again


def at(minutes):
    """A time after ten."""
    return f"2026-03-01T{10 + minutes // 60}:{minutes % 60:02}:00Z"


@pytest.fixture
def patient(make_project):
    """One update in which nothing is wrong, and then four faults at once: one for each table."""
    pipeline = make_project(FILES)
    pipeline.given("given", [{"id": 1, "text": "1"}, {"id": 2, "text": "2"}])
    pipeline.given("clicks", [{"id": 1, "at": at(5)}, {"id": 2, "at": at(30)}])
    pipeline.land("landing/a.json", [{"id": 1}])
    pipeline.run()
    patient = Patient(pipeline)
    assert patient.findings() == []
    pipeline.land("landing/b.json", [{"id": 2, "note": "a new field"}])
    pipeline.given("given", [{"id": 3, "text": "three"}, {"id": 4, "text": "4"}])
    # Spark drops what is behind the watermark of the batch before: the late click comes two batches after the newest.
    pipeline.given("clicks", [{"id": 3, "at": at(150)}], [{"id": 4, "at": at(151)}], [{"id": 5, "at": at(40)}])
    return patient


def test_faults_of_one_update_are_named_first_and_end_with_the_edits_and_commands(patient):
    result = patient.pipeline.run()
    assert {name for name, state in result.states.items() if state is FlowState.FAILED} == {"orders", "numbers"}

    firsts = {name: patient.findings(name)[0].check.check_id for name in ("orders", "numbers", "hours")}

    assert firsts == {"orders": "schema-mismatch", "numbers": "errors-unhandled", "hours": "late-dropped"}
    # So that the watermark with the longer delay passes the first hour too.
    patient.pipeline.given("clicks", [{"id": 6, "at": at(240)}])
    for name in ("orders", "numbers", "hours"):
        patient.heal(patient.findings(name)[0])
    assert patient.findings() == []
    assert [row["id"] for row in patient.pipeline.rows("orders")] == [1, 2]
    assert [row["number"] for row in patient.pipeline.rows("numbers")] == [1, 2, 4]
    # All clicks of the first hour, the late one too; the later hours are still open.
    assert [row["count"] for row in patient.pipeline.rows("hours")] == [3]


def test_lost_and_repeated_progress_is_named_first_and_its_command_reconciles_the_rows(make_project):
    pipeline = make_project(FILES)
    pipeline.given("given", [{"id": 1, "text": "1"}, {"id": 2, "text": "2"}])
    pipeline.run("lines", "numbers")
    pipeline.run("lines", reset_checkpoint=["lines=earliest"])
    assert len(pipeline.rows("lines")) == 4
    folder = Path(
        pipeline.settings.layout.flows(pipeline.settings.naming, pipeline.settings.naming.canonical("numbers"))
    )
    shutil.rmtree(folder / "numbers" / "0")
    patient = Patient(pipeline)

    repeated, missing = patient.findings("lines")[0], patient.findings("numbers")[0]

    assert (repeated.check.check_id, missing.check.check_id) == ("duplicates", "checkpoint-missing")
    patient.heal(repeated)
    patient.heal(patient.findings("numbers")[0])
    assert patient.findings() == []
    assert [row["id"] for row in patient.pipeline.rows("lines")] == [1, 2]
    assert [row["number"] for row in patient.pipeline.rows("numbers")] == [1, 2]
