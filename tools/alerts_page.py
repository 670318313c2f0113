"""The page of the alert rules."""

from __future__ import annotations

from headrace.model.alert_rules import Rule, rules

_START = """\
# Alerts

`headrace alerts check` checks these rules against the [metrics](metrics.md) of a pipeline, stores what it finds in
`system/alerts.json`, and sends messages to the channels of the settings. It exits with 1 if an alert is open that nobody
has acknowledged or silenced, so cron or a scheduler can call it. It needs neither Java nor a running process. If the
settings have channels, each update also checks at its end, and a continuous update every 15 seconds.
[Get notified](../how-to/monitor.md#get-notified) shows how to set up a channel.

    headrace alerts check
    headrace alerts list
    headrace alerts ack ID
    headrace alerts silence ID --hours 8
    headrace alerts test CHANNEL
    headrace alerts export --format prometheus

Each rule says when its alert opens: at once, or after its condition has held at every check for some minutes. The alert
is resolved once the condition has not held for twice that time, and at least a minute. Increases are measured against an
earlier check, which must not be older than twice the time of the rule. So check at least every 10 minutes. Lag,
throughput, batches and watermarks are checked while a flow runs, by what was measured since it started. If the trigger of
the flow has an interval, the limits of lag and batches are longer by it. While a flow's failure is open, and nobody has
acknowledged or silenced it, alerts about its lag, throughput, batches and watermark are hidden.

`freshness` needs a target, by `dp.fresh` or in the settings, and `checkpoint_bad` and `unreferenced` come from a look at the
storage once an hour, which is repeated after each update.

A failure stays open while the flow, or the update, runs again and has committed no batch. So a pipeline that fails
whenever it is started sends one message, and repeats it every `repeat`. A silence also holds for an alert that is resolved
and opens again.

## Messages

| when | what |
| --- | --- |
| alerts open | one message for all that opened together; in a continuous update, within `group` (30 seconds) |
| an alert stays open | the message is repeated every `repeat` (4 hours), unless somebody acknowledged or silenced it |
| an alert is resolved | one message, if the channel has accepted one about the opening |
| in `quiet_hours` | no message about alerts of their severities; what is still due afterwards is sent by the next check |

A message is stored in `system/outbox` before it is sent. If the receiver is down or slow, it is sent again after 1, 2, 4,
... 300 seconds, by a running continuous update, the next update or the next check, for a day. If the receiver refuses it
(status 3xx, 4xx other than 408, 425 and 429, or an SMTP code of 500 or more), it is given up at once. `headrace alerts
list` shows what waits and what was given up. Every attempt has the same header `Idempotency-Key`, or `Message-ID` of
mail, because a message can arrive twice. The text of a message lists its first 20 alerts.

| format | body |
| --- | --- |
| `json` | `version`, `kind` (`opened`, `repeated`, `resolved`, `update`, `test`), `status`, `pipeline`, `title`, `text`, and `alerts` with the fields of Alertmanager: `labels`, `annotations`, `startsAt`, `endsAt`, `generatorURL` |
| `alertmanager` | the list of alerts that `/api/v2/alerts` of Alertmanager takes. An open alert ends after two times `repeat` unless it is repeated |
| `slack` | a text for an incoming webhook |
| `teams` | an adaptive card for a workflow |

With `signing_secret`, the header `X-Headrace-Signature` is `sha256=` and the HMAC of the body. Redirects are not
followed. If the environment names a proxy that cannot be used, messages wait until it is corrected.

`notifications`, the vendor's setting, sends mail about updates over the first channel with `smtp`. A failed update is a
fatal failure, unless a retry of its error may help.

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
