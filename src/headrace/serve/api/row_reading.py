"""What the API has of rows: those of a table, how two of its versions differ, and those in quarantine."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from headrace.errors import PipelineError
from headrace.serve.api.query_values import Values, limit_of, version_of
from headrace.serve.api.routes import WAITING_ROWS
from headrace.serve.pages.diff_facts import asked_diff, diff_facts
from headrace.serve.pages.row_facts import row_facts, rows_request
from headrace.serve.pages.waiting_facts import waiting_facts
from headrace.serve.pipelines import ServedPipeline
from headrace.storage.listed_storage import reading_storage


def rows(pipeline: ServedPipeline, values: Values) -> Mapping[str, Any]:
    """Rows of the table of a dataset, or why only Spark can read them.

    Raises:
        PipelineError: SERVE.NO_PAGE, API.FIELD, EVENTS.NOT_READABLE, STORAGE.*.
    """
    return row_facts(pipeline, values["dataset"], rows_request(values, [values.get("columns", "")]))


def diff(pipeline: ServedPipeline, values: Values) -> Mapping[str, Any]:
    """How the rows of two versions of the table of a dataset differ, or why only Spark can say it.

    Raises:
        PipelineError: SERVE.NO_PAGE, API.FIELD, EVENTS.NOT_READABLE, STORAGE.*.
    """
    versions = tuple(version for name in ("from", "to") if (version := version_of(values, name)) is not None)
    if "to" in values and "from" not in values:
        raise PipelineError("API.FIELD", what='parameter "from"', reason='it is missing beside "to"')
    return diff_facts(pipeline, values["dataset"], asked_diff(values["dataset"], values, versions))


def quarantined_rows(pipeline: ServedPipeline, values: Values) -> Mapping[str, Any]:
    """The newest quarantined rows and dead letters of a dataset.

    Raises:
        PipelineError: SERVE.NO_PAGE, API.FIELD, EVENTS.NOT_READABLE, STORAGE.*.
    """
    limit = limit_of(values, WAITING_ROWS)
    with reading_storage(pipeline.settings.layout):
        return waiting_facts(pipeline, values["dataset"], values.get("rule", ""), limit)
