"""Temporary folders of the process."""

from __future__ import annotations

import atexit
import shutil
import tempfile
from functools import cache
from pathlib import Path


@cache
def scratch(what: str) -> Path:
    """A temporary folder of this process, the same for each call with the same word; deleted when the process ends.

    Its name cannot be guessed by other users of the machine.
    """
    folder = Path(tempfile.mkdtemp(prefix=f"headrace-{what}-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder
