"""Settings that only the vendor's sessions know, as data."""

from __future__ import annotations

import pytest

from headrace.settings.vendor_confs import VENDOR_CONFS, Effect, is_static, vendor_conf


@pytest.mark.parametrize(
    ("key", "value", "becomes"),
    [
        ("spark.databricks.delta.autoOptimize.optimizeWrite", "true", "spark.databricks.delta.optimizeWrite.enabled"),
        (
            "spark.databricks.delta.autoOptimize.autoCompact.enabled",
            "auto",
            "spark.databricks.delta.autoCompact.enabled",
        ),
        ("spark.sql.shuffle.partitions", "AUTO", "spark.sql.adaptive.enabled"),
    ],
)
def test_a_setting_of_the_vendor_becomes_one_of_open_spark(key, value, becomes):
    assert becomes in vendor_conf(key, value).becomes


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("spark.sql.shuffle.partitions", "8"),
        ("spark.sql.streaming.stateStore.providerClass", "my.own.Provider"),
        ("spark.sql.streaming.stateStore.rocksdb.compactOnCommit", "true"),
    ],
)
def test_settings_of_open_spark_are_left_alone(key, value):
    assert vendor_conf(key, value) is None


def test_the_vendors_prefix_has_no_effect_where_nothing_else_is_known():
    assert vendor_conf("spark.databricks.workspaceUrl", "x").effect is Effect.NONE


def test_every_setting_that_is_used_says_how():
    assert [conf.name for conf in VENDOR_CONFS if not conf.about] == []


@pytest.mark.parametrize(
    ("key", "static"),
    [
        ("spark.executor.memory", True),
        ("spark.serializer", True),
        ("spark.sql.extensions", True),
        ("spark.hadoop.fs.s3a.endpoint", True),
        ("spark.driverEnv.TOKEN", True),
        ("spark.executorsOfMine", False),
        ("spark.myapp.rundate", False),
        ("spark.pipeline.stage", False),
        ("spark.app.environment", False),
        ("spark.sql.shuffle.partitions", False),
        ("spark.databricks.delta.optimizeWrite.enabled", False),
        ("pipelines.reset.allowed", False),
    ],
)
def test_settings_that_a_session_reads_at_its_start_are_known(key, static):
    assert is_static(key) is static


def test_properties_of_new_tables_are_deltas_own():
    assert vendor_conf("spark.databricks.delta.properties.defaults.columnMapping.mode", "name") is None
