from __future__ import annotations

import pytest
import sqlglot
from sqlglot import expressions as exp

from headrace.events.views import VIEWS


@pytest.mark.parametrize("name", VIEWS)
def test_view_is_one_query_over_the_log_alone(name: str) -> None:
    text = VIEWS[name]("`main`.`events`")

    (query,) = sqlglot.parse(text, dialect="spark")

    assert isinstance(query, exp.Query)
    own = {expression.alias for expression in query.find_all(exp.CTE)}
    assert {table.name for table in query.find_all(exp.Table)} - own == {"events"}
