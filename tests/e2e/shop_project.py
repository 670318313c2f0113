"""A project whose tables are compared between storages, and the commands that tests run on it."""

from __future__ import annotations

import json

import pyarrow as pa
from deltalake import write_deltalake

CODE = """\
from headrace import pipelines as dp
from pyspark.sql import functions as F


@dp.table
@dp.expect_or_drop("positive", "amount > 0")
def orders():
    return spark.readStream.format("delta").load("{source}")


@dp.table
@dp.expect_or_quarantine("small", "amount < 6")
def checked():
    return spark.readStream.table("orders")


@dp.materialized_view
def totals():
    return spark.read.table("orders").groupBy("customer").agg(F.sum("amount").alias("total"))


@dp.table
def counts():
    return spark.readStream.table("orders").groupBy("customer").count()


dp.create_streaming_table("customers")
dp.create_auto_cdc_flow(
    target="customers", source="orders", keys=["customer"], sequence_by="id", stored_as_scd_type=2
)
"""
TABLES = ("orders", "checked", "totals", "counts", "customers")
ALL_ROWS = " UNION ALL ".join(f"SELECT '{name}' AS name, to_json(struct(*)) AS row FROM {name}" for name in TABLES)


def add_orders(project, first):
    rows = {
        "id": list(range(first, first + 10)),
        "customer": [f"c{number % 3}" for number in range(10)],
        "amount": [number - 1 for number in range(10)],
    }
    write_deltalake(project / "source", pa.table(rows), mode="append")


def make_shop(project, storage):
    """A project of all kinds of tables over a source of its own, with its storage somewhere."""
    (project / "transformations").mkdir(parents=True)
    (project / "pipeline.yml").write_text(f"name: shop\nstorage: {storage}\n", encoding="utf-8")
    code = CODE.format(source=project / "source")
    (project / "transformations" / "shop.py").write_text(code, encoding="utf-8")
    add_orders(project, 0)
    return project


def output(how, project, *words):
    """What a successful command prints, run in one of two ways."""
    done = how(project, *words)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def rows(how, project):
    """All rows of all tables, and how many rows each quarantine has."""
    query = f"{ALL_ROWS} ORDER BY name, row"
    found = json.loads(output(how, project, "--output", "json", "sql", "--limit", "1000", query))
    return found, output(how, project, "quarantine", "list")
