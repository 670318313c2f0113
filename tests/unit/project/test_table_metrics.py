"""Metrics of tables: how fresh the rows of tables with a target are, by the statistics in their logs."""

from __future__ import annotations

from datetime import UTC, datetime

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from headrace.alerts.conditions import Facts, findings
from headrace.alerts.history import History
from headrace.events.types import DatasetDefined, FreshnessTarget
from headrace.metrics import catalogue
from headrace.metrics.fold import EventFold
from headrace.model.datasets import Kind
from headrace.model.names import QualifiedName
from headrace.project.inspection.table_metrics import add_tables
from headrace.settings.load import load_settings

NEWEST = datetime(2026, 11, 27, 10, tzinfo=UTC)
TARGET = FreshnessTarget("Ordered_At", 3600.0)


@pytest.fixture
def settings(tmp_path):
    (tmp_path / "pipeline.yml").write_text("name: shop\n")
    return load_settings(tmp_path / "pipeline.yml", profile=None, environ={})


def metrics(settings, times, *targets):
    path = settings.layout.table(settings.naming, QualifiedName("orders"))
    write_deltalake(path, pa.table({"ordered_at": pa.array(times, pa.timestamp("us", "UTC"))}), mode="append")
    fold = EventFold()
    fold.apply(DatasetDefined("orders", Kind.STREAMING_TABLE, freshness=targets), NEWEST, "u")
    add_tables(fold.samples, settings, fold.definitions)
    return fold.samples


def test_a_table_is_as_fresh_as_its_newest_row_and_an_alert_opens_when_it_is_too_old(settings):
    metrics(settings, [NEWEST], TARGET)
    samples = metrics(settings, [datetime(2026, 1, 1, tzinfo=UTC), None], TARGET)

    at = NEWEST.timestamp()
    assert samples.of(catalogue.NEWEST_ROW) == {("orders", "Ordered_At"): at}
    found = [[one.rule.rule_id for one in findings(Facts(samples, History(), at + age_s))] for age_s in (3600, 3601)]
    assert found == [[], ["freshness"]]


@pytest.mark.parametrize(("times", "column"), [([None], "ordered_at"), ([NEWEST], "missing")])
def test_a_table_without_times_has_a_target_and_no_newest_row(settings, times, column):
    samples = metrics(settings, times, FreshnessTarget(column, 60.0))

    assert samples.of(catalogue.FRESHNESS_TARGET) == {("orders", column): 60}
    assert samples.of(catalogue.NEWEST_ROW) == {}
