"""A dataset: what it is like now, what wrote it, its expectations, its columns and their lineage, and its code."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from headrace.errors import PipelineError, Problems
from headrace.events.recorded import Recorded
from headrace.events.types import DatasetDefined
from headrace.metrics import catalogue
from headrace.model.names import InvalidName
from headrace.model.schema import Schema
from headrace.project.inspection.code_places import code_texts
from headrace.project.inspection.pipeline_view import PipelineView
from headrace.project.inspection.table_history import schema_at
from headrace.serve.charts import share_bars, sparkline
from headrace.serve.formats import iso
from headrace.serve.pages.expectation_facts import expectation_facts
from headrace.serve.pages.facts import flow_facts, flow_values, flows_into, health_of, kind_of, value_of
from headrace.serve.pages.history_facts import NOT_STORED, commit_facts, table_path
from headrace.serve.pages.lineage_facts import lineage_facts
from headrace.serve.pages.schema_facts import changes_between, column_facts, schema_history, schema_of
from headrace.serve.pipelines import ServedPipeline
from headrace.serve.render import Page
from headrace.serve.whole_numbers import whole_number

_COMMITS = 30
_POINTS = 60
_CODE_LINES = 200
_NO_TABLE = "No update has written the table yet."
_OLD_LOG = "The event log of an older version of Headrace does not have the columns."


@dataclass(frozen=True)
class Asked:
    """What a request asks of the page: commits before a version, and two versions to compare; None for nothing."""

    before: int | None = None
    first: int | None = None
    second: int | None = None

    @classmethod
    def of(cls, query: Mapping[str, str]) -> Asked:
        """What a query asks; what is no version is ignored."""
        return cls(*(whole_number(query.get(name, "")) for name in ("before", "from", "to")))


def dataset_page(pipeline: ServedPipeline, name: str, asked: Asked | None = None) -> Page:
    """The page of a dataset.

    Raises:
        PipelineError: SERVE.NO_PAGE, EVENTS.NOT_READABLE.
    """
    view, asked = pipeline.view(), asked or Asked()
    flows = flows_into(view, name)
    values, reports = flow_values(view), pipeline.reports(flows)
    defined = view.logged.datasets.get(name)
    rules = expectation_facts(reports, name)
    schema = None if defined is None else schema_of(defined.schema)
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
        **_history(pipeline, flows, defined, reports, asked),
        "code": _code(pipeline, name),
        "columns": [] if schema is None else column_facts(schema),
        "no_columns": None if schema is not None else _OLD_LOG,
        "lineage": pipeline.remembered.of(("lineage", name), lambda: _lineage(view, name, schema)),
        "schema_history": schema_history(pipeline.definitions(name)),
        "partition_by": [] if defined is None else list(defined.partition_by),
        "cluster_by": [] if defined is None else list(defined.cluster_by),
        "path": None if defined is None else defined.path,
    }
    lines = [sparkline([_rate(one) for one in rule["over_time"]]) for rule in rules]
    charts = [share_bars([1 - _rate(one) for one in rule["over_time"][-_POINTS:]]) for rule in rules]
    return Page("dataset.html", name, document, {"sparklines": lines, "failed": charts})


def _lineage(view: PipelineView, name: str, schema: Schema | None) -> dict[str, Any]:
    return lineage_facts(name, () if schema is None else schema.names, view.logged.flows.values())


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


def _rate(one: dict[str, Any]) -> float:
    return float(one["passed"] / (one["passed"] + one["failed"]))


def _history(
    pipeline: ServedPipeline,
    flows: Collection[str],
    defined: DatasetDefined | None,
    reports: Iterable[Recorded],
    asked: Asked,
) -> dict[str, Any]:
    """Commits of the table, or why there are none; and two of its versions side by side, if that is asked."""
    if defined is None or not defined.kind.stored:
        return {**_NO_HISTORY, "no_history": NOT_STORED}
    try:
        path = table_path(pipeline, defined.dataset)
        commits = commit_facts(pipeline, flows, path, reports, _COMMITS, asked.before)
    except InvalidName as error:
        return {**_NO_HISTORY, "no_history": f"{error}."}
    except PipelineError as error:
        return {**_NO_HISTORY, "no_history": f"{error.message}: {error.detail or error.hint}"}
    none = _NO_TABLE if asked.before is None else "The log of the table has no earlier commit."
    return {
        "history": commits,
        "no_history": None if commits else none,
        "earlier": commits[-1]["version"] if len(commits) == _COMMITS and commits[-1]["version"] else None,
        "compared": _compared(path, asked),
    }


_NO_HISTORY: Mapping[str, Any] = {"history": [], "earlier": None, "compared": None}


def _compared(path: str, asked: Asked) -> dict[str, Any] | None:
    """The columns of two versions side by side; None if that is not asked."""
    if asked.first is None or asked.second is None:
        return None
    versions = {"from": asked.first, "to": asked.second}
    schemas = []
    for version in (asked.first, asked.second):
        try:
            schema = schema_at(path, version)
        except PipelineError:
            schema = None
        if schema is None:
            problem = f"The log of the table does not have version {version}."
            return {**versions, "changes": [], "problem": problem}
        schemas.append(schema)
    return {**versions, "changes": changes_between(*schemas), "problem": None}


def _code(pipeline: ServedPipeline, name: str) -> list[dict[str, Any]]:
    """Where the code of now defines it, with its text; none if that cannot be read from its text."""
    try:
        places = code_texts(pipeline.settings, name)
    except (PipelineError, Problems, OSError, ValueError):
        return []
    found = []
    for place in places:
        lines = place.text.splitlines()
        more = max(len(lines) - _CODE_LINES, 0)
        shown = {"text": "\n".join(lines[:_CODE_LINES]), "more_lines": more}
        found.append({**place.location.to_json(), **shown})
    return found
