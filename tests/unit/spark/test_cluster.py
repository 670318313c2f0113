"""What an update needs of the executors of a cluster, and how a lack is reported."""

from __future__ import annotations

import io
import zipfile

import pytest

from headrace.errors import PipelineError
from headrace.spark.cluster.executor_facts import ExecutorFacts, executor_problems
from headrace.spark.cluster.executor_probe import probe
from headrace.spark.cluster.preflight import EXECUTOR_WAIT_S, wait_for_executor
from headrace.spark.cluster.worker_archives import archive_of

MARK = ".mark"


def report(folder, modules=("json",)):
    (found,) = probe(modules, str(folder), MARK, [7])
    return ExecutorFacts.of(found)


def test_an_executor_that_sees_the_storage_and_imports_all_modules_has_no_problem(tmp_path):
    (tmp_path / MARK).write_text(MARK)
    found = report(tmp_path)

    assert executor_problems([found], str(tmp_path), found.python) == ()
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
    a = ExecutorFacts("a", "3.11.9", missing={"pyarrow": "No module named 'pyarrow'"})
    b = ExecutorFacts("b", "3.12.1", storage_visible=False)
    c = ExecutorFacts("c", "3.12.1", write_error="Permission denied")

    found = executor_problems((a, a, b, c), "/shared", "3.11.7")

    assert [(problem.code, problem.message) for problem in found] == [
        ("CLUSTER.PYTHON_VERSION", "Python is 3.12.1 on b, c, but 3.11.7 here"),
        ("CLUSTER.MODULES", "the Python of the executors on a cannot import pyarrow (No module named 'pyarrow')"),
        ("CLUSTER.STORAGE", 'the storage "/shared" is not shared with b: a file that this machine wrote is not there'),
        ("CLUSTER.STORAGE", 'the storage "/shared" is not shared with c: it cannot be written: Permission denied'),
    ]


def test_an_update_waits_for_the_first_executor_but_not_forever():
    now = [0.0]

    def sleep(seconds):
        now[0] += seconds

    wait_for_executor(lambda: int(now[0] > 60), "spark://m:7077", clock=lambda: now[0], sleep=sleep)
    with pytest.raises(PipelineError, match=r"no executor of spark://m:7077 has registered"):
        wait_for_executor(lambda: 0, "spark://m:7077", clock=lambda: now[0], sleep=sleep)

    assert now[0] < 70 + EXECUTOR_WAIT_S


def test_equal_files_produce_an_equal_archive(tmp_path):
    (tmp_path / "package").mkdir()
    file = tmp_path / "package" / "module.py"
    file.write_text("x = 1")
    first = archive_of(tmp_path, [file])
    file.touch()

    assert archive_of(tmp_path, [file]) == first
    assert zipfile.ZipFile(io.BytesIO(first)).namelist() == ["package/module.py"]
