"""Delivery: stored before it is sent, to receivers that are down, slow, wrong and back; at least once, with one key."""

from __future__ import annotations

import hashlib
import hmac
import json
import ssl
from dataclasses import replace
from threading import Thread

import pytest
from tests.servers.certificates import make_certificate
from tests.servers.mail import running_mail_server
from tests.servers.receiver import CUT_BODY, CUT_OFF, SLOW, running_receiver

from headrace.alerts.file_lock import locked
from headrace.alerts.messages import AlertEntry, Message, MessageKind
from headrace.alerts.notices import Undelivered
from headrace.alerts.outbox import Answer, Outbox, Verdict
from headrace.alerts.sending import Sender
from headrace.errors import PipelineError
from headrace.settings.alert_settings import AppriseUrl, BodyFormat, Channel, MailServer, Webhook
from headrace.settings.secrets import Secrets
from headrace.sinks.http_client import secrets_of

NOW = 1_795_000_000.0
ENTRY = AlertEntry(
    {"flow": "a <b> & *c*", "alertname": "flow_failed", "severity": "bad", "pipeline": "shop"},
    {"summary": 'flow "a <b> & *c*" failed', "first_step": "headrace status", "description": "Look."},
    NOW - 60,
    None,
    "file:///srv/shop/pipeline.yml",
)
MESSAGE = Message("k1-open", "ops", MessageKind.OPENED, "shop", "[shop] bad: it failed", NOW, alerts=(ENTRY,))
SECRETS = {"HEADRACE_SECRET_ALERTS_KEY": "sign-with-me", "HEADRACE_SECRET_ALERTS_PASSWORD": "hunter-two"}


class Clock:
    now = NOW

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def outbox(tmp_path, clock):
    return Outbox(tmp_path / "outbox", clock)


@pytest.fixture(scope="module")
def receiver_of_module():
    with running_receiver() as found:
        yield found


@pytest.fixture
def receiver(receiver_of_module):
    receiver = receiver_of_module
    receiver.requests, receiver.kept, receiver.echoes = [], {}, False
    receiver.answer = lambda _request, _number: 200
    return receiver


def sender(**changed):
    return Sender(Secrets(SECRETS), {}, 3600, lambda: 0.0, **{"timeout_s": 2.0, **changed})


def to(receiver, **changed):
    return Channel("ops", Webhook(receiver.url, **changed))


def delivered(outbox, channel, send=None):
    return [one.answer.verdict.value for one in outbox.deliver({"ops": channel}, send or sender().send)]


def test_a_receiver_that_is_down_gets_the_message_with_the_same_key_when_it_is_back(outbox, clock, receiver, tmp_path):
    receiver.answer = lambda _request, number: (503, {}) if number < 4 else 200
    outbox.add([MESSAGE])
    delays = []
    while outbox.letters():
        # Another process continues where this one stopped.
        outbox = Outbox(tmp_path / "outbox", clock)
        delivered(outbox, to(receiver))
        waits = [letter.next_attempt_at - clock.now for letter in outbox.letters()]
        delays += waits
        clock.now += max(waits, default=0) - 0.5
        assert delivered(outbox, to(receiver)) == []
        clock.now += 0.5

    assert delays == [1, 2, 4]
    assert [request.key for request in receiver.requests] == ["k1-open"] * 4


@pytest.mark.parametrize("answer", [CUT_OFF, SLOW, 429, 500])
def test_a_message_waits_while_a_receiver_cannot_take_it(outbox, receiver, answer):
    receiver.answer = lambda _request, _number: answer
    outbox.add([MESSAGE])
    # The receiver answers slow requests when the test ends.
    send = sender(timeout_s=0.1).send

    assert delivered(outbox, to(receiver), send) == ["failed"]
    (letter,) = outbox.letters()
    assert (letter.attempts, letter.given_up_at) == (1, None)
    assert letter.reason


@pytest.mark.parametrize("answer", [400, 401, 404, (302, {"Location": "http://127.0.0.1:9/elsewhere"})])
def test_a_message_that_would_be_refused_again_is_given_up_at_once(outbox, receiver, answer):
    receiver.answer = lambda _request, _number: answer
    outbox.add([MESSAGE])

    assert delivered(outbox, to(receiver)) == ["refused"]
    (letter,) = outbox.letters()
    assert letter.given_up_at == NOW
    assert "status" in letter.reason
    assert delivered(outbox, to(receiver)) == []
    assert len(receiver.requests) == 1


def test_a_message_is_given_up_after_a_day_and_its_note_is_kept_for_a_week(outbox, clock):
    outbox.add([MESSAGE])
    nowhere = Channel("ops", Webhook("http://127.0.0.1:9/"))
    delays = []
    for _ in range(14):
        assert delivered(outbox, nowhere, lambda *_: Answer(Verdict.FAILED, "no answer: ConnectError")) == ["failed"]
        delays.append(outbox.letters()[0].next_attempt_at - clock.now)
        clock.now += delays[-1]
    assert delays == [1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300, 300, 300, 300]

    clock.now = NOW + 86_400
    (given_up,) = outbox.deliver({"ops": nowhere}, sender().send)
    assert given_up.is_over
    assert "ConnectError" in given_up.answer.text
    clock.now += 7 * 86_400 + 1
    outbox.deliver({}, sender().send)
    assert outbox.letters() == []


def test_one_receiver_that_is_down_holds_up_no_other_and_gets_one_attempt_a_round(outbox):
    calls = []

    def send(channel, message):
        calls.append(message.key)
        return Answer(Verdict.FAILED if channel.name == "ops" else Verdict.ACCEPTED, "")

    outbox.add([MESSAGE, replace(MESSAGE, key="k2-open"), replace(MESSAGE, key="k3-open", channel="mail")])
    channels = {name: Channel(name, Webhook("http://127.0.0.1/")) for name in ("ops", "mail")}
    outbox.deliver(channels, send)

    assert len(calls) == 2
    assert "k3-open" in calls
    assert {letter.message.channel for letter in outbox.letters()} == {"ops"}


def test_a_message_for_a_channel_of_another_profile_waits(outbox):
    outbox.add([MESSAGE])

    assert outbox.deliver({}, sender().send) == ()
    assert len(outbox.letters()) == 1


def test_a_clock_that_was_ahead_delays_no_message(outbox, clock, receiver):
    clock.now = NOW + 86_000
    outbox.add([MESSAGE])
    delivered(outbox, Channel("ops", Webhook("http://127.0.0.1:9/")))
    clock.now = NOW

    assert delivered(outbox, to(receiver)) == ["accepted"]


@pytest.mark.parametrize("text", ["", "{", '{"format": 2}', '{"format": 1, "message": {}}', "[]"])
def test_a_damaged_or_newer_file_is_left_alone(outbox, receiver, tmp_path, text):
    outbox.add([MESSAGE])
    (tmp_path / "outbox" / "torn.json").write_text(text)

    assert delivered(outbox, to(receiver)) == ["accepted"]
    assert (tmp_path / "outbox" / "torn.json").read_text() == text


def test_a_message_survives_its_file(outbox):
    message = replace(MESSAGE, recipients=("a@example.com",), alerts=(ENTRY, replace(ENTRY, ends_at=NOW)))
    outbox.add([message])
    outbox.add([replace(message, title="the same key")])

    assert [letter.message for letter in outbox.letters()] == [message]


def test_a_damaged_letter_has_not_been_delivered(outbox, tmp_path):
    outbox.add([MESSAGE])
    (tmp_path / "outbox" / f"{MESSAGE.message_id}.json").write_text("{")

    assert outbox.undelivered() == Undelivered(given_up=frozenset({MESSAGE.message_id}))


def test_while_another_process_sends_this_one_sends_nothing(tmp_path, clock, receiver):
    outbox = Outbox(tmp_path / "outbox", clock, patience_s=0.0)
    outbox.add([MESSAGE])
    with locked(tmp_path / "outbox" / ".lock", 0):
        assert delivered(outbox, to(receiver)) == []

    assert delivered(outbox, to(receiver)) == ["accepted"]


def test_a_lock_that_cannot_be_written_is_named(outbox, tmp_path):
    outbox.add([MESSAGE])
    (tmp_path / "outbox" / ".lock").mkdir()

    with pytest.raises(PipelineError) as refused:
        outbox.deliver({}, sender().send)

    assert refused.value.code == "ALERTS.NOT_WRITTEN"


def test_a_folder_that_cannot_be_written_is_named(tmp_path, clock):
    (tmp_path / "outbox").write_text("")

    with pytest.raises(PipelineError) as refused:
        Outbox(tmp_path / "outbox", clock).add([MESSAGE])

    assert refused.value.code == "ALERTS.NOT_WRITTEN"


def test_two_senders_send_each_message_once(outbox, receiver, tmp_path):
    # Locks of files hold between two open files, whether one process has them or two.
    messages = [replace(MESSAGE, key=f"{number}-open") for number in range(12)]
    outbox.add(messages)
    send, channel = sender().send, to(receiver)
    others = [
        Thread(target=lambda: Outbox(tmp_path / "outbox", lambda: NOW).deliver({"ops": channel}, send))
        for _ in range(3)
    ]
    for other in others:
        other.start()
    for other in others:
        other.join()

    assert sorted(request.key for request in receiver.requests) == sorted(message.key for message in messages)
    assert outbox.letters() == []


def body(receiver):
    return receiver.requests[-1].rows


def test_alertmanager_gets_the_fields_of_its_api_and_keeps_an_open_alert_until_it_is_repeated(receiver):
    channel = to(receiver, format=BodyFormat.ALERTMANAGER)
    resolved = replace(MESSAGE, kind=MessageKind.RESOLVED, alerts=(replace(ENTRY, ends_at=NOW - 5),))

    sender().send(channel, MESSAGE)
    (opened,) = body(receiver)
    sender().send(channel, resolved)
    (ended,) = body(receiver)

    assert (opened["labels"], opened["annotations"]) == (dict(ENTRY.labels), dict(ENTRY.annotations))
    assert opened["generatorURL"] == "file:///srv/shop/pipeline.yml"
    assert opened["startsAt"] < ended["endsAt"] < opened["endsAt"]


def test_names_are_not_markup_for_slack_and_teams(receiver):
    sender().send(to(receiver, format=BodyFormat.SLACK), MESSAGE)
    (slack,) = body(receiver)
    sender().send(to(receiver, format=BodyFormat.TEAMS), MESSAGE)
    (teams,) = body(receiver)

    assert 'flow "a &lt;b&gt; &amp; *c*" failed' in slack["text"]
    blocks = teams["attachments"][0]["content"]["body"]
    assert {block["type"] for block in blocks} == {"RichTextBlock"}
    assert any('flow "a <b> & *c*" failed' in block["inlines"][0]["text"] for block in blocks)


def test_json_has_the_text_and_the_alerts_and_can_be_signed(receiver):
    bodies = []
    receiver.answer = lambda request, _number: bodies.append(request) or 200

    sender().send(to(receiver, signing_secret="${secret:alerts/key}"), MESSAGE)

    (request,) = bodies
    (found,) = request.rows
    raw = json.dumps(found, ensure_ascii=False).encode()
    digest = hmac.new(b"sign-with-me", raw, hashlib.sha256).hexdigest()
    assert request.headers["x-headrace-signature"] == f"sha256={digest}"
    assert (found["status"], found["pipeline"], len(found["alerts"])) == ("firing", "shop", 1)
    assert "endsAt" not in found["alerts"][0]


def test_no_answer_shows_the_url_or_a_secret(receiver):
    receiver.answer, receiver.echoes = (lambda _request, _number: 500), True
    url = receiver.url.replace("/rows", "/token-8f3a")

    answer = sender().send(Channel("ops", Webhook(url)), MESSAGE)

    assert "cannot take" in answer.text
    assert "8f3a" not in answer.text + repr(Channel("ops", Webhook(url)))


def test_a_token_in_the_path_of_a_url_is_not_shown(receiver):
    token = "T0123456/B0123456/XXXXXXXX"
    found = secrets_of(f"https://hooks.example.com/services/{token}", {})

    assert set(token.split("/")) <= found


def test_an_answer_that_breaks_off_behind_its_status_is_one(outbox, receiver):
    receiver.answer = lambda _request, _number: CUT_BODY
    outbox.add([MESSAGE])

    assert delivered(outbox, to(receiver), sender(timeout_s=0.2).send) == ["accepted"]


@pytest.mark.parametrize(
    "target",
    [
        MailServer("x" * 70, 25, "a@example.com", ("b@example.com",)),
        MailServer("127.0.0.1", 9, "a@example.com", ("b@example.com\n",)),
        Webhook("http://" + "x" * 70 + "/"),
        AppriseUrl("json://127.0.0.1"),
    ],
)
def test_whatever_a_channel_raises_is_an_answer(target):
    def broken():
        raise AttributeError

    answer = sender(load_apprise=broken).send(Channel("ops", target), MESSAGE)

    assert answer.verdict is not Verdict.ACCEPTED
    assert answer.text


def test_a_missing_secret_is_named_and_the_message_waits(outbox):
    outbox.add([MESSAGE])

    assert delivered(outbox, Channel("ops", Webhook("${secret:alerts/none}"))) == ["failed"]
    assert 'secret "alerts/none" is not set' in outbox.letters()[0].reason


@pytest.fixture(scope="module")
def certificate(tmp_path_factory):
    return make_certificate(tmp_path_factory.mktemp("tls"), "mail")


@pytest.fixture(scope="module")
def mail_server(certificate):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate[0])
    with running_mail_server(context) as found:
        yield found


@pytest.fixture
def mail_box(mail_server):
    mail_server.received, mail_server.logins, mail_server.encrypted, mail_server.replies = [], [], [], {}
    return mail_server


@pytest.fixture
def by_mail(certificate):
    return sender(tls=lambda: ssl.create_default_context(cafile=str(certificate[1])))


LOGIN = {"user": "headrace", "password": "${secret:alerts/password}"}


def mail_to(box, **changed):
    server = MailServer("127.0.0.1", box.port, "headrace@example.com", ("ops@example.com", "b@example.com"))
    return Channel("mail", replace(server, **changed))


def test_mail_goes_over_tls_with_a_login(mail_box, by_mail):
    answer = by_mail.send(mail_to(mail_box, **LOGIN), replace(MESSAGE, title="[shop] größer"))

    ((recipients, letter),) = mail_box.received
    assert (answer.verdict, mail_box.encrypted) == (Verdict.ACCEPTED, [True])
    assert mail_box.logins == ["\x00headrace\x00hunter-two"]
    assert recipients == ["ops@example.com", "b@example.com"]
    assert (letter["Subject"], letter["From"]) == ("[shop] größer", "headrace@example.com")
    assert "first step: headrace status" in letter.get_content()


def test_recipients_of_the_message_replace_those_of_the_channel(mail_box, by_mail):
    by_mail.send(mail_to(mail_box), replace(MESSAGE, recipients=("c@example.com",)))

    assert [recipients for recipients, _ in mail_box.received] == [["c@example.com"]]


def test_a_password_is_never_sent_without_tls_nor_to_an_unknown_server(mail_box):
    unknown = sender().send(mail_to(mail_box, **LOGIN), MESSAGE)
    with running_mail_server() as plain:
        readable = sender().send(mail_to(plain, **LOGIN), MESSAGE)
        without_login = sender().send(mail_to(plain), MESSAGE)

    assert (unknown.verdict, readable.verdict) == (Verdict.REFUSED, Verdict.REFUSED)
    assert mail_box.logins == plain.logins == []
    assert (without_login.verdict, plain.encrypted) == (Verdict.ACCEPTED, [False])


@pytest.mark.parametrize(
    ("replies", "verdict"),
    [
        ({"RCPT": "550 unknown"}, Verdict.REFUSED),
        ({"RCPT": "451 later"}, Verdict.FAILED),
        ({"MAIL": "452 full"}, Verdict.FAILED),
        ({"DATA": "554 spam"}, Verdict.REFUSED),
        ({"AUTH": "535 hunter-two is wrong"}, Verdict.REFUSED),
    ],
)
def test_a_mail_server_that_may_take_it_later_gets_it_again(mail_box, by_mail, replies, verdict):
    mail_box.replies = replies

    answer = by_mail.send(mail_to(mail_box, **LOGIN), MESSAGE)

    assert answer.verdict is verdict
    assert "hunter-two" not in answer.text


def test_a_mail_that_was_accepted_is_sent_whatever_follows(mail_box, by_mail):
    mail_box.replies = {"QUIT": "421 closing"}

    assert by_mail.send(mail_to(mail_box), MESSAGE).verdict is Verdict.ACCEPTED


def test_a_password_that_mail_cannot_carry_is_refused(mail_box, certificate):
    found = sender(tls=lambda: ssl.create_default_context(cafile=str(certificate[1])))

    assert found.send(mail_to(mail_box, user="größe", password="x"), MESSAGE).verdict is Verdict.REFUSED


def test_a_mail_server_that_is_down_gets_it_later():
    channel = Channel("mail", MailServer("127.0.0.1", 9, "a@example.com", ("b@example.com",)))

    assert sender().send(channel, MESSAGE).verdict is Verdict.FAILED


@pytest.mark.filterwarnings("ignore:'imghdr' is deprecated")
def test_apprise_sends_the_message_and_reports_a_service_that_is_down(receiver):
    url = receiver.url.replace("http://", "json://")

    accepted = sender().send(Channel("other", AppriseUrl(url)), MESSAGE)
    (found,) = body(receiver)
    receiver.answer = lambda _request, _number: 503
    failed = sender().send(Channel("other", AppriseUrl(url)), MESSAGE)
    refused = sender().send(Channel("other", AppriseUrl("nothing://x")), MESSAGE)

    assert [answer.verdict for answer in (accepted, failed, refused)] == [
        Verdict.ACCEPTED,
        Verdict.FAILED,
        Verdict.REFUSED,
    ]
    assert found["title"] == MESSAGE.title


@pytest.mark.filterwarnings("ignore:'imghdr' is deprecated")
@pytest.mark.parametrize("scheme", ["http", "json"])
def test_a_redirect_is_not_followed(receiver, scheme):
    receiver.answer = lambda _request, _number: (307, {"Location": f"{receiver.url}/elsewhere"})
    target = Webhook(receiver.url) if scheme == "http" else AppriseUrl(receiver.url.replace("http://", "json://"))

    assert sender().send(Channel("ops", target), MESSAGE).verdict is not Verdict.ACCEPTED
    assert len(receiver.requests) == 1


@pytest.mark.parametrize("proxy", ["nonsense://user:hunter-two@host", "http://user:hunter-two@127.0.0.1:9"])
def test_a_proxy_that_cannot_be_used_is_named_without_its_password_and_the_message_waits(
    outbox, receiver, monkeypatch, proxy
):
    monkeypatch.setenv("HTTPS_PROXY", proxy)
    outbox.add([MESSAGE])

    channel = Channel("ops", Webhook(receiver.url.replace("http://", "https://")))
    assert delivered(outbox, channel) == ["failed"]
    (letter,) = outbox.letters()
    assert "HTTPS_PROXY" in str(letter.reason)
    assert "hunter-two" not in letter.reason
    assert letter.given_up_at is None


def test_a_missing_package_is_named_with_the_command_that_installs_it():
    def missing():
        raise ModuleNotFoundError

    answer = sender(load_apprise=missing).send(Channel("other", AppriseUrl("json://127.0.0.1")), MESSAGE)

    assert answer.verdict is Verdict.FAILED
    assert "pip install 'headrace[apprise]'" in answer.text
