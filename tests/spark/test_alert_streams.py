"""Faults of running streams, and of costs over hours, which take longer: each opens its alert until it is over."""

from __future__ import annotations

import time
from datetime import UTC, datetime

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import write_deltalake
from tests.alert_watch import AlertWatch

from headrace.metrics import catalogue

pytestmark = [
    pytest.mark.spark,
    pytest.mark.long(
        guard=(
            "tests/unit/alerts/test_alerts.py::test_a_fault_is_found_by_its_own_rule_alone",
            "tests/spark/test_alert_faults.py::test_a_sink_that_never_answers_opens_an_alert_during_the_first_batch",
        )
    ),
]

SLOW_S = 3
HANGING = """
    import os, time

    SPEED = {{"pipelines.trigger.interval": "100 ms"}}

    @F.udf("int")
    def slowly(value):
        while value > 10 and not os.path.exists({gate!r}):
            time.sleep(0.05)
        return value

    @dp.table(spark_conf=SPEED)
    def landed():
        return spark.readStream.schema("id INT").json({landing!r})

    @dp.table(spark_conf=SPEED)
    @dp.expect("known", "id IS NOT NULL")
    def numbers():
        return spark.readStream.table("landed").select(slowly("id").alias("id"))
    """


@pytest.mark.fires("lag_high", "lag_growing", "throughput_low", "no_batches", "batch_slow")
def test_a_batch_that_hangs_opens_the_alerts_of_its_flow_until_it_is_over(project, tmp_path):
    gate, landing = tmp_path / "gate", tmp_path / "landing"
    landing.mkdir()
    pipeline = project(
        HANGING.format(gate=str(gate), landing=str(landing)), alerts={"rules": {"batch_slow": {"threshold": SLOW_S}}}
    )
    watch = AlertWatch(pipeline.settings)

    def busy_s():
        return watch.metrics().of(catalogue.BUSY)["numbers",]

    def unread():
        return watch.metrics().of(catalogue.LAG_COMMITS).get(("numbers", "landed"))

    with pipeline.continuing(timeout_s=300) as update:
        (landing / "1.json").write_text('{"id": 1}\n')
        update.wait_until(lambda: ("numbers",) in watch.metrics().of(catalogue.PROCESS_RATE))
        (landing / "2.json").write_text('{"id": 11}\n')
        update.wait_until(lambda: unread() == 1)
        hangs_since = time.monotonic()

        assert watch.open_now() == set()
        assert watch.open_after(60) == {"lag_high", "lag_growing", "throughput_low", "no_batches"}
        before_s = busy_s()
        # Until then, it is not slow.
        update.wait_until(lambda: time.monotonic() - hangs_since > SLOW_S)
        gate.touch()
        update.wait_until(lambda: unread() == 0 and len(pipeline.rows("numbers")) == 2)
        update.wait_until(lambda: busy_s() > before_s)
        assert "batch_slow" in watch.open_after(15)
        assert watch.open_after(90) == set()


TIMES = """
    SPEED = {{"pipelines.trigger.interval": "100 ms"}}

    @dp.table(spark_conf=SPEED)
    def hours():
        stream = spark.readStream.schema("at TIMESTAMP").option("maxFilesPerTrigger", 1).json({landing!r})
        return stream.withWatermark("at", "1 minute").groupBy(F.window("at", "1 hour")).count()
    """


@pytest.mark.fires("watermark_stuck")
def test_a_watermark_that_stands_still_while_rows_come_opens_an_alert_until_it_moves(project, tmp_path):
    landing = tmp_path / "landing"
    landing.mkdir()
    pipeline = project(TIMES.format(landing=str(landing)))
    watch = AlertWatch(pipeline.settings)

    def rows_read():
        return watch.metrics().of(catalogue.INPUT_ROWS).get(("hours",), 0)

    def land(number, at):
        (landing / f"{number}.json").write_text(f'{{"at": "{at}"}}\n')
        update.wait_until(lambda: rows_read() == number)

    def watermark_passed(at):
        before = watch.now() - datetime.fromisoformat(at).timestamp()
        return watch.metrics().of(catalogue.WATERMARK_DELAY).get(("hours",), float("inf")) < before + 30

    with pipeline.continuing(timeout_s=300) as update:
        land(1, "2026-03-01T10:00:00Z")
        land(2, "2026-03-01T10:10:00Z")
        # A batch without rows follows, which moves the watermark; its report may come later.
        update.wait_until(lambda: watermark_passed("2026-03-01T10:09:00Z"))
        assert watch.open_now() == set()

        for number in (3, 4, 5):
            watch.later_s += 600
            land(number, "2026-03-01T10:10:00Z")
            opened = watch.open_now()

        assert opened == {"watermark_stuck"}
        land(6, "2026-03-01T12:00:00Z")
        land(7, "2026-03-01T12:01:00Z")
        # Until no batch is open, which would be old by the clock of the watch.
        update.wait_until(lambda: watermark_passed("2026-03-01T12:00:00Z"))
        assert watch.open_after(50) == set()


STATE = """
    @dp.table(schema="id INT")
    def source():
        return spark.readStream.schema("id INT").json("unused")

    @dp.table
    def distinct():
        numbers = F.explode(F.sequence(F.lit(1), "id"))
        return spark.readStream.table("source").select(numbers.alias("n")).dropDuplicates()
    """


@pytest.mark.fires("state_growing")
def test_state_without_a_bound_opens_an_alert_while_it_grows(project):
    pipeline = project(STATE, alerts={"rules": {"state_growing": {"threshold": 100_000}}})
    pipeline.given("source", [{"id": 10}]).run()
    watch = AlertWatch(pipeline.settings)
    watch.open_now()

    pipeline.given("source", [{"id": 200_000}]).run()

    assert watch.open_after(50) == {"state_growing"}
    assert watch.open_after(60) == set()


HOUR_S = 3600
ROWS = 100_000
COSTS = """
    @dp.table
    @dp.expect("known", "id IS NOT NULL")
    def priced():
        orders = spark.readStream.schema("id BIGINT").parquet({orders!r})
        rates = spark.read.format("delta").load({rates!r})
        matches = orders.join(F.broadcast(rates), (orders.id * rates.rate) % 1_000_003 == 1, "left")
        return matches.select(orders.id)
    """


def set_rates(folder, count):
    write_deltalake(str(folder), pa.table({"rate": list(range(1, count + 1))}), mode="overwrite")


@pytest.mark.fires("cost_jump")
def test_a_stream_whose_dimension_grows_opens_an_alert_about_its_cost_until_it_shrinks(project, tmp_path):
    orders, rates = tmp_path / "orders", tmp_path / "rates"
    orders.mkdir()
    pipeline = project(COSTS.format(orders=str(orders), rates=str(rates)))
    watch = AlertWatch(pipeline.settings)
    began_s = time.time() // HOUR_S * HOUR_S

    def run_in(hour):
        at = datetime.fromtimestamp(began_s + HOUR_S * hour + 60, UTC)
        pipeline.clock = lambda: at
        pq.write_table(pa.table({"id": list(range(ROWS))}), orders / f"{hour}.parquet")
        pipeline.run()

    def open_at(hour):
        watch.later_s = began_s + HOUR_S * hour - time.time()
        return watch.open_now()

    set_rates(rates, 1)
    for hour in range(7):
        run_in(hour)
    assert open_at(7.5) == set()
    set_rates(rates, 700)
    run_in(7)
    assert open_at(8.3) == set()
    run_in(8)
    assert open_at(9.6) == {"cost_jump"}
    set_rates(rates, 1)
    run_in(9)
    assert open_at(10.5) == {"cost_jump"}
    run_in(11)
    assert open_at(12.5) == set()
