"""What a process writes for itself alone."""

from __future__ import annotations

import atexit
import shutil
import tempfile
from functools import cache
from pathlib import Path


@cache
def scratch(what: str) -> Path:
    """An empty folder of this process alone, the same at each call with the same word; it goes when the process ends.

    No other user of the machine can take its name first.
    """
    folder = Path(tempfile.mkdtemp(prefix=f"headrace-{what}-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder
