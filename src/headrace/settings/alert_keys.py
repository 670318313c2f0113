"""The keys of ``alerts``: rules, and channels that messages are sent over."""

from __future__ import annotations

from headrace.settings.key import ValueType, used

_SEVERITIES = ("info", "warn", "bad")

ALERT_KEYS = (
    used(
        "alerts",
        ValueType.SECTION,
        "[Alerts](alerts.md): their rules, and where to send them. In a profile, it replaces the whole section.",
        in_profile=True,
    ),
    used(
        "alerts.rules",
        ValueType.SWITCHED_SECTIONS,
        "Changes a rule by its name, or switches it `off`.",
        "[all rules](alerts.md)",
    ),
    used("alerts.rules.*.threshold", ValueType.DECIMAL, "The value from which the rule finds something.", "the rule's"),
    used(
        "alerts.rules.*.for",
        ValueType.TEXT,
        "How long its condition must hold before an alert opens, such as `5m`.",
        "the rule's",
    ),
    used("alerts.rules.*.severity", ValueType.TEXT, "`info`, `warn` or `bad`.", "the rule's", choices=_SEVERITIES),
    used("alerts.datasets", ValueType.NAMED_SECTIONS, "Limits of single datasets.", "none"),
    used(
        "alerts.datasets.*.lag",
        ValueType.TEXT,
        "The threshold of `lag_high` for its flows, such as `5m`.",
        "the rule's",
    ),
    used(
        "alerts.datasets.*.freshness",
        ValueType.TEXT,
        "How far it may be behind its sources, along the whole path, before `freshness` opens, such as `10m`.",
        "none",
    ),
    used(
        "alerts.deliver",
        ValueType.NAMED_SECTIONS,
        "Channels by name. Each has one of `webhook`, `smtp` and `apprise`. Without channels, an update does not check "
        "alerts.",
        "none",
    ),
    used(
        "alerts.deliver.*.webhook",
        ValueType.TEXT,
        "URL that messages are posted to. It can contain references to secrets.",
    ),
    used(
        "alerts.deliver.*.format",
        ValueType.TEXT,
        "Body of a webhook: `json`, `slack`, `teams` or `alertmanager` (the URL ends with `/api/v2/alerts`).",
        "`json`",
    ),
    used(
        "alerts.deliver.*.signing_secret",
        ValueType.TEXT,
        "Reference to a secret that signs each body: `X-Headrace-Signature: sha256=HMAC`.",
        "none",
    ),
    used(
        "alerts.deliver.*.smtp",
        ValueType.TEXT,
        "Mail server, as `host:port`, or a reference to it, such as `${env:SMTP_SERVER}`. Port 465 uses TLS; on any "
        "other, STARTTLS is used if the server has it.",
    ),
    used("alerts.deliver.*.from", ValueType.TEXT, "Sender of the mail. Required with `smtp`."),
    used("alerts.deliver.*.to", ValueType.TEXTS, "Recipients of alerts.", "none: only `notifications` are sent"),
    used("alerts.deliver.*.user", ValueType.TEXT, "User at the mail server.", "none"),
    used("alerts.deliver.*.password", ValueType.TEXT, "Reference to the secret with the password.", "none"),
    used("alerts.deliver.*.apprise", ValueType.TEXT, "Reference to the secret with a URL of Apprise."),
    used("alerts.deliver.*.min_severity", ValueType.TEXT, "The least severity to send.", "`info`", choices=_SEVERITIES),
    used("alerts.repeat", ValueType.TEXT, "When to repeat a message about an alert that is still open.", "`4h`"),
    used(
        "alerts.group",
        ValueType.TEXT,
        "In a continuous update, alerts that open within this time are one message.",
        "`30s`",
    ),
    used(
        "alerts.quiet_hours",
        ValueType.SECTIONS,
        "Hours in which messages about some alerts wait until they end. Alerts that are over by then are not reported.",
        "none",
    ),
    used(
        "alerts.quiet_hours[].hours",
        ValueType.TEXT,
        "Times of day and their time zone, such as `22:00-07:00 Europe/Berlin`. Required.",
    ),
    used("alerts.quiet_hours[].severities", ValueType.TEXTS, "The severities of these alerts.", "`[info, warn]`"),
)
