"""How far a dataset is behind its sources at most: what is known of tables, and when other sources were last read."""

from __future__ import annotations

from headrace.assistant.doctor.facts import Facts
from headrace.events.types import FlowDefined
from headrace.metrics import catalogue
from headrace.metrics.dataset_lag import greatest_if_known
from headrace.model.outcome import UpdateState

_BATCH = "batch"


def longest_lag_s(facts: Facts, dataset: str) -> float | None:
    """The seconds that a dataset is behind at most, along all of its inputs; None if that is unknown.

    The age of unread commits of tables is known now. Of another source, the last report says what was unread, and
    what has arrived since is at most as old as that report.
    """
    return _longest(facts, dataset, frozenset())


def _longest(facts: Facts, dataset: str, below: frozenset[str]) -> float | None:
    flows = [flow for flow in facts.logged.flows.values() if flow.dataset == dataset]
    if not flows:
        return None
    inputs = {given for flow in flows for given in flow.inputs} - {dataset, *below}
    above = greatest_if_known([0.0, *(_longest(facts, name, below | {dataset}) for name in sorted(inputs))])
    own = greatest_if_known([_own(facts, flow) for flow in flows])
    return None if own is None or above is None else own + above


def _own(facts: Facts, flow: FlowDefined) -> float | None:
    if not flow.external_inputs:
        # The query of a view is computed by its readers.
        stored = facts.samples.of(catalogue.LOCAL_LAG).get((flow.dataset,))
        return 0.0 if flow.mode == "VIEW" else stored
    if all(given.kind == _BATCH for given in flow.external_inputs):
        # An update reads it as a whole.
        return facts.now - facts.logged.started_at if facts.logged.state == UpdateState.COMPLETED.value else None
    reports = facts.logged.backlogs.get(flow.flow, ())
    if not reports or any(reports[-1].unread.values()):
        return None
    return facts.now - reports[-1].at
