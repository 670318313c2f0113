"""How the rows of two versions of a dataset's table differ, as facts: bounded, without secrets, and by role."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from headrace.model.table_diff import DiffRequest, DiffSide, Example, TableDiff
from headrace.project.inspection.plain_diff import PlainDiff, plain_diff
from headrace.serve.pages.cells import cell
from headrace.serve.pages.row_facts import DEFAULT_STORED, limit_of, read_carefully, table_name
from headrace.serve.pipelines import ServedPipeline
from headrace.serve.roles import Role, refusal

_MOST_COLUMNS = 100
_LONGEST_KEY = 2000


def shown_diff(
    pipeline: ServedPipeline, dataset: str, first: int | None, second: int | None, key: str, role: Role
) -> dict[str, Any]:
    """The differences for whoever looks, if two versions are asked for; a lesser role gets the reason.

    Args:
        pipeline: the pipeline.
        dataset: its name.
        first: a version; None if no comparison is asked for.
        second: the other version.
        key: columns that identify a row, with commas between them; empty for those of the table.
        role: of whoever looks.
    """
    facts: dict[str, Any] = {"refusal": refusal(role, Role.OPERATOR) or None, "key": key[:_LONGEST_KEY]}
    facts |= {"found": None, "problem": None}
    if facts["refusal"] is None and first is not None and second is not None:
        facts |= read_carefully(lambda: diff_facts(pipeline, dataset, _request(dataset, (first, second), key)))
    return facts


def asked_diff(dataset: str, values: Mapping[str, str], versions: tuple[int, ...]) -> DiffRequest:
    """What a request of the API asks.

    Raises:
        PipelineError: API.FIELD.
    """
    limit = limit_of(values)
    return _request(dataset, versions, values.get("key", ""), limit)


def _request(dataset: str, versions: tuple[int, ...], key: str, limit: int = DEFAULT_STORED) -> DiffRequest:
    return DiffRequest(dataset, versions, (key[:_LONGEST_KEY],) if key.strip() else (), examples=limit)


def diff_facts(pipeline: ServedPipeline, dataset: str, request: DiffRequest) -> dict[str, Any]:
    """The differences, or why only Spark finds them. For roles that may see rows.

    Raises:
        PipelineError: SERVE.NO_PAGE, ROWS.NO_TABLE; DIFF.*; STORAGE.*.
    """
    table_name(pipeline, dataset)

    def read() -> dict[str, Any]:
        return _facts(pipeline, plain_diff(pipeline.settings, pipeline.environ, request))

    return pipeline.table_rows.of(("diff", request), read)


def _facts(pipeline: ServedPipeline, found: PlainDiff) -> dict[str, Any]:
    facts: dict[str, Any] = {
        "dataset": found.request.name,
        "reason": found.reason or None,
        "command": list(found.command),
    }
    return {**facts, "diff": None if found.diff is None else _diff(pipeline, found.diff)}


def _diff(pipeline: ServedPipeline, diff: TableDiff) -> dict[str, Any]:
    rows, examples = diff.rows, [_example(pipeline, one) for one in diff.examples]
    cells = [value for one in examples for pair in (*one["key"], *one["values"]) for value in pair.values()]
    return {
        "is_equal": diff.is_equal,
        "first": _side(diff.first),
        "second": _side(diff.second),
        "key": list(diff.key),
        "key_origin": None if diff.key_origin is None else diff.key_origin.value,
        "schema": [one.to_json() for one in diff.schema],
        "rows": {
            "unchanged": rows.unchanged,
            "changed": rows.changed,
            "only_first": rows.only_first,
            "only_second": rows.only_second,
            "repeated_keys": rows.repeated_keys,
        },
        "columns": [{"column": name, "rows": number} for name, number in diff.columns.items()][:_MOST_COLUMNS],
        "examples": examples,
        "is_cut": any(isinstance(one, dict) and one["is_cut"] for one in cells),
    }


def _side(side: DiffSide) -> dict[str, Any]:
    return {
        "version": side.version,
        "operation": side.operation,
        "committed_at": side.committed_at,
        "rows": side.rows,
        "files": side.files,
        "bytes": side.size,
        "files_read": side.read_files,
        "bytes_read": side.read_size,
    }


def _example(pipeline: ServedPipeline, one: Example) -> dict[str, Any]:
    names = list(dict.fromkeys((*one.first, *one.second)))
    sides = (("first", one.first), ("second", one.second))
    return {
        "kind": one.kind.value,
        "key": [{"column": name, "value": cell(value, pipeline.redact)} for name, value in one.key.items()],
        "values": [
            {"column": name}
            | {side: cell(values[name], pipeline.redact) if name in values else None for side, values in sides}
            for name in names[:_MOST_COLUMNS]
        ],
        "more_columns": max(len(names) - _MOST_COLUMNS, 0),
        "rows_first": one.rows[0],
        "rows_second": one.rows[1],
    }
