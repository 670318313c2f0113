from __future__ import annotations

import gzip
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest


@pytest.fixture
def collector():
    """Remembers the path and body of each request; answers with ``status``."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            body = self.rfile.read(int(self.headers["Content-Length"]))
            body = gzip.decompress(body) if self.headers.get("Content-Encoding") == "gzip" else body
            server.requests.append((self.path, body, self.headers.get("authorization")))
            self.send_response(server.status)
            self.send_header("Location", f"{server.url}/elsewhere")
            self.end_headers()

        def log_message(self, *_):
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    server.requests, server.status = [], 200
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    server.url = f"http://127.0.0.1:{server.server_port}"
    yield server
    server.shutdown()
    thread.join()
    server.server_close()
