"""Schedules in settings files, as values."""

from __future__ import annotations

from pathlib import Path

from headrace.schedules.cron import CronTimes
from headrace.schedules.definition import (
    CatchUp,
    Continuous,
    Cron,
    Every,
    FileArrival,
    Freshness,
    Pace,
    Schedule,
    TableUpdate,
    When,
)
from headrace.settings.load import load_settings

TEXT = """\
name: shop
schedules:
  nightly: {cron: "0 2 * * *", timezone: Europe/Berlin, refresh: [gold], catch_up: none}
  weekly: {quartz_cron: "0 0 3 ? * SUN", retries: 0}
  often: {every: 15 minutes}
  arrivals: {files: landing/**, quiet: 1m}
  bucket: {files: "s3://bucket/in"}
  orders: {tables: [orders, /data/airports], when: all, at_most_every: 0s}
  target: {freshness: {revenue: 10m}}
profiles:
  dev:
    schedules: {}
  live:
    schedules: {always: {continuous: true}}
"""


def settings(tmp_path: Path, text: str = TEXT, **more):
    file = tmp_path / "pipeline.yml"
    file.write_text(text)
    return load_settings(file, environ={}, **more)


def test_each_kind_of_schedule_is_read(tmp_path):
    """Guards the values behind the keys, with their defaults."""
    assert settings(tmp_path).schedules == (
        Schedule("nightly", Cron(CronTimes.unix("0 2 * * *", "Europe/Berlin")), ("gold",), CatchUp.NONE, retries=5),
        Schedule("weekly", Cron(CronTimes.quartz("0 0 3 ? * SUN", "UTC")), retries=0),
        Schedule("often", Every(900.0), retries=5),
        Schedule("arrivals", FileArrival(f"{tmp_path}/landing/**", Pace(quiet_s=60.0)), retries=5),
        Schedule("bucket", FileArrival("s3://bucket/in"), retries=5),
        Schedule("orders", TableUpdate(("orders", "/data/airports"), When.ALL, Pace(0.0, 0.0)), retries=5),
        Schedule("target", Freshness({"revenue": 600.0}), retries=5),
    )


def test_a_profile_replaces_all_schedules(tmp_path):
    """Guards profiles: a mapping of schedules is not merged, and an empty one leaves none."""
    assert settings(tmp_path, profile="dev").schedules == ()
    assert settings(tmp_path, profile="live").schedules == (Schedule("always", Continuous(), retries=None),)


def test_the_vendors_trigger_is_a_schedule(tmp_path):
    """Guards exported pipelines, and the key for retries of updates."""
    text = (
        '{"name": "shop", "trigger": {"cron": {"quartz_cron_schedule": "0 0 2 * * ?", "timezone_id": "Asia/Tokyo"}},'
        ' "configuration": {"pipelines.numUpdateRetryAttempts": "1"}}'
    )

    found = settings(tmp_path, text)

    assert found.schedules == (Schedule("trigger", Cron(CronTimes.quartz("0 0 2 * * ?", "Asia/Tokyo")), retries=1),)
    assert found.notices == ()
