"""What the API has of one dataset: the commits of its table, its columns, and its expectations over time."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from headrace.events.recorded import Recorded, batches_of_flows
from headrace.model.names import InvalidName
from headrace.project.inspection.pipeline_view import PipelineView
from headrace.project.inspection.table_history import schema_at, schema_versions
from headrace.serve.api.query_values import Values, before_of, limit_of, stretch_of
from headrace.serve.api.routes import COMMITS, EVALUATIONS, SCHEMA_COMMITS
from headrace.serve.formats import iso
from headrace.serve.pages.expectation_facts import expectation_facts
from headrace.serve.pages.facts import flows_into
from headrace.serve.pages.history_facts import NOT_STORED, commit_facts, table_path
from headrace.serve.pages.schema_facts import column_facts, schema_history, schema_of, version_facts
from headrace.serve.pipelines import ServedPipeline


def history(pipeline: ServedPipeline, values: Values) -> Mapping[str, Any]:
    """The commits of the table of a dataset, the newest first.

    Raises:
        PipelineError: SERVE.NO_PAGE, API.FIELD, EVENTS.NOT_READABLE, STORAGE.*.
    """
    view, name = pipeline.view(), values["dataset"]
    flows, newest, before = flows_into(view, name), limit_of(values, COMMITS), before_of(values)
    path, reason = _table(pipeline, view, name)
    commits = [] if path is None else commit_facts(pipeline, flows, path, pipeline.reports(flows), newest, before)
    return {
        "dataset": name,
        "as_of": iso(view.as_of),
        "commits": commits,
        "no_table": reason,
        # Version 0 is the first one; older ones may have been removed from the log.
        "earlier": commits[-1]["version"] or None if len(commits) == newest else None,
    }


def schema(pipeline: ServedPipeline, values: Values) -> Mapping[str, Any]:
    """The columns of a dataset, and how they changed from update to update, and from version to version of its table.

    Raises:
        PipelineError: SERVE.NO_PAGE, API.FIELD, EVENTS.NOT_READABLE, STORAGE.*.
    """
    view, name = pipeline.view(), values["dataset"]
    flows_into(view, name)
    newest, before = limit_of(values, SCHEMA_COMMITS), before_of(values)
    path, reason = _table(pipeline, view, name)
    versions, earliest = ((), None) if path is None else schema_versions(path, newest, before)
    defined = view.logged.datasets.get(name)
    declared = None if defined is None else schema_of(defined.schema)
    stored = None if path is None else schema_at(path)
    return {
        "dataset": name,
        "as_of": iso(view.as_of),
        "columns": None if declared is None else column_facts(declared),
        "table_columns": None if stored is None else column_facts(stored),
        "partition_by": [] if defined is None else list(defined.partition_by),
        "cluster_by": [] if defined is None else list(defined.cluster_by),
        "updates": schema_history(pipeline.definitions(name)),
        "versions": version_facts(versions),
        "no_table": reason,
        "earlier": earliest or None,
    }


def expectations(pipeline: ServedPipeline, values: Values) -> Mapping[str, Any]:
    """The expectations of a dataset, each with its counts in the newest batches of a part of the event log.

    Raises:
        PipelineError: SERVE.NO_PAGE, API.FIELD, EVENTS.NOT_READABLE.
    """
    view, name = pipeline.view(), values["dataset"]
    flows, newest, stretch = flows_into(view, name), limit_of(values, EVALUATIONS), stretch_of(values)
    batches = batches_of_flows(pipeline.events(), flows, newest, stretch)
    defined = view.logged.datasets.get(name)
    return {
        "dataset": name,
        "as_of": iso(view.as_of),
        "declared": [] if defined is None else list(defined.expectations),
        "expectations": expectation_facts(batches, name),
        "earlier": earlier_of(batches, newest),
    }


def earlier_of(batches: list[Recorded], newest: int) -> int | None:
    """What ``before`` has to be for the batches before some, which are in order; None if there are no others."""
    return batches[0].sequence if len(batches) == newest else None


def _table(pipeline: ServedPipeline, view: PipelineView, name: str) -> tuple[str | None, str | None]:
    """Where the table of a dataset is; or why it has none."""
    defined = view.logged.datasets.get(name)
    if defined is None or not defined.kind.stored:
        return None, NOT_STORED
    try:
        return table_path(pipeline, name), None
    except InvalidName as error:
        return None, f"{error}."
