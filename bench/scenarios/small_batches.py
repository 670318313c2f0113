"""Batches of a thousand rows into one Delta table: the duration of a batch, its variation, and its trend.

Run by hand with `python bench/scenarios/small_batches.py CONTESTANT BATCHES`, in an empty folder.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median, quantiles
from typing import Any

from by_hand import session
from deltalake import DeltaTable
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.listener import StreamingQueryListener
from scenario import Contestant, Scenario, Step

ROWS_A_BATCH = 1000
# The first batches load classes and compile; they do not count for any contestant.
WARM_UP = 20
BATCHES = 300
LONG = 2000
_SOURCE = """\
spark.readStream.format("rate-micro-batch").option("rowsPerBatch", {rows}).option("numPartitions", 1).load()
"""
_PIPELINE = """\
from headrace import pipelines as dp


@dp.table(spark_conf={{"pipelines.trigger.interval": "0 seconds"}})
def events():
    return {source}
"""
_HEADRACE, _DEFAULTS, _TUNED = "headrace", "by hand, Delta's defaults", "by hand, tuned"


class Durations(StreamingQueryListener):
    """The seconds of each batch with rows; calls *enough* after *wanted* of them."""

    def __init__(self, wanted: int, enough: Callable[[], None]) -> None:
        self.seconds: list[float] = []
        self._wanted = wanted
        self._enough = enough

    def onQueryStarted(self, event: Any) -> None:  # noqa: N802 - PySpark's name
        """Nothing."""

    def onQueryProgress(self, event: Any) -> None:  # noqa: N802 - PySpark's name
        """Record the duration."""
        if event.progress.numInputRows:
            self.seconds.append(event.progress.durationMs["triggerExecution"] / 1000)
        if len(self.seconds) >= self._wanted:
            self._enough()

    def onQueryIdle(self, event: Any) -> None:  # noqa: N802 - PySpark's name
        """Nothing."""

    def onQueryTerminated(self, event: Any) -> None:  # noqa: N802 - PySpark's name
        """Nothing."""


def _source(spark: SparkSession) -> DataFrame:
    reader = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", ROWS_A_BATCH)
    return reader.option("numPartitions", 1).load()


def by_hand(batches: int, *, tuned: bool) -> list[float]:
    """The query without Headrace: one query without a pause between batches."""
    spark = session(tuned=tuned)
    done = threading.Event()
    durations = Durations(batches + WARM_UP, done.set)
    spark.streams.addListener(durations)
    writer = _source(spark).writeStream.format("delta").trigger(processingTime="0 seconds")
    query = writer.option("checkpointLocation", "checkpoint").start("table")
    done.wait()
    query.stop()
    spark.stop()
    return durations.seconds


def headrace(batches: int) -> list[float]:
    """The same as a pipeline, in a continuous update."""
    from headrace import Project, spark_session  # noqa: PLC0415 - peers are measured without it

    work = Path.cwd()
    (work / "transformations").mkdir()
    (work / "pipeline.yml").write_text("name: small_batches\n", encoding="utf-8")
    text = _PIPELINE.format(source=_SOURCE.format(rows=ROWS_A_BATCH).strip())
    (work / "transformations" / "events.py").write_text(text, encoding="utf-8")
    stop = threading.Event()
    durations = Durations(batches + WARM_UP, stop.set)
    spark_session().streams.addListener(durations)
    Project.open().run(continuous=True, stop=stop)
    return durations.seconds


def report(seconds: Sequence[float]) -> None:
    """Print the measurements for the runner."""
    counted = seconds[WARM_UP:]
    middle = median(counted)
    print(f"measured {middle} median batch")
    print(f"measured {quantiles(counted, n=100)[98] / middle} p99 of the batches by their median")
    tenth = max(len(counted) // 10, 1)
    print(f"measured {median(counted[-tenth:]) / median(counted[:tenth])} last tenth by the first")


def _steps(name: str, batches: int) -> Callable[[Path, Path], Sequence[Step]]:
    command = (sys.executable, __file__, name, str(batches))
    return lambda _work, _data: (Step("", command, cold=False),)


def _contestant(name: str, table: str) -> Contestant:
    return Contestant(
        name,
        prepare=lambda _work, _data: None,
        steps=_steps(name, BATCHES),
        # Counts whole batches; the query may have run more than wanted before it stopped.
        rows=lambda work: DeltaTable(str(work / table)).count() % ROWS_A_BATCH,
    )


_OURS = "storage/tables/default/events"
SCENARIO = Scenario(
    about=f"{BATCHES} batches of {ROWS_A_BATCH:,} rows into one Delta table",
    rows=ROWS_A_BATCH,
    make_data=lambda _folder, _rows: None,
    expected_rows=lambda _rows: 0,
    contestants=(_contestant(_DEFAULTS, "table"), _contestant(_HEADRACE, _OURS), _contestant(_TUNED, "table")),
)


if __name__ == "__main__":
    who, number = sys.argv[1], int(sys.argv[2])
    report(headrace(number) if who == _HEADRACE else by_hand(number, tuned=who == _TUNED))
