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
def test_a_databricks_setting_maps_to_an_open_source_spark_setting(key, value, becomes):
    assert becomes in vendor_conf(key, value).becomes


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("spark.sql.shuffle.partitions", "8"),
        ("spark.sql.streaming.stateStore.providerClass", "my.own.Provider"),
        ("spark.sql.streaming.stateStore.rocksdb.compactOnCommit", "true"),
    ],
)
def test_open_source_spark_settings_are_unchanged(key, value):
    assert vendor_conf(key, value) is None


def test_an_unknown_setting_with_the_databricks_prefix_has_no_effect():
    assert vendor_conf("spark.databricks.workspaceUrl", "x").effect is Effect.NONE


def test_every_databricks_setting_has_a_description():
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
def test_static_settings_of_a_session_are_recognized(key, static):
    assert is_static(key) is static


def test_default_table_property_settings_are_left_to_delta():
    assert vendor_conf("spark.databricks.delta.properties.defaults.columnMapping.mode", "name") is None
