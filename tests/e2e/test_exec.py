"""``headrace exec``: scripts as they are, from the command line."""

from __future__ import annotations

import json
import signal
import subprocess
import textwrap

import pytest
from tests.command_line import PROGRAM, in_process
from tests.command_line import in_own_process as headrace

pytestmark = pytest.mark.e2e

SCRIPT = """\
import sys
from pyspark.sql import SparkSession
from pyspark.sql.functions import col, udf
from delta.tables import DeltaTable
from factors import factor

spark = SparkSession.builder.appName("orders").config("spark.sql.shuffle.partitions", "3").getOrCreate()
times = udf(lambda number: number * factor(), "bigint")
spark.range(int(sys.argv[1])).write.format("delta").mode("append").saveAsTable("bronze.numbers")
query = (
    spark.readStream.format("delta").table("bronze.numbers")
    .select(times(col("id")).alias("n"))
    .writeStream.format("delta").trigger(processingTime="30 seconds").table("main.silver.numbers")
)
query.awaitTermination()
rows = spark.sql("SELECT count(*) AS rows, max(n) AS most FROM main.silver.numbers").first()
print(__name__, rows.rows, rows.most, DeltaTable.forName(spark, "main.silver.numbers").toDF().count())
"""
ENDLESS = """\
query = spark.readStream.format("rate").load().writeStream.toTable("bronze.rates")
while not query.lastProgress:
    query.awaitTermination(1)
print("runs", flush=True)
query.awaitTermination()
"""
BROKEN = """\
def deliver(batch, number):
    raise ValueError("the service is closed")


query = spark.readStream.format("rate").load().writeStream.foreachBatch(deliver).start()
query.awaitTermination()
"""


@pytest.mark.long(
    guard=(
        "tests/unit/scripts/test_checkpoints.py::test_a_restarted_stream_continues_with_its_own_checkpoint",
        "tests/spark/test_script_files.py::test_chained_streams_are_stopped_when_all_of_them_are_idle",
    )
)
def test_a_script_continues_its_tables_and_streams_when_it_runs_again(tmp_path):
    (tmp_path / "script.py").write_text(SCRIPT)
    (tmp_path / "factors.py").write_text("def factor():\n    return 10\n")

    first = headrace(tmp_path, "exec", "script.py", "--until-idle", "2")
    second = headrace(tmp_path, "exec", "script.py", "--until-idle", "3")

    assert (first.stdout, first.returncode) == ("__main__ 2 10 2\n", 0), first.stderr
    assert (second.stdout, second.returncode) == ("__main__ 5 20 5\n", 0), second.stderr
    assert (tmp_path / "storage" / "tables" / "main" / "silver" / "numbers" / "_delta_log").is_dir()


def test_the_users_traceback_and_one_error_are_shown_when_a_query_fails(headrace_session, tmp_path):
    assert headrace_session
    (tmp_path / "broken.py").write_text(textwrap.dedent(BROKEN))

    done = in_process(tmp_path, "--output", "json", "exec", str(tmp_path / "broken.py"))
    error = json.loads(done.stdout)["error"]

    assert done.returncode == 1
    assert (error["code"], error["location"]["line"]) == ("SCRIPT.QUERY_FAILED", 2)
    assert (error["params"]["what"], error["params"]["reason"]) == ("ValueError", "the service is closed")
    assert 'broken.py", line 2, in deliver' in done.stderr
    # A remark of ours stands before the user's traceback.
    assert [line.split()[0] for line in done.stderr.splitlines()[:2]] == ["query", "Traceback"]
    assert "\tat " not in done.stderr


@pytest.mark.long(
    guard=(
        "tests/spark/test_script_files.py::test_endless_streams_are_stopped_after_the_given_time",
        "tests/unit/cli/test_signals.py::test_sigterm_raises_keyboard_interrupt_as_soon_as_the_command_starts",
    )
)
def test_sigterm_completes_a_script_with_endless_streams(tmp_path):
    (tmp_path / "endless.py").write_text(ENDLESS)
    command = (PROGRAM, "--output", "json", "exec", "endless.py")

    with subprocess.Popen(command, cwd=tmp_path, stdout=-1, stderr=-1, encoding="utf-8") as process:
        for line in process.stderr:
            if line == "runs\n":
                break
        process.send_signal(signal.SIGTERM)
        result = json.loads(process.communicate(timeout=60)[0])

    assert process.returncode == 0
    assert (result["state"], result["queries"][0]["query"]) == ("COMPLETED", "bronze.rates")


@pytest.mark.long(guard="tests/e2e/test_exec.py::test_the_users_traceback_and_one_error_are_shown_when_a_query_fails")
def test_a_script_can_stop_its_session_and_choose_its_exit_code(tmp_path):
    script = """\
        import sys
        spark.range(1).write.saveAsTable("numbers")
        spark.readStream.table("numbers").writeStream.trigger(availableNow=True).table("copy").awaitTermination()
        spark.stop()
        sys.exit(7)
        """
    (tmp_path / "stops.py").write_text(textwrap.dedent(script))

    done = headrace(tmp_path, "exec", "stops.py")

    assert done.returncode == 7, done.stderr


@pytest.mark.long(
    guard="tests/spark/test_script_files.py::test_a_script_waits_for_its_threads_and_redacts_secrets_in_its_exit_message"
)
def test_an_exiting_script_waits_for_its_threads_and_redacts_secrets_in_its_message(tmp_path):
    script = """\
        import sys, threading, time
        def late():
            while threading.main_thread().is_alive() and not ready.wait(0.1):
                pass
            spark.range(3).write.saveAsTable("late")
            print("rows", spark.table("late").count(), flush=True)
        ready = threading.Event()
        threading.Timer(1.0, ready.set).start()
        threading.Thread(target=late).start()
        sys.exit("cannot log in with " + dbutils.secrets.get("db", "password"))
        """
    (tmp_path / "late.py").write_text(textwrap.dedent(script))

    done = headrace(tmp_path, "exec", "late.py", environ={"HEADRACE_SECRET_DB_PASSWORD": "tiger-7"})

    assert (done.stdout, done.returncode) == ("rows 3\n", 1), done.stderr
    assert ("cannot log in with" in done.stderr, "tiger-7" in done.stderr) == (True, False)
