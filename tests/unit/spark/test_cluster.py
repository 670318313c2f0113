"""What an update needs of the executors of a cluster, and how a lack is reported."""

from __future__ import annotations

import importlib
import os

import pytest

from headrace.errors import PipelineError
from headrace.spark.cluster.executor_facts import ExecutorFacts, executor_problems
from headrace.spark.cluster.executor_probe import probe
from headrace.spark.cluster.preflight import EXECUTOR_WAIT_S, job_failure, remove_abandoned, wait_for_executor
from headrace.spark.cluster.start_failure import start_failure
from headrace.spark.cluster.worker_archives import archive_of

MARK = ".mark"


def report(folder, modules=("json",)):
    (found,) = probe(modules, str(folder), MARK, [7])
    return ExecutorFacts.of(found)


def test_an_executor_that_sees_the_storage_and_imports_all_modules_has_no_problem(tmp_path):
    (tmp_path / MARK).write_text(MARK)
    found = report(tmp_path)

    assert executor_problems([found], str(tmp_path)) == ()
    assert (tmp_path / f"{MARK}.7").read_text() == MARK


def test_a_folder_of_the_same_path_on_another_machine_is_not_the_storage(tmp_path):
    (tmp_path / MARK).write_text("of another update")

    assert not report(tmp_path).storage_visible
    assert not report(tmp_path / "missing").storage_visible


def test_a_module_that_cannot_be_imported_is_reported_with_the_reason(tmp_path, monkeypatch):
    (tmp_path / "broken_module.py").write_text("1 / 0")
    monkeypatch.syspath_prepend(tmp_path)

    assert report(tmp_path, ("broken_module", "not_there", "json")).missing == {
        "broken_module": "ZeroDivisionError: division by zero",
        "not_there": "ModuleNotFoundError: No module named 'not_there'",
    }


def test_each_problem_is_reported_once_with_all_its_hosts():
    a = ExecutorFacts("a", missing={"pyarrow": "No module named 'pyarrow'"})
    b = ExecutorFacts("b", storage_visible=False)
    c = ExecutorFacts("c", write_error="Permission denied")

    found = executor_problems((a, a, b, c), "/shared")

    assert [(problem.code, problem.message) for problem in found] == [
        ("CLUSTER.MODULES", "the Python of the executors on a cannot import pyarrow (No module named 'pyarrow')"),
        ("CLUSTER.STORAGE", 'the storage "/shared" is not shared with b: a file that this machine wrote is not there'),
        ("CLUSTER.STORAGE", 'the storage "/shared" is not shared with c: it cannot be written: Permission denied'),
    ]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "[PYTHON_VERSION_MISMATCH] Python in worker has different version: 3.12 than that in driver: 3.11, ",
            "the Python of the executors is 3.12, but 3.11 here",
        ),
        (
            'job aborted\njava.io.IOException: Cannot run program "/nowhere/python3": error=2',
            'the executors cannot start Python: java.io.IOException: Cannot run program "/nowhere/python3": error=2',
        ),
    ],
)
def test_a_check_that_python_cannot_run_names_the_cause(text, message):
    assert job_failure(text).message == message


def test_an_update_waits_for_the_first_executor_but_not_forever():
    now = [0.0]

    def sleep(seconds):
        now[0] += seconds

    wait_for_executor(lambda: int(now[0] > 60), "spark://m:7077", clock=lambda: now[0], sleep=sleep)
    with pytest.raises(PipelineError, match=r"no executor of spark://m:7077 has registered"):
        wait_for_executor(lambda: 0, "spark://m:7077", clock=lambda: now[0], sleep=sleep)

    assert now[0] < 70 + EXECUTOR_WAIT_S


def test_files_of_killed_checks_are_removed_but_not_those_of_a_running_one(tmp_path):
    for name, written_at in ((".headrace-preflight-old", 1000), (".headrace-preflight-new", 9000), ("other", 1000)):
        (tmp_path / name).touch()
        os.utime(tmp_path / name, (written_at, written_at))

    remove_abandoned(tmp_path, 10_000.0)

    assert {file.name for file in tmp_path.iterdir()} == {".headrace-preflight-new", "other"}


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (
            "java.lang.IllegalStateException: Cannot call methods on a stopped SparkContext.\nThis stopped one",
            "the master was not reached, or it ended the application",
        ),
        (
            "org.apache.spark.SparkException: Could not parse Master URL: 'x'\n\tat org",
            "org.apache.spark.SparkException: Could not parse Master URL: 'x'",
        ),
    ],
)
def test_an_application_that_a_cluster_does_not_start_is_reported_with_the_log(text, reason, tmp_path):
    error = start_failure(text, tmp_path)

    assert (error.code, error.params["reason"], error.condition.exit_code) == ("CLUSTER.NOT_STARTED", reason, 1)
    assert str(tmp_path / "spark.log") in error.detail


@pytest.fixture
def package(tmp_path):
    file = tmp_path / "folder_without_init" / "inner" / "module.py"
    file.parent.mkdir(parents=True)
    file.write_text("x = 1")
    return file


def test_equal_files_produce_an_equal_archive(package, tmp_path):
    first = archive_of(tmp_path, [package])
    package.touch()

    assert archive_of(tmp_path, [package]) == first


def test_modules_are_imported_from_an_archive_without_init_files(package, tmp_path, monkeypatch):
    (tmp_path / "modules.zip").write_bytes(archive_of(tmp_path, [package]))
    monkeypatch.syspath_prepend(tmp_path / "modules.zip")

    module = importlib.import_module("folder_without_init.inner.module")

    assert (module.x, ".zip" in str(module.__file__)) == (1, True)
