"""A materialized view over a join, after 1 % of its input changed: groups against all rows, in a warm session.

Run by hand with `python bench/scenarios/views.py POLICY ROWS`, in an empty folder; POLICY is one of `refresh_policy`.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median

from scenario import Contestant, Scenario, Step

# Each customer has so many orders; changes are to one customer of a hundred.
ORDERS_OF_EACH = 20
CHANGES = 5
_PIPELINE = """\
from headrace import pipelines as dp
from pyspark.sql import SparkSession

spark = SparkSession.active()


@dp.temporary_view
def orders():
    return spark.read.format("delta").load("{folder}/orders")


@dp.temporary_view
def customers():
    return spark.read.format("delta").load("{folder}/customers")


@dp.materialized_view(refresh_policy="{policy}")
def spending():
    return spark.sql(
        "SELECT customer, region, count(*) AS orders, sum(amount) AS amount, count(DISTINCT product) AS products, "
        "max(note) AS newest FROM orders JOIN customers USING (customer) GROUP BY customer, region"
    )
"""
_APPENDED, _UPDATED = "1 % more rows", "1 % of the rows updated"


def measured(policy: str, rows: int) -> dict[str, list[float]]:
    """The seconds of updates, by what changed before them."""
    from headrace import Project, spark_session  # noqa: PLC0415 - the runner imports this module too

    work, customers = Path.cwd(), rows // ORDERS_OF_EACH
    (work / "transformations").mkdir()
    (work / "pipeline.yml").write_text(
        "name: views\nconfiguration:\n  headrace.views.auto_refresh: cheaper\n", encoding="utf-8"
    )
    text = _PIPELINE.format(folder=work, policy=policy)
    (work / "transformations" / "spending.py").write_text(text, encoding="utf-8")
    spark = spark_session()

    def order(customer: str, first: int, number: int) -> object:
        return spark.range(first, first + number).selectExpr(
            "id",
            f"{customer} AS customer",
            "CAST(pmod(hash(id), 1000) AS INT) AS product",
            "CAST(pmod(hash(id, 1), 10000) / 100 AS DECIMAL(10, 2)) AS amount",
            "md5(CAST(id AS STRING)) AS note",
        )

    spark.range(customers).selectExpr("id AS customer", "concat('region ', id % 50) AS region").write.format(
        "delta"
    ).save(str(work / "customers"))
    order(f"pmod(hash(id, 2), {customers})", 0, rows).write.format("delta").save(str(work / "orders"))
    Project.open().run()
    found: dict[str, list[float]] = {_APPENDED: [], _UPDATED: []}
    for number in range(CHANGES):
        chosen = f"pmod(hash(id, 2), {max(customers // 100, 1)}) * 100 + {number}"
        first = rows + number * (rows // 100)
        order(chosen, first, rows // 100).write.format("delta").mode("append").save(str(work / "orders"))
        found[_APPENDED].append(_seconds(Project.open().run))
        where = f"customer % 100 = {50 + number}"
        spark.sql(f"UPDATE delta.`{work}/orders` SET amount = amount + 1 WHERE {where}").collect()
        found[_UPDATED].append(_seconds(Project.open().run))
    return found


def _seconds(update: Callable[[], object]) -> float:
    began = time.perf_counter()
    update()
    return time.perf_counter() - began


def _steps(policy: str) -> Callable[[Path, Path], Sequence[Step]]:
    def steps(_work: Path, data: Path) -> Sequence[Step]:
        rows = (data / "rows").read_text(encoding="utf-8")
        return (Step("", (sys.executable, __file__, policy, rows), cold=False),)

    return steps


def _make_data(folder: Path, rows: int) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "rows").write_text(str(rows), encoding="utf-8")


def _rows(work: Path) -> int:
    from deltalake import DeltaTable  # noqa: PLC0415 - measured processes import this module too

    return int(DeltaTable(str(work / "storage" / "tables" / "default" / "spending")).count())


SCENARIO = Scenario(
    about="a view of a join, refreshed after 1 % of its rows changed, in a warm session",
    rows=2_000_000,
    make_data=_make_data,
    expected_rows=lambda rows: rows // ORDERS_OF_EACH,
    contestants=tuple(
        Contestant(name, prepare=lambda _work, _data: None, steps=_steps(policy), rows=_rows)
        for name, policy in (("all rows", "full"), ("headrace", "auto"), ("groups", "incremental"))
    ),
)


if __name__ == "__main__":
    for what, seconds in measured(sys.argv[1], int(sys.argv[2])).items():
        print(f"measured {median(seconds)} {what}")
