"""The jar in the package comes from the sources beside it."""

from __future__ import annotations

import hashlib
import subprocess
import sys
from pathlib import Path

import pytest

from headrace.connectors.fetch import STORAGE_JAR
from headrace.connectors.lock import packaged_jar

TOOL = Path(__file__).resolve().parents[2] / "tools" / "storage_jar.py"


def test_the_packaged_jar_matches_the_lock() -> None:
    content = STORAGE_JAR.read_bytes()

    assert (hashlib.sha256(content).hexdigest(), len(content)) == (packaged_jar().sha256, packaged_jar().size)


@pytest.mark.long(guard="tests/unit/test_storage_jar.py::test_the_packaged_jar_matches_the_lock")
def test_rebuilding_the_packaged_jar_gives_the_same_bytes() -> None:
    done = subprocess.run([sys.executable, str(TOOL), "--check"], capture_output=True, text=True, check=False)

    if done.returncode == 3:
        pytest.skip(done.stderr.strip())
    assert done.returncode == 0, done.stdout + done.stderr
