"""Plain Structured Streaming jobs, as people have them before they adopt their tables, stopped at any moment."""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headrace.checkpoints.offsets import newest_batches

SCHEMA = "id LONG, n LONG, at TIMESTAMP"


def append(session, source):
    """The rows as they are."""
    del session
    return source


def totals(session, source):
    """A sum for each id, in complete mode."""
    from pyspark.sql import functions as F  # noqa: PLC0415 - with Spark, for tests that need it

    del session
    return source.groupBy("id").agg(F.sum("n").alias("n"))


def distinct(session, source):
    """Each id once, while the watermark allows."""
    del session
    return source.withWatermark("at", "10 minutes").dropDuplicates(["id"])


@dataclass
class Job:
    """A job that reads JSON files of a folder, or a Delta table, and writes a Delta table.

    Attributes:
        session: a Spark session.
        folder: of its input, its table and its checkpoint.
        query: from the session and the source to the rows.
        mode: its output mode.
        with_function: it writes with a function of foreachBatch.
        reads_delta: it reads the Delta table ``raw`` in place of files.
    """

    session: Any
    folder: Path
    query: Any = append
    mode: str = "append"
    with_function: bool = False
    reads_delta: bool = False

    @property
    def table(self) -> Path:
        return self.folder / "orders"

    @property
    def checkpoint(self) -> Path:
        return self.folder / "checkpoint"

    def add(self, number, *rows):
        """New input: one file, or one commit."""
        events = [{"id": key, "n": n, "at": f"2026-01-01T00:{n % 60:02}:00"} for key, n in rows]
        if self.reads_delta:
            frame = self.session.createDataFrame([tuple(e.values()) for e in events], "id LONG, n LONG, at STRING")
            frame.selectExpr("id", "n", "CAST(at AS TIMESTAMP) AS at").write.format("delta").mode("append").save(
                str(self.folder / "raw")
            )
            return
        landing = self.folder / "landing"
        landing.mkdir(parents=True, exist_ok=True)
        draft = self.folder / f"{number}.json"
        draft.write_text("".join(f"{json.dumps(event)}\n" for event in events))
        draft.rename(landing / draft.name)

    def run(self, checkpoint: Path | None = None):
        """Process everything that is there, each file or commit in a batch of its own."""
        reader = self.session.readStream
        if self.reads_delta:
            source = reader.format("delta").option("maxFilesPerTrigger", 1).load(str(self.folder / "raw"))
        else:
            source = reader.schema(SCHEMA).option("maxFilesPerTrigger", 1).json(str(self.folder / "landing"))
        writer = self.query(self.session, source).writeStream.outputMode(self.mode).trigger(availableNow=True)
        writer = writer.option("checkpointLocation", str(checkpoint or self.checkpoint))
        if self.with_function:
            query = writer.foreachBatch(self._write).start()
        else:
            query = writer.format("delta").start(str(self.table))
        query.awaitTermination()

    def _write(self, rows, batch_id):
        del batch_id
        mode = "overwrite" if self.mode == "complete" else "append"
        rows.write.format("delta").mode(mode).save(str(self.table))

    @property
    def newest(self):
        """The newest planned batch, and the newest completed one."""
        return newest_batches(self.checkpoint)

    def stop_before_done(self):
        """As if the job had died after the commit to the table, before it noted the batch."""
        planned, _ = self.newest
        for name in (str(planned), f".{planned}.crc"):
            (self.checkpoint / "commits" / name).unlink(missing_ok=True)

    def stop_before_write(self, number, *rows):
        """As if the job had died between planning a batch of new input and writing it."""
        kept = self.folder / "kept"
        shutil.copytree(self.table, kept)
        self.add(number, *rows)
        self.run()
        self.stop_before_done()
        shutil.rmtree(self.table)
        kept.rename(self.table)
