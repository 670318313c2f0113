"""Records the results of tests that let updates of their project crash, for the success checklist."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from pathlib import Path

from headrace.project.inspection.diagnosis.crash_tests import record_crash_test
from headrace.settings.discover import find_settings
from headrace.settings.load import load_settings
from headrace.testing.crash import CrashFailpoint


def record_crashes(file: Path, test: str, crashes: Iterable[CrashFailpoint], *, passed: bool) -> None:
    """Record the result of a test in the project that it belongs to, if an update of it has crashed.

    Args:
        file: of the test.
        test: its id.
        crashes: where updates were to crash.
        passed: whether the test passed.
    """
    failpoints = [one.point.value for one in crashes if one.has_fired and one.point is not None]
    if failpoints:
        settings = load_settings(find_settings(file.parent), environ=os.environ)
        record_crash_test(settings, test, failpoints, time.time(), passed=passed)
