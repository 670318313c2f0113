"""The locked jars of servers that tests start; run as a program, it fetches those of `make test`, for `make setup`."""

from __future__ import annotations

import os
import sys
import tomllib
from pathlib import Path

from headrace.connectors.fetch import cache_folder, ensure_jars
from headrace.connectors.lock import Jar
from headrace.errors import PipelineError


def server_jars(server):
    """The files of a server, downloaded where the cache lacks them, each with the locked digest."""
    return ensure_jars(_locked(server), cache_folder(os.environ).absolute() / "test-jars", environ=os.environ)


def _locked(server):
    lock = Path(__file__).with_name(f"{server}.lock.toml")
    entries = tomllib.loads(lock.read_text(encoding="utf-8"))["jars"]
    return [_jar(entry) for entry in entries]


def _jar(entry):
    group, artifact, version = entry["coordinates"].split(":")
    return Jar(group, artifact, version, entry["sha256"], entry["size"])


if __name__ == "__main__":
    try:
        server_jars("kafka")
    except PipelineError as error:
        sys.exit(error.render())
