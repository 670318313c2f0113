"""How events reach a file and a server, and what becomes of those that do not."""

from __future__ import annotations

import json
import os
import threading
import time
from contextlib import contextmanager

import pytest
from tests.servers.receiver import CUT_OFF, SLOW, running_receiver

from headrace.alerts.outbox import Answer, Verdict
from headrace.errors import PipelineError
from headrace.lineage.sender import DROPPED, NOT_SENT, LineageSender, Sending
from headrace.lineage.transports import FileTransport, HttpTransport, transport_of
from headrace.settings.lineage_settings import LineageFile, LineageServer, LineageTransport
from headrace.settings.secrets import Secrets


@pytest.fixture
def receiver():
    with running_receiver() as found:
        yield found


class Recorder:
    """A transport that keeps what it gets, and answers as a test wants."""

    def __init__(self, answer=lambda _number: Answer(Verdict.ACCEPTED, "")):
        self.answer, self.attempts, self.taken, self.closed = answer, 0, [], False

    def send(self, event):
        self.attempts += 1
        found = self.answer(self.attempts)
        if found.verdict is Verdict.ACCEPTED:
            self.taken.append(json.loads(event)["n"])
        return found

    def close(self):
        self.closed = True


def failed(text="down"):
    return Answer(Verdict.FAILED, text)


@contextmanager
def sender(*transports, warned=None, **changed):
    by_name = {f"t{number}": one for number, one in enumerate(transports)}
    given = {"first_delay_s": 0.001, "patience_s": 5.0, "store": lambda: None, **changed}
    warned = [] if warned is None else warned
    with LineageSender(
        by_name, Sending(by_name.__getitem__, warned.append, monotonic=time.monotonic, **given)
    ) as found:
        yield found


def events(*numbers):
    return [{"n": number} for number in numbers]


def codes(warned):
    return [event.code for event in warned]


def test_every_transport_gets_every_event_in_order_before_the_end():
    first, second = Recorder(), Recorder()

    with sender(first, second) as sending:
        sending.put(events(*range(200)))

    assert first.taken == second.taken == list(range(200))
    assert first.closed
    assert second.closed


def test_an_event_is_sent_again_until_it_is_accepted_and_one_warning_says_so():
    warned = []
    transport = Recorder(lambda number: failed() if number in (1, 2, 5) else Answer(Verdict.ACCEPTED, ""))

    with sender(transport, warned=warned) as sending:
        sending.put(events(1, 2, 3))
        wait_for(lambda: transport.taken == [1, 2, 3])

    # It recovered in between.
    assert codes(warned) == [NOT_SENT, NOT_SENT]
    assert "t0" in warned[0].message
    assert "waits: down" in warned[0].message


def test_an_event_that_is_refused_is_dropped_and_counted_and_the_others_are_sent():
    warned = []
    transport = Recorder(lambda number: Answer(Verdict.REFUSED, "bad") if number == 2 else Answer(Verdict.ACCEPTED, ""))

    with sender(transport, warned=warned) as sending:
        sending.put(events(1, 2, 3))

    assert transport.taken == [1, 3]
    assert [(event.code, event.facts.get("events")) for event in warned] == [(NOT_SENT, None), (DROPPED, 1)]


def test_of_a_receiver_that_hangs_the_oldest_events_are_dropped_and_the_end_waits_a_limited_time():
    warned, gate = [], threading.Event()

    def answer(_number):
        gate.wait()
        return Answer(Verdict.ACCEPTED, "")

    hanging, other = Recorder(answer), Recorder()
    started_at = time.monotonic()
    with sender(hanging, other, warned=warned, max_waiting=10, patience_s=0.2) as sending:
        sending.put(events(0))
        wait_for(lambda: hanging.attempts == 1)
        for number in range(1, 100):
            sending.put(events(number))
            wait_for(lambda number=number: len(other.taken) == number + 1)
    took_s = time.monotonic() - started_at
    gate.set()

    assert took_s < 5
    assert other.taken == list(range(100))
    # Of those that waited, 89 were dropped; ten, and the one that had no answer, when it ended.
    assert [(event.code, event.facts["events"]) for event in warned] == [(DROPPED, 100)]


def test_a_receiver_that_fails_gets_few_attempts_once_the_update_has_ended():
    warned = []
    transport = Recorder(lambda _number: failed())
    with sender(transport, warned=warned, patience_s=60.0, first_delay_s=0.01) as sending:
        sending.put(events(*range(50)))
        wait_for(lambda: transport.attempts >= 1)
        before = transport.attempts
        ended_at = time.monotonic()

    assert time.monotonic() - ended_at < 5
    assert transport.attempts <= before + 4
    assert [(event.code, event.facts.get("events")) for event in warned] == [(NOT_SENT, None), (DROPPED, 50)]


def test_nothing_is_sent_before_what_it_is_made_from_is_stored():
    order = []
    transport = Recorder()

    def store():
        order.append(len(transport.taken))
        if len(order) == 1:
            raise PipelineError("EVENTS.NOT_WRITTEN", path="events", reason="the disk is full")

    with sender(transport, store=store) as sending:
        sending.put(events(1))
        wait_for(lambda: transport.taken == [1])

    assert order == [0, 0]


def test_a_transport_that_cannot_be_opened_or_breaks_does_not_end_the_others():
    warned = []

    def broken(_number):
        raise RuntimeError("CANARY in a text of a library")

    other = Recorder()
    with sender(Recorder(broken), other, warned=warned) as sending:
        sending.put(events(1, 2))

    assert other.taken == [1, 2]
    assert codes(warned) == [NOT_SENT, DROPPED]
    assert "CANARY" not in str(warned)


def test_a_warning_that_cannot_be_recorded_changes_nothing():
    class Closed(list):
        def append(self, _event):
            raise RuntimeError("the event log is closed")

    with sender(Recorder(lambda _number: failed()), warned=Closed()) as sending:
        sending.put(events(1))


def test_a_file_gets_a_line_for_each_event_and_a_torn_line_is_left_behind(tmp_path):
    file = tmp_path / "below" / "events.jsonl"
    transport = FileTransport(file)

    assert transport.send(b'{"n":1}').verdict is Verdict.ACCEPTED
    with file.open("ab") as torn:
        torn.write(b'{"n":')
    transport.send(b'{"n":2}')

    assert file.read_text().splitlines() == ['{"n":1}', '{"n":', '{"n":2}']


def test_a_file_that_cannot_be_written_is_an_answer(tmp_path):
    (tmp_path / "file").write_text("")
    os.mkfifo(tmp_path / "pipe")

    answers = [FileTransport(path).send(b"{}") for path in (tmp_path, tmp_path / "file" / "x", tmp_path / "pipe" / "x")]

    assert {answer.verdict for answer in answers} == {Verdict.FAILED}
    assert str(tmp_path) in answers[0].text


def test_a_pipe_without_a_reader_does_not_block(tmp_path):
    os.mkfifo(tmp_path / "pipe")

    answer = FileTransport(tmp_path / "pipe").send(b"{}")

    assert answer.verdict in (Verdict.FAILED, Verdict.ACCEPTED)


SECRETS = {"HEADRACE_SECRET_LINEAGE_KEY": "CANARY-key", "HEADRACE_SECRET_LINEAGE_URL": ""}


def to(url, **headers):
    server = LineageServer(url, headers, "${secret:lineage/key}")
    secrets = Secrets(SECRETS)
    return transport_of(LineageTransport("m", server).resolved(secrets, {}), time.monotonic), secrets


def test_a_server_gets_events_with_its_headers_and_its_key(receiver):
    transport, _ = to(receiver.url, **{"X-Team": "shop"})

    answer = transport.send(b'{"n": 1}')
    transport.close()

    (request,) = receiver.requests
    assert (answer.verdict, request.rows) == (Verdict.ACCEPTED, [{"n": 1}])
    assert (request.headers["authorization"], request.headers["x-team"]) == ("Bearer CANARY-key", "shop")


@pytest.mark.parametrize(
    ("url", "endpoint"),
    [
        ("http://marquez:5000", "http://marquez:5000/api/v1/lineage"),
        ("http://marquez:5000/", "http://marquez:5000/api/v1/lineage"),
        ("https://host/other?x=1", "https://host/other?x=1"),
    ],
)
def test_a_url_without_a_path_is_that_of_a_server_of_openlineage(url, endpoint):
    assert transport_of(LineageTransport("m", LineageServer(url)), time.monotonic).url == endpoint


@pytest.mark.parametrize(
    ("answer", "verdict"),
    [
        (200, "accepted"),
        (201, "accepted"),
        (500, "failed"),
        ((503, {"Retry-After": "7"}), "failed"),
        (429, "failed"),
        (CUT_OFF, "failed"),
        (400, "refused"),
        (401, "refused"),
        ((302, {"Location": "http://elsewhere/"}), "refused"),
    ],
)
def test_the_status_of_a_server_decides(receiver, answer, verdict):
    receiver.answer, receiver.echoes = lambda _request, _number: answer, True
    transport, _ = to(f"{receiver.url}/CANARY-token")

    found = transport.send(b"{}")
    transport.close()

    assert found.verdict.value == verdict
    assert found.wait_s == (7 if isinstance(answer, tuple) and answer[0] == 503 else 0)
    assert "CANARY" not in found.text


def test_a_server_that_does_not_answer_is_given_up_after_a_time(receiver):
    receiver.answer = lambda _request, _number: SLOW
    transport = HttpTransport(receiver.url, {}, time.monotonic, timeout_s=0.1)

    answer = transport.send(b"{}")

    assert (answer.verdict, answer.text) == (Verdict.FAILED, "no answer: ReadTimeout")


def test_a_server_that_is_down_or_has_an_odd_url_is_an_answer():
    answers = [HttpTransport(url, {}, time.monotonic).send(b"{}") for url in ("http://127.0.0.1:1/", "http://[", "nn")]

    assert [answer.verdict is Verdict.ACCEPTED for answer in answers] == [False] * 3


def test_a_missing_secret_is_reported_and_its_event_waits():
    warned = []
    settings = LineageTransport("m", LineageServer("${secret:lineage/nowhere}"))

    def opened(_name):
        return transport_of(settings.resolved(Secrets({}), {}), time.monotonic)

    with LineageSender(
        ["m"], Sending(opened, warned.append, lambda: None, time.monotonic, first_delay_s=0.001)
    ) as sending:
        sending.put(events(1))

    assert codes(warned) == [NOT_SENT, DROPPED]
    assert "HEADRACE_SECRET_LINEAGE_NOWHERE" in warned[0].message


def test_a_file_needs_no_secrets():
    settings = LineageTransport("f", LineageFile("x"))

    assert settings.resolved(Secrets({}), {}) is settings


def wait_for(is_done, longest_s=10.0):
    deadline = time.monotonic() + longest_s
    while not is_done():
        assert time.monotonic() < deadline
        time.sleep(0.001)
