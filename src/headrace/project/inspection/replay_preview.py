"""Counts which rows a replay of quarantined rows would write; writes nothing."""

from __future__ import annotations

from collections.abc import Callable

from headrace.errors import PipelineError
from headrace.expectations.compile import evaluate
from headrace.expectations.split import counters, counts_from
from headrace.graph.resolved_flows import ChangeFlow, ResolvedFlow
from headrace.model.datasets import Kind
from headrace.model.outcome import FlowCounts
from headrace.model.replay_preview import ReplayPreview
from headrace.plan.backfills import Replay
from headrace.plan.steps import Decision, Plan
from headrace.project.resolution.resolve_request import Resolved
from headrace.settings.settings import Settings
from headrace.spark.errors.spark_errors import failure_report
from headrace.spark.queries.flow_frames import single_batch_rules
from headrace.spark.replay.quarantined_rows import quarantined_rows
from headrace.spark.session.scoped_confs import with_confs
from headrace.storage.change_detection import StoredState


def replay_preview(
    plan: Plan, resolved: Resolved, state: StoredState, settings: Settings, redact: Callable[[str], str]
) -> ReplayPreview:
    """Evaluate the current expectations on the rows that a replay selects, with their new values.

    Args:
        plan: of the replay.
        resolved: the project.
        state: the stored state.
        settings: the pipeline's.
        redact: removes secrets from a text.

    Raises:
        PipelineError: REPLAY.NO_PREVIEW; the error with which an expression fails.
    """
    counts, dataset = FlowCounts(), ""
    for step in plan.flows:
        if step.decision is not Decision.START or step.backfill is None or step.backfill.replay is None:
            continue
        flow = step.flow
        dataset = str(flow.target)
        _check_can_be_counted(resolved, flow, step.backfill.replay)
        try:
            counts = counts.plus(_counts(resolved, flow, state, settings, step.backfill.replay))
        except Exception as error:
            rules = resolved.graph.by_name[flow.target].dataset.expectations
            problem = failure_report(flow.flow, error, settings.root, rules).error
            params = {key: redact(value) for key, value in problem.params.items()}
            raise PipelineError(problem.code, location=problem.location, **params) from error
    return ReplayPreview(dataset, counts)


def _check_can_be_counted(resolved: Resolved, flow: ResolvedFlow, requested: Replay) -> None:
    reason = ""
    if requested.dead_letter_ids is not None:
        reason = "The query, or the sink, decides about dead letters when they are replayed"
    elif requested.from_source:
        reason = "The records of the source are read when they are replayed"
    elif isinstance(flow, ChangeFlow) or resolved.graph.by_name[flow.target].kind is Kind.SINK:
        reason = "Its rows are not appended to a table"
    if reason:
        raise PipelineError("REPLAY.NO_PREVIEW", name=str(flow.target), reason=reason)


def _counts(
    resolved: Resolved, flow: ResolvedFlow, state: StoredState, settings: Settings, requested: Replay
) -> FlowCounts:
    dataset, catalog = resolved.graph.by_name[flow.target], resolved.catalog
    table_rules = single_batch_rules(dataset, catalog)
    rules = table_rules.rules
    path = settings.layout.quarantine(settings.naming, flow.target)
    with with_confs(catalog.session, flow.flow.spark_conf):
        rows = quarantined_rows(catalog.session, path, dataset.schema, state.progress_of(flow), requested)
        if rules.expectations:
            rows = evaluate(table_rules.with_rule_columns(rows), rules, catalog.session)
        return counts_from(rows.agg(*counters(rules)).collect()[0].asDict(), rules)
