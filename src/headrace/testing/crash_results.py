"""Records the results of tests that let updates of their project crash, for the success checklist."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from pathlib import Path

from headrace.project.inspection.diagnosis.crash_tests import record_crash_test
from headrace.settings.discover import find_settings
from headrace.settings.load import load_settings


def record_result(file: Path, test: str, failpoints: Sequence[str], passed: bool) -> None:  # noqa: FBT001 - of a test
    """Record the result of a test in the project that it belongs to.

    Args:
        file: of the test.
        test: its id.
        failpoints: where its updates crashed.
        passed: whether it passed.
    """
    settings = load_settings(find_settings(file.parent), environ=os.environ)
    record_crash_test(settings, test, failpoints, time.time(), passed=passed)
