"""Where columns come from, by the plans of real queries."""

from __future__ import annotations

import json

import pytest
from tests.lineage_schemas import check_run_event

from headrace.model.outcome import UpdateState

pytestmark = pytest.mark.spark

PROJECT = """
    from pyspark.sql import Window

    ORDERS = "id INT, customer INT, amount DOUBLE, status STRING, at TIMESTAMP, items ARRAY<STRUCT<sku: STRING>>"

    @dp.table(schema=ORDERS)
    def orders():
        return spark.readStream.schema("id INT").json("unused")

    @dp.table(schema="id INT, name STRING, country STRING, version INT, operation STRING")
    def customers():
        return spark.readStream.schema("id INT").json("unused")

    @dp.temporary_view
    def paid():
        return spark.read.table("orders").where("status = 'paid'").withColumnRenamed("amount", "price")

    @dp.materialized_view
    def stars():
        return spark.sql("SELECT *, id + 1 AS next FROM orders")

    @dp.materialized_view
    def joined():
        left, right = spark.read.table("orders").alias("o"), spark.read.table("customers").alias("c")
        return (
            left.join(right, F.col("o.customer") == F.col("c.id"), "left")
            .where("c.country <> 'XX'")
            .selectExpr("o.id", "upper(c.name) AS name", "CASE WHEN o.status = 'paid' THEN o.amount ELSE 0 END AS paid")
            .orderBy("name")
        )

    @dp.materialized_view
    def sums():
        return (
            spark.read.table("paid")
            .groupBy("customer")
            .agg(F.sum(F.col("price") * 2).alias("total"), F.count("*").alias("n"))
            .select("customer", F.round("total").alias("rounded"), "n")
        )

    @dp.materialized_view
    def ranked():
        by = Window.partitionBy("customer").orderBy(F.desc("at"))
        return (
            spark.read.table("orders")
            .select("id", F.rank().over(by).alias("place"), F.sum("amount").over(by).alias("running"))
            .where("place < 10")
        )

    @dp.materialized_view
    def deduplicated():
        return spark.read.table("orders").dropDuplicates(["id"]).select("id", F.explode("items.sku").alias("sku"))

    @dp.materialized_view
    def both():
        rows = spark.read.table("orders").select(F.col("id").alias("key"), F.lit("order").alias("kind"))
        return rows.unionByName(spark.read.table("customers").select("name", F.col("id").alias("key")).select(
            "key", F.col("name").alias("kind")))

    @dp.materialized_view
    def itself():
        one, two = spark.read.table("orders").alias("a"), spark.read.table("orders").alias("b")
        return one.join(two, F.expr("a.customer = b.id")).select("a.id", F.col("b.amount").alias("other"))

    @dp.materialized_view
    def without():
        return spark.sql(
            "SELECT id, amount FROM orders o WHERE NOT EXISTS (SELECT 1 FROM customers c WHERE c.id = o.customer) "
            "AND id IN (SELECT version FROM customers)"
        )

    @dp.materialized_view
    def compared():
        return spark.sql("SELECT id, amount / (SELECT max(amount) FROM orders) AS share FROM orders")

    @dp.materialized_view
    def grouped():
        return spark.sql(
            "SELECT customer, status, sum(amount) FILTER (WHERE id > 0) AS s "
            "FROM orders GROUP BY CUBE (customer, status)"
        )

    @dp.materialized_view
    def opaque():
        return spark.read.table("orders").select("id", "amount").mapInPandas(lambda found: found, "a INT, b DOUBLE")

    @dp.materialized_view
    def constant():
        return spark.range(3).select(F.col("id"), F.lit(1).alias("one"))

    @dp.materialized_view
    def difference():
        return spark.sql("SELECT id FROM orders EXCEPT SELECT version FROM customers")

    @dp.table
    def windowed():
        return (
            spark.readStream.table("orders").withWatermark("at", "1 minute")
            .groupBy(F.window("at", "5 minutes"), "status").agg(F.max("amount").alias("most"))
            .select("status", F.col("window.start").alias("since"), "most")
        )

    @dp.table
    def grouped_in_code():
        return (
            spark.read.table("orders").groupBy("customer")
            .applyInPandas(lambda rows: rows[["id"]], "id INT")
        )

    def apply(target, **more):
        dp.create_streaming_table(target)
        dp.create_auto_cdc_flow(
            target=target, source="customers", keys=["id"], sequence_by="version",
            apply_as_deletes="operation = 'delete'", except_column_list=["operation"], **more,
        )

    apply("current")
    apply("history", stored_as_scd_type=2)

    dp.create_streaming_table("followed")
    dp.create_auto_cdc_from_snapshot_flow(target="followed", source="joined", keys=["id"], stored_as_scd_type=1)
    """
SQL = """
    CREATE MATERIALIZED VIEW in_sql AS
    WITH paid AS (SELECT customer, amount * 2 AS twice FROM orders WHERE status = 'paid'),
         known AS (SELECT c.id, c.name, p.twice FROM paid p JOIN customers c ON p.customer = c.id)
    SELECT name, sum(twice) AS total FROM known GROUP BY name ORDER BY total;

    CREATE MATERIALIZED VIEW nested AS
    SELECT * EXCEPT (status, items), row_number() OVER (PARTITION BY customer ORDER BY at) AS number
    FROM (SELECT DISTINCT * FROM orders) QUALIFY number = 1;

    CREATE MATERIALIZED VIEW counted AS
    WITH RECURSIVE numbers(n) AS (SELECT id FROM orders UNION ALL SELECT n + 1 FROM numbers WHERE n < 5)
    SELECT n FROM numbers;

    CREATE MATERIALIZED VIEW lateral AS
    SELECT o.id, l.most FROM orders o, LATERAL (SELECT max(version) AS most FROM customers c WHERE c.id = o.customer) l;
    """
EXPECTED = {
    "stars": {
        "id": "orders.id",
        "customer": "orders.customer",
        "amount": "orders.amount",
        "status": "orders.status",
        "at": "orders.at",
        "items": "orders.items",
        "next": "orders.id (transformation)",
    },
    "joined": {
        "id": "orders.id",
        "name": "customers.name (transformation)",
        "paid": "orders.status (conditional), orders.amount (transformation)",
        "*": "orders.customer (join), customers.id (join), customers.country (filter), customers.name (sort)",
    },
    "sums": {
        "customer": "paid.customer",
        "rounded": "paid.price (aggregation)",
        "n": "",
        "*": "paid.customer (group by)",
    },
    "paid": {
        **{name: f"orders.{name}" for name in ("id", "customer", "status", "at", "items")},
        "price": "orders.amount",
        "*": "orders.status (filter)",
    },
    "ranked": {
        "id": "orders.id",
        "place": "orders.at (window), orders.customer (window)",
        "running": "orders.amount (aggregation), orders.customer (window), orders.at (window)",
        "*": "orders.at (filter), orders.customer (filter)",
    },
    "deduplicated": {"id": "orders.id", "sku": "orders.items (transformation)", "*": "orders.id (group by)"},
    "both": {"key": "orders.id, customers.id", "kind": "customers.name"},
    "itself": {"id": "orders.id", "other": "orders.amount", "*": "orders.customer (join), orders.id (join)"},
    "without": {
        "id": "orders.id",
        "amount": "orders.amount",
        "*": "customers.id (filter), orders.customer (filter), orders.id (filter), customers.version (filter)",
    },
    "compared": {"id": "orders.id", "share": "orders.amount (transformation), orders.amount (aggregation)"},
    "grouped": {
        "customer": "orders.customer",
        "status": "orders.status",
        "s": "orders.amount (aggregation), orders.id (conditional)",
        "*": "orders.customer (group by), orders.status (group by)",
    },
    "opaque": {
        "a": "orders.id (transformation), orders.amount (transformation)",
        "b": "orders.id (transformation), orders.amount (transformation)",
    },
    "constant": {"id": "", "one": ""},
    "difference": {"id": "orders.id", "*": "customers.version (filter)"},
    "windowed": {
        "status": "orders.status",
        "since": "orders.at (transformation), orders.at (conditional)",
        "most": "orders.amount (aggregation)",
        "*": "orders.at (filter), orders.at (group by), orders.status (group by)",
    },
    "in_sql": {
        "name": "customers.name",
        "total": "orders.amount (aggregation)",
        "*": (
            "orders.status (filter), orders.customer (join), customers.id (join), customers.name (group by), "
            "orders.amount (sort)"
        ),
    },
    "counted": {"n": "orders.id, orders.id (transformation)", "*": "orders.id (filter)"},
    "lateral": {
        "id": "orders.id",
        "most": "customers.version (aggregation)",
        "*": "customers.id (filter), orders.customer (filter)",
    },
    "current": {
        **{name: f"customers.{name}" for name in ("id", "name", "country", "version")},
        "*": "customers.id (join), customers.version (sort), customers.operation (filter)",
    },
    "history": {
        **{name: f"customers.{name}" for name in ("id", "name", "country", "version")},
        "__START_AT": "customers.version (transformation)",
        "__END_AT": "customers.version (transformation)",
        "*": "customers.id (join), customers.version (sort), customers.operation (filter)",
    },
    "followed": {name: f"joined.{name}" for name in ("id", "name", "paid")} | {"*": "joined.id (join)"},
}


def as_text(columns):
    found = {column.name: ", ".join(use.describe() for use in column.uses) for column in columns.columns}
    return found | ({"*": ", ".join(use.describe() for use in columns.rows)} if columns.rows else {})


@pytest.mark.long(
    guard="tests/unit/spark/test_column_lineage.py::test_columns_come_from_the_columns_that_they_use",
)
def test_columns_of_all_kinds_of_queries_come_from_the_columns_that_they_use(project):
    pipeline = project(PROJECT, {"transformations/more.sql": SQL})
    pipeline.given("orders", [{"id": 1}]).given("customers", [{"id": 1}])

    graph = pipeline.project.graph()

    found = {flow.name: flow.analysis.columns for flow in graph.flows}
    assert {name: as_text(found[name]) for name in EXPECTED} == EXPECTED
    assert all(found[name].is_complete for name in EXPECTED)
    nested = as_text(found["nested"])
    assert nested["number"] == "orders.customer (window), orders.at (window)"
    assert nested["amount"] == "orders.amount"
    assert "orders.amount (group by)" in nested["*"]
    in_code = as_text(found["grouped_in_code"])
    assert "orders.id (transformation)" in in_code["id"]
    assert in_code["*"] == "orders.customer (group by)"


UPDATES = """
    @dp.table(schema="id INT, amount INT")
    def orders():
        return spark.readStream.schema("id INT").json("unused")

    @dp.table
    @dp.expect_or_drop("has id", "id IS NOT NULL")
    def known():
        return spark.readStream.table("orders").select("id", (F.col("amount") * 2).alias("twice"))

    @dp.materialized_view
    def sums():
        return spark.read.table("known").groupBy("id").agg(F.sum("twice").alias("total"))

    dp.create_sink("out", "json", {"path": "out"})

    @dp.append_flow(target="out")
    def deliver():
        return spark.readStream.table("known")
    """


def sent(pipeline):
    file = pipeline.folder / "sent" / "events.jsonl"
    events = [json.loads(line) for line in file.read_text().splitlines()]
    file.unlink()
    for event in events:
        check_run_event(event)
    return events


def kinds(events):
    return sorted((event["job"]["name"], event["eventType"]) for event in events)


def test_updates_send_their_runs_to_a_file_and_are_otherwise_the_same(project):
    lineage = {"namespace": "shop", "transports": {"lake": {"file": "sent/events.jsonl"}}}
    pipeline = project(UPDATES, lineage=lineage).given("orders", [{"id": 1, "amount": 2}, {"id": None, "amount": 3}])

    first = pipeline.run()
    events = sent(pipeline)
    second = pipeline.run()

    assert (first.outcome.state, second.outcome.state) == (UpdateState.COMPLETED, UpdateState.COMPLETED)
    assert kinds(events) == [
        *[("known.known", "COMPLETE"), ("known.known", "START"), ("out.deliver", "COMPLETE")],
        *[("out.deliver", "START"), ("sums.sums", "COMPLETE"), ("sums.sums", "START")],
    ]
    by_name = {event["job"]["name"]: event for event in events if event["eventType"] == "COMPLETE"}
    (known,) = by_name["known.known"]["outputs"]
    storage = pipeline.folder / "storage" / "tables" / "default"
    assert (known["namespace"], known["name"]) == ("file", str(storage / "known"))
    assert known["outputFacets"]["outputStatistics"]["rowCount"] == 1
    assert known["outputFacets"]["outputStatistics"]["fileCount"] == 1
    (assertion,) = known["outputFacets"]["dataQualityAssertions"]["assertions"]
    assert (assertion["name"], assertion["success"], assertion["actual"]) == ("has id", False, "1")
    assert (assertion["assertion"], assertion["column"]) == ("not_null", "id")
    (read,) = by_name["known.known"]["inputs"]
    assert read["inputFacets"]["inputStatistics"]["rowCount"] == 2
    (twice,) = known["facets"]["columnLineage"]["fields"]["twice"]["inputFields"]
    assert (twice["name"], twice["field"]) == (read["name"], "amount")
    assert [one["name"] for one in by_name["out.deliver"]["outputs"]] == [str(pipeline.folder / "out")]
    # Nothing was new.
    assert not (pipeline.folder / "sent" / "events.jsonl").exists()


@pytest.mark.long(
    guard=(
        "tests/spark/test_column_lineage.py::test_updates_send_their_runs_to_a_file_and_are_otherwise_the_same",
        "tests/unit/lineage/test_sending.py::test_a_missing_secret_is_reported_and_its_event_waits",
    )
)
def test_an_update_is_the_same_whatever_its_receivers_do(project, monkeypatch):
    monkeypatch.setenv("HEADRACE_SECRET_LINEAGE_URL", "http://127.0.0.1:1/CANARY-path?token=CANARY-token")
    monkeypatch.setenv("HEADRACE_SECRET_LINEAGE_KEY", "CANARY-key")
    server = {"http": "${secret:lineage/url}", "api_key": "${secret:lineage/key}"}
    lineage = {"transports": {"down": server, "lost": {"http": "http://h", "api_key": "${secret:lineage/nowhere}"}}}
    pipeline = project(UPDATES, lineage=lineage).given("orders", [{"id": 1, "amount": 2}])
    events = []

    result = pipeline.run(on_event=events.append)

    assert result.outcome.state is UpdateState.COMPLETED
    stored = [row for row in pipeline.project.events().events() if row["event_type"] == "warning"]
    codes = sorted({json.loads(row["details"])["warning"]["code"] for row in stored})
    assert codes == ["LINEAGE.DROPPED", "LINEAGE.NOT_SENT"]
    assert "CANARY" not in str([*pipeline.project.events().events(), *events])
    assert "HEADRACE_SECRET_LINEAGE_NOWHERE" in str(stored)
