"""Updates of a hundred new rows, some of which are quarantined, in a warm session: the duration of an update.

Run by hand with `python bench/scenarios/small_updates.py CONTESTANT UPDATES`, in an empty folder.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median

from by_hand import session
from pyspark.sql import DataFrame
from scenario import Contestant, Scenario, Step

ROWS_AN_UPDATE = 100
BAD = 5
# The first updates load classes and compile; they do not count for any contestant.
WARM_UP = 5
UPDATES = 10
_SCHEMA = "id BIGINT, amount DOUBLE, name STRING"
_PIPELINE = f"""\
from headrace import pipelines as dp
from pyspark.sql import SparkSession

spark = SparkSession.active()


@dp.table
@dp.expect_or_quarantine("positive", "amount > 0")
def good():
    return spark.readStream.schema("{_SCHEMA}").json("landing")
"""
_HEADRACE, _DEFAULTS, _TUNED = "headrace", "by hand, Delta's defaults", "by hand, tuned"


def land(number: int) -> None:
    """Write the new rows of an update."""
    first = number * ROWS_AN_UPDATE
    rows = (
        {"id": first + row, "amount": -1.0 if row < BAD else row * 1.5, "name": f"name {row}"}
        for row in range(ROWS_AN_UPDATE)
    )
    Path("landing").mkdir(exist_ok=True)
    Path("landing", f"{number}.json").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")


def timed(updates: int, update: Callable[[], object]) -> list[float]:
    """The seconds of each update, after the warm-up."""
    seconds = []
    for number in range(WARM_UP + updates):
        land(number)
        began = time.perf_counter()
        update()
        seconds.append(time.perf_counter() - began)
    return seconds[WARM_UP:]


def by_hand(updates: int, *, tuned: bool) -> list[float]:
    """A stream that splits each batch in ``foreachBatch``; each of its two appends has a transaction."""
    spark = session(tuned=tuned)

    def split(batch: DataFrame, batch_id: int) -> None:
        batch.persist()
        for path, condition in (("table", "amount > 0"), ("bad", "NOT coalesce(amount > 0, false)")):
            writer = batch.filter(condition).write.format("delta").mode("append")
            writer.options(txnAppId=path, txnVersion=str(batch_id)).save(path)
        batch.unpersist()

    def update() -> None:
        writer = spark.readStream.schema(_SCHEMA).json("landing").writeStream.foreachBatch(split)
        writer.option("checkpointLocation", "checkpoint").trigger(availableNow=True).start().awaitTermination()

    seconds = timed(updates, update)
    spark.stop()
    return seconds


def headrace(updates: int) -> list[float]:
    """The same as a pipeline, whose updates also plan, count and record."""
    from headrace import Project  # noqa: PLC0415 - peers are measured without it

    work = Path.cwd()
    (work / "transformations").mkdir()
    (work / "pipeline.yml").write_text("name: small_updates\n", encoding="utf-8")
    (work / "transformations" / "good.py").write_text(_PIPELINE, encoding="utf-8")
    return timed(updates, lambda: Project.open().run())


def _steps(name: str) -> Callable[[Path, Path], Sequence[Step]]:
    command = (sys.executable, __file__, name, str(UPDATES))
    return lambda _work, _data: (Step("", command, cold=False),)


def _rows(table: str) -> Callable[[Path], int]:
    from deltalake import DeltaTable  # noqa: PLC0415 - measured processes import this module too

    return lambda work: int(DeltaTable(str(work / table)).count())


SCENARIO = Scenario(
    about=f"{UPDATES} updates of {ROWS_AN_UPDATE} new rows, {BAD} of which are quarantined, in a warm session",
    rows=ROWS_AN_UPDATE,
    make_data=lambda _folder, _rows: None,
    expected_rows=lambda _rows: (WARM_UP + UPDATES) * (ROWS_AN_UPDATE - BAD),
    contestants=tuple(
        Contestant(name, prepare=lambda _work, _data: None, steps=_steps(name), rows=_rows(table))
        for name, table in ((_DEFAULTS, "table"), (_HEADRACE, "storage/tables/default/good"), (_TUNED, "table"))
    ),
)


if __name__ == "__main__":
    who, number = sys.argv[1], int(sys.argv[2])
    found = headrace(number) if who == _HEADRACE else by_hand(number, tuned=who == _TUNED)
    print(f"measured {median(found)} median update")
