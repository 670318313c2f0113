"""What a project on S3 does besides plain updates, in one process: prints what it finds as JSON.

Args: the folder of the project, and the URL of the receiver of its sink, which is down at first.
"""

from __future__ import annotations

import json
import os
import sys
import traceback
from pathlib import Path

from headrace.errors import PipelineError, Problems
from headrace.model.erasure import Criterion, ErasureRequest
from headrace.plan.backfills import BackfillRequest, ReplayRequest
from headrace.project.open import Project
from headrace.settings.load import load_settings
from headrace.storage.spill_queue import waiting_batches
from headrace.stores.object_path import ObjectPath
from headrace.stores.paths import storage_path

ANN = "ann@x.example"
SETTINGS = "name: shop\nstorage: {storage}\nspark_conf:\n  spark.sql.shuffle.partitions: '2'\n"
RENAMES = "renames:\n  datasets:\n    orders: sales\n"
HEADER = """\
from headrace import pipelines as dp
from pyspark.sql import functions as F

COLUMNS = "email STRING, amount INT, n INT"
"""
CODE = (
    HEADER
    + """
@dp.table
@dp.expect_or_quarantine("paid", "amount > 0")
def orders():
    return spark.readStream.schema(COLUMNS).json("{landing}")


@dp.table(spark_conf={{"headrace.failing_rows": "quarantine"}})
def shares():
    rows = spark.readStream.schema(COLUMNS).json("{landing}")
    return rows.select("email", (F.lit(100) / F.col("amount")).alias("share"))


dp.create_streaming_table("customers")
dp.create_auto_cdc_flow(
    target="customers", source="orders", keys=["email"], sequence_by="n", stored_as_scd_type=2
)


@dp.materialized_view
def totals():
    return spark.read.table("orders").groupBy("email").agg(F.sum("amount").alias("amount"))


dp.create_sink("out", "http", {{"url": "{url}", "maxAttempts": "1", "fallback": "storage"}})


@dp.append_flow(target="out")
def deliver():
    return spark.readStream.table("orders").select("email", "n")
"""
)
LATE = """

@dp.table
def late():
    return spark.readStream.schema(COLUMNS).json("{landing}")
"""


class Shop:
    """The project, and what it finds."""

    def __init__(self, folder: Path, url: str, storage: str) -> None:
        self.folder, self.storage = folder, storage
        self.values = {"landing": str(folder / "landing"), "url": url}
        self.code = CODE
        self.settings_text = SETTINGS.format(storage=storage)
        for name in ("landing", "transformations"):
            (folder / name).mkdir(parents=True)
        self.write()

    def write(self) -> None:
        (self.folder / "pipeline.yml").write_text(self.settings_text, encoding="utf-8")
        text = self.code.format(**self.values)
        (self.folder / "transformations" / "shop.py").write_text(text, encoding="utf-8")

    def land(self, name: str, *rows: tuple[str, int, int]) -> None:
        lines = [json.dumps(dict(zip(("email", "amount", "n"), row, strict=True))) for row in rows]
        (self.folder / "landing" / f"{name}.json").write_text("\n".join(lines), encoding="utf-8")

    @property
    def project(self) -> Project:
        return Project(load_settings(self.folder / "pipeline.yml", environ=os.environ), os.environ)

    def run(self) -> str:
        outcome = self.project.run()
        error = outcome.error or {}
        return f"{outcome.state.value} {error.get('code', '')}".strip()

    def rows(self, query: str) -> list[list[object]]:
        return [list(row) for row in self.project.sql(query).rows]

    def waiting(self) -> int:
        flow = storage_path(f"{self.storage}/checkpoints/default/out/deliver")
        return sum(map(len, waiting_batches(flow, "out").values()))

    def texts_of(self, text: str) -> list[str]:
        """The objects that still have a text: logs as they are, and Parquet files by their decoded rows."""
        import pyarrow.parquet as pq  # noqa: PLC0415 - of this question alone

        from headrace.stores.paths import readable_file  # noqa: PLC0415 - the same

        found = []
        for file in filter(ObjectPath.is_file, storage_path(self.storage).rglob("*")):
            is_rows = file.suffix == ".parquet"
            content = (
                str(pq.read_table(readable_file(file)).to_pylist())
                if is_rows
                else file.read_bytes().decode("utf-8", "replace")
            )
            if text in content:
                found.append(str(file))
        return found


def steps(shop: Shop, up: str):
    shop.land("a", (ANN, 10, 1), ("bob", 5, 2), ("cai", 0, 3))
    yield "down", [shop.run(), shop.waiting()]
    Path(up).touch()
    yield "up", [shop.run(), shop.waiting()]
    yield "quarantine", shop.rows("SELECT row.email, status FROM orders_quarantine")
    yield "dead letters", shop.rows("SELECT email FROM shares ORDER BY email")

    yield "released", [shop.project.replay(ReplayRequest("orders", applies_rules=False)).state.value]
    yield "orders", shop.rows("SELECT email FROM orders ORDER BY n")
    shop.code = shop.code.replace('F.lit(100) / F.col("amount")', 'F.lit(100) / F.greatest("amount", F.lit(1))')
    shop.write()
    yield "replayed", [shop.project.replay(ReplayRequest("shares")).state.value]
    yield "shares", shop.rows("SELECT email, share FROM shares ORDER BY email")

    shop.code += LATE
    shop.write()
    yield "backfilled", [shop.project.backfill(BackfillRequest("late")).state.value]
    shop.land("b", (ANN, 20, 4), ("dan", 7, 5))
    yield "after backfill", [shop.run()]
    yield "late", shop.rows("SELECT email FROM late ORDER BY n")

    request = ErasureRequest((Criterion(("email",), ANN),))
    found = shop.project.erasures.erase(request)
    yield "erased", [found.is_done]
    yield "left", shop.texts_of(ANN)
    shop.land("c", ("eve", 9, 6))
    yield "after erasure", [shop.run()]

    shop.code = shop.code.replace("def orders():", "def sales():").replace('"orders"', '"sales"')
    shop.settings_text += RENAMES
    shop.write()
    yield "renamed", [shop.run()]
    shop.land("d", ("fay", 3, 7))
    yield "after rename", [shop.run()]
    for table in ("sales", "customers", "late", "totals"):
        yield (
            f"{table}{' after rename' if table == 'late' else ''}",
            shop.rows(f"SELECT email FROM {table} ORDER BY email"),
        )
    left = [
        file
        for file in storage_path(shop.storage).rglob("*")
        if (file.is_file() and "/orders" in str(file)) or "/moves/" in str(file)
    ]
    yield "left of old name", [str(file) for file in left]


def main() -> None:
    """Do all steps; an error is the result of its step, and the last one."""
    folder, url, storage, up = sys.argv[1:]
    shop, found = Shop(Path(folder), url, storage), {}
    try:
        for name, value in steps(shop, up):
            found[name] = value
            sys.stderr.write(f"{name}: {value}\n")
    except (PipelineError, Problems, Exception) as error:  # noqa: BLE001 - it is printed
        traceback.print_exc()
        found["error"] = str(error)
    sys.stdout.write(json.dumps(found))


if __name__ == "__main__":
    main()
