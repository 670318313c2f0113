"""A Kafka topic of JSON into one Delta table: a pipeline, and the same query by hand; from a real broker.

Run by hand with `python bench/scenarios/from_kafka.py CONTESTANT FOLDER`, in an empty folder; the folder is one that
`make_data` has filled. Each process has its own broker over the same records, and is warm before it is measured.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from by_hand import session
from confluent_kafka import Producer
from data import SCHEMA, write_events
from deltalake import DeltaTable
from pyspark.sql import functions as F
from scenario import BENCH, Contestant, Scenario, Step

from headrace.connectors.fetch import jars

_HEADRACE, _DEFAULTS, _TUNED = "headrace", "by hand, Delta's defaults", "by hand, tuned"
_WHOLE, _WARM = "whole", "warm"
_WARM_ROWS = 20_000
_PARTITIONS = 4
_PIPELINE = """\
from pyspark.sql import functions as F

from headrace import pipelines as dp


@dp.streaming_table
def events():
    records = (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", {servers!r})
        .option("subscribe", {topic!r})
        .option("startingOffsets", "earliest")
        .load()
    )
    event = F.from_json(records.value.cast("string"), {schema!r})
    return records.select(event.alias("event"), "partition", "offset").select("event.*", "partition", "offset")
"""


@contextmanager
def _broker(folder: Path) -> Iterator[Any]:
    sys.path.insert(0, str(BENCH.parent))
    from tests.servers.kafka import KafkaBroker  # noqa: PLC0415 - the tests' broker, outside the package

    folder.mkdir(parents=True, exist_ok=True)
    broker = KafkaBroker(folder)
    broker.start()
    try:
        yield broker
    finally:
        broker.stop()


def make_data(folder: Path, rows: int) -> None:
    """Store the events as records of two topics, the small topic first."""
    if (folder / "_READY").exists():
        return
    with _broker(folder / "broker") as broker:
        for topic, count in ((_WARM, _WARM_ROWS), (_WHOLE, rows)):
            broker.create(topic, _PARTITIONS)
            write_events(folder / topic, count)
            _produce(broker.servers, topic, folder / topic)
    (folder / "_READY").touch()


def _produce(servers: str, topic: str, folder: Path) -> None:
    producer = Producer({"bootstrap.servers": servers, "linger.ms": 50, "queue.buffering.max.messages": 1_000_000})
    for number, file in enumerate(sorted(folder.glob("*.json"))):
        for line in file.read_text(encoding="utf-8").splitlines():
            producer.produce(topic, line, partition=number % _PARTITIONS)
        producer.flush()


def by_hand(servers: str, *, tuned: bool) -> float:
    """Seconds of the same query without Headrace."""
    paths = [str(path) for path in jars({"delta", "kafka"}, environ=os.environ)]
    spark = session(tuned=tuned, jar_files=paths)
    seconds = 0.0
    for number, topic in enumerate((_WARM, _WARM, _WHOLE)):
        began = time.perf_counter()
        reader = spark.readStream.format("kafka").option("kafka.bootstrap.servers", servers)
        records = reader.option("subscribe", topic).option("startingOffsets", "earliest").load()
        event = F.from_json(records.value.cast("string"), SCHEMA)
        rows = records.select(event.alias("event"), "partition", "offset").select("event.*", "partition", "offset")
        writer = rows.writeStream.format("delta").option("checkpointLocation", f"checkpoints/{number}")
        writer.trigger(availableNow=True).start(f"{topic}-{number}").awaitTermination()
        seconds = time.perf_counter() - began
    spark.stop()
    return seconds


def headrace(servers: str) -> float:
    """Seconds of the same as a triggered update, including planning."""
    from headrace import Project  # noqa: PLC0415 - peers are measured without it

    seconds = 0.0
    for number, topic in enumerate((_WARM, _WARM, _WHOLE)):
        folder = Path(f"{topic}-{number}").absolute()
        (folder / "transformations").mkdir(parents=True)
        settings = "name: from_kafka\nconnectors: [kafka]\n"
        (folder / "pipeline.yml").write_text(settings, encoding="utf-8")
        text = _PIPELINE.format(servers=servers, topic=topic, schema=SCHEMA)
        (folder / "transformations" / "events.py").write_text(text, encoding="utf-8")
        began = time.perf_counter()
        Project.open(folder).run()
        seconds = time.perf_counter() - began
    return seconds


def _steps(name: str) -> Callable[[Path, Path], Sequence[Step]]:
    return lambda _work, data: (Step("warm", (sys.executable, __file__, name, str(data)), cold=False),)


def _contestant(name: str, table: str) -> Contestant:
    return Contestant(
        name,
        prepare=lambda _work, _data: None,
        steps=_steps(name),
        rows=lambda work: int(DeltaTable(str(work / f"{_WHOLE}-2" / table)).count()),
    )


SCENARIO = Scenario(
    about=f"a Kafka topic of JSON with {_PARTITIONS} partitions into one new Delta table, after a warm-up",
    rows=1_500_000,
    make_data=make_data,
    expected_rows=lambda rows: rows,
    contestants=(
        _contestant(_TUNED, ""),
        _contestant(_HEADRACE, "storage/tables/default/events"),
        _contestant(_DEFAULTS, ""),
    ),
    base=_TUNED,
)


if __name__ == "__main__":
    who, filled = sys.argv[1], Path(sys.argv[2])
    with _broker(filled / "broker") as running:
        found = headrace(running.servers) if who == _HEADRACE else by_hand(running.servers, tuned=who == _TUNED)
    print(f"measured {found:.3f}")
