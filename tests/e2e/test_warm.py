"""The law of the warm worker: a verb in it prints and exits as without it, whatever has changed and was left behind."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest
from tests.command_line import PROGRAM, Done
from tests.tiers import cases

from headrace.events.reader import EventReader
from headrace.model.outcome import FlowState
from headrace.worker.control import WorkerControl, WorkerStatus

GUARDS = (
    "tests/e2e/test_worker_process.py::test_a_verb_prints_and_exits_as_without_the_worker",
    "tests/e2e/test_worker_process.py::test_a_verb_with_another_environment_runs_without_the_worker_and_says_so_if_asked",
    "tests/e2e/test_worker_process.py::test_a_verb_ends_with_its_caller",
    "tests/e2e/test_worker_process.py::test_a_caller_dies_as_its_verb_does",
    "tests/unit/worker/test_fingerprint.py::test_another_setting_is_another_jvm",
    "tests/unit/worker/test_modules.py::test_an_edited_module_is_found",
)
pytestmark = [pytest.mark.e2e, pytest.mark.timeout(1200), pytest.mark.long(guard=GUARDS)]
DEADLINE_S = 180.0
# What a query sees of its surroundings, in the driver and in a Python worker.
FACTS = """\
import os

import law
from pyspark.sql import functions as F

from headrace import pipelines as dp

{left}

@F.udf("string")
def seen(name):
    return str(law.VERSION if name == "module" else os.environ.get(name, "-"))


@dp.materialized_view
def facts():
    seen_here = [
        ("module", law.VERSION),
        ("HEADRACE_LAW", os.environ.get("HEADRACE_LAW", "-")),
        ("LAW", os.environ.get("LAW", "-")),
        ("law.key", spark.conf.get("law.key", "-")),
        ("spark.sql.shuffle.partitions", spark.conf.get("spark.sql.shuffle.partitions")),
        ("spark.sql.ansi.enabled", spark.conf.get("spark.sql.ansi.enabled")),
        ("folder", os.getcwd()),
    ]
    return spark.createDataFrame(seen_here, "name string, here string").withColumn("there", seen("name"))
"""
LEFT = """\
spark._jvm.java.lang.System.setProperty("law.left", "left")
spark._jvm.java.util.TimeZone.setDefault(spark._jvm.java.util.TimeZone.getTimeZone("Asia/Tokyo"))
spark._jsc.sc().addFile("law.py")
spark._jsc.hadoopConfiguration().set("law.left", "left")
spark._jsparkSession.conf().set("spark.sql.ansi.enabled", "false")
spark._jsparkSession.conf().set("law.key", "left")
spark._jsparkSession.range(3).cache().createOrReplaceTempView("left_view")
spark._jsparkSession.range(3).createOrReplaceGlobalTempView("left_everywhere")
"""
# Cannot be taken out of a context.
STUCK = 'spark._jsc.sc().setLogLevel("ERROR")\n'
JAVA_SEES = "SELECT reflect('java.lang.System', 'getProperty', 'law.left') AS property, current_timezone() AS zone"


@dataclass
class Warm:
    """A project, and its worker."""

    root: Path
    environ: dict[str, str]

    def popen(self, *words: str, **changed: str) -> subprocess.Popen[str]:
        """A verb as a process."""
        pipe = subprocess.PIPE
        environ = {**self.environ, **changed}
        return subprocess.Popen([PROGRAM, *words], cwd=self.root, env=environ, stdout=pipe, stderr=pipe, text=True)

    def call(self, *words: str, **changed: str) -> Done:
        """A verb."""
        process = self.popen(*words, **changed)
        out, err = process.communicate(timeout=DEADLINE_S)
        return Done(process.returncode, out, err)

    def status(self) -> WorkerStatus:
        """What the worker says about itself."""
        found = WorkerControl(self.root, self.environ).status()
        assert found is not None
        return found

    def warm(self, *words: str, **changed: str) -> Done:
        """A verb, which the worker runs."""
        before = self.status().verbs
        done = self.call(*words, "--wait", **changed)
        assert self.status().verbs == before + 1
        return done

    def same(self, *words: str, is_warm: bool = True, **changed: str) -> Done:
        """A verb, after it was checked that it prints and exits as without the worker."""
        found = self.warm(*words, **changed) if is_warm else self.call(*words, **changed)
        cold = self.call(*words, "--cold", **changed)
        assert found == cold
        return found

    def wait_until_idle(self) -> None:
        """Until the next verb starts at once."""
        wait_until(lambda: self.status().state == "idle")

    def write(self, left: str = "", version: int = 1) -> None:
        """The files of the project."""
        (self.root / "law.py").write_text(f"VERSION = {version}\n")
        (self.root / "transformations" / "facts.py").write_text(FACTS.format(left=left))


def wait_until(is_true: Callable[[], bool]) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while not is_true():
        assert time.monotonic() < deadline
        time.sleep(0.02)


@pytest.fixture(scope="module")
def law() -> Iterator[Warm]:
    folder = Path(tempfile.mkdtemp(prefix="hw-"))
    warm = Warm(folder / "project", {**os.environ, "HEADRACE_WORKER_DIR": str(folder / "w")})
    (warm.root / "transformations").mkdir(parents=True)
    (warm.root / "pipeline.yml").write_text(
        "name: law\nprofiles:\n  other:\n    configuration:\n      law.key: profile\n"
    )
    warm.write()
    started = warm.call("worker", "start")
    assert started.returncode == 0, started.stderr
    yield warm
    assert warm.call("worker", "stop", "--now").returncode == 0
    shutil.rmtree(folder)


@pytest.fixture
def project(law: Warm) -> Warm:
    law.write()
    law.wait_until_idle()
    return law


def facts(done: Done) -> dict[str, tuple[str, str]]:
    assert done.returncode == 0, done.stderr
    return {row["name"]: (row["here"], row["there"]) for row in json.loads(done.stdout)}


PREVIEW = ("--output", "json", "preview", "facts")


def test_edited_modules_and_variables_are_seen_by_queries_and_their_functions(project: Warm) -> None:
    first = facts(project.same(*PREVIEW, HEADRACE_LAW="one"))
    jvm = project.status().jvm_pid
    project.write(version=2)
    second = facts(project.same(*PREVIEW, HEADRACE_LAW="two"))
    third = facts(project.same(*PREVIEW))

    assert (first["module"], second["module"]) == (("1", "1"), ("2", "2"))
    assert [found["HEADRACE_LAW"] for found in (first, second, third)] == [("one",) * 2, ("two",) * 2, ("-",) * 2]
    assert project.status().jvm_pid == jvm


def test_a_variable_that_java_could_read_is_seen_without_the_worker(project: Warm) -> None:
    assert facts(project.same(*PREVIEW, is_warm=False, LAW="new"))["LAW"] == ("new", "new")
    assert facts(project.same(*PREVIEW))["LAW"] == ("-", "-")


def test_a_profile_and_an_option_reach_the_session(project: Warm) -> None:
    by_option = facts(project.same(*PREVIEW, "--set", "law.key=option"))
    by_profile = facts(project.same(*PREVIEW, "--profile", "other"))
    of_spark = facts(project.same(*PREVIEW, "--set", "spark.sql.shuffle.partitions=3"))
    plain = facts(project.same(*PREVIEW))

    assert [found["law.key"][0] for found in (by_option, by_profile, plain)] == ["option", "profile", "-"]
    assert of_spark["spark.sql.shuffle.partitions"][0] == "3"
    assert plain["spark.sql.shuffle.partitions"][0] != "3"


def test_nothing_is_left_of_the_last_verb(project: Warm) -> None:
    before = project.warm("--output", "json", "sql", JAVA_SEES)
    jvm = project.status().jvm_pid
    project.write(left=LEFT)
    assert project.warm("validate").returncode == 0
    project.write()

    after = project.same("--output", "json", "sql", JAVA_SEES)
    view = project.same("sql", "SELECT * FROM left_view")
    everywhere = project.same("sql", "SELECT * FROM global_temp.left_everywhere")
    seen = facts(project.same(*PREVIEW))

    assert after == before
    assert view.returncode != 0
    assert everywhere.returncode != 0
    assert (seen["law.key"][0], seen["spark.sql.ansi.enabled"][0]) == ("-", "true")
    # All of it was removed, and the JVM is the same.
    assert project.status().jvm_pid == jvm


def test_a_jvm_with_something_that_cannot_be_removed_is_replaced(project: Warm) -> None:
    project.warm("validate")
    jvm = project.status().jvm_pid
    project.write(left=STUCK)
    assert project.warm("validate").returncode == 0
    project.write()
    project.wait_until_idle()

    assert project.same("validate").returncode == 0
    assert project.status().jvm_pid not in (jvm, None)


@pytest.mark.parametrize(
    "code",
    cases(["raise RuntimeError('own')\n", "import missing\n"], ["def broken(:\n", "from headrace import nothing\n"]),
)
def test_a_verb_that_fails_is_as_without_the_worker_and_so_is_the_next_one(project: Warm, code: str) -> None:
    file = project.root / "transformations" / "broken.py"
    file.write_text(code)
    try:
        assert project.same("validate").returncode == 2
    finally:
        file.unlink()

    assert project.warm("plan").returncode == 0


def test_updates_and_queries_are_as_without_the_worker(project: Warm) -> None:
    assert project.warm("run").returncode == 0
    assert project.same("plan").returncode == 0
    query = "SELECT name, here FROM facts ORDER BY name"
    first = project.same("--output", "json", "sql", query)
    # Another process writes the table: what the JVM remembers of it is old.
    assert project.call("run", "--full-refresh-all", "--set", "law.key=again", "--cold").returncode == 0
    second = project.same("--output", "json", "sql", query)
    shutil.rmtree(project.root / "storage")
    gone = project.same("sql", query)

    assert first.stdout != second.stdout
    assert '"again"' in second.stdout
    assert gone.returncode != 0
    assert project.same("explain", "facts").returncode == 0


@pytest.fixture
def shop() -> Iterator[Warm]:
    folder = Path(tempfile.mkdtemp(prefix="hw-"))
    warm = Warm(folder / "shop", {**os.environ, "HEADRACE_WORKER_DIR": str(folder / "w")})
    subprocess.run([PROGRAM, "--quiet", "init", "shop"], cwd=folder, check=True)
    assert warm.call("worker", "start").returncode == 0
    yield warm
    warm.call("worker", "stop", "--now")
    shutil.rmtree(folder)


COUNTED = ("--refresh", "orders_raw,orders")
WHOLE = {"orders_raw": (500, 0, 0), "orders": (492, 2, 6)}


def totals(shop: Warm) -> dict[str, tuple[int, int, int]]:
    counts = EventReader(str(shop.root / "storage" / "system" / "events")).flow_totals()
    return {
        flow: (count.rows_written, count.rows_dropped, count.rows_quarantined)
        for flow, count in counts.items()
        if flow in WHOLE
    }


def wait_until_running(shop: Warm, flow: str) -> None:
    reader = EventReader(str(shop.root / "storage" / "system" / "events"))

    def is_running() -> bool:
        outcome = reader.outcome() if reader.exists else None
        states = {found.flow: found.state for found in outcome.flows} if outcome else {}
        return states.get(flow) in (FlowState.RUNNING, FlowState.COMPLETED)

    wait_until(is_running)


def has_ended(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def pid_of(shop: Warm, name: str) -> int:
    return int(getattr(shop.status(), name))


@pytest.mark.parametrize("killed", cases(["verb_pid", "all"], ["pid", "caller", "jvm_pid"]))
def test_nothing_is_lost_or_runs_twice_when_a_process_is_killed_in_an_update(shop: Warm, killed: str) -> None:
    update = shop.popen("run", *COUNTED)
    wait_until_running(shop, "orders_raw")
    pids = {name: pid_of(shop, name) for name in ("verb_pid", "jvm_pid", "pid")} | {"caller": update.pid}
    for name in pids if killed == "all" else [killed]:
        os.kill(pids[name], signal.SIGKILL)
    update.communicate(timeout=DEADLINE_S)

    if killed == "pid":
        # The verb holds the JVM, too.
        assert update.returncode == 0
    elif killed != "jvm_pid":
        assert update.returncode == -signal.SIGKILL
        wait_until(lambda: has_ended(pids["jvm_pid"]))
    assert shop.call("run", *COUNTED, "--wait").returncode == 0
    assert totals(shop) == WHOLE
    assert "UP_TO_DATE" in shop.call("--output", "json", "run", *COUNTED, "--wait").stdout


def test_an_interrupt_cancels_an_update_and_the_next_one_completes_its_work(shop: Warm) -> None:
    update = shop.popen("--output", "json", "run", *COUNTED)
    wait_until_running(shop, "orders_raw")
    update.send_signal(signal.SIGINT)
    out, _err = update.communicate(timeout=DEADLINE_S)

    assert update.returncode == 130
    assert json.loads(out)["state"] == "CANCELED"
    assert shop.warm("run", *COUNTED).returncode == 0
    assert totals(shop) == WHOLE


def test_a_secret_is_in_no_command_line_environment_or_log(shop: Warm) -> None:
    canary = "canary-4711-secret"
    settings = shop.root / "pipeline.yml"
    settings.write_text(settings.read_text() + "\nconfiguration:\n  law.token: ${secret:law/token}\n")
    assert shop.warm("validate", HEADRACE_SECRET_LAW_TOKEN=canary).returncode == 0

    worker = psutil.Process(pid_of(shop, "pid"))
    for process in (worker, psutil.Process(pid_of(shop, "jvm_pid"))):
        assert canary not in " ".join(process.cmdline())
        assert canary not in str(process.environ())
    logs = list(Path(shop.environ["HEADRACE_WORKER_DIR"]).glob("*.log"))
    assert all(canary not in log.read_text() for log in logs)
