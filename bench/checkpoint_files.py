"""The cost of a batch with each of Spark's two checkpoint file managers: `python bench/checkpoint_files.py`.

Forty batches of one row, into a Delta table and, with state, into no sink; both managers in turns, the first again
last. Prints milliseconds per batch.
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

from pyspark.sql import SparkSession

from headrace.spark.startup.open_session import open_session

BATCHES, TURNS = 40, 4
WAYS = ("FileContextBasedCheckpointFileManager", "FileSystemBasedCheckpointFileManager")


def batch_ms(session: SparkSession, folder: Path, way: str, *, state: bool) -> float:
    """Mean milliseconds per batch of a new stream."""
    key = "spark.sql.streaming.checkpointFileManagerClass"
    session.conf.set(key, f"org.apache.spark.sql.execution.streaming.checkpointing.{way}")
    rows = session.readStream.schema("k INT").option("maxFilesPerTrigger", 1).json(str(folder / "landing"))
    place = folder / f"{time.monotonic_ns()}"
    writer = (rows.groupBy("k").count() if state else rows).writeStream.outputMode("update" if state else "append")
    writer = writer.format("noop") if state else writer.format("delta").option("path", str(place / "table"))
    began = time.monotonic()
    query = writer.option("checkpointLocation", str(place / "checkpoint")).trigger(availableNow=True).start()
    query.awaitTermination()
    return (time.monotonic() - began) / BATCHES * 1000


def main() -> None:
    """Measure and print."""
    with TemporaryDirectory() as text:
        folder = Path(text)
        (folder / "landing").mkdir()
        for number in range(BATCHES):
            (folder / "landing" / f"{number:02}.json").write_text(f'{{"k": {number}}}\n')
        confs = {"spark.master": "local[2]"}
        session = open_session(name="files", connectors=(), confs=confs, log_folder=folder, environ=os.environ)
        for state in (False, True):
            for way in WAYS:
                batch_ms(session, folder, way, state=state)
            found: dict[str, list[float]] = {way: [] for way in WAYS}
            for way in (*WAYS * TURNS, WAYS[0]):
                found[way].append(batch_ms(session, folder, way, state=state))
            for way, times in found.items():
                print(
                    f"{'state' if state else 'table'}  {way}  {median(times):.0f}  of {[round(one) for one in times]}"
                )
        session.stop()


if __name__ == "__main__":
    main()
