"""Google Cloud Storage on 127.0.0.1, by the fake server of `make test-servers`."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import time
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote
from urllib.request import Request, urlopen

from headrace.stores.connection import StoreConnection

SERVER = Path(sys.executable).with_name("fake-gcs-server")
_START_TIMEOUT_S = 60


@dataclass(frozen=True)
class Google:
    """Where the server listens."""

    url: str

    @property
    def connection(self):
        """What leads to it, as settings say it."""
        return StoreConnection(self.url, anonymous=True)

    def make_bucket(self, name):
        """Make a bucket; returns its URI."""
        self._post("/storage/v1/b?project=tests", json.dumps({"name": name}).encode())
        return f"gs://{name}"

    def put(self, bucket, key, content):
        """Write an object."""
        self._post(f"/upload/storage/v1/b/{bucket}/o?uploadType=media&name={quote(key, safe='')}", content)

    def _post(self, path, content):
        urlopen(Request(self.url + path, content, {"Content-Type": "application/json"}, method="POST")).close()


@contextmanager
def running_google(folder):
    """A server whose objects are in its memory, and whose log is in a folder."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port = found.getsockname()[1]
    host = f"127.0.0.1:{port}"
    command = [str(SERVER), "-backend", "memory", "-scheme", "http", "-host", "127.0.0.1", "-port", str(port)]
    log = folder / "google.log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            [*command, "-public-host", host], cwd=folder, stdin=subprocess.DEVNULL, stdout=output, stderr=output
        )
    try:
        deadline = time.monotonic() + _START_TIMEOUT_S
        while not _listens(port):
            if process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(log.read_text())
            time.sleep(0.05)
        yield Google(f"http://{host}")
    finally:
        process.kill()
        process.wait()


def _listens(port):
    with socket.socket() as client:
        return client.connect_ex(("127.0.0.1", port)) == 0
