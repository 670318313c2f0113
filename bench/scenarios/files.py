"""JSON, CSV and Parquet into Delta: Auto Loader, with and without a rescued data column, and Spark's source.

Run by hand with `python bench/scenarios/files.py READER FORM FOLDER`, in an empty folder. Each process is warm before
it is measured: it has loaded the same data once, so that what is measured is the reading and not Java's compiler.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.csv as pcsv
import pyarrow.json as pj
import pyarrow.parquet as pq
from data import SCHEMA, write_events
from scenario import Contestant, Scenario, Step, rows_of_each

# How often the events repeat in the files of each format, for about 300 MB per format.
COPIES = {"json": 4, "csv": 9, "parquet": 20, "text": 4}
_ARROW_SCHEMA = pa.schema(
    {"id": pa.int64(), "device": pa.int32(), "kind": pa.string(), "amount": pa.float64(), "note": pa.string()}
)
# How Auto Loader reads JSON by default, without type inference.
_TEXTS = "id STRING, device STRING, kind STRING, amount STRING, note STRING"
_NATIVE, _RESCUED, _PLAIN = "Spark's file source", "Auto Loader, rescue on", "Auto Loader, rescue off"
_READERS = {"native": _NATIVE, "rescued": _RESCUED, "plain": _PLAIN}
_WARM_ROWS = 20_000


def make_data(folder: Path, rows: int) -> None:
    """Write the events in each format, and a small part of them."""
    for size, count in (("whole", rows), ("warm", _WARM_ROWS)):
        write_events(folder / size / "events", count)
        for form in ("json", "csv", "parquet"):
            _convert(folder / size / "events", folder / size / form, form)


def _convert(source: Path, target: Path, form: str) -> None:
    if (target / "_READY").exists():
        return
    target.mkdir(exist_ok=True)
    for file in sorted(source.glob("*.json")):
        made = target / f"{file.stem}.{form}"
        if form == "json":
            made.write_bytes(file.read_bytes() * COPIES[form])
            continue
        columns = pa.concat_tables([pj.read_json(file).cast(_ARROW_SCHEMA)] * COPIES[form])
        if form == "csv":
            pcsv.write_csv(columns, made, pcsv.WriteOptions(quoting_style="none"))
        else:
            pq.write_table(columns, made)
    (target / "_READY").touch()


def load(reader: str, form: str, data: Path) -> float:
    """Seconds to load everything into a new table, in a warm session."""
    from headrace import spark_session  # noqa: PLC0415 - only measuring processes need it

    spark = spark_session()
    schema = _TEXTS if form == "text" else SCHEMA
    kind = "json" if form == "text" else form
    seconds = 0.0
    for size in ("warm", "whole", "whole"):
        if reader == "native":
            stream = spark.readStream.format(kind).option("maxFilesPerTrigger", 1000)
        else:
            stream = spark.readStream.format("cloudFiles").option("cloudFiles.format", kind)
            if reader == "rescued":
                stream = stream.option("rescuedDataColumn", "_rescued_data")
        if form == "csv":
            stream = stream.option("header", "true")
        frame = stream.schema(schema).load(str(data / size / kind))
        target = f"{form}/{size}-{time.monotonic_ns()}"
        began = time.perf_counter()
        writer = frame.writeStream.format("delta").option("checkpointLocation", f"checkpoints/{target}")
        writer.trigger(availableNow=True).start(f"tables/{target}").awaitTermination()
        seconds = time.perf_counter() - began
    spark.stop()
    return seconds


def _contestant(reader: str, name: str) -> Contestant:
    def prepare(_work: Path, _data: Path) -> None:
        """Nothing."""

    def steps(_work: Path, data: Path) -> Sequence[Step]:
        run = (sys.executable, str(Path(__file__).resolve()), reader)
        labels = {"json": "JSON", "csv": "CSV", "parquet": "Parquet", "text": "JSON, all columns text"}
        return tuple(Step(f"{labels[form]}, warm", (*run, form, str(data)), cold=False) for form in COPIES)

    def rows(work: Path) -> int:
        counts = {rows_of_each(form.glob("whole-*")) / COPIES[form.name] for form in (work / "tables").iterdir()}
        if len(counts) != 1:
            raise ValueError(f"tables of the same events have {sorted(counts)} times their rows")
        return int(counts.pop())

    return Contestant(name, prepare, steps, rows)


SCENARIO = Scenario(
    about="JSON, CSV and Parquet files, 300 MB each, into a new Delta table, after a warm-up",
    rows=1_000_000,
    make_data=make_data,
    expected_rows=lambda rows: rows,
    contestants=tuple(_contestant(reader, name) for reader, name in _READERS.items()),
    base=_NATIVE,
)

if __name__ == "__main__":
    print(f"measured {load(sys.argv[1], sys.argv[2], Path(sys.argv[3])):.3f}")
