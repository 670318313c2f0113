"""The pages of queries and previews: a form, and the rows that came of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from headrace.serve.api.routes import DEFAULT_ROWS, DEFAULT_SECONDS, MOST_ROWS, MOST_SECONDS
from headrace.serve.pipelines import ServedPipeline
from headrace.serve.queries.query_runner import QueryResult
from headrace.serve.render import Page

_LISTED = 200


def sql_page(
    pipeline: ServedPipeline,
    *,
    may_query: bool,
    reason: str = "",
    query: str = "",
    rows: int = DEFAULT_ROWS,
    seconds: float = DEFAULT_SECONDS,
    result: QueryResult | None = None,
    problems: Sequence[Mapping[str, Any]] = (),
) -> Page:
    """The page on which tables are queried.

    Args:
        pipeline: the pipeline.
        may_query: whoever looks may ask for rows.
        reason: why not.
        query: what the form has.
        rows: how many rows are asked for.
        seconds: how long the query may take.
        result: of the query; None for none.
        problems: why it is missing, as JSON.
    """
    document = {
        "name": pipeline.name,
        "may_query": may_query,
        "reason": reason or None,
        "query": query,
        "asked_rows": rows,
        "asked_seconds": seconds,
        "most_rows": MOST_ROWS,
        "most_seconds": MOST_SECONDS,
        "tables": list(pipeline.view().logged.datasets)[:_LISTED],
        "result": None if result is None else result.to_json(),
        "problems": list(problems),
    }
    return Page("sql.html", f"SQL: {pipeline.name}", document)


def preview_page(
    pipeline: ServedPipeline,
    dataset: str,
    *,
    may_query: bool,
    reason: str = "",
    result: QueryResult | None = None,
    problems: Sequence[Mapping[str, Any]] = (),
) -> Page:
    """The page on which some rows of a dataset are computed; see :func:`sql_page`."""
    document = {
        "name": pipeline.name,
        "dataset": dataset,
        "may_query": may_query,
        "reason": reason or None,
        "result": None if result is None else result.to_json(),
        "problems": list(problems),
    }
    return Page("preview.html", f"Preview of {dataset}", document)
