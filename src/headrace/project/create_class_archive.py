"""Creates the class archive that speeds up later JVM starts, by running a short update with the usual operations.

Run as a program with the name of the archive, this module runs that update.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

import psutil
from pyspark.sql import SparkSession

from headrace.connectors.class_archive import archive_file, create_archive_option
from headrace.connectors.java import check_java
from headrace.connectors.spark_home import spark_home
from headrace.errors import PipelineError
from headrace.project.open import Project
from headrace.spark.jvm.process import jvm_pid
from headrace.spark.startup.session_start import class_path_jars

_TIMEOUT_S = 300.0
_FILES: Mapping[str, str] = {
    "transformations/tables.py": """\
from headrace import pipelines as dp


@dp.streaming_table
def raw():
    return spark.readStream.schema("id BIGINT, name STRING, at TIMESTAMP, n DOUBLE").json(spark.conf.get("data"))


@dp.streaming_table
@dp.expect("named", "name IS NOT NULL")
@dp.expect_or_drop("counted", "n > 0")
@dp.expect_or_quarantine("known", "id > 0")
def checked():
    return dp.read_stream("raw")


@dp.streaming_table
def distinct():
    return dp.read_stream("raw").withWatermark("at", "1 hour").dropDuplicates(["id", "at"])
""",
    "transformations/views.sql": """\
CREATE MATERIALIZED VIEW by_name AS SELECT name, count(*) AS c, sum(n) AS total FROM checked GROUP BY name;
CREATE MATERIALIZED VIEW joined AS SELECT * FROM checked JOIN by_name USING (name);
""",
}


def make_class_archive(environ: Mapping[str, str]) -> Path:
    """The class archive; creates it if it does not exist.

    Raises:
        PipelineError: CONNECTOR.* if Java or the jars are missing, CLASSES.NOT_STORED if Java does not write it.
    """
    java_version, first = check_java(environ), class_path_jars(environ)
    archive = archive_file(java_version, first, spark_home(environ), environ)
    if archive.is_file():
        return archive
    archive.parent.mkdir(parents=True, exist_ok=True)
    draft = archive.with_name(f".{archive.name}.{os.getpid()}")
    command = (sys.executable, "-m", __spec__.name, str(draft))
    try:
        done = subprocess.run(command, env=dict(environ), capture_output=True, text=True, check=False)
        if done.returncode == 0:
            # Java writes the archive when it exits, after Python.
            _wait_for(int(done.stdout.split()[-1]))
        if done.returncode or not draft.is_file():
            reason = (done.stderr.strip().splitlines() or ["Java printed no error"])[-1]
            raise PipelineError("CLASSES.NOT_STORED", folder=archive.parent, reason=reason)
        draft.replace(archive)
    finally:
        draft.unlink(missing_ok=True)
    return archive


def _wait_for(pid: int) -> None:
    try:
        psutil.Process(pid).wait(_TIMEOUT_S)
    except psutil.Error:
        return


def _update(archive: Path) -> None:
    """Run two updates of a small project in a JVM that stores its classes on exit; prints the process id of the JVM."""
    with tempfile.TemporaryDirectory(prefix="headrace-classes-") as name:
        folder = Path(name)
        data = folder / "data"
        rows = [{"id": n - 1, "name": f"n{n % 3}", "at": "2026-01-01T00:00:00Z", "n": n - 2.0} for n in range(20)]
        settings = {
            "name": "classes",
            "configuration": {"data": str(data)},
            "spark_conf": {
                "spark.driver.extraJavaOptions": create_archive_option(archive),
                "spark.driver.memory": "1g",
            },
        }
        texts = {**_FILES, "pipeline.json": json.dumps(settings)}
        texts |= {f"data/{part}.json": "\n".join(map(json.dumps, rows[part::2])) for part in range(2)}
        for path, text in texts.items():
            file = folder / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, encoding="utf-8")
        project = Project.open(folder)
        project.run()
        project.run()
        project.sql("SELECT * FROM joined ORDER BY name")
        print(jvm_pid(SparkSession.builder.getOrCreate()))  # noqa: T201 - for its parent


if __name__ == "__main__":
    _update(Path(sys.argv[1]))
