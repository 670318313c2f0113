"""Delta's log on a local disk: one of several writers of a version succeeds; a commit without content is named."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from shutil import which
from typing import Any

import pyspark
import pytest
from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from headrace.spark.startup.session_start import class_path_jars

pytestmark = pytest.mark.spark
REPLACES = False
FAST = pytest.param(100)
LONG = pytest.param(1000, marks=pytest.mark.long(guard="its other cases"))


@pytest.fixture
def spark(headrace_session: SparkSession) -> SparkSession:
    return headrace_session


def log_of(spark: SparkSession, table: str) -> Any:
    """Delta's view of a table's log."""
    jvm: Any = spark._jvm
    return jvm.org.apache.spark.sql.delta.DeltaLog.forTable(spark._jsparkSession, table)


def commit(spark: SparkSession, file: Path, writer: str) -> Any:
    """A task that commits a line, for a thread of Java's: two of Python's would hardly meet."""
    jvm: Any = spark._jvm
    conf: Any = spark._jsc.hadoopConfiguration()
    store = jvm.io.headrace.storage.LocalLogStore(conf)
    write = next(method for method in store.getClass().getMethods() if method.getName() == "write")
    values = spark.sparkContext._gateway.new_array(jvm.Object, 5)
    lines = jvm.java.util.List.of(writer).iterator()
    for place, value in enumerate((store, jvm.org.apache.hadoop.fs.Path(f"file:{file}"), lines, REPLACES, conf)):
        values[place] = value
    handles = jvm.java.lang.invoke.MethodHandles
    bound = handles.insertArguments(handles.publicLookup().unreflect(write), 0, values)
    task = jvm.java.lang.Class.forName("java.util.concurrent.Callable")
    return jvm.java.lang.invoke.MethodHandleProxies.asInterfaceInstance(task, bound)


def ended(future: Any) -> str:
    """How a task ended: "made", or what it raised."""
    try:
        future.get()
    except Py4JJavaError as error:
        return str(error.java_exception.getCause().getClass().getSimpleName())
    return "made"


def test_tables_are_written_without_subprocesses_for_every_form_of_their_path(
    spark: SparkSession, tmp_path: Path
) -> None:
    for place in (f"{tmp_path}/bare", f"file:{tmp_path}/scheme", f"file://{tmp_path}/slashes"):
        spark.range(2).write.format("delta").save(place)

        log = log_of(spark, place)
        files = log.logPath().getFileSystem(spark._jsc.hadoopConfiguration())
        assert log.store().getDelegate(log.logPath()).logStoreImpl().getClass().getSimpleName() == "LocalLogStore"
        assert files.getClass().getSimpleName() == "ProcessFreeLocalFileSystem"
        assert not list((tmp_path / Path(place).name / "_delta_log").glob(".*.json*")), "a draft is left"


def test_files_and_folders_get_the_same_modes_as_with_chmod(spark: SparkSession, tmp_path: Path) -> None:
    """A folder hands its group down, which `chmod 0755` leaves as it is."""
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o2775)

    spark.range(1).write.format("delta").save(str(shared / "table"))

    written = [path for path in shared.rglob("*") if not path.name.startswith(".")]
    modes = {(path.is_dir(), oct(path.stat().st_mode & 0o7777)) for path in written}
    assert modes == {(True, "0o2755"), (False, "0o644")}


@pytest.mark.parametrize("versions", [FAST, LONG])
def test_exactly_one_of_two_concurrent_writers_commits_a_version(
    spark: SparkSession, tmp_path: Path, versions: int
) -> None:
    jvm: Any = spark._jvm
    commits = jvm.java.util.ArrayList()
    for version in range(versions):
        for writer in ("one", "two"):
            commits.add(commit(spark, tmp_path / f"{version:020}.json", writer))
    pool = jvm.java.util.concurrent.Executors.newFixedThreadPool(2)

    ends = [ended(future) for future in pool.invokeAll(commits)]
    pool.shutdown()

    both = list(zip(ends[::2], ends[1::2], strict=True))
    assert {tuple(sorted(pair)) for pair in both} == {("FileAlreadyExistsException", "made")}
    stored = [(tmp_path / f"{version:020}.json").read_text() for version in range(versions)]
    assert stored == ["one\n" if by_one == "made" else "two\n" for by_one, _ in both]
    assert len(list(tmp_path.iterdir())) == versions


def test_the_error_for_an_empty_commit_names_its_file(spark: SparkSession, tmp_path: Path) -> None:
    table, log = str(tmp_path), tmp_path / "_delta_log"
    for first in range(3):
        spark.range(first, first + 1).write.format("delta").mode("append").save(table)
    last = log / f"{2:020}.json"
    last.write_text("")
    log_of(spark, table).clearCache()

    with pytest.raises(Py4JJavaError, match=f'the Delta commit "{last}" has 0 bytes'):
        spark.read.format("delta").load(table)
    with pytest.raises(Py4JJavaError, match=f'the Delta commit "{last}" has 0 bytes'):
        spark.read.format("delta").option("readChangeFeed", "true").option("startingVersion", 2).load(table).collect()

    last.unlink()
    (log / f"{2:020}.crc").unlink(missing_ok=True)
    assert spark.read.format("delta").load(table).count() == 2


NO_LINKS = ("strace", "-f", "-qq", "-o", "/dev/null", "-e", "trace=link,linkat", "-e", "inject=link,linkat:error=EPERM")
TWO_COMMITS = """
import io.headrace.storage.LocalLogStore;
import java.nio.file.FileAlreadyExistsException;
import java.util.List;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.Path;

class Commits {
  public static void main(String[] folder) throws Exception {
    Configuration conf = new Configuration();
    Path commit = new Path("file:" + folder[0], "00000000000000000000.json");
    for (String writer : List.of("one", "two")) {
      try {
        new LocalLogStore(conf).write(commit, List.of(writer).iterator(), false, conf);
      } catch (FileAlreadyExistsException exists) {
        System.out.println(writer + " is refused");
      }
    }
  }
}
"""


@pytest.mark.skipif(not (which("strace") and which("javac")), reason="needs strace and a JDK")
@pytest.mark.long(guard="tests/spark/test_local_log.py::test_exactly_one_of_two_concurrent_writers_commits_a_version")
def test_a_version_is_committed_once_on_a_file_system_without_hard_links(tmp_path: Path) -> None:
    source, log = tmp_path / "Commits.java", tmp_path / "log"
    source.write_text(TWO_COMMITS)
    log.mkdir()
    hadoop = Path(pyspark.__file__).with_name("jars") / "*"
    class_path = os.pathsep.join(map(str, (*class_path_jars(os.environ), hadoop)))

    command = (*NO_LINKS, "java", "-cp", class_path, str(source), str(log))
    done = subprocess.run(command, capture_output=True, text=True, check=True)

    assert done.stdout == "two is refused\n"
    assert {file.name for file in log.iterdir() if file.suffix != ".crc"} == {f"{0:020}.json"}
    assert (log / f"{0:020}.json").read_text() == "one\n"
