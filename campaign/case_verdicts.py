"""A plugin of pytest, which stores the verdict on each numbered case as soon as the case has ended.

python -m pytest -p campaign.case_verdicts ...     with the file of verdicts in HEADRACE_VERDICTS
"""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from campaign.kills import Verdict
from campaign.report import VerdictStore

FILE = "HEADRACE_VERDICTS"
_CASE = re.compile(r"\[(\d+)-(.+)\]$")


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Store the verdict on a case; one whose preparation fails has failed."""
    case = _CASE.search(report.nodeid)
    if case is None or not (report.when == "call" or report.failed):
        return
    faults = (report.longreprtext,) if report.failed else ()
    verdict = Verdict(int(case[1]), case[2], True, int(report.failed), report.duration, faults)  # noqa: FBT003
    VerdictStore(Path(os.environ[FILE]), resume=True).add(verdict)
