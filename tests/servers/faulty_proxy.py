"""A network between a client and a server of S3 that fails where a test says, in a process of its own.

A library that waits for the server in Rust may hold Python's lock, so that a proxy in this process would never answer.
"""

from __future__ import annotations

import http.client
import json
import re
import socket
import subprocess
import sys
import time
import urllib.request
from collections import Counter
from contextlib import contextmanager
from dataclasses import dataclass
from enum import Enum
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Lock
from urllib.parse import urlsplit

_START_TIMEOUT_S = 60
_CONTROL, _REQUESTS = "/-faults", "/-requests"


class Fault(Enum):
    """What happens to a request."""

    LOST = "lost"  # the server acts on it, and its answer never arrives
    ERROR = "500"  # answered so, without the server
    BUSY = "503"  # the same
    SLOW = "slow"  # the answer takes two seconds


@dataclass(frozen=True)
class Proxy:
    """Where the proxy listens."""

    url: str

    def fail(self, fault, method, pattern, times=1):
        """Let the next requests fail whose method and path match."""
        self._ask("POST", {"fault": fault.value, "method": method, "pattern": pattern, "times": times})

    def injected(self):
        """How many faults of each kind happened since the last call."""
        return Counter({Fault(name): number for name, number in json.loads(self._ask("GET")).items()})

    def requests(self):
        """The requests since the last call, each as its method and path."""
        return json.loads(self._ask("GET", path=_REQUESTS))

    def _ask(self, method, document=None, path=_CONTROL):
        data = None if document is None else json.dumps(document).encode()
        with urllib.request.urlopen(urllib.request.Request(self.url + path, data, method=method)) as answer:
            return answer.read()


@contextmanager
def running_proxy(target):
    """A proxy of the server with a URL."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port = found.getsockname()[1]
    process = subprocess.Popen([sys.executable, __file__, target, str(port)], cwd=Path(__file__).parent)
    try:
        deadline = time.monotonic() + _START_TIMEOUT_S
        while not _listens(port):
            if process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError("the proxy did not start")
            time.sleep(0.02)
        yield Proxy(f"http://127.0.0.1:{port}")
    finally:
        process.kill()
        process.wait()


class _Faults:
    """The faults that are still to happen, those that did, and the requests."""

    def __init__(self):
        self._wanted = []
        self._requests = []
        self._injected = Counter()
        self._lock = Lock()

    def add(self, document):
        with self._lock:
            self._wanted.append(document)

    def taken(self):
        with self._lock:
            found, self._injected = self._injected, Counter()
            return found

    def requests(self):
        with self._lock:
            found, self._requests = self._requests, []
            return found

    def next(self, method, path):
        with self._lock:
            self._requests.append(f"{method} {path}")
            for one in self._wanted:
                if one["times"] and one["method"] == method and re.search(one["pattern"], path):
                    one["times"] -= 1
                    self._injected[one["fault"]] += 1
                    return Fault(one["fault"])
        return None


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_any(self):
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if self.path == _REQUESTS:
            self._answer(200, [], json.dumps(self.server.faults.requests()).encode())
            return
        if self.path == _CONTROL:
            self._control(body)
            return
        fault = self.server.faults.next(self.command, self.path)
        if fault in (Fault.ERROR, Fault.BUSY):
            self._answer(int(fault.value), [], b"")
            return
        status, headers, content = self._forwarded(body)
        if fault is Fault.LOST:
            self.close_connection = True
            self.connection.shutdown(socket.SHUT_RDWR)
            return
        if fault is Fault.SLOW:
            time.sleep(2)
        self._answer(status, headers, content)

    do_GET = do_PUT = do_POST = do_HEAD = do_DELETE = do_any  # noqa: N815 - names of the base class

    def log_message(self, *_):
        pass

    def _control(self, body):
        if self.command == "POST":
            self.server.faults.add(json.loads(body))
        content = json.dumps(self.server.faults.taken()).encode() if self.command == "GET" else b""
        self._answer(200, [], content)

    def _forwarded(self, body):
        client = http.client.HTTPConnection(self.server.target, timeout=60)
        client.putrequest(self.command, self.path, skip_host=True, skip_accept_encoding=True)
        for name, value in self.headers.items():
            # The signature covers them as they are. The body is here already.
            if name.lower() not in ("expect", "connection"):
                client.putheader(name, value)
        client.endheaders(body or None)
        answer = client.getresponse()
        content = answer.read()
        client.close()
        return answer.status, answer.getheaders(), content

    def _answer(self, status, headers, content):
        self.send_response_only(status)
        lengths = [value for name, value in headers if name.lower() == "content-length"]
        for name, value in headers:
            if name.lower() not in ("content-length", "transfer-encoding", "connection"):
                self.send_header(name, value)
        # The answer to HEAD has the length of what it does not have.
        self.send_header("Content-Length", lengths[0] if lengths else str(len(content)))
        self.end_headers()
        self.wfile.write(content)


def _listens(port):
    with socket.socket() as client:
        return client.connect_ex(("127.0.0.1", port)) == 0


if __name__ == "__main__":
    server = ThreadingHTTPServer(("127.0.0.1", int(sys.argv[2])), _Handler)
    server.daemon_threads = True
    server.target, server.faults = urlsplit(sys.argv[1]).netloc, _Faults()
    server.serve_forever()
