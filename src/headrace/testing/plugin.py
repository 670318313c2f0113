"""The pytest plugin: fixtures that run pipelines on rows of a test. The first test that needs Spark loads it."""

from __future__ import annotations

import os
from collections.abc import Generator, Iterator, Mapping
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import pytest

from headrace.testing.rows import SortedRows, difference

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from headrace.testing.driver import Pipeline

CONNECTORS_OPTION = "headrace_connectors"
CONFS_OPTION = "headrace_confs"
_PASSED = pytest.StashKey[bool]()


class MakeProject(Protocol):
    """Writes a project into a temporary folder and opens it."""

    def __call__(self, files: Mapping[str, str], settings: Mapping[str, Any] | None = None) -> Pipeline:
        """The pipeline of *files* (path to text); *settings* go into its ``pipeline.yml``."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the plugin's options."""
    parser.addini(CONNECTORS_OPTION, "connectors whose jars the session of the tests has", type="args", default=[])
    parser.addini(CONFS_OPTION, "Spark settings of that session, a line each: key=value", type="linelist", default=[])


def pytest_assertrepr_compare(op: str, left: object, right: object) -> list[str] | None:
    """Show only the cells that differ if rows of a pipeline are compared with ``==``."""
    if op != "==" or not any(isinstance(side, SortedRows) for side in (left, right)):
        return None
    if not (isinstance(left, list) and isinstance(right, list)):
        return None
    expected, actual = (left, right) if isinstance(right, SortedRows) else (right, left)
    return (difference(actual, expected) or "the same rows in another order").splitlines()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Keep the result of a test for its fixtures, which are finalized after it."""
    report = yield
    if call.when == "call":
        item.stash[_PASSED] = report.passed
    return report


def _has_passed(item: pytest.Item) -> bool:
    return item.stash.get(_PASSED, False)


@pytest.fixture(scope="session")
def headrace_session(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[SparkSession]:
    """One warm session for all tests of this process, with Delta, the connectors and settings of the configuration."""
    warm = import_module("headrace.testing.warm")
    connectors = request.config.getini(CONNECTORS_OPTION)
    confs = dict(_conf(line) for line in request.config.getini(CONFS_OPTION))
    with warm.warm_session(connectors, tmp_path_factory.mktemp("spark"), confs) as session:
        yield session


def _conf(line: str) -> tuple[str, str]:
    key, equals, value = line.partition("=")
    if not equals:
        raise pytest.UsageError(f'{CONFS_OPTION}: "{line}" is not key=value')
    return key.strip(), value.strip()


@pytest.fixture
def make_project(headrace_session: SparkSession, tmp_path: Path) -> Iterator[MakeProject]:
    """Writes a project from texts, each call into a folder of its own, and opens it."""
    driver = import_module("headrace.testing.driver")
    made: list[Pipeline] = []

    def make(files: Mapping[str, str], settings: Mapping[str, Any] | None = None) -> Pipeline:
        folder = tmp_path / f"project{len(made) or ''}"
        driver.write_project(folder, files, settings or {})
        made.append(driver.Pipeline(folder, folder / "storage", os.environ))
        return made[-1]

    with import_module("headrace.testing.warm").unchanged(headrace_session, tmp_path):
        yield make


@pytest.fixture
def pipeline(request: pytest.FixtureRequest, headrace_session: SparkSession, tmp_path: Path) -> Iterator[Pipeline]:
    """The project around the test's file, copied to a scratch folder with a storage of its own.

    Called with a folder, it is the project there: ``pipeline("other/folder")``.
    """
    driver = import_module("headrace.testing.driver")
    opened = driver.open_nearest(Path(request.path).parent, tmp_path)
    with import_module("headrace.testing.warm").unchanged(headrace_session, tmp_path):
        yield opened
    if isinstance(opened, driver.Pipeline):
        recording = import_module("headrace.testing.crash_results")
        recording.record_crashes(
            Path(request.path), request.node.nodeid, opened.crashes, passed=_has_passed(request.node)
        )
