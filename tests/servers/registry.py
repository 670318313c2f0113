"""A stand-in for Confluent's registry: the documented REST calls that a reader makes, on 127.0.0.1."""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from io import BytesIO
from urllib.parse import unquote, urlsplit

import fastavro


class SchemaRegistry:
    """Schemas of subjects, each version with an id of its own. ``asked`` has the paths of all calls."""

    def __init__(self):
        self.asked = []
        self._schemas = {}
        self._subjects = {}
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()

    def close(self):
        """Answer nothing more."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def register(self, subject, schema, **more):
        """The id of a new version of a subject's schema."""
        number = len(self._schemas) + 1
        self._schemas[number] = {"schema": json.dumps(schema), **more}
        self._subjects.setdefault(subject, []).append(number)
        return number

    def payload(self, number, value, named=()):
        """A value in the wire format, written with the schema of an id."""
        known = {}
        for schema in named:
            fastavro.parse_schema(schema, known)
        schema = fastavro.parse_schema(json.loads(self._schemas[number]["schema"]), known)
        written = BytesIO()
        fastavro.schemaless_writer(written, schema, value)
        return b"\x00" + number.to_bytes(4, "big") + written.getvalue()

    def answer(self, path):
        """The status and the body for a path."""
        self.asked.append(path)
        match [unquote(part) for part in urlsplit(path).path.strip("/").split("/")]:
            case ["schemas", "ids", number] if int(number) in self._schemas:
                return 200, self._schemas[int(number)]
            case ["subjects", subject, "versions", version] if subject in self._subjects:
                numbers = self._subjects[subject]
                place = len(numbers) if version == "latest" else int(version)
                number = numbers[place - 1]
                return 200, {"subject": subject, "version": place, "id": number, **self._schemas[number]}
            case ["schemas", *_]:
                return 404, {"error_code": 40403, "message": "Schema not found"}
            case _:
                return 404, {"error_code": 40401, "message": "Subject not found"}

    def _handler(self):
        registry = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self):
                status, body = registry.answer(self.path)
                text = json.dumps(body).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/vnd.schemaregistry.v1+json")
                self.send_header("Content-Length", str(len(text)))
                self.end_headers()
                self.wfile.write(text)

            def log_message(self, *arguments):
                pass

        return Handler
