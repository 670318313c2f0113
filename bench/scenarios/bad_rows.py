"""A stream that casts text to numbers, over valid input, and over input with one invalid text in 100,000.

The query fails on such a row; Headrace finds and quarantines it, and the batch continues without it.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from data import SCHEMA, write_events
from deltalake import DeltaTable
from scenario import Contestant, Scenario, Step, program

_ROWS_OF_A_BAD_ONE = 100_000
_PIPELINE = """\
from headrace import pipelines as dp
from pyspark.sql import functions as F


@dp.table(spark_conf={{"headrace.failing_rows": {action!r}}})
def events():
    lines = spark.readStream.schema({schema!r}).option("maxFilesPerTrigger", 1).json({data!r})
    return lines.withColumn("number", F.expr("CAST(substring(note, 2) AS BIGINT)"))
"""


def _make_data(folder: Path, rows: int) -> None:
    """Write the events unchanged, and again with some bad rows."""
    good, bad = folder / "good", folder / "bad"
    write_events(good, rows)
    if (bad / "_READY").exists():
        return
    bad.mkdir(parents=True, exist_ok=True)
    row = 0
    for file in sorted(good.glob("*.json")):
        lines = file.read_text(encoding="utf-8").splitlines()
        for number in range(-row % _ROWS_OF_A_BAD_ONE, len(lines), _ROWS_OF_A_BAD_ONE):
            lines[number] = lines[number].replace('"note":"n', '"note":"no ')
        row += len(lines)
        (bad / file.name).write_text("\n".join(lines) + "\n", encoding="utf-8")
    (bad / "_READY").touch()


def _contestant(name: str, data_name: str, action: str) -> Contestant:
    def prepare(work: Path, data: Path) -> None:
        (work / "transformations").mkdir(parents=True)
        (work / "pipeline.yml").write_text("name: events\n", encoding="utf-8")
        text = _PIPELINE.format(action=action, schema=SCHEMA, data=str(data / data_name))
        (work / "transformations" / "events.py").write_text(text, encoding="utf-8")

    def steps(_work: Path, _data: Path) -> Sequence[Step]:
        return (Step("all batches, cold", (program("headrace"), "run", "--quiet")),)

    def rows(work: Path) -> int:
        """The rows in the table plus the quarantined rows."""
        places = (
            work / "storage" / "tables" / "default" / "events",
            work / "storage" / "checkpoints" / "default" / "events" / "events" / "failing_rows",
        )
        return sum(DeltaTable(place).to_pyarrow_dataset().count_rows() for place in places if place.exists())

    return Contestant(name, prepare, steps, rows)


SCENARIO = Scenario(
    about="a JSON stream, one file per batch, with and without rows that fail in the query",
    rows=2_000_000,
    make_data=_make_data,
    expected_rows=lambda rows: rows,
    contestants=(
        _contestant("no bad row, fail", "good", "fail"),
        _contestant("no bad row", "good", "quarantine"),
        _contestant("one in 100,000", "bad", "quarantine"),
    ),
    base="no bad row",
)
