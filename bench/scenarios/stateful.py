"""Streams with state: an aggregate, deduplication and a join of two streams, against the same queries by hand.

Run by hand with `python bench/scenarios/stateful.py CONTESTANT FOLDER_OF_THE_DATA`, in an empty folder.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from pathlib import Path

from by_hand import session
from data import SCHEMA, write_events
from deltalake import DeltaTable
from pyspark.sql import DataFrame
from scenario import Contestant, Scenario, Step

from headrace import Project

# Spark keeps state in memory by default; Headrace uses RocksDB, so one contestant by hand uses it too.
_TUNED, _ROCKSDB, _OURS = "by hand, tuned", "by hand, tuned, RocksDB", "headrace"
_STORES = {
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    ),
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
    "spark.sql.streaming.stateStore.rocksdb.trackTotalNumberOfRows": "false",
}
_QUERIES = ("totals", "once", "pairs")
# Each event has its own second, so that the watermark advances and closes results.
_PIPELINE = """\
from pyspark.sql import functions as F

from headrace import pipelines as dp


def events(what, most=1):
    rows = spark.readStream.schema({schema!r}).option("maxFilesPerTrigger", most).json({data!r})
    return rows.selectExpr("*", "timestamp_seconds(1767225600 + id div 100) AS at").withWatermark("at", "1 minute")


@dp.table
def warm():
    return events("warm", 8).groupBy(F.window("at", "1 hour")).count().selectExpr("window.start AS hour", "count")


@dp.table
def totals():
    windows = events("totals").groupBy(F.window("at", "1 minute"), "device")
    return windows.agg(F.count("*").alias("n"), F.sum("amount").alias("amount")).selectExpr(
        "window.start AS minute", "device", "n", "amount"
    )


@dp.table
def once():
    return events("once").dropDuplicatesWithinWatermark(["id"])


@dp.table
def pairs():
    left = events("left").where("kind = 'start'")
    right = events("right").where("kind = 'stop'").selectExpr("device AS other", "at AS stopped_at", "id AS stop")
    on = "device = other AND stopped_at BETWEEN at AND at + INTERVAL 10 SECONDS"
    return left.join(right, F.expr(on)).select("id", "stop", "at", "stopped_at")
"""


def _definitions(data: str) -> dict[str, DataFrame]:
    """The same queries without Headrace: calls the functions directly."""
    from pyspark.sql import SparkSession  # noqa: PLC0415 - only this process needs it

    class Plain:
        @staticmethod
        def table(function: object) -> object:
            return function

    text = _PIPELINE.format(schema=SCHEMA, data=data).replace("from headrace import pipelines as dp", "")
    names = {"dp": Plain, "spark": SparkSession.active()}
    exec(text, names)
    return {name: names[name]() for name in ("warm", *_QUERIES)}  # type: ignore[operator]


def _by_hand(contestant: str, data: str) -> None:
    spark = session(tuned=True)
    for key, value in _STORES.items() if contestant == _ROCKSDB else ():
        spark.conf.set(key, value)
    for name, rows in _definitions(data).items():
        began = time.monotonic()
        writer = rows.writeStream.format("delta").option("checkpointLocation", f"checkpoints/{name}")
        writer.trigger(availableNow=True).start(f"tables/{name}").awaitTermination()
        _print_seconds(name, began)
    spark.stop()


def _ours() -> None:
    project = Project.open(Path.cwd())
    for name in ("warm", *_QUERIES):
        began = time.monotonic()
        outcome = project.run(refresh=[name])
        if outcome.error is not None:
            raise SystemExit(str(outcome.error))
        _print_seconds(name, began)


def _print_seconds(name: str, began: float) -> None:
    if name != "warm":
        print(f"measured {time.monotonic() - began} {name}")


def _prepare(work: Path, data: Path) -> None:
    (work / "transformations").mkdir(parents=True)
    (work / "pipeline.yml").write_text("name: stateful\n", encoding="utf-8")
    text = _PIPELINE.format(schema=SCHEMA, data=str(data))
    (work / "transformations" / "events.py").write_text(text, encoding="utf-8")


def _contestant(name: str, tables: str, prepare: bool) -> Contestant:  # noqa: FBT001 - two of them
    def steps(_work: Path, data: Path) -> Sequence[Step]:
        return (Step("", (sys.executable, __file__, name, str(data)), cold=False),)

    def rows(work: Path) -> int:
        return int(DeltaTable(str(work / tables / "once")).count())

    return Contestant(name, _prepare if prepare else lambda _work, _data: None, steps, rows)


SCENARIO = Scenario(
    about="an aggregation, a deduplication and a join of two JSON streams, eight batches each, into Delta",
    rows=1_000_000,
    make_data=write_events,
    expected_rows=lambda rows: rows,
    contestants=(
        _contestant(_ROCKSDB, "tables", prepare=False),
        _contestant(_TUNED, "tables", prepare=False),
        _contestant(_OURS, "storage/tables/default", prepare=True),
    ),
    base=_OURS,
)

if __name__ == "__main__":
    _ours() if sys.argv[1] == _OURS else _by_hand(sys.argv[1], sys.argv[2])
