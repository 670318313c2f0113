"""The rules of a design: what is decided from which requirement, with reason, alternatives and page."""

from __future__ import annotations

import re
from collections.abc import Mapping

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from headrace.assistant.design.design import make_design
from headrace.assistant.design.requirements import OutputKind
from headrace.delta_log.lateness import measure_lateness

WINDOWS = {"name": "w", "kind": "windows", "keys": ["user_id"], "size": "5 minutes"}
SINK = {"name": "out", "kind": "sink", "format": "kafka"}
# Where pages of the knowledge base are.
PAGE = re.compile(r"(pipeline|medallion-architecture|guides|troubleshooting|operations)/[a-z-]+")


def decided(design):
    return {decision.id: decision for decision in design.decisions}


@pytest.mark.parametrize(
    ("latency", "choice"),
    [
        ("1 day", "an update every 1 day, started by a scheduler: `0 2 * * *`"),
        ("12 hours", "an update every 12 hours, started by a scheduler: `0 */12 * * *`"),
        ("3 hours", "an update every 1 hour, started by a scheduler: `0 * * * *`"),
        ("15 minutes", "an update every 5 minutes, started by a scheduler: `*/5 * * * *`"),
        ("5 minutes", "an update every 2 minutes, started by a scheduler: `*/2 * * * *`"),
        ("1 minute", "one continuous update; flows check for input every 30 seconds"),
        ("10 seconds", "one continuous update; flows check for input every 5 seconds"),
    ],
)
def test_the_latency_decides_how_the_pipeline_runs(requirements, latency, choice):
    assert decided(make_design(requirements(latency=latency)))["trigger"].choice == choice


def test_the_steps_to_a_result_share_its_latency(requirements):
    clean = {"name": "valid", "kind": "clean", "from": "raw_events", "rules": {"a": "amount > 0"}}
    made = make_design(
        requirements({"name": "raw_events", "kind": "bronze"}, clean, {**WINDOWS, "from": "valid"}, latency="9 seconds")
    )

    # Four waits at most: for bronze, clean, the windows, and the update that is under way.
    assert 'pipelines.trigger.interval": "2 seconds' in made.files["transformations/gold.py"]
    assert 'pipelines.trigger.interval": "2 seconds' in made.files["transformations/bronze.py"]
    assert decided(make_design(requirements(WINDOWS, latency="1 second")))["trigger"].falls_short


def test_a_result_of_each_day_is_a_materialized_view_unless_a_stream_reads_it(requirements):
    views = make_design(requirements(WINDOWS, latency="1 day"))
    streams = make_design(requirements(WINDOWS, {**SINK, "from": "w"}, latency="1 day"))

    assert decided(views)["suitability.w"].choice == "materialized view"
    assert "watermark" not in decided(views)
    assert "spark.read.table" in views.files["transformations/gold.py"]
    assert decided(streams)["suitability.w"].choice == "streaming table"
    assert decided(streams)["watermark"].choice == "10 minutes behind the newest event"


@pytest.mark.parametrize(
    ("source", "limit"),
    [
        ({"kind": "kafka", "events_per_s": 500, "peak": 4}, "maxOffsetsPerTrigger = 10000"),
        ({"kind": "eventhubs", "events_per_s": 500}, "maxEventsPerTrigger = 7500"),
        ({"kind": "jdbc", "events_per_s": 5000}, "maxRowsPerTrigger = 75000"),
        ({"kind": "files", "events_per_s": 5000}, "cloudFiles.maxBytesPerTrigger = 13m"),
        ({"kind": "delta", "events_per_s": 5000}, "maxBytesPerTrigger = 13m"),
        ({"kind": "kafka", "events_per_s": 1}, "maxOffsetsPerTrigger = 1000"),
        ({"kind": "kafka", "options": {"maxOffsetsPerTrigger": 7}}, "the limit in the options of the source"),
        ({"kind": "kinesis"}, "maxFetchRate = 1.0, the default"),
    ],
)
def test_a_batch_is_limited_to_the_rate_times_the_interval_times_the_peak(requirements, source, limit):
    assert decided(make_design(requirements(source=source)))["rate.events"].choice == limit


def test_the_delay_is_compared_with_what_is_usual(requirements):
    def reason(lateness):
        return decided(make_design(requirements(WINDOWS, lateness=lateness)))["watermark"].reason

    assert "usual for real-time dashboards" in reason("2 minutes")
    assert "less than the 1 hour to 1 day that are usual for mobile apps" in reason(
        {"within": "10 minutes", "scenario": "mobile"}
    )
    assert "within the 10 minutes to 30 minutes" in reason({"within": "20 minutes", "scenario": "iot"})
    assert "more than the 1 minute to 5 minutes" in reason({"within": "1 hour", "scenario": "dashboard"})


def test_a_measured_delay_keeps_the_declared_share(requirements, tmp_path):
    minute = 60_000_000
    # 1,000 events: a hundredth of them is 7 to 8 minutes late, one is an hour late.
    commits = [[n * minute for n in range(500)], [(500 + n) * minute for n in range(489)]]
    commits.append([988 * minute - late * minute for late in (*[7] * 5, *[8] * 5, 60)])
    for times in commits:
        column = pa.array(times, pa.timestamp("us", "UTC"))
        write_deltalake(str(tmp_path / "events"), pa.table({"at": column}), mode="append")
    found = requirements(WINDOWS, lateness={"measure_from": "events", "share": 0.99})
    measured = measure_lateness(str(tmp_path / "events"), "events", "at", 100, 1 - found.lateness.share, 0.0)

    made = make_design(found, measured=measured)

    assert decided(made)["watermark"].choice == "10 minutes behind the newest event"
    assert measured.dropped_by(600) <= 0.01 * measured.rows
    assert 'delay="10 minutes"' in made.files["transformations/gold.py"]


def test_the_state_is_the_keys_within_window_and_delay_times_the_bytes_of_a_row(requirements):
    join = {"name": "j", "kind": "join", "with": "paid", "on": ["user_id"], "within": "20 minutes"}
    paid: dict[str, object] = {
        "name": "paid",
        "kind": "kafka",
        "schema": {"user_id": "STRING", "paid_at": "TIMESTAMP"},
        "events_per_s": 10,
    }
    kinds: list[Mapping[str, object]] = [
        WINDOWS,
        {**WINDOWS, "name": "sliding", "slide": "1 minute"},
        {"name": "s", "kind": "sessions", "keys": ["user_id"], "gap": "10 minutes"},
        {"name": "d", "kind": "dedup"},
        join,
    ]
    outputs = [{**output, "from": "events"} for output in kinds]
    source = {**paid, "event_time": "paid_at"}

    made = make_design(requirements(*outputs, sources=[source], state={"memory": "1 GiB", "keys": 1000}))

    entries = {estimate.dataset: estimate.entries for estimate in made.state}
    assert entries == {
        "w": 3 * 1000,  # windows of 5 minutes that are open for 15
        "sliding": 15 * 1000,
        "s": 2 * 1000,
        "d": 100 * 600,  # each event has its own key
        "j": 110 * 1800,
    }
    assert not decided(made)["state"].falls_short
    small = make_design(requirements(*outputs, sources=[source], state={"memory": "1 MiB"}))
    assert decided(small)["state"].falls_short
    assert {criterion.id for criterion in small.checklist if criterion.open} >= {"memory"}


@pytest.mark.parametrize(
    ("rate", "layout"),
    [
        (1, "neither partitioned nor clustered"),
        (100, "clustered by at"),
        (10_000, "partitioned by the day of at"),
    ],
)
def test_only_large_tables_are_partitioned(requirements, rate, layout):
    made = make_design(requirements(source={"events_per_s": rate}))

    assert decided(made)["layout.raw_events"].choice == layout
    assert ("partition_cols" in made.files["transformations/bronze.py"]) == (rate == 10_000)
    assert ("cluster_by" in made.files["transformations/bronze.py"]) == (rate == 100)


def test_a_sink_that_can_repeat_a_delivery_says_so(requirements):
    outputs = [{**SINK, "name": kind, "format": kind} for kind in ("kafka", "http", "jdbc", "delta", "json")]

    found = decided(make_design(requirements(*outputs)))
    lenient = decided(make_design(requirements(*outputs, guarantee="at-least-once")))

    assert {name for name, decision in found.items() if decision.falls_short} == {"guarantee.kafka", "guarantee.http"}
    assert not any(decision.falls_short for decision in lenient.values())


@pytest.mark.parametrize(
    ("policy", "decorator", "page"),
    [
        ("quarantine", "expect_all_or_quarantine", "guides/expectations"),
        ("drop", "expect_all_or_drop", "guides/expectations"),
        ("fail", "expect_all_or_fail", "guides/expectations"),
        ("dead-letter", '"mode": "FAILFAST"', "guides/dead-letters"),
    ],
)
def test_wrong_records_go_where_the_requirements_say(requirements, policy, decorator, page):
    made = make_design(requirements(on_error=policy))

    assert decorator in made.files["transformations/bronze.py"]
    assert decided(made)["errors"].page == page
    assert ("failing_rows" in made.files["pipeline.yml"]) == (policy != "fail")
    # A sample with wrong records would fail the first run.
    assert ("{no record" in made.files["sample/events/0001.json"]) == (policy != "fail")


def test_real_time_mode_goes_from_kafka_to_kafka_without_a_limit(requirements):
    made = make_design(requirements({**SINK, "where": "amount > 5"}, latency="100 ms", guarantee="at-least-once"))

    assert decided(made)["trigger.out"].choice == "real-time mode: each record is passed on at once"
    assert '"pipelines.trigger": "RealTime"' in made.files["transformations/sinks.py"]
    assert "maxOffsetsPerTrigger" not in made.files["transformations/sources.py"]
    assert decided(made)["guarantee.out"].choice == "at least once"


def test_outputs_have_latencies_of_their_own(requirements):
    alerts = {**SINK, "latency": "100 ms"}

    made = make_design(requirements(alerts, WINDOWS, latency="1 minute"))

    assert "maxOffsetsPerTrigger" in made.files["transformations/sources.py"]
    assert [d.name for d in made.blueprint.datasets] == ["events_live", "out", "events_source", "events_bronze", "w"]


def test_history_is_loaded_once_before_the_stream(requirements):
    made = make_design(requirements(history={"from": "/old/events", "format": "parquet"}))

    assert "once=True" in made.files["transformations/bronze.py"]
    assert decided(made)["history"].page == "guides/backfill"
    assert 'events.history: "/old/events"' in made.files["pipeline.yml"]
    assert "sample/events_history/0001.json" in made.files


def test_duplicates_that_no_output_removes_are_named(requirements):
    kept = make_design(requirements(source={"duplicates": 0.05}))
    removed = make_design(requirements({"name": "d", "kind": "dedup"}, source={"duplicates": 0.05}))

    assert decided(kept)["duplicates.events"].falls_short
    assert not decided(removed)["duplicates.events"].falls_short


def test_decisions_have_distinct_ids_and_pages_of_the_knowledge_base(requirements):
    outputs = [
        *(
            WINDOWS,
            {"name": "s", "kind": "sessions", "keys": ["user_id"], "gap": "1 hour"},
            {"name": "d", "kind": "dedup"},
        ),
        *({"name": "c", "kind": "clean"}, SINK, {"name": "v", "kind": OutputKind.SCD2.value}),
    ]

    made = make_design(requirements(*outputs, history="backfill from /old", latency=None), defaults=True)

    ids = [decision.id for decision in made.decisions]
    assert len(ids) == len(set(ids))
    assert [decision.id for decision in made.decisions if not PAGE.fullmatch(decision.page)] == []
    assert [decision.id for decision in made.decisions if not decision.reason or decision.reason.endswith(".")] == []
