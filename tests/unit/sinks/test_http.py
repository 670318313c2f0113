"""Rows to a real server that fails on purpose."""

from __future__ import annotations

import gzip
import json
import random
import threading
import time
import tracemalloc
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import ClassVar

import pytest
from tests.servers.receiver import CUT_OFF, SLOW, running_receiver

from headrace.errors import PipelineError
from headrace.sinks.http import Body, HttpPlace, HttpSender, retry_after_s
from headrace.sinks.outages import is_outage
from headrace.sinks.retrying import Clock, Patience

QUICK = Patience(attempts=20, budget_s=30, initial_delay_s=0.001, max_delay_s=0.002)
CLOCK = Clock(time.monotonic, time.sleep, random.Random(7).random)
ROWS = [{"id": number} for number in range(100)]


@pytest.fixture
def server():
    with running_receiver() as found:
        yield found


class Stopwatch:
    """Time that passes only while somebody sleeps."""

    def __init__(self):
        self.now_s = 0.0

    def sleep(self, seconds):
        self.now_s += seconds

    @property
    def clock(self):
        return Clock(lambda: self.now_s, self.sleep, random.Random(7).random)


def sender(server, clock=CLOCK, **more):
    place = HttpPlace(**{"url": server.url, "rows": 7, "patience": QUICK, **more})
    return HttpSender(place, "hook", clock)


def send(server, given=ROWS, batch="b0", **more):
    size = more.get("rows", 7)
    return sender(server, **more).send(batch, ((place // size, json.dumps(row)) for place, row in enumerate(given)))


def sorted_ids(rows):
    return sorted(row["id"] for row in rows)


def test_each_row_is_delivered_once_when_nothing_fails(server):
    assert send(server) == 100

    assert sorted_ids(server.taken) == list(range(100))
    assert {len(request.rows) for request in server.requests} == {7, 100 % 7}


@pytest.mark.parametrize("answer", [500, 503, 429, CUT_OFF])
def test_each_row_is_delivered_once_when_a_third_of_the_requests_fail(server, answer):
    chance = random.Random(3)
    server.answer = lambda _request, _number: answer if chance.random() < 0.3 else 200

    assert send(server) == 100

    assert sorted_ids(server.taken) == list(range(100))
    assert len(server.requests) > len(server.kept)


def test_a_request_that_times_out_is_sent_again_with_the_same_idempotency_key(server):
    server.answer = lambda _request, number: SLOW if number == 1 else 200

    send(server, ROWS[:5], timeout_s=1)

    assert len({request.key for request in server.requests}) == 1
    assert len(server.requests) > 1
    assert sorted_ids(server.taken) == [0, 1, 2, 3, 4]


def test_a_repeated_batch_reuses_its_idempotency_keys_and_another_batch_does_not(server):
    send(server, ROWS[:20], lanes=1)
    send(server, ROWS[:20], lanes=1)
    send(server, ROWS[:20], lanes=1, batch="b1")

    first, again, other = ([r.key for r in server.requests][n : n + 3] for n in (0, 3, 6))
    assert first == again
    assert len({*first, *other}) == 6


def test_two_requests_with_equal_rows_have_different_idempotency_keys(server):
    send(server, [{"id": 1}] * 4, rows=2, lanes=1)

    assert len({request.key for request in server.requests}) == 2


def test_the_delay_in_a_retry_after_header_is_respected(server):
    waits = []
    server.answer = lambda _request, number: (429, {"Retry-After": "3"}) if number == 1 else 200
    clock = Clock(time.monotonic, waits.append, lambda: 0.5)

    HttpSender(HttpPlace(url=server.url, patience=QUICK), "hook", clock).send("b", [(0, '{"id": 1}')])

    assert waits == [3.0]


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"Retry-After": " 3 "}, 3.0),
        ({"Retry-After": "Wed, 25 Nov 2026 10:00:09 GMT", "Date": "Wed, 25 Nov 2026 10:00:02 GMT"}, 7.0),
        ({"Retry-After": "\xb2"}, 0.0),
        ({"Retry-After": "-5"}, 0.0),
        ({"Retry-After": "Wed, 25 Nov 2026 10:00:09 -0000", "Date": "Wed, 25 Nov 2026 10:00:02 GMT"}, 0.0),
        ({"Retry-After": "Wed, 25 Nov 99999999999 10:00:09 GMT", "Date": "Wed, 25 Nov 2026 10:00:02 GMT"}, 0.0),
        ({}, 0.0),
    ],
)
def test_retry_after_is_parsed_as_seconds_or_a_date_and_ignored_if_invalid(headers, seconds):
    assert retry_after_s(headers) == seconds


class Odd(BaseHTTPRequestHandler):
    """Answers as no server should; what it says is by the path."""

    answers: ClassVar = {
        "/bomb": (200, {"Content-Encoding": "gzip"}, gzip.compress(bytes(64 << 20))),
        "/endless": (200, {}, b"x" * (64 << 20)),
        "/packed": (400, {"Content-Encoding": "gzip"}, gzip.compress(b"refused")),
        "/charset": (400, {"Content-Type": "text/plain; charset=zlib"}, b"refused"),
    }

    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        status, headers, body = self.answers[self.path]
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        with suppress(ConnectionError):
            self.wfile.write(body)

    def log_message(self, *_arguments):
        """Nothing."""


@pytest.fixture(scope="module")
def odd():
    server = ThreadingHTTPServer(("127.0.0.1", 0), Odd)
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


def sent_to(url):
    return HttpSender(HttpPlace(url=url, patience=QUICK), "hook", CLOCK).send("b", [(0, "{}")])


@pytest.mark.parametrize("path", ["/bomb", "/endless"])
def test_a_response_body_is_neither_read_completely_nor_decompressed(odd, path):
    tracemalloc.start()
    try:
        assert sent_to(odd + path) == 1
        assert tracemalloc.get_traced_memory()[1] < 8 << 20
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(("path", "said"), [("/packed", "empty"), ("/charset", '"refused"')])
def test_the_error_for_a_rejected_row_shows_only_readable_response_text(odd, path, said):
    with pytest.raises(PipelineError) as caught:
        sent_to(odd + path)

    assert (caught.value.code, caught.value.params["said"]) == ("SINK.HTTP_ROW", said)


def test_an_invalid_header_is_reported_without_its_value():
    place = HttpPlace(url="http://127.0.0.1:9/rows", headers={"authorization": "Bearer s3crét"}, patience=QUICK)

    with pytest.raises(PipelineError) as caught:
        HttpSender(place, "hook", CLOCK).send("b", [(0, "{}")])

    assert caught.value.code == "SINK.HTTP_ADDRESS"
    assert "s3cr" not in str(caught.value.to_json())


def test_a_rejected_row_is_found_and_the_other_rows_of_its_request_are_delivered(server):
    server.answer = lambda request, _number: 422 if any(row["id"] == 11 for row in request.rows) else 200

    with pytest.raises(PipelineError) as caught:
        send(server, ROWS[:14], lanes=1)

    assert caught.value.code == "SINK.HTTP_ROW"
    assert caught.value.params["row"] == '{"id": 11}'
    assert {7, 8, 9, 10} <= {row["id"] for row in server.taken}


def test_a_request_that_is_too_large_is_split(server):
    server.answer = lambda request, _number: 413 if len(request.rows) > 2 else 200

    assert send(server, ROWS[:30], rows=10) == 30

    assert sorted_ids(server.taken) == list(range(30))


@pytest.mark.parametrize("status", [301, 401, 403, 404])
def test_a_request_that_is_refused_regardless_of_its_rows_is_not_retried(server, status):
    server.answer = lambda _request, _number: status

    with pytest.raises(PipelineError) as caught:
        send(server, ROWS[:5])

    assert (caught.value.code, caught.value.params["status"]) == ("SINK.HTTP_REFUSED", str(status))
    assert len(server.requests) == 1


def test_delivery_fails_when_the_server_stays_down():
    with running_receiver() as gone:
        url = gone.url
    patience = Patience(attempts=3, initial_delay_s=0.001)

    with pytest.raises(PipelineError) as caught:
        HttpSender(HttpPlace(url=url, patience=patience), "hook", CLOCK).send("b", [(0, '{"id": 1}')])

    assert caught.value.code == "SINK.HTTP_DOWN"


def test_an_open_circuit_breaker_reports_the_last_response_status(server):
    server.answer = lambda _request, _number: 500

    with pytest.raises(PipelineError) as caught:
        send(server, clock=Stopwatch().clock, lanes=1)

    assert (caught.value.code, caught.value.params["state"]) == ("SINK.HTTP_DOWN", "500")
    assert not is_outage(caught.value)


def test_rows_with_the_same_key_are_delivered_in_order(server):
    chance = random.Random(5)
    server.answer = lambda _request, _number: 503 if chance.random() < 0.3 else 200
    rows = [{"id": number % 5, "at": number} for number in range(100)]

    sender(server, rows=3).send("b", ((row["id"], json.dumps(row)) for row in rows))

    for key in range(5):
        assert [row["at"] for row in server.taken if row["id"] == key] == list(range(key, 100, 5))


def test_the_request_rate_stays_within_the_limit(server):
    waits = []
    clock = Clock(lambda: 0.0, waits.append, lambda: 0.0)

    HttpSender(HttpPlace(url=server.url, rows=1, lanes=1, per_second=10), "hook", clock).send(
        "b", [(0, '{"id": 1}') for _ in range(4)]
    )

    assert waits == pytest.approx([0.1, 0.2, 0.3])


@pytest.mark.parametrize("body", list(Body))
def test_each_body_format_is_sent_with_its_content_type(server, body):
    send(server, ROWS[:3], rows=1 if body is Body.OBJECT else 3, body=body)

    assert sorted_ids(server.taken) == [0, 1, 2]
    assert {request.headers["content-type"] for request in server.requests} == {body.content_type}


def test_secrets_in_a_url_are_redacted_when_the_server_echoes_them(server):
    place = HttpPlace(url=f"{server.url}/T0/s3cret-path?key=s3cret-key", patience=QUICK)
    server.echoes = True
    server.answer = lambda _request, _number: 404

    with pytest.raises(PipelineError) as caught:
        HttpSender(place, "hook", CLOCK).send("b", [(0, "{}")])

    assert "***" in caught.value.params["said"]
    assert "s3cret" not in str(caught.value.to_json())


def test_a_url_without_a_scheme_is_refused_as_an_invalid_address():
    with pytest.raises(PipelineError) as caught:
        HttpSender(HttpPlace(url="example/rows", patience=QUICK), "hook", CLOCK).send("b", [(0, "{}")])

    assert caught.value.code == "SINK.HTTP_ADDRESS"


def test_a_secret_header_is_sent_but_never_shown(server):
    server.answer = lambda _request, _number: 403
    headers = {"authorization": "Bearer s3cret-token"}
    place = HttpPlace(url=f"{server.url}?key=s3cret-key", headers=headers, patience=QUICK)

    with pytest.raises(PipelineError) as caught:
        HttpSender(place, "hook", CLOCK).send("b", [(0, "{}")])

    assert server.requests[0].headers["authorization"] == "Bearer s3cret-token"
    assert server.requests[0].headers["content-type"] == "application/json"
    assert "s3cret" not in f"{caught.value.to_json()} {place!r}"
