"""Which messages are due: one about each opening, repeated ones, and one about an end that follows an opening."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.alerts.alert import advance
from headrace.alerts.conditions import Finding
from headrace.alerts.messages import Message, MessageKind, Pipeline
from headrace.alerts.notices import Undelivered, due_messages
from headrace.model.alert_rules import Severity, rules
from headrace.model.time_window import TimeWindow
from headrace.settings.alert_settings import AlertSettings, Channel, MailServer, QuietHours, Webhook

NOW = 1_795_000_000.0
PIPELINE = Pipeline("shop", "p1", "file:///srv/shop/pipeline.yml")
OPS = Channel("ops", Webhook("http://127.0.0.1/"))
SETTINGS = AlertSettings(channels=(OPS,))
FAILED = Finding(rules()["flow_failed"], {"flow": "orders", "dataset": "orders"})
OTHER = Finding(rules()["flow_failed"], {"flow": "visits", "dataset": "visits"})


class Channels:
    """The alerts of a pipeline, and a receiver that accepts messages while it is up."""

    def __init__(self, channels=SETTINGS):
        self.settings = channels
        self.alerts, self.notices = (), ()
        self.waiting, self.given_up = {}, set()
        self.accepted: list[Message] = []
        self.is_up = True

    def check(self, now, *found, last=True, change=lambda alert: alert):
        """The messages that are due at a check."""
        self.alerts = tuple(change(alert) for alert in advance(self.alerts, found, now))
        undelivered = Undelivered(frozenset(self.waiting), frozenset(self.given_up))
        messages, self.notices = due_messages(
            self.alerts, self.notices, undelivered, self.settings, PIPELINE, now, is_last_check=last
        )
        self.waiting |= {message.message_id: message for message in messages}
        if self.is_up:
            self.accepted += self.waiting.values()
            self.waiting = {}
        return [(message.kind.value, [entry.labels["flow"] for entry in message.alerts]) for message in messages]

    def resolve(self, now):
        """The messages after the condition has not held for long enough."""
        return self.check(now + 60)


@pytest.fixture
def channels():
    return Channels()


def test_an_alert_is_reported_once_repeated_after_hours_and_resolved_once(channels):
    assert channels.check(NOW, FAILED) == [("opened", ["orders"])]
    assert channels.check(NOW + 4 * 3600 - 1, FAILED) == []
    assert channels.check(NOW + 4 * 3600, FAILED) == [("repeated", ["orders"])]
    assert channels.check(NOW + 8 * 3600, FAILED) == [("repeated", ["orders"])]
    assert channels.resolve(NOW + 8 * 3600) == [("resolved", ["orders"])]
    assert channels.resolve(NOW + 9 * 3600) == []
    assert len({message.key for message in channels.accepted}) == 4


def test_what_opens_within_the_time_of_a_group_is_one_message(channels):
    assert channels.check(NOW, FAILED, last=False) == []
    assert channels.check(NOW + 15, FAILED, OTHER, last=False) == []
    assert channels.check(NOW + 30, FAILED, OTHER, last=False) == [("opened", ["orders", "visits"])]


def test_the_last_check_of_an_update_holds_nothing_back(channels):
    channels.check(NOW, FAILED, last=False)

    assert channels.check(NOW + 1, FAILED, OTHER) == [("opened", ["orders", "visits"])]


def test_an_alert_that_ends_before_its_message_is_due_is_not_reported(channels):
    channels.check(NOW, FAILED, last=False)
    channels.check(NOW + 20, FAILED, last=False, change=lambda alert: replace(alert, acknowledged_by="ann"))

    assert channels.check(NOW + 40, FAILED, last=False) == []
    assert channels.resolve(NOW + 100) == []


def test_an_end_is_reported_after_the_receiver_has_accepted_the_opening(channels):
    channels.is_up = False
    assert channels.check(NOW, FAILED) == [("opened", ["orders"])]
    assert channels.resolve(NOW) == []
    assert channels.check(NOW + 100) == []

    channels.accepted += channels.waiting.values()
    channels.waiting = {}

    assert channels.check(NOW + 200) == [("resolved", ["orders"])]
    assert channels.check(NOW + 300) == []


def test_an_opening_that_was_given_up_has_no_end_and_is_repeated_while_it_is_open(channels):
    channels.is_up = False
    channels.check(NOW, FAILED)
    channels.given_up, channels.waiting = set(channels.waiting), {}

    assert channels.resolve(NOW) == []
    channels.check(NOW + 100, FAILED)
    channels.given_up, channels.waiting = channels.given_up | set(channels.waiting), {}
    assert channels.check(NOW + 100 + 4 * 3600, FAILED) == [("repeated", ["orders"])]


def test_an_opening_that_was_given_up_has_no_end_after_the_outbox_has_forgotten_it(channels):
    channels.is_up = False
    channels.check(NOW, FAILED)
    channels.given_up, channels.waiting = set(channels.waiting), {}
    channels.check(NOW + 60, FAILED, change=lambda alert: replace(alert, acknowledged_by="ann"))
    channels.given_up = set()

    assert channels.check(NOW + 8 * 86_400, FAILED) == []
    assert channels.resolve(NOW + 8 * 86_400) == []


def test_a_message_lists_the_first_alerts_only(channels):
    found = [Finding(rules()["flow_failed"], {"flow": f"flow{number}", "dataset": "d"}) for number in range(25)]
    channels.check(NOW, *found)

    (message,) = channels.accepted
    assert message.full_text.count("bad[flow_failed]") == 20
    assert message.full_text.endswith("and 5 more: headrace alerts list")
    assert len(message.alerts) == 25


def test_nothing_is_repeated_while_a_message_waits(channels):
    channels.is_up = False
    channels.check(NOW, FAILED)

    assert channels.check(NOW + 5 * 3600, FAILED) == []


def test_an_alert_that_opens_again_is_a_new_one(channels):
    channels.check(NOW, FAILED)
    channels.resolve(NOW)

    assert channels.check(NOW + 200, FAILED) == [("opened", ["orders"])]
    assert channels.accepted[0].key != channels.accepted[-1].key


def test_a_silenced_alert_is_resolved_when_the_silence_ends(channels):
    channels.check(NOW, FAILED)
    channels.check(NOW + 10, FAILED, change=lambda alert: replace(alert, silenced_until=NOW + 1000))

    assert channels.check(NOW + 100) == []
    assert channels.check(NOW + 1001) == [("resolved", ["orders"])]


def test_messages_wait_for_the_end_of_quiet_hours_except_urgent_ones():
    # NOW is 12:06 in Berlin.
    night = QuietHours(TimeWindow.of("12:00-22:00 Europe/Berlin"), frozenset({Severity.INFO, Severity.WARN}))
    channels = Channels(replace(SETTINGS, quiet_hours=(night,), repeat_s=3600))
    restarts = Finding(rules()["flow_restarting"], {"flow": "orders"}, 3)
    short = Finding(rules()["flow_restarting"], {"flow": "short"}, 3)
    after = NOW + 10 * 3600

    assert channels.check(NOW, restarts, short, OTHER) == [("opened", ["visits"])]
    # What is over by then was no reason to wake anybody.
    assert channels.check(NOW + 3600, restarts, OTHER) == [("repeated", ["visits"])]
    assert channels.check(after, restarts) == [("opened", ["orders"]), ("resolved", ["visits"])]
    # The next day: no repetition, and the end waits too.
    assert channels.check(after + 14 * 3600, restarts) == []
    assert channels.check(after + 15 * 3600) == []
    assert channels.check(after + 24 * 3600) == [("resolved", ["orders"])]


def test_a_hidden_alert_and_one_that_somebody_knows_of_are_not_reported(channels):
    lag = Finding(replace(rules()["lag_high"], for_s=0), {"flow": "orders", "source": "raw"}, 1000)
    found = channels.check(NOW, FAILED, lag)

    assert found == [("opened", ["orders"])]
    assert [entry.labels["alertname"] for entry in channels.accepted[0].alerts] == ["flow_failed"]


def test_a_channel_gets_only_what_is_urgent_enough_and_a_mail_server_without_recipients_nothing():
    quiet = replace(OPS, name="quiet", min_severity=Severity.BAD)
    mail = Channel("mail", MailServer("localhost", 25, "a@example.com"))
    channels = Channels(AlertSettings(channels=(OPS, quiet, mail)))
    restarts = Finding(rules()["flow_restarting"], {"flow": "orders"}, 3)

    channels.check(NOW, restarts)
    assert [message.channel for message in channels.accepted] == ["ops"]
    channels.check(NOW + 1, restarts, FAILED)
    assert [message.channel for message in channels.accepted[1:]] == ["ops", "quiet"]


def test_notices_of_the_channels_of_another_profile_stay(channels):
    channels.check(NOW, FAILED)
    channels.settings = AlertSettings(channels=(replace(OPS, name="dev"),))
    channels.check(NOW + 1, FAILED)
    channels.settings = SETTINGS

    assert [notice.channel for notice in channels.notices] == ["ops", "dev"]
    assert channels.check(NOW + 2, FAILED) == []


STEPS = st.tuples(
    st.floats(0, 4000),  # seconds since the check before
    st.sets(st.sampled_from(["orders", "visits", "clicks"])),  # the flows that fail
    st.booleans(),  # whether the receiver is up
    st.booleans(),  # whether it is the last check of an update
)


@given(st.lists(STEPS, max_size=12))
@settings(max_examples=60)
def test_openings_and_ends_alternate_for_every_alert(steps):
    channels, now = Channels(), NOW
    for seconds, flows, is_up, last in steps:
        now += seconds
        channels.is_up = is_up
        found = [Finding(rules()["flow_failed"], {"flow": flow, "dataset": flow}) for flow in flows]
        channels.check(now, *found, last=last)

    told: dict[str, list[MessageKind]] = {}
    for message in channels.accepted:
        for entry in message.alerts:
            told.setdefault(entry.labels["flow"], []).append(message.kind)
    for kinds in told.values():
        assert kinds[0] is MessageKind.OPENED
        for before, after in pairwise(kinds):
            # Only after an end there is another opening, and only after a message about an open alert there is an end.
            assert (before is MessageKind.RESOLVED) == (after is MessageKind.OPENED)
    assert len({message.key for message in channels.accepted}) == len(channels.accepted)
