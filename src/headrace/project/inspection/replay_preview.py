"""Counts which rows a replay of quarantined rows would write; writes nothing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from headrace.errors import PipelineError
from headrace.expectations.compile import evaluate
from headrace.expectations.split import counters, counts_from
from headrace.graph.resolved_flows import ChangeFlow, ResolvedFlow
from headrace.graph.select import Selection
from headrace.model.datasets import Kind
from headrace.model.outcome import FlowCounts
from headrace.plan.backfills import Replay, ReplayRequest
from headrace.plan.steps import Decision
from headrace.project.planning.plan_update import Planning
from headrace.project.resolution.resolve_request import Resolved
from headrace.project.resolution.resolver import Resolver
from headrace.settings.settings import Settings
from headrace.spark.errors.spark_errors import failure_report
from headrace.spark.queries.flow_frames import single_batch_rules
from headrace.spark.replay.quarantined_rows import quarantined_rows
from headrace.spark.session.scoped_confs import with_confs
from headrace.storage.change_detection import StoredState


@dataclass(frozen=True)
class ReplayPreview:
    """What a replay would do with the quarantined rows that it selects.

    Attributes:
        dataset: of the rows.
        counts: of them, by expectation.
    """

    dataset: str
    counts: FlowCounts

    @property
    def rows(self) -> int:
        """How many rows the replay selects."""
        return self.counts.rows_read

    @property
    def passing(self) -> int:
        """How many of them it would write."""
        return self.counts.rows_written

    def to_json(self) -> dict[str, Any]:
        """The preview as JSON."""
        rules = [{"name": one.name, "passed": one.passed, "failed": one.failed} for one in self.counts.expectations]
        counted = {"rows": self.rows, "passing": self.passing, "failing": self.rows - self.passing}
        return {"dataset": self.dataset, **counted, "expectations": rules}


class ReplayPreviews:
    """Previews of replays of one project.

    Args:
        planning: plans replays.
        resolver: of the project.
        state: the stored state.
        settings: the pipeline's.
        redact: removes secrets from a text.
    """

    def __init__(
        self,
        planning: Planning,
        resolver: Resolver,
        state: StoredState,
        settings: Settings,
        redact: Callable[[str], str],
    ) -> None:
        self._planning = planning
        self._resolver = resolver
        self._state = state
        self._settings = settings
        self._redact = redact

    def preview(self, request: ReplayRequest) -> ReplayPreview:
        """Evaluate the current expectations on the rows that a replay selects, with their new values.

        Rules about other rows of the table, such as unique keys, are evaluated among the selected rows alone.

        Raises:
            Problems, PipelineError: as of a replay; REPLAY.NO_PREVIEW for rows that have to be computed or delivered
                to know; the error with which an expression fails.
        """
        with self._planning.reading():
            wanted = self._planning.tables.update_request(Selection(), skip_unavailable=False)
            resolved = self._resolver.resolve(wanted)
            plan = self._planning.replay(resolved.graph, request)
            counts, dataset = FlowCounts(), request.name
            for step in plan.flows:
                if step.decision is not Decision.START or step.backfill is None or step.backfill.replay is None:
                    continue
                dataset = str(step.flow.target)
                _check_can_be_counted(resolved, step.flow, step.backfill.replay)
                counts = counts.plus(self._counts(resolved, step.flow, step.backfill.replay))
            return ReplayPreview(dataset, counts)

    def _counts(self, resolved: Resolved, flow: ResolvedFlow, requested: Replay) -> FlowCounts:
        dataset, catalog = resolved.graph.by_name[flow.target], resolved.catalog
        record = self._state.progress_of(flow)
        table_rules = single_batch_rules(dataset, catalog)
        rules = table_rules.rules
        path = self._settings.layout.quarantine(self._settings.naming, flow.target)
        try:
            with with_confs(catalog.session, flow.flow.spark_conf):
                rows = quarantined_rows(catalog.session, path, dataset.schema, record, requested)
                if rules.expectations:
                    rows = evaluate(table_rules.with_rule_columns(rows), rules, catalog.session)
                return counts_from(rows.agg(*counters(rules)).collect()[0].asDict(), rules)
        except Exception as error:
            expectations = dataset.dataset.expectations
            problem = failure_report(flow.flow, error, self._settings.root, expectations).error
            params = {key: self._redact(value) for key, value in problem.params.items()}
            raise PipelineError(problem.code, location=problem.location, **params) from error


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
