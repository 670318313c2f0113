"""The effect of the package's own jar on a local disk: `python bench/local_disk.py`.

Updates of two flows in a warm session, with the jar and with Hadoop's and Delta's defaults, in turns: seconds, CPU
seconds, and the processes that the session starts. Then two writers race for each of 1,000 commits: how many commits
were reported as made but then lost.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections import Counter
from functools import reduce
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

import psutil
from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from headrace.spark.jvm.process import jvm_pid
from headrace.testing import warm
from headrace.testing.driver import Pipeline, write_project

TURNS, WARM, UPDATES, COMMITS = 3, 6, 12, 1000
REPLACES = False
HADOOPS = {
    "spark.hadoop.fs.file.impl": "org.apache.hadoop.fs.LocalFileSystem",
    "spark.delta.logStore.file.impl": "io.delta.storage.HDFSLogStore",
}
WAYS: dict[str, dict[str, str]] = {"jar": {}, "hadoop": HADOOPS}
STORES = {"jar": "io.headrace.storage.LocalLogStore", "hadoop": HADOOPS["spark.delta.logStore.file.impl"]}
PROGRAMS = ("bash", "chmod", "chown", "id", "ln", "ls", "readlink", "rm", "stat")
PROJECT = {
    "transformations/flows.py": """\
from pathlib import Path

from headrace import pipelines as dp

LANDING = str(Path(__file__).parents[1] / "landing")


@dp.table
def bronze():
    return spark.readStream.schema("id INT, name STRING").json(LANDING)


@dp.table
@dp.expect_or_quarantine("even", "id % 2 = 0")
def silver():
    return spark.readStream.table("bronze")
"""
}


def measured(way: str, folder: Path) -> dict[str, Any]:
    """The cost of an update, and the number of lost commits, in a session of this process."""
    started = folder / "started"
    with warm.warm_session([], folder / "spark", WAYS[way]) as session:
        write_project(folder / "project", PROJECT, {})
        pipeline = Pipeline(folder / "project", folder / "project" / "storage", os.environ)

        def update(number: int) -> float:
            pipeline.land(f"landing/{number}.json", [{"id": key, "name": "x"} for key in range(4)])
            began = time.monotonic()
            pipeline.run()
            return time.monotonic() - began

        for number in range(WARM):
            update(number)
        started.write_text("")
        before = processor_s(session)
        walls = [update(WARM + number) for number in range(UPDATES)]
        return {
            "wall_s": median(walls),
            "processor_s": (processor_s(session) - before) / UPDATES,
            "processes": {name: n / UPDATES for name, n in Counter(started.read_text().split()).items()},
            "lost": lost(session, STORES[way], folder),
        }


def processor_s(session: SparkSession) -> float:
    """CPU seconds that this process and its JVM have used."""
    times = [psutil.Process(pid).cpu_times() for pid in (os.getpid(), jvm_pid(session))]
    return sum(t.user + t.system + t.children_user + t.children_system for t in times)


def lost(session: SparkSession, store_class: str, folder: Path) -> int:
    """How many commits of two writers succeeded and were then replaced by the other writer's."""
    log = folder / "log"
    log.mkdir()
    jvm: Any = session._jvm  # noqa: SLF001 - the store has no public API
    conf: Any = session._jsc.hadoopConfiguration()  # noqa: SLF001 - the same
    # One store per writer, as in two processes.
    stores = {writer: reduce(getattr, store_class.split("."), jvm)(conf) for writer in ("one", "two")}
    method = next(method for method in stores["one"].getClass().getMethods() if method.getName() == "write")
    handles = jvm.java.lang.invoke.MethodHandles
    write, task = handles.publicLookup().unreflect(method), jvm.java.lang.Class.forName("java.util.concurrent.Callable")
    # Java threads; two Python threads would rarely collide.
    pool, commits = jvm.java.util.concurrent.Executors.newFixedThreadPool(2), jvm.java.util.ArrayList()
    for version in range(COMMITS):
        path = jvm.org.apache.hadoop.fs.Path(f"file:{log}/{version:020}.json")
        for writer, store in stores.items():
            values = session.sparkContext._gateway.new_array(jvm.Object, 5)  # noqa: SLF001 - the same
            for place, value in enumerate((store, path, jvm.java.util.List.of(writer).iterator(), REPLACES, conf)):
                values[place] = value
            bound = handles.insertArguments(write, 0, values)
            commits.add(jvm.java.lang.invoke.MethodHandleProxies.asInterfaceInstance(task, bound))
    made = sum(succeeded(future) for future in pool.invokeAll(commits))
    pool.shutdown()
    return made - COMMITS


def succeeded(future: Any) -> bool:
    """Whether a task succeeded."""
    try:
        future.get()
    except Py4JJavaError:
        return False
    return True


def in_own_process(way: str) -> dict[str, Any]:
    """Run :func:`measured` in its own process, and record the programs that it starts."""
    with TemporaryDirectory() as text:
        folder = Path(text)
        programs = folder / "programs"
        programs.mkdir()
        for name in PROGRAMS:
            for place in ("/usr/bin", "/bin"):
                if Path(place, name).exists():
                    script = programs / name
                    script.write_text(f'#!/bin/sh\necho {name} >> {folder}/started\nexec {place}/{name} "$@"\n')
                    script.chmod(0o755)
                    break
        path = f"{programs}{os.pathsep}{os.environ['PATH']}"
        command = (sys.executable, __file__, way, text)
        done = subprocess.run(command, env={**os.environ, "PATH": path}, stdout=subprocess.PIPE, text=True, check=True)
        found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
        return found


def main() -> None:
    """Measure and print."""
    found: dict[str, list[dict[str, Any]]] = {way: [] for way in WAYS}
    for turn in range(TURNS):
        for way in WAYS if turn % 2 == 0 else reversed(WAYS):
            found[way].append(in_own_process(way))
            print(way, found[way][-1], flush=True)
    for way, rows in found.items():
        print(
            f"{way}: {median(row['wall_s'] for row in rows):.2f} s an update, "
            f"{median(row['processor_s'] for row in rows):.2f} s of the processor, "
            f"{median(sum(row['processes'].values()) for row in rows):.1f} processes; "
            f"lost {[row['lost'] for row in rows]} of {COMMITS} commits"
        )


if __name__ == "__main__":
    if len(sys.argv) == 1:
        main()
    else:
        print(json.dumps(measured(sys.argv[1], Path(sys.argv[2]))))
