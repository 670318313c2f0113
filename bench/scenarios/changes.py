"""Change events merged into a table: against the MERGE of common tutorials, and against a correct one.

Run by hand with `python bench/scenarios/changes.py CONTESTANT FOLDER_OF_THE_DATA`, in an empty folder.
"""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from by_hand import session
from deltalake import DeltaTable
from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F
from pyspark.sql.streaming.listener import StreamingQueryListener
from scenario import Contestant, Scenario, Step

BATCHES, EVENTS = 50, 20_000
INSERTED, DELETED, LATE = 0.10, 0.05, 0.05
SCHEMA = "id BIGINT, name STRING, city STRING, amount DOUBLE, updated_at BIGINT, operation STRING"
_LOADED = 1_000_000
_SHOWN, _CAREFUL, _ONE, _TWO = "MERGE as shown", "careful MERGE", "headrace, type 1", "headrace, type 2"
_PIPELINE = """\
from headrace import pipelines as dp


@dp.temporary_view
def events():
    return spark.readStream.schema({schema!r}).option("maxFilesPerTrigger", 1).parquet({landing!r})


dp.create_streaming_table("customers")
dp.create_auto_cdc_flow(
    target="customers",
    source="events",
    keys=["id"],
    sequence_by="updated_at",
    apply_as_deletes="operation = 'delete'",
    except_column_list=["operation"],
    stored_as_scd_type={scd_type},
)
"""


def make_data(folder: Path, rows: int) -> None:
    """Write a file with the initial rows, and one for each batch."""
    if (folder / "_READY").exists():
        return
    (folder / "batches").mkdir(parents=True, exist_ok=True)
    chance = np.random.default_rng(20260101)
    pq.write_table(_events(np.arange(rows), np.zeros(rows, np.int64), "insert", chance), folder / "first.parquet")
    # Each key is deleted by one batch at most, and nothing comes after that; no batch has two events of a key.
    live_ids, next_id = chance.permutation(rows), rows
    for number in range(BATCHES):
        at = (number + 1) * _LOADED + np.arange(EVENTS, dtype=np.int64)
        inserted, deleted, late = (int(EVENTS * share) for share in (INSERTED, DELETED, LATE))
        deleted_ids, live_ids = live_ids[:deleted], live_ids[deleted:]
        updated = chance.choice(live_ids, EVENTS - inserted - deleted, replace=False)
        at[:late] -= np.int64(_LOADED + _LOADED // 2)
        parts = [
            _events(updated, at[: len(updated)], "update", chance),
            _events(np.arange(next_id, next_id + inserted), at[len(updated) : -deleted], "insert", chance),
            _events(deleted_ids, at[-deleted:], "delete", chance),
        ]
        next_id += inserted
        file = folder / "batches" / f"batch-{number:03}.parquet"
        pq.write_table(pa.concat_tables(parts), file)
    (folder / "_READY").touch()


def _events(ids: Any, sequences: Any, operation: str, chance: np.random.Generator) -> pa.Table:
    count = len(ids)
    numbers = pa.array(chance.integers(0, 10**9, count)).cast(pa.string())
    return pa.table(
        {
            "id": pa.array(ids, pa.int64()),
            "name": numbers,
            "city": pa.array([f"city {n}" for n in range(500)]).take(pa.array(chance.integers(0, 500, count))),
            "amount": pa.array(np.round(chance.normal(50, 21.5, count), 2)),
            "updated_at": pa.array(sequences, pa.int64()),
            "operation": pa.array([operation] * count),
        }
    )


def expected_rows(rows: int) -> int:
    """The number of rows at the end."""
    return rows + BATCHES * int(EVENTS * INSERTED) - BATCHES * int(EVENTS * DELETED)


class Durations(StreamingQueryListener):
    """The seconds of each batch with rows."""

    def __init__(self) -> None:
        self.seconds: list[float] = []

    def onQueryStarted(self, event: Any) -> None:  # noqa: N802 - PySpark's name
        """Nothing."""

    def onQueryProgress(self, event: Any) -> None:  # noqa: N802 - PySpark's name
        """Record the duration."""
        if event.progress.numInputRows:
            self.seconds.append(event.progress.durationMs["triggerExecution"] / 1000)

    def onQueryIdle(self, event: Any) -> None:  # noqa: N802 - PySpark's name
        """Nothing."""

    def onQueryTerminated(self, event: Any) -> None:  # noqa: N802 - PySpark's name
        """Nothing."""


def shown(spark: SparkSession) -> Callable[[DataFrame, int], None]:
    """A tutorial-style upsert by key: the last event wins, and deletes stay as rows marked as deleted."""

    def merge(batch: DataFrame, _batch_id: int) -> None:
        source = batch._jdf.alias("s")  # noqa: SLF001 - Delta's Python wheel is not needed for this
        target = _delta_table(spark).merge(source, F.expr("t.id = s.id")._jc)  # noqa: SLF001 - the same
        target.whenMatched().updateAll().whenNotMatched().insertAll().execute()

    return merge


def careful(spark: SparkSession) -> Callable[[DataFrame, int], None]:
    """A correct upsert: takes the newest event of each key, never overwrites newer rows, and applies deletes."""

    def merge(batch: DataFrame, _batch_id: int) -> None:
        by_key = Window.partitionBy("id").orderBy(F.col("updated_at").desc())
        newest = batch.withColumn("n", F.row_number().over(by_key)).filter("n = 1").drop("n")
        target = _delta_table(spark).merge(newest._jdf.alias("s"), F.expr("t.id = s.id")._jc)  # noqa: SLF001
        newer = "s.updated_at > t.updated_at"
        target = target.whenMatched(f"{newer} AND s.operation = 'delete'").delete()
        target = target.whenMatched(newer).updateAll()
        target.whenNotMatched("s.operation <> 'delete'").insertAll().execute()

    return merge


def _delta_table(spark: SparkSession) -> Any:
    jvm: Any = spark._jvm  # noqa: SLF001 - the same
    return getattr(jvm.io.delta.tables.DeltaTable.forPath(spark._jsparkSession, str(Path.cwd() / "table")), "as")("t")  # noqa: SLF001


def by_hand(name: str, data: Path) -> None:
    """The query without Headrace; the initial rows are appended unchanged."""
    spark = session(tuned=name == _CAREFUL)
    durations = Durations()
    spark.streams.addListener(durations)
    spark.read.parquet(str(data / "first.parquet")).write.format("delta").save("table")
    before = DeltaTable("table").version()
    stream = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).parquet(str(data / "batches"))
    merge = (careful if name == _CAREFUL else shown)(spark)
    writer = stream.writeStream.foreachBatch(merge).trigger(availableNow=True)
    writer.option("checkpointLocation", "checkpoint").start().awaitTermination()
    spark.stop()
    report(durations.seconds, Path("table"), before, data)


def headrace(name: str, data: Path) -> None:
    """The same as a change flow, which also merged the initial rows."""
    from headrace import Project, spark_session  # noqa: PLC0415 - peers are measured without it

    landing = Path("landing").resolve()
    landing.mkdir()
    Path("transformations").mkdir()
    Path("pipeline.yml").write_text("name: changes\n", encoding="utf-8")
    text = _PIPELINE.format(schema=SCHEMA, landing=str(landing), scd_type=2 if name == _TWO else 1)
    Path("transformations/customers.py").write_text(text, encoding="utf-8")
    shutil.copy(data / "first.parquet", landing)
    Project.open().run()
    table = Path("storage/tables/default/customers")
    before = DeltaTable(str(table)).version()
    for file in sorted((data / "batches").iterdir()):
        shutil.copy(file, landing)
    durations = Durations()
    spark_session().streams.addListener(durations)
    Project.open().run()
    # Spark reports a batch with a delay.
    spark_session().stop()
    report(durations.seconds, table, before, data)


def report(seconds: list[float], table: Path, before: int, data: Path) -> None:
    """Print the measurements for the runner."""
    files = list((data / "batches").iterdir())
    if len(seconds) != len(files):
        raise ValueError(f"{len(seconds)} batches, not {len(files)}")
    print(f"measured {sum(seconds)} all batches")
    print(f"measured {median(seconds)} median batch")
    changed = sum(file.stat().st_size for file in files)
    print(f"measured {_written(table, before) / changed} bytes written by bytes of events")


def _written(table: Path, before: int) -> int:
    """The bytes of data files and deletion vectors added by commits after a version."""
    total = 0
    for commit in sorted((table / "_delta_log").glob("*.json")):
        if int(commit.stem) <= before:
            continue
        for line in commit.read_text(encoding="utf-8").splitlines():
            add = json.loads(line).get("add")
            if add:
                whole = not add.get("deletionVector")
                total += add["size"] if whole else add["deletionVector"]["sizeInBytes"]
    return total


def _rows(work: Path) -> int:
    """The current number of rows."""
    ours = work / "storage/tables/default/customers"
    table = ours if ours.exists() else work / "table"
    from deltalake import QueryBuilder  # noqa: PLC0415 - measured processes do without it

    found = DeltaTable(str(table))
    names = {field.name for field in found.schema().fields}
    where = "operation <> 'delete'" if "operation" in names else "TRUE"
    where = '"__END_AT" IS NULL' if "__END_AT" in names else where
    rows = QueryBuilder().register("t", found).execute(f"SELECT count(*) AS n FROM t WHERE {where}")
    return int(pa.table(rows.read_all()).column("n")[0].as_py())


def _contestant(name: str) -> Contestant:
    command = (sys.executable, __file__, name)
    return Contestant(
        name,
        prepare=lambda _work, _data: None,
        steps=lambda _work, data: (Step("", (*command, str(data)), cold=False),),
        rows=_rows,
    )


SCENARIO = Scenario(
    about=f"{BATCHES} batches of {EVENTS:,} change events into a table: updates, 10 % inserts, 5 % deletes, 5 % late",
    rows=5_000_000,
    make_data=make_data,
    expected_rows=expected_rows,
    contestants=tuple(map(_contestant, (_SHOWN, _ONE, _CAREFUL, _TWO))),
    base=_ONE,
)


if __name__ == "__main__":
    who, where = sys.argv[1], Path(sys.argv[2]).resolve()
    headrace(who, where) if who in {_ONE, _TWO} else by_hand(who, where)
