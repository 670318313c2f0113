from __future__ import annotations

import re

import pytest
import sqlglot
from sqlglot import expressions as exp

from headrace.events.lakeflow_views import MonitoredPipeline
from headrace.events.system_tables import LAKEFLOW_VIEWS
from headrace.model.liveness import Liveness

HELD = Liveness(is_held=True, update_id="it's \\ u1", checked_after="00")
PIPELINE = MonitoredPipeline("/srv/it's", "p1", "shop", table="`main`.`events`", liveness=HELD)
TEXTS = {name: view([PIPELINE]) for name, view in LAKEFLOW_VIEWS.items()}


@pytest.mark.parametrize("name", TEXTS, ids=str)
def test_view_is_one_query_that_reads_only_the_event_log(name) -> None:
    (query,) = sqlglot.parse(TEXTS[name], dialect="spark")

    assert isinstance(query, exp.Query)
    # Spark, unlike this parser, refuses it.
    assert not re.search(r",\s*FROM\b", TEXTS[name])
    own = {expression.alias for expression in query.find_all(exp.CTE)}
    assert {table.name for table in query.find_all(exp.Table)} - own <= {"events"}
