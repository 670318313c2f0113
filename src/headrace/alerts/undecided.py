"""Which alerts cannot be decided yet: what failed runs again, and nothing shows that it works. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from headrace.alerts.alert import Alert, AlertState
from headrace.metrics import catalogue
from headrace.metrics.samples import Samples
from headrace.model.outcome import ACTIVE_STATES, FlowState, UpdateState

_OF_UPDATES = frozenset({"update_failed", "update_lost"})
_OF_FLOWS = "flow_failed"
_ACTIVE = frozenset(state.value for state in ACTIVE_STATES)


def undecided(alerts: Iterable[Alert], samples: Samples) -> frozenset[str]:
    """The keys of alerts that stay open although their conditions do not hold.

    A pipeline that fails whenever it is started would otherwise have its alerts resolved and opened by every update. So
    the failure of a flow stays open while the flow runs and has committed no batch since. That of an update stays open
    while an update runs and no flow has committed a batch since, or the failure of a flow is open.
    """
    is_open = [alert for alert in alerts if alert.state is AlertState.OPEN]
    states = {flow: state for flow, _, state in samples.of(catalogue.FLOW_STATE)}
    batches = {flow: at for (flow,), at in samples.of(catalogue.LAST_BATCH).items()}
    flows = set()
    for alert in is_open:
        flow = alert.labels.get("flow", "")
        if alert.rule_id == _OF_FLOWS and states.get(flow) in _ACTIVE:
            flows |= set() if batches.get(flow, 0) > alert.last_true_at else {alert.key}
    if (UpdateState.RUNNING.value,) not in samples.of(catalogue.UPDATE_STATE):
        return frozenset(flows)
    has_failed_flow = bool(flows) or FlowState.FAILED.value in states.values()
    newest_batch_at = max(batches.values(), default=0)
    updates = {
        alert.key
        for alert in is_open
        if alert.rule_id in _OF_UPDATES and (has_failed_flow or newest_batch_at <= alert.last_true_at)
    }
    return frozenset(flows | updates)
