"""Settings in a script's text that its session starts with."""

from __future__ import annotations

from headrace.spark.notebook.confs import starting_confs


def test_a_session_starts_with_the_static_spark_settings_of_the_script():
    said = {"spark.executor.memory": "8g", "spark.hadoop.fs.s3a.endpoint": "http://here", "spark.sql.ansi.enabled": "x"}

    confs, notices = starting_confs(said)

    assert confs == {"spark.executor.memory": "8g", "spark.hadoop.fs.s3a.endpoint": "http://here"}
    assert notices == ()


def test_a_session_does_not_start_with_custom_settings_of_the_script():
    confs, notices = starting_confs({"spark.pipeline.stage": "silver", "spark.myapp.rundate": "2025-01-01"})

    assert (confs, notices) == ({}, ())


def test_settings_that_the_notebook_session_controls_are_reported_and_ignored():
    confs, notices = starting_confs({"spark.sql.catalogImplementation": "hive"})

    assert confs == {}
    assert [remark.split()[0] for remark in notices] == ["spark.sql.catalogImplementation"]
