"""Previews: what an update would write, computed on the tables as they are, with nothing written."""

from __future__ import annotations

from dataclasses import replace

import pytest

from headrace.errors import PipelineError

pytestmark = pytest.mark.spark

TEXT = """
    @dp.table(private=True)
    @dp.expect_or_drop("known", "id IS NOT NULL")
    def bronze():
        return spark.readStream.schema("id INT, place STRING").json(spark.conf.get("landing"))

    @dp.temporary_view
    def upper():
        return spark.readStream.table("bronze").selectExpr("id", "upper(place) AS place")

    dp.create_streaming_table("silver", expect_all_or_quarantine={"positive": "id > 0"})

    @dp.append_flow(target="silver")
    def fresh():
        return spark.readStream.table("upper")

    @dp.append_flow(target="silver", once=True)
    def history():
        return spark.sql("SELECT id, 'OLD' AS place FROM VALUES (100), (-100) AS t(id)")

    @dp.table
    def counted():
        return spark.readStream.table("silver").groupBy("place").count()

    @dp.materialized_view
    def listed():
        return spark.read.table("counted").selectExpr("collect_list(place) AS places")

    @dp.materialized_view
    @dp.expect_or_fail("small", "id < 3")
    def failing():
        return spark.read.table("silver").select("id")
    """


@pytest.fixture
def pipeline(project, tmp_path):
    pipeline = project(TEXT, configuration={"landing": str(tmp_path / "project" / "landing")})
    pipeline.land("landing/1.json", [{"id": 1, "place": "a"}, {"id": None}, {"id": -2, "place": "b"}])
    return pipeline


def files(folder):
    return {path: path.stat().st_mtime_ns for path in folder.rglob("*")} if folder.exists() else {}


def shown(preview):
    return sorted(map(str, (row.values() for row in map(dict, preview.to_json()))))


def test_every_kind_of_dataset_is_previewed_before_and_after_the_first_update(pipeline):
    storage = pipeline.folder / "storage"
    preview = pipeline.project.preview

    before = {name: preview(name) for name in ("upper", "silver", "listed")}
    assert not storage.exists()

    assert [row["id"] for row in before["silver"].to_json()] == [1, 100]
    assert (before["silver"].counts.rows_written, before["silver"].counts.rows_quarantined) == (2, 2)
    assert before["silver"].sampled == ("bronze",)
    assert len(before["upper"].to_json()) == 2
    assert [sorted(row["places"]) for row in before["listed"].to_json()] == [["A", "OLD"]]

    pipeline.run("bronze", "silver", "counted")
    there = files(storage)

    one = preview("silver", 1)
    assert shown(preview("upper")) == shown(before["upper"])
    assert sorted((row["place"], row["count"]) for row in preview("counted").to_json()) == [("A", 1), ("OLD", 1)]
    assert ([row["id"] for row in one.to_json()], one.sampled) == ([1], ())
    assert files(storage) == there

    said = pipeline.project.explain("silver").to_json()
    flows = {flow["flow"]: flow for flow in said["flows"]}
    assert flows["fresh"]["positions"] == [{"source": 'table "bronze"', "position": "read through version 1 of 1"}]
    assert (said["table"]["rows"], said["read_by"]) == (2, ["counted", "failing"])
    assert flows["history"]["next_update"] == "up to date: ran once"
    (bronze,) = pipeline.project.explain("bronze").to_json()["flows"]
    assert [entry["position"] for entry in bronze["positions"]] == ["1 file taken"]


def test_a_preview_fails_with_the_same_error_as_an_update(pipeline):
    with pytest.raises(PipelineError) as found:
        pipeline.project.preview("failing")

    assert (found.value.code, found.value.params["name"]) == ("EXPECTATION.FAILED", "small")


def test_explain_shows_the_trigger_interval_of_a_materialized_view(project, tmp_path):
    pipeline = project("""
        @dp.temporary_view
        def outside():
            return spark.read.schema("id INT").json(spark.conf.get("landing"))

        @dp.materialized_view
        def of_files():
            return spark.read.table("outside")

        @dp.materialized_view
        def of_a_table():
            return spark.read.table("of_files").groupBy().count()

        @dp.materialized_view(spark_conf={"pipelines.trigger.interval": "2 minutes"})
        def own():
            return spark.read.table("of_files")
        """)
    pipeline.land("landing/1.json", [{"id": 1}])
    landing = {"landing": str(pipeline.folder / "landing")}
    pipeline.settings = replace(pipeline.settings, continuous=True, configuration=landing)

    said = {name: pipeline.project.explain(name).to_json() for name in ("of_files", "of_a_table", "own")}

    triggers = {name: [flow["trigger"] for flow in one["flows"]] for name, one in said.items()}
    assert triggers == {"of_files": ["every 600 s"], "of_a_table": ["every 60 s"], "own": ["every 120 s"]}
