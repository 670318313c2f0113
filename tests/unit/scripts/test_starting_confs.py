"""Settings in a script's text that its session starts with."""

from __future__ import annotations

from headrace.spark.notebook.confs import starting_confs


def test_a_session_starts_with_what_spark_reads_at_its_start():
    said = {"spark.executor.memory": "8g", "spark.hadoop.fs.s3a.endpoint": "http://here", "spark.sql.ansi.enabled": "x"}

    confs, notices = starting_confs(said)

    assert confs == {"spark.executor.memory": "8g", "spark.hadoop.fs.s3a.endpoint": "http://here"}
    assert notices == ()


def test_no_session_starts_with_what_only_the_script_knows():
    confs, notices = starting_confs({"spark.pipeline.stage": "silver", "spark.myapp.rundate": "2025-01-01"})

    assert (confs, notices) == ({}, ())


def test_what_the_ready_session_decides_is_said_and_left_out():
    confs, notices = starting_confs({"spark.sql.catalogImplementation": "hive"})

    assert confs == {}
    assert [remark.split()[0] for remark in notices] == ["spark.sql.catalogImplementation"]
