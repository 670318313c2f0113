"""Rows that are taken out of a Delta table and others that are added to it are one commit, or none."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import functions as F

from headrace.spark.delta.conflicts import retry_commit
from headrace.spark.delta.tables import delta_table
from headrace.spark.delta.transaction import delta_transaction

pytestmark = pytest.mark.spark


VECTORS, FILES = pytest.param("true", id="vectors"), pytest.param("false", id="files")
FILES_LATER = pytest.param("false", id="files", marks=pytest.mark.long(guard="its other cases"))


@pytest.fixture(params=[VECTORS, FILES])
def table(request, headrace_session, tmp_path):
    path = str(tmp_path / "a `table`")
    rows = some(headrace_session, (1, "Oslo"), (2, "Rome"), (3, None)).coalesce(1)
    rows.write.format("delta").option("delta.enableDeletionVectors", request.param).save(path)
    return path


def some(session, *rows):
    return session.createDataFrame(list(rows), "`a-key` INT, city STRING")


def rows_in(session, path):
    return sorted(tuple(row) for row in session.read.format("delta").load(path).collect())


def without_rome(session, path):
    delta_table(session, path).delete("`a-key` = 2")


def test_one_commit_deletes_and_adds_rows_and_records_its_metrics(table, headrace_session):
    opened = delta_transaction(headrace_session, table)
    opened.delete_matching(
        some(headrace_session, (1, "x"), (3, "x"), (None, "x")).select("a-key"),
        ["a-key"],
        within=F.col("`a-key`").between(1, 3),
    )
    opened.add(some(headrace_session, (1, "Bern"), (4, "Bern")))
    opened.commit(("a flow", 7), {"operationNumSourceRows": 4, "numTargetRowsUpdated": 1})

    (commit,) = Path(table, "_delta_log").glob("*1.json")
    said = next(
        json.loads(line)["commitInfo"] for line in commit.read_text("utf-8").splitlines() if "commitInfo" in line
    )
    assert rows_in(headrace_session, table) == [(1, "Bern"), (2, "Rome"), (4, "Bern")]
    assert (said["operation"], said["operationMetrics"]["numTargetRowsUpdated"]) == ("MERGE", "1")
    assert delta_transaction(headrace_session, table).newest_of("a flow") == 7


@pytest.mark.parametrize("table", [VECTORS, FILES_LATER], indirect=True)
def test_a_concurrent_change_before_the_commit_makes_it_fail(table, headrace_session):
    opened = delta_transaction(headrace_session, table)
    opened.add(some(headrace_session, (4, "Bern")))
    without_rome(headrace_session, table)

    # PySpark has no class for it; Delta brings one where somebody has imported `delta.tables`.
    with pytest.raises((Py4JJavaError, PySparkException), match="DELTA_CONCURRENT"):
        opened.commit(None, {"operationNumSourceRows": 1})

    assert rows_in(headrace_session, table) == [(1, "Oslo"), (3, None)]


@pytest.mark.parametrize("table", [VECTORS, FILES_LATER], indirect=True)
def test_a_transaction_reads_the_version_that_it_was_opened_on(table, headrace_session):
    opened = delta_transaction(headrace_session, table)
    without_rome(headrace_session, table)

    assert opened.rows().count() == 3


@pytest.mark.long(
    guard=(
        "tests/spark/test_delta_transaction.py::test_a_concurrent_change_before_the_commit_makes_it_fail",
        "tests/spark/test_commit_conflicts.py::test_a_conflicting_commit_is_retried_after_a_fencing_check",
    )
)
def test_a_conflicting_commit_is_retried(table, headrace_session):
    tries, asked = [], []

    def commit():
        opened = delta_transaction(headrace_session, table)
        opened.add(some(headrace_session, (4, "Bern")))
        if not tries:
            without_rome(headrace_session, table)
        tries.append(opened)
        opened.commit(None, {"operationNumSourceRows": 1})

    retry_commit(commit, lambda: asked.append("fence"))

    assert (len(tries), asked) == (2, ["fence"])
    assert rows_in(headrace_session, table) == [(1, "Oslo"), (3, None), (4, "Bern")]


def test_key_columns_may_have_the_names_of_internal_aliases(headrace_session, tmp_path):
    names = ["t", "g", "s", "action"]
    rows = headrace_session.createDataFrame([(n,) * len(names) for n in (1, 2)], ", ".join(f"{n} INT" for n in names))
    rows.write.format("delta").save(str(tmp_path / "table"))
    opened = delta_transaction(headrace_session, str(tmp_path / "table"))

    assert opened.delete_matching(rows.filter("action = 2"), names) == 1
