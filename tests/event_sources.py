"""Sources of the same events: files that Auto Loader reads, a topic of Kafka, a Delta table of somebody else."""

from __future__ import annotations

import json
from dataclasses import dataclass
from itertools import count
from typing import Any

import pyarrow as pa
from deltalake import write_deltalake

# Each one defines `events()`, a stream, and `all_events()`, its rows as a batch.
FILES = """
    from pathlib import Path

    HERE = Path(__file__).parents[1]
    EVENTS = "id LONG, n LONG, at TIMESTAMP"

    def events():
        files = spark.readStream.format("cloudFiles").option("cloudFiles.format", "json")
        return files.schema(EVENTS).load(str(HERE / "landing"))

    def all_events():
        return spark.read.schema(EVENTS).json(str(HERE / "landing"))
"""
KAFKA = """
    OPTIONS = {options!r}

    def parsed(topic):
        event = F.from_json(F.col("value").cast("string"), "id LONG, n LONG, at TIMESTAMP")
        return topic.select(event.alias("event")).select("event.*")

    def events():
        return parsed(spark.readStream.format("kafka").options(startingOffsets="earliest", **OPTIONS).load())

    def all_events():
        return parsed(spark.read.format("kafka").options(**OPTIONS).load())
"""
DELTA = """
    def typed(rows):
        return rows.withColumn("at", F.col("at").cast("timestamp"))

    def events():
        return typed(spark.readStream.format("delta").load({path!r}))

    def all_events():
        return typed(spark.read.format("delta").load({path!r}))
"""
KINDS = ("files", "kafka", "delta")
_PARTITIONS = 2


@dataclass
class EventSource:
    """Where events come from.

    Attributes:
        code: defines the functions that read them, for a project's file.
        kind: one of KINDS.
        where: the broker and the topic, or the path of the table.
    """

    code: str
    kind: str
    where: Any = None

    def __post_init__(self):
        self._numbers = count()

    def add(self, pipeline, rows):
        """Let rows of an id and a number arrive."""
        events = [{"id": key, "n": n, "at": f"2026-01-01T00:{n % 60:02}:00"} for key, n in rows]
        number = next(self._numbers)
        if self.kind == "files":
            pipeline.land(f"landing/{number}.json", events)
        elif self.kind == "delta":
            write_deltalake(self.where, pa.Table.from_pylist(events), mode="append")
        else:
            broker, topic = self.where
            broker.produce(topic, *map(json.dumps, events), partition=number % _PARTITIONS)


def source_of(kind, request, tmp_path):
    """A new, empty source of a kind."""
    if kind == "kafka":
        broker = request.getfixturevalue("kafka")
        topic = broker.topic(partitions=_PARTITIONS)
        options = {"kafka.bootstrap.servers": broker.servers, "subscribe": topic}
        return EventSource(KAFKA.replace("{options!r}", repr(options)), kind, (broker, topic))
    if kind == "delta":
        path = str(tmp_path / "outside")
        return EventSource(DELTA.replace("{path!r}", repr(path)), kind, path)
    return EventSource(FILES, kind)
