"""Checks whether the newest row of a table is as fresh as its expectations require."""

from __future__ import annotations

from headrace.errors import PipelineError
from headrace.events.types import TableEvaluated, Warned
from headrace.graph.resolved_flows import ResolvedFlow
from headrace.model.expectations import Action, Expectation, ExpectationCount
from headrace.model.lateness import duration
from headrace.model.table_rules import Fresh
from headrace.spark.expectations.table_rules import newest_micros
from headrace.spark.update.context import UpdateContext

_POLL_INTERVAL_S = 30.0


class FreshnessCheck:
    """Checks the table of one flow, which has no other flows.

    Args:
        context: the state that the flows of the update share.
        flow: the flow.
    """

    def __init__(self, context: UpdateContext, flow: ResolvedFlow) -> None:
        self._context = context
        self._flow = flow
        expectations = context.graph.by_name[flow.target].dataset.expectations
        self._rules = tuple(e for e in expectations if isinstance(e.predicate, Fresh))
        self._polled_at: float | None = None
        self._warned: frozenset[str] = frozenset()

    def evaluate(self) -> None:
        """Check the table at the end of an update, and record the result.

        Raises:
            PipelineError: EXPECTATION.STALE, for a rule that fails.
        """
        if not self._rules:
            return
        found = [(e, self._age_s(e)) for e in self._rules]
        counts = tuple(
            ExpectationCount(e.name, e.action, int(_holds(e, age)), int(not _holds(e, age))) for e, age in found
        )
        self._context.reporting.emit(TableEvaluated(self._flow.name, str(self._flow.target), counts))
        stale = [(e, age) for e, age in found if not _holds(e, age)]
        for e, age_s in stale:
            if e.action is Action.FAIL:
                raise self._problem(e, age_s)
            self._warn(e, age_s)

    def poll(self) -> None:
        """Check the table at intervals during an update, and warn once per violated rule until it holds again."""
        now = self._context.reporting.now()
        if not self._rules or (self._polled_at is not None and now - self._polled_at < _POLL_INTERVAL_S):
            return
        self._polled_at = now
        try:
            stale = {e.name: (e, age) for e in self._rules if not _holds(e, age := self._age_s(e))}
        except Exception:  # noqa: BLE001 - a failed check must not end a running stream
            return
        for name in stale.keys() - self._warned:
            self._warn(*stale[name])
        self._warned = frozenset(stale)

    def _age_s(self, expectation: Expectation) -> float | None:
        """The age of the newest row; None if no row has a time."""
        context = self._context
        assert isinstance(expectation.predicate, Fresh)  # noqa: S101 - only those are here
        newest = newest_micros(context.session, context.table_path(self._flow.target), expectation.predicate.column)
        return None if newest is None else context.reporting.now() - newest / 1e6

    def _problem(self, expectation: Expectation, age_s: float | None) -> PipelineError:
        return PipelineError(
            "EXPECTATION.STALE",
            location=expectation.location,
            flow=self._flow.name,
            dataset=self._flow.target,
            name=expectation.name,
            age=_age(age_s),
            rule=expectation.text,
        )

    def _warn(self, expectation: Expectation, age_s: float | None) -> None:
        problem, flow = self._problem(expectation, age_s), self._flow
        self._context.reporting.emit(Warned(problem.code, problem.message, flow.name, str(flow.target)))


def _holds(expectation: Expectation, age_s: float | None) -> bool:
    assert isinstance(expectation.predicate, Fresh)  # noqa: S101 - only those are here
    # A single time far in the future would otherwise make the table look fresh until then.
    return age_s is not None and abs(age_s) <= expectation.predicate.within_s


def _age(age_s: float | None) -> str:
    if age_s is None:
        return "has no time"
    return f"is {duration(round(abs(age_s)))} {'old' if age_s >= 0 else 'ahead of the clock'}"
