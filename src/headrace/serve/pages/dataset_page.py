"""A dataset: what it is like now, what wrote it, its expectations over time, its columns."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from headrace.errors import PipelineError, Problems
from headrace.events.recorded import Recorded
from headrace.events.types import BatchDone, DatasetDefined, TableEvaluated
from headrace.metrics import catalogue
from headrace.model.expectations import ExpectationCount
from headrace.model.names import InvalidName
from headrace.model.schema import Schema
from headrace.options.nearest import did_you_mean
from headrace.project.inspection.code_places import code_places
from headrace.project.inspection.pipeline_view import PipelineView
from headrace.project.inspection.table_history import table_history
from headrace.serve.charts import sparkline
from headrace.serve.formats import iso
from headrace.serve.pages.facts import datasets_of, flow_facts, flow_values, health_of, kind_of, value_of
from headrace.serve.pipelines import ServedPipeline
from headrace.serve.render import Page

_COMMITS = 30
_NOT_STORED = "This kind of dataset has no table."
_NO_TABLE = "No update has written the table yet."
_OLD_LOG = "The event log of an older version of Headrace does not have the columns."


def dataset_page(pipeline: ServedPipeline, name: str) -> Page:
    """The page of a dataset.

    Raises:
        PipelineError: SERVE.NO_PAGE, EVENTS.NOT_READABLE.
    """
    view = pipeline.view()
    known = datasets_of(view)
    if name not in known:
        raise PipelineError("SERVE.NO_PAGE", what=f'dataset "{name}"', suggestion=did_you_mean(name, known))
    flows = [flow for flow, defined in view.logged.flows.items() if defined.dataset == name]
    values, reports = flow_values(view), pipeline.reports(flows)
    defined = view.logged.datasets.get(name)
    rules = _expectations(reports, name)
    commits, why = _history(pipeline, name, defined, reports)
    document = {
        "dataset": name,
        "as_of": iso(view.as_of),
        "kind": kind_of(view, name),
        "comment": None if defined is None else defined.comment,
        "is_private": defined is not None and defined.private,
        **health_of(view.samples, name),
        "now": _now(view, name),
        "flows": [flow_facts(view, flow, values) for flow in flows],
        "reads": list(dict.fromkeys(given for flow in flows for given in view.logged.flows[flow].inputs)),
        "read_by": [flow.dataset for flow in view.logged.flows.values() if name in flow.inputs],
        "sources": _sources(view, flows),
        "expectations": rules,
        "declared_expectations": [] if defined is None else list(defined.expectations),
        "history": commits,
        "no_history": why,
        "code": _code(pipeline, name),
        "columns": _columns(defined),
        "no_columns": None if defined is not None and defined.schema else _OLD_LOG,
        "partition_by": [] if defined is None else list(defined.partition_by),
        "cluster_by": [] if defined is None else list(defined.cluster_by),
        "path": None if defined is None else defined.path,
    }
    lines = [sparkline([_rate(one) for one in rule["over_time"]]) for rule in rules]
    return Page("dataset.html", name, document, {"sparklines": lines})


def _now(view: PipelineView, name: str) -> dict[str, Any]:
    samples = view.samples
    newest = {column: at for (dataset, column), at in samples.of(catalogue.NEWEST_ROW).items() if dataset == name}
    targets = {column: s for (dataset, column), s in samples.of(catalogue.FRESHNESS_TARGET).items() if dataset == name}
    return {
        "rows": value_of(samples, catalogue.TABLE_ROWS, name),
        "bytes": value_of(samples, catalogue.TABLE_BYTES, name),
        "files": value_of(samples, catalogue.TABLE_FILES, name),
        "version": value_of(samples, catalogue.TABLE_VERSION, name),
        "last_commit_at": iso(value_of(samples, catalogue.TABLE_COMMIT, name)),
        "local_lag_s": value_of(samples, catalogue.LOCAL_LAG, name),
        "global_lag_s": value_of(samples, catalogue.GLOBAL_LAG, name),
        "quarantined": value_of(samples, catalogue.QUARANTINED, name),
        "freshness": [
            {"column": column, "newest_at": iso(newest.get(column)), "within_s": within_s}
            for column, within_s in targets.items()
        ],
    }


def _sources(view: PipelineView, flows: Iterable[str]) -> list[dict[str, str]]:
    given = (one for flow in flows for one in view.logged.flows[flow].external_inputs)
    return [{"kind": kind, "name": name} for kind, name in dict.fromkeys((one.kind, one.name) for one in given)]


def _expectations(reports: Iterable[Recorded], dataset: str) -> list[dict[str, Any]]:
    """The expectations in the newest batches, each with its counts over time, oldest first."""
    found: dict[str, list[tuple[Recorded, ExpectationCount]]] = {}
    for one in reports:
        for count in _counts(one, dataset):
            found.setdefault(count.name, []).append((one, count))
    return [
        {
            "name": name,
            "action": counts[-1][1].action.value,
            "passed": sum(count.passed for _, count in counts),
            "failed": sum(count.failed for _, count in counts),
            "over_time": [
                {"at": iso(one.at), "update_id": one.update_id, "passed": count.passed, "failed": count.failed}
                for one, count in counts
                if count.passed + count.failed
            ],
        }
        for name, counts in found.items()
    ]


def _counts(one: Recorded, dataset: str) -> tuple[ExpectationCount, ...]:
    match one.event:
        case BatchDone(dataset=written, counts=counts) if written == dataset:
            return counts.expectations
        case TableEvaluated(dataset=written, expectations=expectations) if written == dataset:
            return expectations
        case _:
            return ()


def _rate(one: dict[str, Any]) -> float:
    return float(one["passed"] / (one["passed"] + one["failed"]))


def _history(
    pipeline: ServedPipeline, name: str, defined: DatasetDefined | None, reports: Iterable[Recorded]
) -> tuple[list[dict[str, Any]], str | None]:
    """The newest commits of the table; or none, and why."""
    if defined is None or not defined.kind.stored:
        return [], _NOT_STORED
    settings = pipeline.settings
    try:
        path = settings.layout.table(settings.naming, settings.naming.canonical(name))
        commits = [commit.to_json() for commit in table_history(path, reports, _COMMITS)]
    except InvalidName as error:
        return [], f"{error}."
    except PipelineError as error:
        return [], f"{error.message}: {error.detail or error.hint}"
    return commits, None if commits else _NO_TABLE


def _code(pipeline: ServedPipeline, name: str) -> list[dict[str, Any]]:
    """Where the code of now defines it; none if that cannot be read from its text."""
    try:
        return [place.to_json() for place in code_places(pipeline.settings, name)]
    except (PipelineError, Problems, OSError, ValueError):
        return []


def _columns(defined: DatasetDefined | None) -> list[dict[str, Any]]:
    if defined is None or not defined.schema:
        return []
    columns = Schema.from_json(json.dumps(defined.schema)).columns
    return [
        {"name": one.name, "type": one.type_text, "is_nullable": one.nullable, "comment": one.comment}
        for one in columns
    ]
