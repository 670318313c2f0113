"""One bronze table over JSON files and nine streaming tables that read it: the first update, and one without new data.

Run by hand with `python bench/scenarios/ten_tables.py DATA default|tuned`, in an empty folder: the work of a peer.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from pathlib import Path

import sdp
from by_hand import session
from data import KINDS, SCHEMA, write_events
from deltalake import DeltaTable
from pyspark.sql import DataFrame
from pyspark.sql.streaming.query import StreamingQuery
from scenario import Contestant, Scenario, Step, program

FIRST = "first update, cold"
NOTHING = "nothing new, cold"
WARM = "nothing new, warm session"
_WARM_UPDATES = 5
_BRONZE = """\
from {module} import pipelines as dp
from pyspark.sql import SparkSession

spark = SparkSession.active()


@dp.table
def bronze():
    return spark.readStream.schema({schema!r}).json({data!r})

"""
_SILVER = """
@dp.table
def silver_{kind}():
    return spark.readStream.table("bronze").where("kind = '{kind}'").selectExpr("id", "device", "amount * 2 AS twice")

"""


def _pipeline(module: str, data: Path) -> str:
    head = _BRONZE.format(module=module, schema=SCHEMA, data=str(data))
    return head + "".join(_SILVER.format(kind=kind) for kind in KINDS)


def _headrace_project(work: Path, data: Path) -> None:
    (work / "transformations").mkdir()
    (work / "pipeline.yml").write_text("name: ten_tables\n", encoding="utf-8")
    (work / "transformations" / "tables.py").write_text(_pipeline("headrace", data), encoding="utf-8")


def _headrace_steps(_work: Path, _data: Path) -> Sequence[Step]:
    run = (program("headrace"), "run", "--quiet")
    return (Step(FIRST, run), Step(NOTHING, run), Step(WARM, (sys.executable, __file__, "warm"), cold=False))


def _peer_steps(how: str, data: Path) -> Sequence[Step]:
    run = (sys.executable, __file__, str(data), how)
    return (Step(FIRST, run), Step(NOTHING, run))


def _delta_rows(tables: Path) -> int:
    return sum(DeltaTable(str(log.parent)).count() for log in tables.glob("**/_delta_log"))


def _peer(name: str, how: str) -> Contestant:
    return Contestant(
        name,
        prepare=lambda _work, _data: None,
        steps=lambda _work, data: _peer_steps(how, data),
        rows=lambda work: _delta_rows(work / "tables"),
    )


def _sdp_project(work: Path, data: Path) -> None:
    (work / "transformations").mkdir()
    (work / sdp.SETTINGS_FILE).write_text(sdp.settings("ten_tables", work), encoding="utf-8")
    (work / "transformations" / "tables.py").write_text(_pipeline("pyspark", data), encoding="utf-8")


def _sdp_steps(_work: Path, _data: Path) -> Sequence[Step]:
    return (Step(FIRST, sdp.RUN), Step(NOTHING, sdp.RUN))


SCENARIO = Scenario(
    about="one bronze table over JSON, and nine streaming tables that read it",
    rows=2_000_000,
    make_data=write_events,
    # Every row is in bronze, and in the silver table of its kind.
    expected_rows=lambda rows: 2 * rows,
    contestants=(
        _peer("by hand, Delta's defaults", "default"),
        Contestant(
            "headrace", _headrace_project, _headrace_steps, lambda work: _delta_rows(work / "storage" / "tables")
        ),
        _peer("by hand, tuned", "tuned"),
        Contestant("Spark's own pipelines (Parquet)", _sdp_project, _sdp_steps, sdp.rows, sdp.absent),
    ),
)


def by_hand(data: str, *, tuned: bool) -> None:
    """The queries without Headrace: bronze, and once it is done nine queries at once."""
    spark = session(tuned=tuned)
    tables = Path.cwd() / "tables"

    def started(frame: DataFrame, name: str) -> StreamingQuery:
        writer = frame.writeStream.format("delta").trigger(availableNow=True)
        return writer.option("checkpointLocation", str(Path.cwd() / "checkpoints" / name)).start(str(tables / name))

    started(spark.readStream.schema(SCHEMA).json(data), "bronze").awaitTermination()
    bronze = spark.readStream.format("delta").load(str(tables / "bronze"))
    queries = [
        started(bronze.where(f"kind = '{kind}'").selectExpr("id", "device", "amount * 2 AS twice"), f"silver_{kind}")
        for kind in KINDS
    ]
    for query in queries:
        query.awaitTermination()
    spark.stop()


def warm() -> None:
    """Run updates without new data in one session; the first one, which starts the JVM, does not count."""
    from headrace import Project  # noqa: PLC0415 - peers are measured without it

    project = Project.open()
    project.run()
    for _ in range(_WARM_UPDATES):
        began = time.perf_counter()
        project.run()
        print(f"measured {time.perf_counter() - began}")


if __name__ == "__main__":
    if sys.argv[1] == "warm":
        warm()
    else:
        by_hand(sys.argv[1], tuned=sys.argv[2] == "tuned")
