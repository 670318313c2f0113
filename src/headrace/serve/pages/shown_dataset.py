"""The page of a dataset for whoever looks: with the rows that the role may see."""

from __future__ import annotations

from dataclasses import replace

from starlette.requests import Request

from headrace.serve.pages.dataset_page import Asked, dataset_page
from headrace.serve.pages.diff_facts import shown_diff
from headrace.serve.pages.row_facts import shown_table_rows
from headrace.serve.pages.sampled_rows import sampled_rows
from headrace.serve.pipelines import ServedPipeline
from headrace.serve.render import Page
from headrace.serve.roles import principal_of


def shown_dataset(pipeline: ServedPipeline, request: Request, name: str) -> Page:
    """The page of a dataset. The same document in the API has no rows.

    Raises:
        PipelineError: SERVE.NO_PAGE, EVENTS.NOT_READABLE.
    """
    query, role = request.query_params, principal_of(request.scope).role
    asked = Asked.of(query)
    page = dataset_page(pipeline, name, asked)
    rows = {
        "samples": sampled_rows(pipeline, name, role),
        "table_rows": shown_table_rows(pipeline, name, query, query.getlist("columns"), role),
        "rows_diff": shown_diff(pipeline, name, asked.first, asked.second, query.get("key", ""), role),
    }
    return replace(page, document={**page.document, **rows})
