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


MERGED = """
    @dp.temporary_view
    def events():
        schema = "id INT, size INT, version INT, gone BOOLEAN"
        return spark.readStream.schema(schema).json(spark.conf.get("landing"))

    dp.create_streaming_table("sizes", expect_all_or_drop={"small": "size < 100"})
    dp.create_auto_cdc_flow(
        "sizes", "events", keys=["id"], sequence_by="version", apply_as_deletes="gone",
        except_column_list=["gone"], stored_as_scd_type=2,
    )

    @dp.materialized_view
    def open_sizes():
        return spark.read.table("sizes").where("__END_AT IS NULL").select("id", "size")
    """
SNAPSHOTS = """
    @dp.materialized_view
    def copies():
        return spark.range(2).selectExpr("CAST(id AS INT) AS id", "1 AS size")

    dp.create_streaming_table("of_dataset")
    dp.create_auto_cdc_from_snapshot_flow("of_dataset", "copies", ["id"])

    def versions(latest):
        return (spark.sql("SELECT 7 AS id, 2 AS size"), 5) if latest is None else None

    dp.create_streaming_table("of_function")
    dp.create_auto_cdc_from_snapshot_flow("of_function", versions, ["id"], stored_as_scd_type=2)
    """


@pytest.fixture
def merged(project, tmp_path):
    pipeline = project(MERGED, configuration={"landing": str(tmp_path / "project" / "landing")})
    rows = [(1, 5, 1, False), (1, 7, 2, False), (2, 3, 1, False), (2, None, 3, True), (3, 100, 1, False)]
    names = ("id", "size", "version", "gone")
    pipeline.land("landing/1.json", [dict(zip(names, row, strict=True)) for row in rows])
    return pipeline


def test_a_preview_of_merged_changes_is_the_table_after_them_and_writes_nothing(merged):
    before = merged.project.preview("sizes")
    below = merged.project.preview("open_sizes")

    assert not (merged.folder / "storage").exists()
    versions = [(row["id"], row["size"], row["__START_AT"], row["__END_AT"]) for row in before.to_json()]
    assert versions == [(1, 5, 1, 2), (1, 7, 2, None), (2, 3, 1, 3)]
    assert next(iter(before.notices())) == "the table after 5 changes, 1 of them rejected, as if it were empty before"
    assert (below.to_json(), below.sampled) == ([{"id": 1, "size": 7}], ("sizes",))


@pytest.mark.long(
    guard="tests/spark/test_preview.py::test_a_preview_of_merged_changes_is_the_table_after_them_and_writes_nothing"
)
def test_a_preview_of_merged_changes_has_the_rows_that_an_update_writes(merged):
    before = merged.project.preview("sizes")
    merged.run()
    after = merged.project.preview("sizes")

    written = merged.project.sql("SELECT * FROM sizes ORDER BY id, __START_AT").to_json()
    assert before.to_json() == after.to_json() == written


@pytest.mark.long(
    guard="tests/spark/test_preview.py::test_a_preview_of_merged_changes_is_the_table_after_them_and_writes_nothing"
)
def test_a_preview_of_snapshots_is_the_table_after_the_first_one(project):
    pipeline = project(SNAPSHOTS)

    of_dataset, of_function = (pipeline.project.preview(name) for name in ("of_dataset", "of_function"))

    assert of_dataset.to_json() == [{"id": 0, "size": 1}, {"id": 1, "size": 1}]
    assert of_function.to_json() == [{"id": 7, "size": 2, "__START_AT": 5, "__END_AT": None}]


ALLOWED = (
    "SELECT * FROM t WHERE id IN (SELECT max(id) FROM t)",
    "WITH a AS (SELECT id, count(*) AS n FROM t GROUP BY ALL HAVING n > 0), b AS (FROM a SELECT n) TABLE b",
    "SELECT explode(array(1, 2)) AS x, transform(array(id), y -> y + 1) FROM default.t ORDER BY 1 LIMIT 2 OFFSET 1",
    "SELECT id, row_number() OVER w FROM t WINDOW w AS (ORDER BY id) QUALIFY row_number() OVER w < 3",
    "(SELECT id FROM t UNION ALL VALUES (1)) EXCEPT SELECT id FROM range(3) INTERSECT SELECT 1",
    "SELECT * FROM t AS a JOIN t AS b USING (id) LATERAL VIEW explode(array(1)) AS e",
    "SELECT from_json('{}', 'a INT'), CASE WHEN id > 1 THEN 'a' END, CAST(id AS STRING), date '2026-01-01' FROM t",
    "SELECT '${env:HOME}' AS x",
)
REFUSED = (
    "SELECT * FROM text.`/etc/passwd`",
    "SELECT * FROM (SELECT 1 AS one) WHERE EXISTS (SELECT * FROM csv.`/etc/passwd`)",
    "WITH a AS (SELECT * FROM parquet.`/tmp/x`) SELECT 1",
    "SELECT (SELECT max(value) FROM binaryFile.`/etc`)",
    "SELECT * FROM delta.`/tmp/x`",
    "SELECT * FROM other.t",
    "SELECT reflect('java.lang.Runtime', 'getRuntime')",
    "SELECT java_method('java.lang.System', 'getenv', 'HOME')",
    "SELECT transform(array(1), x -> try_reflect('java.lang.System', 'exit', x))",
    "SELECT IDENTIFIER('reflect')('java.lang.System', 'exit', 1)",
    "SELECT * FROM IDENTIFIER('text.`/etc/passwd`')",
    "SELECT from_xml('<a/>', 'a INT', map('rowValidationXSDPath', '/etc/passwd'))",
    "SELECT from_protobuf(X'00', 'A', '/etc/passwd')",
    "SELECT xpath_string('<a/>', '/a')",
    "SELECT current_user()",
    "SELECT * FROM sql_keywords()",
    "SELECT TRANSFORM(id) USING 'cat' FROM t",
    "SELECT * FROM t WITH (mergeSchema = true)",
    "SELECT * FROM STREAM(t)",
    "SHOW TABLES",
    "DESCRIBE EXTENDED t",
    "EXPLAIN SELECT 1",
    "SET",
    "SELECT * FROM event_log('x')",
)


def test_a_restricted_query_reads_tables_of_the_pipeline_and_nothing_else(project):
    pipeline = project("""
        @dp.materialized_view
        def t():
            return spark.range(3)

        @dp.table(private=True)
        def hidden():
            return spark.readStream.table("t")
        """)
    pipeline.run()

    def code(query, **more):
        try:
            return pipeline.project.sql(query, restricted=True, limit=10, **more)
        except PipelineError as error:
            return error.code

    allowed = {query: code(query) for query in ALLOWED}
    refused = {query: code(query) for query in REFUSED}

    assert {query: found for query, found in allowed.items() if isinstance(found, str)} == {}
    assert allowed["SELECT '${env:HOME}' AS x"].rows == (("${env:HOME}",),)
    assert set(refused.values()) <= {"SQL.RESTRICTED", "SQL.NOT_READ_ONLY"}, refused
    assert code("SELECT * FROM hidden") == "SQL.PRIVATE"
    assert code("SELECT * FROM default.hidden") in ("SQL.PRIVATE", "SQL.RESTRICTED")
    slow = "SELECT count(*) FROM range(1000000000000) AS a JOIN range(1000000000000) AS b ON a.id % 7 = b.id % 11"
    assert code(slow, timeout_s=1.0) == "SQL.TIMEOUT"
    assert code("SELECT max(id) AS m FROM t").rows == ((2,),)
