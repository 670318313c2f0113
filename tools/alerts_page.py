"""The page of the alert rules."""

from __future__ import annotations

from headrace.alerts.rules import Rule, rules

_START = """\
# Alerts

`headrace alerts check` checks these rules against the [metrics](metrics.md) of a pipeline, and stores what it finds in
`system/alerts.json`. It exits with 1 if an alert is open that nobody has acknowledged or silenced, so cron or a
scheduler can call it. It needs neither Java nor a running process.

    headrace alerts check
    headrace alerts list
    headrace alerts ack ID
    headrace alerts silence ID --hours 8

Each rule says when its alert opens: at once, or after its condition has held at every check for some minutes. The alert
is resolved once the condition has not held for twice that time, and at least a minute. Increases are measured against an
earlier check, which must not be older than twice the time of the rule. So check at least every 10 minutes. Lag and
throughput are checked while a flow runs. While a flow's failure is open, and nobody has acknowledged or silenced it,
alerts about its lag and its throughput are hidden.

Notices are not sent yet: use the exit code, or `--output json`.

"""


def alerts_page() -> str:
    """The expected text of docs/reference/alerts.md."""
    return _START + "\n".join(map(_section, rules().values()))


def _section(rule: Rule) -> str:
    facts = [f"- Severity: {rule.severity.value}"]
    facts += [f"- Threshold: {rule.threshold:,}"] if rule.threshold else []
    facts += [f"- Measured over: {rule.window_s / 60:g} minutes"] if rule.window_s else []
    facts += [f"- At least {rule.least_rows} rows"] if rule.least_rows else []
    facts += [f"- Opens after: {rule.for_s / 60:g} minutes"] if rule.for_s else ["- Opens at once"]
    lines = [f"## {rule.rule_id}", f"`{rule.message}`", "\n".join(facts), f"**First step:** `{rule.first_step}`"]
    return "\n\n".join([*lines, rule.runbook]) + "\n"
