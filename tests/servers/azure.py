"""Azure's blob service on 127.0.0.1, by the emulator Azurite of `make test-servers`."""

from __future__ import annotations

import base64
import hashlib
import hmac
import socket
import subprocess
import sys
import time
from contextlib import contextmanager
from dataclasses import dataclass
from email.utils import formatdate
from pathlib import Path
from urllib.request import Request, urlopen

from obstore.store import AzureStore

from headrace.stores.connection import StoreConnection

AZURITE = Path(sys.prefix) / "servers" / "node_modules" / ".bin" / "azurite-blob"
# The emulator's account and its key, which its documentation names.
ACCOUNT = "devstoreaccount1"
KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
_VERSION = "2021-08-06"
_START_TIMEOUT_S = 120


@dataclass(frozen=True)
class Azure:
    """Where the server listens."""

    url: str

    @property
    def connection(self):
        """What leads to it, as settings say it."""
        return StoreConnection(self.url, account_key=KEY)

    def make_container(self, name):
        """Make a container; returns its URI."""
        date = formatdate(usegmt=True)
        named = f"/{ACCOUNT}/{ACCOUNT}/{name}\nrestype:container"
        signed = f"PUT{12 * chr(10)}x-ms-date:{date}\nx-ms-version:{_VERSION}\n{named}"
        signature = base64.b64encode(hmac.new(base64.b64decode(KEY), signed.encode(), hashlib.sha256).digest()).decode()
        headers = {
            "x-ms-date": date,
            "x-ms-version": _VERSION,
            "Authorization": f"SharedKey {ACCOUNT}:{signature}",
            "Content-Length": "0",
        }
        urlopen(Request(f"{self.url}/{ACCOUNT}/{name}?restype=container", headers=headers, method="PUT")).close()
        return f"abfss://{name}@{ACCOUNT}.dfs.core.windows.net"

    def client(self, name):
        """A client of a container."""
        return AzureStore(
            name,
            account_name=ACCOUNT,
            account_key=KEY,
            endpoint=f"{self.url}/{ACCOUNT}",
            client_options={"allow_http": True},
        )


@contextmanager
def running_azure(folder):
    """A server whose blobs are in its memory, and whose log is in a folder."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port = found.getsockname()[1]
    command = [str(AZURITE), "--silent", "--skipApiVersionCheck", "--inMemoryPersistence"]
    log = folder / "azurite.log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            [*command, "--blobHost", "127.0.0.1", "--blobPort", str(port)],
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
        )
    try:
        deadline = time.monotonic() + _START_TIMEOUT_S
        while not _listens(port):
            if process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(log.read_text())
            time.sleep(0.05)
        yield Azure(f"http://127.0.0.1:{port}")
    finally:
        process.kill()
        process.wait()


def _listens(port):
    with socket.socket() as client:
        return client.connect_ex(("127.0.0.1", port)) == 0
