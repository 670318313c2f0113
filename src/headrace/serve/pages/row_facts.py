"""The first rows of a dataset's table as facts: bounded, without secrets, and only for roles that may see rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from headrace.errors import PipelineError
from headrace.model.names import InvalidName, QualifiedName
from headrace.project.inspection.table_rows import RowFilter, RowsRequest, TableRows, table_rows
from headrace.serve.pages.cells import instant_cell
from headrace.serve.pages.facts import datasets_of
from headrace.serve.pipelines import ServedPipeline
from headrace.serve.roles import Role, refusal
from headrace.serve.whole_numbers import whole_number
from headrace.sql.plain_select import Comparison
from headrace.storage.listed_storage import reading_storage

# How many rows, and examples of differences.
DEFAULT_STORED, MOST_STORED = 20, 100
COMPARISONS = tuple(one.value for one in Comparison)
_MOST_COLUMNS = 100
_LONGEST_VALUE = 1000
_LONGEST_NAME = 2000
# What a form asks for, beside what it compares.
SHOW, ROWS = "show", "rows"


def rows_request(values: Mapping[str, str], columns: Sequence[str]) -> RowsRequest:
    """Which rows a query asks for.

    Args:
        values: of the parameters ``where``, ``is``, ``value`` and ``limit``.
        columns: all values of the parameter ``columns``.

    Raises:
        PipelineError: API.FIELD.
    """
    name, value = values.get("where", ""), values.get("value", "")
    comparison = values.get("is") or Comparison.EQUAL.value
    if comparison not in COMPARISONS:
        raise _wrong("is", f"it is none of {', '.join(COMPARISONS)}")
    if len(value) > _LONGEST_VALUE:
        raise _wrong("value", f"it is longer than {_LONGEST_VALUE} characters")
    where = RowFilter(name, Comparison(comparison), value) if name else None
    return RowsRequest(tuple(filter(None, columns)), where, limit_of(values))


def limit_of(values: Mapping[str, str]) -> int:
    """The parameter ``limit``.

    Raises:
        PipelineError: API.FIELD.
    """
    text = values.get("limit", str(DEFAULT_STORED))
    limit = whole_number(text, len(str(MOST_STORED))) or 0
    if not 1 <= limit <= MOST_STORED:
        raise _wrong("limit", f"it is no whole number from 1 to {MOST_STORED}")
    return limit


def _wrong(name: str, reason: str) -> PipelineError:
    return PipelineError("API.FIELD", what=f'parameter "{name}"', reason=reason)


def shown_table_rows(
    pipeline: ServedPipeline, dataset: str, values: Mapping[str, str], columns: Sequence[str], role: Role
) -> dict[str, Any]:
    """The rows of a dataset for whoever looks, if they are asked for; a role that may not see them gets the reason.

    Args:
        pipeline: the pipeline.
        dataset: its name.
        values: of the query.
        columns: all values of the parameter ``columns``.
        role: of whoever looks.
    """
    defined = pipeline.view().logged.datasets.get(dataset)
    facts: dict[str, Any] = {
        "has_table": defined is not None and defined.kind.stored,
        "refusal": refusal(role, Role.OPERATOR) or None,
        "asked": {
            "is_asked": values.get(SHOW) == ROWS,
            "columns": [one[:_LONGEST_NAME] for one in columns[:_MOST_COLUMNS]],
            "where": values.get("where", "")[:_LONGEST_NAME],
            "is": values.get("is", "") or Comparison.EQUAL.value,
            "value": values.get("value", "")[:_LONGEST_VALUE],
            "limit": values.get("limit", "")[: len(str(MOST_STORED))] or str(DEFAULT_STORED),
        },
        "comparisons": list(COMPARISONS),
        "most_rows": MOST_STORED,
        "found": None,
        "problem": None,
    }
    if facts["refusal"] is None and facts["asked"]["is_asked"]:
        facts |= read_carefully(lambda: row_facts(pipeline, dataset, rows_request(values, columns)))
    return facts


def read_carefully(read: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """What is found, or the problem because of which it is not."""
    try:
        return {"found": read(), "problem": None}
    except PipelineError as error:
        return {"found": None, "problem": error.to_json()}
    except OSError as error:
        problem = PipelineError("SERVE.STORAGE", reason=error.strerror or type(error).__name__)
        return {"found": None, "problem": problem.to_json()}


def row_facts(pipeline: ServedPipeline, dataset: str, request: RowsRequest) -> dict[str, Any]:
    """Rows of the table of a dataset, or those of a moment ago. For roles that may see rows.

    Raises:
        PipelineError: SERVE.NO_PAGE; ROWS.NO_TABLE, ROWS.NO_COLUMN, ROWS.VALUE; STORAGE.*.
    """
    name = table_name(pipeline, dataset)

    def read() -> dict[str, Any]:
        settings = pipeline.settings
        with reading_storage(settings.layout):
            path = settings.layout.table(settings.naming, name)
            return _facts(pipeline, dataset, request, table_rows(settings, pipeline.environ, name, path, request))

    return pipeline.table_rows.of(("rows", dataset, request), read)


def table_name(pipeline: ServedPipeline, dataset: str) -> QualifiedName:
    """The name of the table of a dataset.

    Raises:
        PipelineError: SERVE.NO_PAGE if the pipeline has no such dataset, ROWS.NO_TABLE if it has no table.
    """
    view = pipeline.view()
    if dataset not in datasets_of(view):
        raise PipelineError("SERVE.NO_PAGE", what=f'dataset "{dataset}"', suggestion="")
    defined = view.logged.datasets.get(dataset)
    if defined is None or not defined.kind.stored:
        raise PipelineError("ROWS.NO_TABLE", name=dataset)
    try:
        return pipeline.settings.naming.canonical(dataset)
    except InvalidName as error:
        raise PipelineError("ROWS.NO_TABLE", name=dataset) from error


def _facts(pipeline: ServedPipeline, dataset: str, request: RowsRequest, found: TableRows) -> dict[str, Any]:
    columns = () if found.rows is None else found.rows.columns
    shown = columns[:_MOST_COLUMNS]
    stored = () if found.rows is None else found.rows.rows
    rows = [[instant_cell(value, pipeline.redact) for value in row[: len(shown)]] for row in stored]
    return {
        "dataset": dataset,
        "limit": request.limit,
        "columns": list(shown),
        "column_count": len(columns),
        "rows": None if found.rows is None else rows,
        "has_more": found.has_more,
        "is_cut": any(one["is_cut"] for row in rows for one in row),
        "omitted": [
            {"column": one.name, "type": one.type[:_LONGEST_NAME], "reason": one.reason} for one in found.omitted
        ],
        "reason": found.reason or None,
        "query": found.query,
        "command": list(found.command),
    }
