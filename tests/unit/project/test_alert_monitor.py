"""Alerts of an update: checked at its end and meanwhile, told to receivers, and never a reason to fail or to wait."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from headrace.alerts.messages import Pipeline
from headrace.alerts.outbox import Answer, Verdict
from headrace.errors import PipelineError, Problems
from headrace.events.types import FlowStateChanged, UpdateStateChanged
from headrace.metrics import catalogue
from headrace.metrics.samples import Samples
from headrace.model.outcome import FlowState, UpdateState
from headrace.project.inspection.pipeline_alerts import Messaging, PipelineAlerts
from headrace.project.update.alert_monitor import AlertMonitor
from headrace.settings.alert_settings import AlertSettings, Channel, MailServer, Notification, UpdateNotice, Webhook

OPS = Channel("ops", Webhook("http://127.0.0.1/"))
MAIL = Channel("mail", MailServer("localhost", 25, "a@example.com"))
FLOW_FAILED = FlowStateChanged("orders", "orders", FlowState.FAILED, error={"code": "FLOW.FAILED", "hint": "mend it"})
LATER = 1_795_000_000.0


def failed():
    samples = Samples()
    samples.set(catalogue.UPDATE_STATE, 1, "FAILED")
    return samples


class Updates:
    """Updates of a pipeline, and what its receivers got and answered."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.sent, self.events = [], []
        self.answer = lambda: Answer(Verdict.ACCEPTED, "")
        self.metrics = failed
        self.now = LATER

    def monitor(self, settings=None, **times):
        settings = settings or AlertSettings(channels=(OPS,))
        messaging = Messaging(settings, Pipeline("shop", "p", ""), self.send, lambda text: text.replace("mend", "***"))
        alerts = PipelineAlerts(self.folder / "alerts.json", self.folder / "outbox", lambda: self.now, messaging)
        return AlertMonitor(alerts, self.metrics, settings, **times)

    def send(self, channel, message):
        self.sent.append((channel.name, message))
        return self.answer()

    def run(self, monitor, *events, continuous=False):
        watch = monitor.watch("u1")
        with watch.during(self.events.append, continuous=continuous):
            for event in events:
                watch.add(event)
        return [message.title for _, message in self.sent]

    @property
    def warnings(self):
        return [event.code for event in self.events]


@pytest.fixture
def updates(tmp_path):
    return Updates(tmp_path)


def test_the_end_of_an_update_checks_and_sends(updates):
    assert updates.run(updates.monitor()) == ["[shop] bad: the latest update failed"]
    assert updates.events == []


def test_an_update_that_fails_checks_as_well(updates):
    with (
        pytest.raises(ZeroDivisionError),
        updates.monitor().watch("u1").during(updates.events.append, continuous=False),
    ):
        raise ZeroDivisionError

    assert len(updates.sent) == 1


def test_without_channels_nothing_is_read(updates):
    updates.metrics = None

    assert updates.run(updates.monitor(AlertSettings())) == []
    assert list(updates.folder.iterdir()) == []


def test_a_receiver_that_is_down_is_a_warning_and_gets_the_message_at_the_next_update(updates):
    updates.answer = lambda: Answer(Verdict.FAILED, "status 503")
    updates.run(updates.monitor())
    updates.now += 60
    updates.answer = lambda: Answer(Verdict.ACCEPTED, "")
    updates.run(updates.monitor())

    assert updates.warnings == ["ALERTS.NOT_DELIVERED"]
    assert "status 503" in updates.events[0].message
    assert len({message.key for _, message in updates.sent}) == 1


def test_a_receiver_that_does_not_answer_holds_no_update_up(updates):
    answered = threading.Event()
    updates.answer = lambda: answered.wait() and Answer(Verdict.ACCEPTED, "")
    updates.run(updates.monitor(patience_s=0.05))
    answered.set()

    assert updates.warnings == ["ALERTS.LATE"]


def test_a_check_that_fails_is_a_warning(updates):
    def metrics():
        raise OSError("no storage")

    updates.metrics = metrics
    updates.run(updates.monitor())

    assert updates.warnings == ["ALERTS.NOT_CHECKED"]


def test_a_continuous_update_checks_again_and_again_and_warns_once(updates):
    seen = threading.Event()

    def answer():
        if len(updates.sent) >= 3:
            seen.set()
        return Answer(Verdict.FAILED, "status 503")

    def metrics():
        updates.now += 400
        return failed()

    updates.answer, updates.metrics = answer, metrics
    settings = AlertSettings(channels=(OPS,), group_s=0)
    watch = updates.monitor(settings, period_s=0.001).watch("u1")
    with watch.during(updates.events.append, continuous=True):
        assert seen.wait(20)

    assert updates.warnings == ["ALERTS.NOT_DELIVERED"]


def test_in_a_continuous_update_messages_are_grouped(updates):
    watch, sent = updates.monitor().watch("u1"), threading.Event()
    updates.answer = lambda: sent.set() or Answer(Verdict.ACCEPTED, "")

    watch.round(updates.events.append)
    assert updates.sent == []
    updates.now += 30
    watch.round(updates.events.append)
    watch.finish(updates.events.append)
    assert sent.is_set()
    assert len(updates.sent) == 1


def test_a_receiver_that_hangs_holds_up_no_check_and_gets_no_second_thread(updates):
    checks, answered = threading.Semaphore(0), threading.Event()

    def metrics():
        checks.release()
        return failed()

    updates.metrics, updates.answer = metrics, lambda: answered.wait() and Answer(Verdict.ACCEPTED, "")
    settings = AlertSettings(channels=(OPS,), group_s=0)
    watch = updates.monitor(settings, period_s=0.001, patience_s=0.05).watch("u1")
    with watch.during(updates.events.append, continuous=True):
        assert all(checks.acquire(timeout=20) for _ in range(5))
    answered.set()

    assert updates.warnings == ["ALERTS.LATE"]
    assert len(updates.sent) == 1


def test_a_warning_that_cannot_be_recorded_does_not_fail_the_update(updates):
    def emit(event):
        raise OSError("no storage")

    updates.answer = lambda: Answer(Verdict.FAILED, "status 503")
    with updates.monitor().watch("u1").during(emit, continuous=False):
        pass

    assert len(updates.sent) == 1


def test_recipients_that_were_refused_are_a_warning(updates):
    text = "accepted for 1 recipients, without b@example.com"
    updates.answer = lambda: Answer(Verdict.ACCEPTED, text, is_partial=True)
    updates.run(updates.monitor())

    assert "without b@example.com" in updates.events[0].message


def test_a_notification_that_could_not_be_stored_is_stored_later(updates):
    folder = updates.folder / "outbox"
    folder.write_text("a file in place of the folder")
    watch = updates.monitor(notifying(UpdateNotice.FLOW_FAILURE)).watch("u1")
    watch.add(FLOW_FAILED)
    watch.finish(updates.events.append)
    folder.unlink()
    watch.finish(updates.events.append)

    assert updates.warnings[0] == "ALERTS.NOT_CHECKED"
    assert len(updates.sent) == 1


def notifying(*notices):
    recipients = Notification(("ops@example.com",), frozenset(notices))
    return AlertSettings(channels=(MAIL,), notifications=(recipients,))


def ended(state, error=None):
    return UpdateStateChanged(state, error)


@pytest.mark.parametrize(
    ("notice", "events"),
    [
        (UpdateNotice.SUCCESS, [ended(UpdateState.COMPLETED)]),
        (UpdateNotice.FAILURE, [ended(UpdateState.FAILED, {"code": "KAFKA.UNREACHABLE"})]),
        (UpdateNotice.FATAL_FAILURE, [ended(UpdateState.FAILED, {"code": "FLOW.FAILED"})]),
        (UpdateNotice.FLOW_FAILURE, [FLOW_FAILED]),
    ],
)
def test_each_notification_is_sent_for_its_event_and_for_no_other(updates, notice, events):
    others = [one for one in UpdateNotice if one is not notice]
    updates.run(updates.monitor(notifying(*others)), *events, ended(UpdateState.CANCELED))
    assert updates.sent == []

    updates.run(updates.monitor(notifying(notice)), *events, ended(UpdateState.RUNNING))

    ((channel, message),) = updates.sent
    assert (channel, message.recipients) == ("mail", ("ops@example.com",))
    assert message.key.endswith(f"-{notice.value}")


def test_a_notification_says_what_to_do_and_shows_no_secret(updates):
    updates.run(updates.monitor(notifying(UpdateNotice.FLOW_FAILURE)), FLOW_FAILED)

    ((_, message),) = updates.sent
    assert message.title.startswith('[shop] flow "orders" is FAILED')
    assert "hint: *** it" in message.text
    assert "update u1" in message.text


def test_an_update_whose_project_is_wrong_is_a_fatal_failure(updates):
    problems = Problems([PipelineError("SETTINGS.MISSING_KEY", key="name")])

    updates.monitor(notifying(UpdateNotice.FATAL_FAILURE)).report_not_started(problems)

    ((_, message),) = updates.sent
    assert 'key "name" is missing' in message.title
