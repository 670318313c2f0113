"""What the page of the alerts says: of open, known, explained, pending and resolved ones, and of messages."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from tests.unit.serve.conftest import NOON, assert_golden, plain, rendered

from headrace.alerts.alert import Alert, AlertState
from headrace.alerts.messages import AlertEntry, Message, MessageKind, Pipeline
from headrace.alerts.notices import Notice
from headrace.alerts.outbox import Letter
from headrace.alerts.store import Reached, StoredAlerts
from headrace.model.alert_rules import Severity
from headrace.serve.pages.alerts_page import AlertFacts, alerts_facts
from headrace.settings.alert_settings import AlertSettings, Channel, Webhook
from headrace.settings.load import load_settings
from headrace.settings.storage import MonitoringFile

NOW = NOON.timestamp()
FAILED = Alert(
    "flow_failed",
    Severity.BAD,
    {"flow": "revenue"},
    'flow "revenue" failed',
    "headrace status",
    AlertState.OPEN,
    NOW - 3600,
    NOW,
)
OTHERS = (
    replace(FAILED, rule_id="lag_high", severity=Severity.WARN, labels={"flow": "orders", "dataset": "orders"}),
    replace(FAILED, labels={"flow": "a"}, acknowledged_by="ann"),
    replace(FAILED, labels={"flow": "b"}, silenced_until=NOW + 60),
    replace(FAILED, labels={"flow": "c"}, is_hidden=True),
    replace(FAILED, labels={"flow": "d"}, state=AlertState.PENDING),
    replace(FAILED, labels={"flow": "e"}, state=AlertState.RESOLVED, resolved_at=NOW - 60),
)
SLACK = Channel("slack", Webhook("https://hooks.example.com/T0/SECRET"))
SHOP = Pipeline("shop", "id", "file:///srv/shop/pipeline.yml")


def facts(*alerts, letters=(), notices=(), reached=(), channels=(SLACK,)):
    settings = replace(AlertSettings(), channels=channels)
    return AlertFacts(alerts, StoredAlerts(notices=notices, reached=reached), letters, settings, NOW)


def shown(found):
    return rendered("alerts.html", {"name": "shop", "as_of": "2026-11-20T12:00:00Z", "unread": [], **found})


def test_alerts_are_sentences_in_groups_and_messages_say_what_came_of_them():
    entry = AlertEntry.of(FAILED, SHOP)
    notices = (Notice("slack", FAILED.key, entry, NOW - 3600, NOW - 3590, 1, "m1", is_delivered=True),)
    message = Message("k", "slack", MessageKind.OPENED, "shop", "shop: 1 alert opened", NOW - 120)
    letters = (
        Letter(replace(message, key="new")),
        Letter(replace(message, created_at=NOW - 60), 3, NOW + 30, "HTTP 503"),
        Letter(replace(message, created_at=NOW - 90_000), 9, 0, "HTTP 404", given_up_at=NOW - 600),
    )
    reached = (Reached("slack", SLACK.digest, NOW - 86_400), Reached("mail", "other", NOW))

    found = alerts_facts(facts(*OTHERS, FAILED, letters=letters, notices=notices, reached=reached))

    assert [(one["group"], one["labels"]["flow"]) for one in found["alerts"]] == [
        ("open", "orders"),
        ("open", "revenue"),
        ("known", "a"),
        ("known", "b"),
        ("explained", "c"),
        ("pending", "d"),
        ("resolved", "e"),
    ]
    assert found["counts"] == {"open": 2, "known": 2, "explained": 1, "pending": 1, "resolved": 1}
    assert [one["state"] for one in found["outbox"]] == ["sent again", "not sent yet", "given up"]
    assert found["channels"][0]["tested_at"] == "2026-11-19T12:00:00Z"
    html = shown(found)
    assert "SECRET" not in html
    assert f"headrace alerts ack {FAILED.key}" in plain(html)
    assert_golden("alerts", html)


def test_without_alerts_and_channels_the_page_says_the_next_command():
    html = shown(alerts_facts(facts(channels=())))

    assert "headrace alerts check" in html
    assert "nobody gets a message" in html


def test_of_a_thousand_alerts_and_messages_a_part_is_shown():
    many = [replace(FAILED, labels={"flow": f"f{number}"}) for number in range(1000)]
    message = Message("k", "slack", MessageKind.OPENED, "shop", "title", NOW)
    letters = [Letter(replace(message, key=str(number))) for number in range(1000)]

    found = alerts_facts(facts(*many, letters=letters), 2)

    assert (len(found["alerts"]), found["paging"]) == (50, {"page": 2, "pages": 20, "total": 1000})
    assert (len(found["outbox"]), found["undelivered"]) == (50, 1000)


def test_alerts_of_a_newer_version_and_a_damaged_letter_are_named_and_the_page_is_shown(shop, served):
    layout = load_settings(shop.root / "pipeline.yml", environ={}).layout
    file, outbox = (Path(layout.monitoring(one)) for one in (MonitoringFile.ALERTS, MonitoringFile.OUTBOX))
    outbox.mkdir(parents=True)
    file.write_text('{"format": 99}')
    (outbox / "torn.json").write_text("{")
    browser = served(shop).sign_in()

    page = browser.call("/p/shop/alerts.json").json

    assert {one["part"] for one in page["unread"]} == {"the alerts", "what was sent"}
    assert "newer version" in browser.call("/p/shop/alerts").text
