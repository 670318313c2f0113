"""One stream into three Delta tables: a flow with three sinks, against foreachBatch by hand.

Run by hand with `python bench/scenarios/three_sinks.py CONTESTANT FOLDER_OF_THE_DATA`, in an empty folder.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from by_hand import session
from data import SCHEMA, write_events
from pyspark.sql import DataFrame
from scenario import Contestant, Scenario, Step, program, rows_of_each

_SINKS = ("lake", "audit", "search")
_TUNED, _DEFAULTS, _OURS = "by hand, tuned", "by hand", "headrace"
_PIPELINE = """\
from headrace import pipelines as dp

for name in {sinks!r}:
    dp.create_sink(name, "delta", {{"path": name}})


@dp.append_flow(target={sinks!r})
def events():
    return spark.readStream.schema({schema!r}).option("maxFilesPerTrigger", 1).json({data!r})
"""


def _by_hand(data: str, *, tuned: bool) -> None:
    """The query without Headrace: one computation, and three idempotent writes that skip a repeated batch."""
    spark = session(tuned=tuned)

    def write(batch: DataFrame, batch_id: int) -> None:
        rows = batch.persist()
        for name in _SINKS:
            writer = rows.write.format("delta").mode("append")
            writer.option("txnAppId", f"events {name}").option("txnVersion", batch_id).save(f"tables/{name}")
        rows.unpersist()

    stream = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).json(data)
    query = stream.writeStream.foreachBatch(write).option("checkpointLocation", "checkpoint")
    query.trigger(availableNow=True).start().awaitTermination()
    spark.stop()


def _prepare(work: Path, data: Path) -> None:
    (work / "transformations").mkdir(parents=True)
    (work / "pipeline.yml").write_text("name: sinks\n", encoding="utf-8")
    text = _PIPELINE.format(sinks=list(_SINKS), schema=SCHEMA, data=str(data))
    (work / "transformations" / "events.py").write_text(text, encoding="utf-8")


def _nothing(_work: Path, _data: Path) -> None:
    """Prepare nothing: the program contains everything."""


def _hand(name: str) -> Contestant:
    def steps(_work: Path, data: Path) -> Sequence[Step]:
        return (Step("all batches, cold", (sys.executable, __file__, name, str(data))),)

    def rows(work: Path) -> int:
        return rows_of_each(work / "tables" / sink for sink in _SINKS)

    return Contestant(name, _nothing, steps, rows)


def _ours() -> Contestant:
    def steps(_work: Path, _data: Path) -> Sequence[Step]:
        return (Step("all batches, cold", (program("headrace"), "run", "--quiet")),)

    def rows(work: Path) -> int:
        return rows_of_each(work / sink for sink in _SINKS)

    return Contestant(_OURS, _prepare, steps, rows)


SCENARIO = Scenario(
    about="one JSON stream, one file per batch, into three Delta tables",
    rows=2_000_000,
    make_data=write_events,
    expected_rows=lambda rows: rows,
    contestants=(_hand(_TUNED), _hand(_DEFAULTS), _ours()),
    base=_TUNED,
)

if __name__ == "__main__":
    _by_hand(sys.argv[2], tuned=sys.argv[1] == _TUNED)
