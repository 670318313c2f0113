"""The latency of a record from one Kafka topic to another: in real-time mode, and in consecutive batches.

Run it as `python bench/real_time.py`; it starts a broker of its own. One record is in flight at a time.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import threading
import time
from pathlib import Path

from confluent_kafka import Consumer, Producer

sys.path.insert(0, str(Path(__file__).parents[1]))

from tests.servers.kafka import KafkaBroker

from headrace import Project

RECORDS = 40
_LONGEST_S = 60.0
_SETTINGS = "name: real-time\nconnectors: [kafka]\nstop_grace_seconds: 0\n"
_FLOW = """
from headrace import pipelines as dp

dp.create_sink("out", "kafka", {{"kafka.bootstrap.servers": "{servers}", "topic": "{taken}"}})


@dp.update_flow(target="out", spark_conf={confs})
def passed_on():
    stream = spark.readStream.format("kafka").option("kafka.bootstrap.servers", "{servers}")
    return stream.option("subscribe", "{given}").option("startingOffsets", "earliest").load().select("value")
"""
_KINDS = {
    "batches": {"pipelines.trigger.interval": "0 seconds"},
    "real time": {"pipelines.trigger": "RealTime"},
}


def seconds(broker: KafkaBroker, folder: Path, confs: dict[str, str]) -> list[float]:
    """Seconds of each record after the first."""
    given, taken = broker.topic(), broker.topic()
    (folder / "transformations").mkdir(parents=True)
    (folder / "pipeline.yml").write_text(_SETTINGS, encoding="utf-8")
    text = _FLOW.format(servers=broker.servers, given=given, taken=taken, confs=confs)
    (folder / "transformations" / "flow.py").write_text(text, encoding="utf-8")
    stop = threading.Event()
    update = threading.Thread(target=lambda: Project.open(folder).run(continuous=True, stop=stop))
    update.start()
    consumer = Consumer({"bootstrap.servers": broker.servers, "group.id": "bench", "auto.offset.reset": "earliest"})
    consumer.subscribe([taken])
    producer = Producer({"bootstrap.servers": broker.servers, "linger.ms": 0})
    found = []
    try:
        for number in range(RECORDS + 1):
            began = time.perf_counter()
            producer.produce(given, str(number))
            producer.flush()
            while (record := consumer.poll(_LONGEST_S)) is None or record.error():
                if time.perf_counter() - began > _LONGEST_S:
                    raise TimeoutError(f"record {number} did not come within {_LONGEST_S:g} s")
            found.append(time.perf_counter() - began)
    finally:
        stop.set()
        update.join()
        consumer.close()
    return found[1:]


def main() -> None:
    """Measure both modes, batches first and last."""
    with tempfile.TemporaryDirectory() as folder:
        broker = KafkaBroker(Path(folder))
        broker.start()
        try:
            for number, kind in enumerate(("batches", "real time", "batches")):
                taken_s = sorted(seconds(broker, Path(folder) / f"{number}", _KINDS[kind]))
                median_ms, last_ms = 1000 * statistics.median(taken_s), 1000 * taken_s[int(0.99 * len(taken_s))]
                print(f"{kind:10}  median {median_ms:7.1f} ms, 99th percentile {last_ms:7.1f} ms", flush=True)
        finally:
            broker.stop()


if __name__ == "__main__":
    main()
