"""Whether the rows of a write were computed is known without waiting."""

from __future__ import annotations

import pytest
from pyspark.sql import Observation
from pyspark.sql import functions as F

from headrace.spark.tables.observed_rows import observed_number, was_computed

pytestmark = pytest.mark.spark

FOR_EVER_S = 1e9


@pytest.fixture
def observed(headrace_session):
    """Three rows, and what is observed of them."""
    observation = Observation()
    return headrace_session.range(3).observe(observation, F.count(F.lit(1)).alias("rows")), observation


def test_rows_computed_by_a_write_are_counted(headrace_session, observed):
    rows, observation = observed
    rows.write.format("noop").mode("overwrite").save()

    assert observed_number(observation, headrace_session, "rows") == 3


def test_the_absence_of_computed_rows_is_detected_without_waiting(headrace_session, observed):
    _, observation = observed

    assert not was_computed(observation, headrace_session, FOR_EVER_S)


def test_rows_computed_in_another_session_are_not_waited_for(headrace_session, observed):
    rows, observation = observed
    own = headrace_session._jsparkSession.cloneSession()
    jvm = headrace_session._jvm
    jvm.org.apache.spark.sql.classic.Dataset.ofRows(own, rows._jdf.logicalPlan()).count()

    assert not was_computed(observation, headrace_session, FOR_EVER_S)
