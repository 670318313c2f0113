"""S3 on 127.0.0.1 in a process of its own: the gateway of `make test-servers` if it is there, and moto otherwise.

A library that waits for the server in Rust may hold Python's lock, so that a server in this process would never answer.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import time
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

ACCESS_KEY, SECRET_KEY = "AKIAHIDDENHIDDEN", "hidden-5ecret-key"
REGION = "us-east-1"
GATEWAY = Path(sys.executable).with_name("versitygw")
_START_TIMEOUT_S = 60


@dataclass(frozen=True)
class S3:
    """Where the server listens."""

    url: str

    @property
    def environ(self):
        """What leads all libraries there."""
        return {
            "AWS_ENDPOINT_URL": self.url,
            "AWS_ACCESS_KEY_ID": ACCESS_KEY,
            "AWS_SECRET_ACCESS_KEY": SECRET_KEY,
            "AWS_REGION": REGION,
            "AWS_DEFAULT_REGION": REGION,
        }

    def client(self):
        """The client of Amazon's own library, for what no other one can write."""
        import boto3  # noqa: PLC0415 - takes a second, and only tests of object stores need it

        return boto3.client(
            "s3",
            endpoint_url=self.url,
            region_name=REGION,
            aws_access_key_id=ACCESS_KEY,
            aws_secret_access_key=SECRET_KEY,
        )

    def make_bucket(self, name):
        self.client().create_bucket(Bucket=name)
        return name


@contextmanager
def running_s3(folder):
    """A server whose objects are in a folder, or in its memory."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port = found.getsockname()[1]
    environ = {**os.environ, "ROOT_ACCESS_KEY": ACCESS_KEY, "ROOT_SECRET_KEY": SECRET_KEY}
    if GATEWAY.exists():
        command = [str(GATEWAY), "--port", f"127.0.0.1:{port}", "posix", str(folder)]
    else:
        command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    with (folder.parent / "s3.log").open("wb") as log:
        process = subprocess.Popen(command, env=environ, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
    try:
        deadline = time.monotonic() + _START_TIMEOUT_S
        while not _listens(port):
            if process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError((folder.parent / "s3.log").read_text())
            time.sleep(0.05)
        yield S3(f"http://127.0.0.1:{port}")
    finally:
        process.kill()
        process.wait()
        shutil.rmtree(folder, ignore_errors=True)


def _listens(port):
    with socket.socket() as client:
        return client.connect_ex(("127.0.0.1", port)) == 0
