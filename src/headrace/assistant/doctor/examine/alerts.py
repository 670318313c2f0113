"""What rules of alerts find: the doctor has their conditions, their limits and their words."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from headrace.alerts.conditions import findings
from headrace.assistant.doctor.checks import Severity, checks_by
from headrace.assistant.doctor.examine.updates import check_of_error
from headrace.assistant.doctor.facts import Facts
from headrace.assistant.doctor.findings import Finding, found
from headrace.model.alert_rules import Severity as Urgency

SEVERITIES: Mapping[Urgency, Severity] = {
    Urgency.BAD: Severity.ERROR,
    Urgency.WARN: Severity.WARNING,
    Urgency.INFO: Severity.ADVICE,
}
# A failed update is the failure of its flows, whose errors say more. Rows in quarantine are kept, and can be replayed.
# Checkpoints and old files are examined themselves.
NOT_EXAMINED = frozenset(
    {"update_failed", "flow_failed", "expectation_rate", "quarantine_growing", "checkpoint_bad", "unreferenced"}
)
# With more evidence than the metrics have: the log of Java, and the errors of retries.
_EXAMINED_ELSEWHERE = frozenset({"update_lost"})
# Its error says what is wrong.
_RESTARTING = "flow_restarting"
# What only the user knows, such as the name of a column.
_PLACEHOLDER = "COLUMN"


def examine_alerts(facts: Facts) -> Iterator[Finding]:
    """The conditions of alerts that hold now, however long they have."""
    for alert in findings(facts.alert_facts, facts.settings.alerts.rules):
        rule = alert.rule
        check = checks_by("alerts").get(rule.rule_id)
        if check is None or rule.rule_id in _EXAMINED_ELSEWHERE:
            continue
        flow, dataset = alert.labels.get("flow"), alert.labels.get("dataset")
        failure = facts.logged.failures.get(flow or "")
        if rule.rule_id == _RESTARTING and failure is not None:
            check = check_of_error(failure.error)
        if dataset is None and flow is not None:
            dataset = facts.dataset_of(flow)
        yield found(
            check.check_id,
            alert.message,
            severity=SEVERITIES[rule.severity],
            remedy=rule.runbook,
            flow=flow or (facts.flow_into(dataset) if dataset is not None else None),
            dataset=dataset,
            command=None if _PLACEHOLDER in alert.first_step else alert.first_step,
        )
