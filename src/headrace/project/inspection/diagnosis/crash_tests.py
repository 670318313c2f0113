"""Results of tests that let updates crash: the pytest plugin records them, and the checklist reads them.

Each test has a file in the project, with the digest of the program text that it ran with. A result for another text
proves nothing about today's.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from headrace.assistant.doctor.facts import CrashTest
from headrace.atomic_write import replace_file
from headrace.settings.settings import Settings
from headrace.settings.source_files import SUFFIXES

FOLDER = Path(".headrace", "crash-tests")
_FORMAT = 1
_NO_PROGRAMS = frozenset({"__pycache__", "site-packages", "node_modules"})


def program_digest(settings: Settings) -> str:
    """The digest of the settings file and of all program files of a project, its tests included."""
    found = hashlib.sha256()
    for file in (settings.file, *sorted(_programs(settings))):
        content = hashlib.sha256(file.read_bytes()).hexdigest()
        found.update(f"{file.relative_to(settings.root).as_posix()}\0{content}\n".encode())
    return found.hexdigest()


def _programs(settings: Settings) -> Iterator[Path]:
    storage = Path(settings.storage)
    for directory, folders, names in os.walk(settings.root):
        folder = Path(directory)
        folders[:] = sorted(
            name
            for name in folders
            if not name.startswith(".") and name not in _NO_PROGRAMS and folder / name != storage
        )
        yield from (folder / name for name in names if name.endswith(SUFFIXES) and not name.startswith("."))


def record_crash_test(settings: Settings, test: str, failpoints: Sequence[str], now: float, *, passed: bool) -> None:
    """Record the result of a test in its project, unless this process may not write there.

    Args:
        settings: the project's.
        test: the id of the test.
        failpoints: where its updates crashed.
        now: the time in seconds since 1970.
        passed: whether the test passed.
    """
    file = settings.root / FOLDER / f"{hashlib.sha256(test.encode()).hexdigest()[:16]}.json"
    result = {"test": test, "passed": passed, "failpoints": sorted(set(failpoints)), "at": now}
    with suppress(OSError):
        file.parent.mkdir(parents=True, exist_ok=True)
        replace_file(file, json.dumps({"format": _FORMAT, "digest": program_digest(settings), **result}))


def crash_tests_of(settings: Settings) -> tuple[CrashTest, ...]:
    """The results for the program text of today.

    Raises:
        OSError: a file cannot be read.
    """
    files = sorted((settings.root / FOLDER).glob("*.json"))
    documents = [json.loads(file.read_text(encoding="utf-8")) for file in files]
    digest = program_digest(settings) if files else ""
    return tuple(_result(one) for one in documents if one.get("format") == _FORMAT and one.get("digest") == digest)


def _result(document: Any) -> CrashTest:
    points = tuple(map(str, document["failpoints"]))
    return CrashTest(str(document["test"]), bool(document["passed"]), points, float(document["at"]))
