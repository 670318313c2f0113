from __future__ import annotations

import pytest
import sqlglot
from sqlglot import expressions as exp

from headrace.events.views import SYSTEM_VIEWS, VIEWS, View


@pytest.mark.parametrize("view", [*VIEWS.values(), *SYSTEM_VIEWS.values()])
def test_view_is_one_query_that_reads_only_the_event_log(view: View) -> None:
    text = view("`main`.`events`", True)  # noqa: FBT003 - the signature of all views

    (query,) = sqlglot.parse(text, dialect="spark")

    assert isinstance(query, exp.Query)
    own = {expression.alias for expression in query.find_all(exp.CTE)}
    assert {table.name for table in query.find_all(exp.Table)} - own == {"events"}
