"""A server that takes JSON, keeps what it was given, and fails as a test wants it to."""

from __future__ import annotations

import json
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Event, Lock, Thread
from typing import Any

CUT_OFF, SLOW, CUT_BODY = "cut off", "slow", "cut body"


@dataclass
class Request:
    """What came: headers by names in lower case, rows, and the method."""

    headers: dict[str, str]
    rows: list[Any]
    method: str = "POST"

    @property
    def key(self):
        return self.headers.get("idempotency-key")


@dataclass
class Receiver:
    """Answers each request by what *answer* says of it: a status, a pair of status and headers, or a word from above.

    What is slow is answered when the server ends.

    ``taken`` are the rows of the requests that were answered with success, those of a repeated key once.
    """

    url: str = ""
    answer: Any = field(default=lambda _request, _number: 200)
    requests: list[Request] = field(default_factory=list)
    kept: dict[str, list[Any]] = field(default_factory=dict)
    echoes: bool = False
    lock: Lock = field(default_factory=Lock)
    ends: Event = field(default_factory=Event)

    @property
    def taken(self):
        return [row for rows in self.kept.values() for row in rows]

    def take(self, request):
        with self.lock:
            self.requests.append(request)
            number = len(self.requests)
        found = self.answer(request, number)
        status, headers = found if isinstance(found, tuple) else (found, {})
        # What is cut off or slow was taken all the same: the other side does not hear of it.
        if status in (CUT_OFF, SLOW, CUT_BODY) or status < 300:
            with self.lock:
                self.kept.setdefault(request.key, request.rows)
        if status == SLOW:
            self.ends.wait()
            return 200, headers
        return status, headers


@contextmanager
def running_receiver():
    """The server, for as long as the block takes."""
    receiver = Receiver()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            body = self.rfile.read(int(self.headers["Content-Length"])).decode()
            headers = {name.lower(): value for name, value in self.headers.items()}
            status, more = receiver.take(Request(headers, _rows(body, headers["content-type"]), self.command))
            if status == CUT_OFF or receiver.ends.is_set():
                self.close_connection = True
                return
            self.send_response(200 if status == CUT_BODY else status)
            for name, value in more.items():
                self.send_header(name, value)
            said = f"cannot take {self.path}" if receiver.echoes else f"answer {status}"
            text = json.dumps({"said": said}).encode()
            # A body that is cut has more than comes.
            self.send_header("Content-Length", str(len(text) + (status == CUT_BODY)))
            self.end_headers()
            self.wfile.write(text)
            self.close_connection = status == CUT_BODY or self.close_connection

        do_PUT = do_POST  # noqa: N815 - the name that its base looks for

        def log_message(self, *_arguments):
            """Nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    receiver.url = f"http://127.0.0.1:{server.server_port}/rows"
    thread = Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield receiver
    finally:
        receiver.ends.set()
        server.shutdown()
        server.server_close()
        thread.join()


def _rows(body, content_type):
    if content_type == "application/x-ndjson":
        return [json.loads(line) for line in body.splitlines()]
    found = json.loads(body)
    return found if isinstance(found, list) else [found]
