"""Alerts in the settings: rules with their limits, channels with references to secrets, the vendor's notifications."""

from __future__ import annotations

import pytest

from headrace.errors import PipelineError
from headrace.model.alert_rules import Severity, rules
from headrace.settings.alert_settings import BodyFormat, MailServer, UpdateNotice, Webhook
from headrace.settings.load import load_settings
from headrace.settings.secrets import Secrets

TEXT = """\
name: shop
alerts:
  rules:
    lag_high: {threshold: 60.5, for: 90s, severity: warn}
    disk_low: off
    update_lost: {for: 0s}
  datasets:
    orders: {lag: 5m}
  deliver:
    ops: {webhook: "${secret:alerts/url}", format: teams, signing_secret: "{{secrets/alerts/key}}", min_severity: warn}
    mail: {smtp: "smtp.example.com:587", from: a@example.com, user: me, password: "${env:SMTP_PASSWORD}"}
  repeat: 60min
  group: 0.5m
notifications:
  - email_recipients: [ops@example.com]
    alerts: [on-update-success, on-flow-failure]
profiles:
  dev: {alerts: {deliver: {local: {webhook: "http://127.0.0.1:8080/"}}}, notifications: []}
"""


@pytest.fixture
def file(tmp_path):
    found = tmp_path / "pipeline.yml"
    found.write_text(TEXT)
    return found


def alerts(file, profile=None):
    return load_settings(file, profile=profile, environ={}).alerts


def test_rules_have_the_values_of_the_settings_and_switched_off_ones_are_gone(file):
    found = alerts(file)

    lag = found.rules["lag_high"]
    assert (lag.threshold, lag.for_s, lag.severity) == (60.5, 90, Severity.WARN)
    assert set(rules()) - set(found.rules) == {"disk_low"}
    assert found.rules["flow_failed"] == rules()["flow_failed"]
    assert (dict(found.lag_limits_s), found.repeat_s, found.group_s) == ({"orders": 300}, 3600, 30)


def test_channels_refer_to_secrets_until_they_are_resolved_and_never_show_them(file):
    secrets = Secrets({"HEADRACE_SECRET_ALERTS_URL": "https://hook/t0k3n", "HEADRACE_SECRET_ALERTS_KEY": "k3y-of-mine"})

    ops = alerts(file).channel("ops")
    resolved = ops.resolved(secrets, {})

    assert (ops.min_severity, ops.takes_alerts) == (Severity.WARN, True)
    assert resolved.target == Webhook("https://hook/t0k3n", BodyFormat.TEAMS, "k3y-of-mine")
    assert "t0k3n" not in repr(resolved) + secrets.redact("failed at https://hook/t0k3n")


def test_a_mail_server_without_recipients_only_sends_notifications(file):
    found = alerts(file)

    assert found.mail_channel.target == MailServer(
        "smtp.example.com", 587, "a@example.com", (), "me", "${env:SMTP_PASSWORD}"
    )
    assert [channel.name for channel in found.alert_channels] == ["ops"]
    (notification,) = found.notifications
    assert notification.notices == {UpdateNotice.SUCCESS, UpdateNotice.FLOW_FAILURE}


@pytest.mark.parametrize("smtp", ["${env:SERVER}", "${secret:alerts/server}", "${env:HOST}:${env:PORT}"])
def test_a_mail_server_may_be_a_reference(tmp_path, smtp):
    (tmp_path / "pipeline.yml").write_text(
        f'name: shop\nalerts: {{deliver: {{mail: {{smtp: "{smtp}", from: a@example.com}}}}}}\n'
    )
    environ = {"SERVER": "[::1]:25", "HEADRACE_SECRET_ALERTS_SERVER": "[::1]:25", "HOST": "[::1]", "PORT": "25"}
    mail = alerts(tmp_path / "pipeline.yml").channel("mail")

    resolved = mail.resolved(Secrets(environ), environ).target
    with pytest.raises(PipelineError) as refused:
        mail.resolved(Secrets(dict.fromkeys(environ, "x")), dict.fromkeys(environ, "x"))

    assert (resolved.host, resolved.port) == ("::1", 25)
    assert refused.value.code == "ALERTS.INVALID_SERVER"


def test_a_profile_replaces_alerts_as_a_whole(file):
    found = alerts(file, "dev")

    assert ([channel.name for channel in found.channels], found.notifications) == (["local"], ())
    assert dict(found.rules) == dict(rules())


def test_an_unknown_channel_is_refused_with_the_known_ones(file):
    with pytest.raises(PipelineError) as refused:
        alerts(file).channel("opps")

    assert (refused.value.code, refused.value.detail) == ("ALERTS.UNKNOWN_CHANNEL", "Channels: ops, mail.")
