"""Settings that a script of a notebook session sets: its own, Spark's, and those that come too late."""

from __future__ import annotations

import pytest

from headrace.settings.vendor_confs import is_static
from headrace.spark.session.existing_session import existing_session

pytestmark = pytest.mark.spark
# The classes that declare settings of Spark and Delta: those of the pinned jars that refer to their ConfigBuilder.
_DECLARING = (
    *("internal.config.Deploy$", "internal.config.History$", "internal.config.Kryo$", "internal.config.Network$"),
    *("internal.config.Python$", "internal.config.R$", "internal.config.Status$", "internal.config.Streaming$"),
    *("internal.config.Tests$", "internal.config.UI$", "internal.config.Worker$", "internal.config.package$"),
    *("sql.internal.SQLConf$", "sql.internal.StaticSQLConf$", "sql.hive.HiveUtils$", "sql.connect.config.Connect$"),
    *("sql.delta.sources.DeltaSQLConf$", "sql.kafka010.package$", "streaming.StreamingConf$"),
    *("deploy.k8s.Config$", "deploy.yarn.config.package$"),
    "sql.execution.streaming.checkpointing.CheckpointFileManager$",
)
# Of programs that are no session, and of Spark's own tests.
_OF_OTHERS = (
    *("spark.master.", "spark.worker.", "spark.standalone.", "spark.deploy.", "spark.dead.worker."),
    *("spark.history.", "spark.connect.", "spark.sql.connect.", "spark.r.", "spark.sparkr.", "spark.streaming."),
    "spark.test",
)


def test_a_custom_setting_has_the_value_that_was_set_last(scripts):
    names = scripts.run("""
        spark.conf.set("spark.myapp.rundate", "-".join(["2025", "01", "01"]))
        spark.conf.set("spark.pipeline.stage", "bronze")
        found = [spark.conf.get("spark.myapp.rundate"), spark.conf.get("spark.pipeline.stage")]
        spark.conf.set("spark.pipeline.stage", "silver")
        spark.sql("SET spark.other.limit = 5")
        found += [spark.conf.get("spark.pipeline.stage"), spark.conf.get("spark.other.limit")]
        written = spark.sql("SELECT '${spark.myapp.rundate}' AS day").first().day
    """)

    assert names["found"] == ["2025-01-01", "bronze", "silver", "5"]
    assert names["written"] == "2025-01-01"
    assert scripts.said == []


def test_a_custom_builder_setting_is_visible_in_the_spark_context(scripts):
    names = scripts.run("""
        from pyspark.sql import SparkSession
        spark = SparkSession.builder.config("spark.myapp.name", "orders").getOrCreate()
        found = spark.conf.get("spark.myapp.name"), spark.sparkContext.getConf().get("spark.myapp.name")
    """)

    assert names["found"] == ("orders", "orders")


def test_a_setting_that_is_read_only_at_session_start_is_reported_once(scripts):
    scripts.run("""
        for _ in range(2):
            spark.conf.set("spark.hadoop.fs.s3a.endpoint", "http://here")
            spark.conf.set("spark.serializer", "org.apache.spark.serializer.KryoSerializer")
            spark.conf.set("spark.databricks.delta.merge.materializeSource.maxAttempts", "7")
    """)

    said = sorted(text.split()[0] for text in scripts.said)
    assert said == [
        "spark.databricks.delta.merge.materializeSource.maxAttempts",
        "spark.hadoop.fs.s3a.endpoint",
        "spark.serializer",
    ]
    assert [text for text in scripts.said if "read when a session starts" not in text] == []


def test_every_setting_that_spark_refuses_to_change_is_known(headrace_session):
    session = existing_session()
    refused = [key for key in _settings_of_spark(session) if not session.conf.isModifiable(key)]

    missing = [key for key in refused if not is_static(key) and not key.startswith(_OF_OTHERS)]

    assert any(key.startswith("spark.databricks.delta.") for key in refused)
    assert [key for key in missing if not {"test", "testing", "testOnly"} & set(key.split("."))] == []


def _settings_of_spark(session):
    """The names of all settings that Spark and Delta declare."""
    jvm, gateway = session._jvm, session.sparkContext._gateway
    # That of the connectors' jars, too.
    loader = jvm.java.lang.Thread.currentThread().getContextClassLoader()
    for declaring in _DECLARING:
        # A setting is declared when its class is loaded.
        jvm.java.lang.Class.forName(f"org.apache.spark.{declaring}", True, loader)  # noqa: FBT003 - Java's argument
    owner = jvm.java.lang.Class.forName("org.apache.spark.internal.config.ConfigEntry$")
    none, nothing = gateway.new_array(jvm.java.lang.Class, 0), gateway.new_array(jvm.java.lang.Object, 0)
    entries = owner.getMethod("knownConfigs", none).invoke(owner.getField("MODULE$").get(None), nothing)
    return sorted(jvm.java.util.ArrayList(entries.keySet()))
