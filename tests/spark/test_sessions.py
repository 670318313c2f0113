"""Which session a project runs in, when the program has several."""

from __future__ import annotations

import pytest

from headrace.model.outcome import UpdateState
from headrace.testing.warm import unchanged

PROJECT = """
    from pyspark.sql import SparkSession

    @dp.materialized_view
    def where():
        found = SparkSession.getActiveSession().conf.get("probe.session")
        return spark.range(1).selectExpr(f"'{spark.conf.get('probe.session')}' AS given", f"'{found}' AS active")
    """


@pytest.fixture
def other_session(headrace_session):
    """A second session that became the active one, as does a batch's whose function makes a frame of rows."""
    other = headrace_session.newSession()
    for name, session in {"program": headrace_session, "other": other}.items():
        session.conf.set("probe.session", name)
    other.createDataFrame([(1,)], "id INT")
    yield other
    headrace_session.createDataFrame([(1,)], "id INT")
    headrace_session.conf.unset("probe.session")


@pytest.mark.usefixtures("other_session")
def test_a_project_runs_in_the_main_session_when_another_session_was_active_last(project):
    pipeline = project(PROJECT)

    assert pipeline.run().state is UpdateState.COMPLETED
    assert pipeline.sql("SELECT given, active FROM where").to_json() == [{"given": "program", "active": "program"}]


def test_views_and_settings_of_one_test_do_not_leak_into_the_next(headrace_session, tmp_path):
    with unchanged(headrace_session, tmp_path):
        headrace_session.range(1).createTempView("left_behind")
        headrace_session.conf.set("spark.sql.session.timeZone", "Asia/Tokyo")

    assert not headrace_session.catalog.tableExists("left_behind")
    assert headrace_session.conf.get("spark.sql.session.timeZone") == "UTC"
