"""Processes that are killed at the numbered steps of creating and restoring a savepoint: prints what it found as JSON.

Args: the folder of a new project, its storage, a seed, and the number of kills.

One process, with one JVM, makes the project and repairs it after each kill. The killed ones are processes of their own
that use this JVM, so that a kill does not cost the start of a JVM. No job of theirs runs when they die: steps are
between commits.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from pyspark import SparkConf, SparkContext
from pyspark.java_gateway import launch_gateway
from pyspark.sql import SparkSession

from headrace.project.open import Project
from headrace.project.savepoints.create import SavepointRequest
from headrace.project.savepoints.savepoints import PipelineSavepoints, RestoreRequest
from headrace.settings.load import load_settings

CODE = """\
from headrace import pipelines as dp
from pyspark.sql import functions as F


@dp.table
@dp.expect_or_quarantine("positive", "n > 0")
def bronze():
    return spark.readStream.format("cloudFiles").option("cloudFiles.format", "json") \\
        .schema("id LONG, n LONG").load("{landing}")


@dp.table
def totals():
    return spark.readStream.table("bronze").groupBy("id").agg(F.sum("n").alias("n"))
"""
SETTINGS = """\
name: shop
storage: {storage}
spark_conf:
  spark.sql.shuffle.partitions: "2"
  spark.sql.codegen.wholeStage: "false"
  spark.sql.codegen.factoryMode: NO_CODEGEN
"""
ROWS = (
    "SELECT 'bronze' AS name, id, n FROM bronze UNION ALL SELECT 'totals', id, n FROM totals "
    "UNION ALL SELECT 'quarantine', row.id, row.n FROM bronze_quarantine ORDER BY name, id, n"
)
CREATE, RESTORE = "create", "restore"
CALM = "calm"
_PORT, _SECRET = "PYSPARK_GATEWAY_PORT", "PYSPARK_GATEWAY_SECRET"


def opened(folder: Path) -> Project:
    return Project(load_settings(folder / "pipeline.yml", environ=os.environ), os.environ)


def act(savepoints: PipelineSavepoints, what: str, name: str, reached) -> None:
    if what == CREATE:
        savepoints.create(SavepointRequest(name), reached)
    else:
        savepoints.restore(RestoreRequest(CALM), reached)


class Shop:
    """The project, whose tables always have the same rows after an update."""

    def __init__(self, folder: Path, storage: str) -> None:
        self.folder = folder
        for name in ("landing", "transformations"):
            (folder / name).mkdir(parents=True)
        (folder / "pipeline.yml").write_text(SETTINGS.format(storage=storage), encoding="utf-8")
        code = CODE.format(landing=folder / "landing")
        (folder / "transformations" / "shop.py").write_text(code, encoding="utf-8")
        self.update(0)
        self.savepoints.create(SavepointRequest(CALM))
        self.update(1)
        self.rows = self.rows_now()
        # The steps of both, by what an undisturbed one has.
        self.steps = {what: self.undisturbed(what) for what in (CREATE, RESTORE)}

    @property
    def savepoints(self) -> PipelineSavepoints:
        return opened(self.folder).savepoints

    def update(self, number: int | None = None) -> str:
        if number is not None:
            lines = [json.dumps({"id": key % 4, "n": key - 1}) for key in range(10 * number, 10 * number + 10)]
            (self.folder / "landing" / f"{number}.json").write_text("\n".join(lines), encoding="utf-8")
        return opened(self.folder).run().state.value

    def rows_now(self) -> list[list[object]]:
        return [list(row) for row in opened(self.folder).sql(ROWS).rows]

    def undisturbed(self, what: str) -> list[str]:
        steps: list[str] = []
        act(self.savepoints, what, "undisturbed", steps.append)
        self.update()
        return steps

    def kill(self, what: str, step: int, name: str) -> int:
        """Let another process die at a step, counted from 0; returns its exit code."""
        parameters = SparkContext._gateway.gateway_parameters
        environ = {**os.environ, _PORT: str(parameters.port), _SECRET: parameters.auth_token}
        call = [sys.executable, __file__, str(self.folder), what, str(step), name]
        done = subprocess.run(call, env=environ, capture_output=True, encoding="utf-8", check=False)
        # The other process has made its session that of this JVM.
        session = opened(self.folder).session()
        SparkSession._get_j_spark_session_class(session._jvm).setDefaultSession(session._jsparkSession)
        if done.returncode != -signal.SIGKILL:
            sys.stderr.write(done.stdout + done.stderr)
        return done.returncode

    def faults(self, what: str, name: str) -> Iterator[str]:
        """What is wrong after a kill, once the next update or savepoint has repaired what it left."""
        if what == RESTORE:
            yield from [f"the update ended as {state}" for state in [self.update()] if state != "COMPLETED"]
        else:
            found = {one.name: one for one in self.savepoints.all()}
            # It is there whole, or not at all; in both cases the next one is made.
            yield from map(str, self.savepoints.verify(name) if name in found else ())
            made = self.savepoints.create(SavepointRequest(f"after-{name}"))
            yield from map(str, self.savepoints.verify(made.id))
        if self.rows_now() != self.rows:
            yield f"the rows are {self.rows_now()}"
        for one in self.savepoints.all():
            if one.name != CALM:
                self.savepoints.drop(one.id)
        yield from (f"the savepoint {one} is left" for one in self.savepoints.problems())


def attach() -> None:
    """Use the JVM that the environment names, in a session of its own."""
    gateway = launch_gateway()
    # Otherwise this would count as a process of spark-submit.
    del os.environ[_PORT], os.environ[_SECRET]
    scala = gateway.jvm.org.apache.spark.SparkContext.getOrCreate()
    java = gateway.jvm.JavaSparkContext(scala)
    context = SparkContext(gateway=gateway, jsc=java, conf=SparkConf(_jconf=scala.getConf()))
    default = SparkSession._get_j_spark_session_class(gateway.jvm).getDefaultSession()
    SparkSession(context, default.get().newSession())


def die(folder: str, what: str, step: str, name: str) -> None:
    """Do it, and die at a step."""
    left = [int(step)]

    def reached(_step: str) -> None:
        if not left[0]:
            os.kill(os.getpid(), signal.SIGKILL)
        left[0] -= 1

    if what == RESTORE:
        attach()
    act(opened(Path(folder)).savepoints, what, name, reached)


def kills(folder: str, storage: str, seed: str, number: str) -> None:
    """Kill at seeded steps: each one as often as any other, and once more at most."""
    shop = Shop(Path(folder), storage)
    places = [(what, step) for what, steps in shop.steps.items() for step in range(len(steps))]
    random.Random(seed).shuffle(places)
    hits: Counter[tuple[str, int]] = Counter()
    faults = []
    for count in range(int(number)):
        what, step = places[count % len(places)]
        where = f"kill {count + 1} at step {step + 1} of {what}, {shop.steps[what][step]}"
        code = shop.kill(what, step, f"torn-{count}")
        hits[what, step] += code == -signal.SIGKILL
        found = [*([f"it ended with {code}"] if code != -signal.SIGKILL else []), *shop.faults(what, f"torn-{count}")]
        faults += [f"{where}: {fault}" for fault in found]
        sys.stderr.write(f"{where}: {found or 'repaired'}\n")
    table = [
        [what, step + 1, name, hits[what, step]]
        for what, steps in shop.steps.items()
        for step, name in enumerate(steps)
    ]
    sys.stdout.write(json.dumps({"steps": table, "faults": faults, "rows": len(shop.rows)}))


if __name__ == "__main__":
    (die if sys.argv[2] in (CREATE, RESTORE) else kills)(*sys.argv[1:])
