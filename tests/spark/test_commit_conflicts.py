"""A commit that conflicts with another is retried, if this update may still commit."""

from __future__ import annotations

from importlib import import_module

import pytest
from deltalake import DeltaTable
from pyspark.errors import SparkRuntimeException
from pyspark.errors.exceptions import captured
from pyspark.sql import functions as F

from headrace.spark.delta.conflicts import retry_commit
from headrace.spark.delta.tables import delta_table

pytestmark = pytest.mark.spark


@pytest.fixture
def table(headrace_session, tmp_path):
    path = str(tmp_path / "table")
    headrace_session.range(4).coalesce(1).write.format("delta").save(path)
    return path


@pytest.fixture
def meeting(headrace_session, table):
    """Takes 0 out of the table, while somebody else takes out the next number: the first *times* that it is done."""
    left = []

    def commit(times):
        left.append(len(left) + 1)
        number = left[-1]

        @F.udf("boolean")
        def is_zero(value):
            if number <= times and (value or 0) == 0:
                # In Spark's worker, after Delta's transaction has begun and before it commits.
                DeltaTable(table).delete(f"id = {number}")
            return value == 0

        delta_table(headrace_session, table).delete(is_zero("id")._jc)

    return commit


@pytest.fixture(params=["of PySpark", "of Delta"])
def classes(request, headrace_session, monkeypatch):
    """Whose Python classes conflicts have: those of Delta once somebody has imported ``delta.tables``."""
    if request.param == "of Delta":
        for jar in headrace_session.conf.get("spark.jars").split(","):
            monkeypatch.syspath_prepend(jar.removeprefix("file:"))
        monkeypatch.setattr(captured, "convert_exception", captured.convert_exception)
        import_module("delta.exceptions.captured")._patch_convert_exception()


def rows_in(table):
    return sorted(DeltaTable(table).to_pyarrow_table()["id"].to_pylist())


@pytest.mark.usefixtures("classes")
def test_a_conflicting_commit_is_retried_after_a_fencing_check(table, meeting):
    asked = []

    retry_commit(lambda: meeting(2), lambda: asked.append("fence"))

    assert (rows_in(table), asked) == ([3], ["fence", "fence"])


def test_a_conflicting_commit_is_not_retried_after_a_takeover(table, meeting):
    def taken_over():
        raise PermissionError

    with pytest.raises(PermissionError):
        retry_commit(lambda: meeting(1), taken_over)

    assert rows_in(table) == [0, 2, 3]


def test_an_error_other_than_a_conflict_is_raised_at_once(table, headrace_session):
    tries = []

    def fails():
        tries.append(1)
        delta_table(headrace_session, table).delete(F.raise_error(F.lit("no")).cast("boolean")._jc)

    with pytest.raises(SparkRuntimeException, match="no"):
        retry_commit(fails)

    assert tries == [1]
