"""Files that ``headrace exec`` runs: scripts, notebooks, and what is around them."""

from __future__ import annotations

import json
import textwrap

import pytest

from headrace.errors import PipelineError, Problems
from headrace.scripts.run_script import run_script
from headrace.scripts.stop_streams import Limits

pytestmark = pytest.mark.spark

CELLS = """\
# Databricks notebook source
# MAGIC %md
# MAGIC # Orders

# COMMAND ----------

# MAGIC %run ./setup

# COMMAND ----------

dbutils.widgets.text("least", "0")
spark.range(4).write.saveAsTable("bronze.orders")

# COMMAND ----------

# MAGIC %sql
# MAGIC CREATE TABLE main.silver.orders AS SELECT id FROM bronze.orders WHERE id >= 2;
# MAGIC SELECT count(*) AS rows FROM main.silver.orders

# COMMAND ----------

(OUT / "out").write_text(f"{_sqldf.first().rows} {dbutils.widgets.get('least')} {TITLE}")
(OUT / "child").write_text(dbutils.notebook.run("child", 60, {"day": "monday"}))
dbutils.notebook.exit("done")

# COMMAND ----------

(OUT / "out").write_text("not reached")
"""


@pytest.fixture
def execute(headrace_session, tmp_path, monkeypatch):
    """Writes files, and runs the first one in its folder as a script."""
    from headrace.testing.warm import unchanged  # noqa: PLC0415 - with Spark, for tests that need it

    monkeypatch.chdir(tmp_path)

    def run(files, *arguments, limits=Limits(), **options):  # noqa: B008 - a value
        for name, text in files.items():
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / name).write_text(textwrap.dedent(text))
        return run_script(tmp_path / next(iter(files)), arguments, limits, say=lambda _: None, **options)

    with unchanged(headrace_session, tmp_path):
        yield run


def test_a_notebook_runs_its_cells_and_the_notebooks_that_it_calls(execute, tmp_path, capsys):
    files = {
        "orders.py": CELLS,
        "setup.py": f"from pathlib import Path\nTITLE, OUT = 'Orders', Path({str(tmp_path)!r})\n",
        "child.py": "dbutils.notebook.exit('child of ' + dbutils.widgets.get('day'))\n",
    }

    end = execute(files, widgets={"least": "7"})

    assert (end.error, end.exit_code) == (None, 0)
    assert (tmp_path / "out").read_text() == "2 7 Orders"
    assert (tmp_path / "child").read_text() == "child of monday"
    assert "|rows|" in capsys.readouterr().out


def test_an_error_in_an_ipynb_notebook_reports_the_cell_and_the_line(execute):
    cells = [{"cell_type": "code", "source": text} for text in ("import os\n", "one = 1\nraise KeyError('day')\n")]

    end = execute({"orders.ipynb": json.dumps({"nbformat": 4, "metadata": {}, "cells": cells})})

    assert end.error.code == "SCRIPT.FAILED"
    assert (end.error.location.to_json()["cell"], end.error.location.line) == (2, 2)
    assert "raise KeyError('day')" in end.trace


def test_all_problems_of_a_script_are_reported_together(execute):
    with pytest.raises(Problems) as raised:
        execute({"orders.py": "# Databricks notebook source\n%sh ls\n# COMMAND ----------\nif:\n"})

    assert [error.code for error in raised.value] == ["SCRIPT.MAGIC", "FILE.SYNTAX"]


def test_a_pipeline_file_is_rejected_as_a_script(execute):
    with pytest.raises(PipelineError) as raised:
        execute({"orders.py": "import os\nimport dlt\n"})

    assert (raised.value.code, raised.value.location.line) == ("SCRIPT.IS_PIPELINE", 2)


def test_endless_streams_are_stopped_after_the_given_time(execute):
    script = """
        stream = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 100).load()
        query = stream.writeStream.trigger(processingTime="1 second").toTable("bronze.rates")
        query.awaitTermination()
        assert not query.isActive
        """

    end = execute({"rates.py": script}, limits=Limits(for_s=5.0))

    assert (end.error, end.interrupted) == (None, False)
    assert [(query.name, query.rows_read > 0) for query in end.queries] == [("bronze.rates", True)]


def test_chained_streams_are_stopped_when_all_of_them_are_idle(execute):
    script = """
        spark.range(10).write.saveAsTable("bronze.numbers")
        spark.sql("CREATE TABLE silver.numbers (id BIGINT)")
        gold = spark.readStream.table("silver.numbers").writeStream.trigger(processingTime="1 hour")
        last = gold.table("gold.numbers")
        spark.readStream.table("bronze.numbers").writeStream.table("silver.numbers")
        last.awaitTermination()
        rows = spark.table("gold.numbers").count()
        assert rows == 10, rows
        """

    end = execute({"chain.py": script}, limits=Limits(until_idle=True))

    assert end.error is None, end.trace


def test_an_unhandled_stream_failure_fails_the_script(execute):
    script = """
        def deliver(batch, number):
            raise ValueError("closed")
        spark.range(1).write.saveAsTable("bronze.numbers")
        spark.readStream.table("bronze.numbers").writeStream.foreachBatch(deliver).start()
        """

    end = execute({"unseen.py": script})

    assert (end.error.code, end.error.params["reason"]) == ("SCRIPT.QUERY_FAILED", "closed")
    assert end.error.location.line == 3


def test_a_handled_stream_failure_does_not_fail_the_script(execute):
    script = """
        def deliver(batch, number):
            raise ValueError("closed")
        spark.range(1).write.saveAsTable("bronze.numbers")
        query = spark.readStream.table("bronze.numbers").writeStream.foreachBatch(deliver).start()
        try:
            query.awaitTermination()
        except Exception:
            print("handled")
        """

    assert execute({"seen.py": script}).error is None


def test_a_script_waits_for_its_threads_and_redacts_secrets_in_its_exit_message(execute, monkeypatch, capsys):
    monkeypatch.setenv("HEADRACE_SECRET_DB_PASSWORD", "tiger-7")
    threaded = """
        import threading
        def late():
            ready.wait()
            spark.range(3).write.saveAsTable("late")
            print("rows", spark.table("late").count())
        ready = threading.Event()
        threading.Thread(target=late).start()
        threading.Timer(0.2, ready.set).start()
        """

    done = execute({"late.py": threaded})
    left = execute({"left.py": 'import sys\nsys.exit("no login with " + dbutils.secrets.get("db", "password"))\n'})

    said = capsys.readouterr()
    assert ((done.error, done.exit_code), said.out) == ((None, None), "rows 3\n")
    assert (left.error, left.exit_code) == (None, 1)
    assert ("no login with" in said.err, "tiger-7" in said.err) == (True, False)


def test_a_script_in_a_project_reads_pipeline_tables_but_cannot_change_them(execute, project, monkeypatch):
    pipeline = project("""
        @dp.materialized_view
        def numbers():
            return spark.range(3)
        """)
    pipeline.run()
    monkeypatch.chdir(pipeline.folder)
    script = """
        spark.table("numbers").write.saveAsTable("reports.numbers")
        refused = []
        for statement in ("DROP SCHEMA default CASCADE", "INSERT INTO numbers VALUES (1)", "DROP TABLE numbers"):
            try:
                spark.sql(statement)
            except Exception as error:
                refused.append(error.code)
        try:
            spark.range(1).write.mode("append").saveAsTable("numbers")
        except Exception as error:
            refused.append(error.code)
        assert refused == ["SCRIPT.PIPELINES_TABLE"] * 4, refused
        """

    end = execute({"report.py": script})

    assert end.error is None, end.trace
    assert pipeline.sql("SELECT count(*) AS rows FROM reports.numbers").to_json() == [{"rows": 3}]
