"""Reads what ``spark-submit`` was given from the Java process that it started, and gives that process our jars."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from pyspark import SparkConf

from headrace.spark.session.submitted_confs import Submitted

# Set by spark-submit, which starts Java before Python.
_VARIABLE = "PYSPARK_GATEWAY_PORT"


def is_submitted() -> bool:
    """Whether ``spark-submit`` started this process, and its Java."""
    return _VARIABLE in os.environ


def read_submitted(jvm: Any) -> Submitted:
    """What ``spark-submit`` was given."""
    properties = dict(SparkConf(loadDefaults=True, _jvm=jvm).getAll())
    folder = os.path.realpath(str(jvm.java.lang.System.getProperty("user.dir")))
    return Submitted.of(properties, _spark_defaults(jvm, properties, os.environ), folder, Path(sys.argv[0]).name)


def submitted_confs(jvm: Any) -> Mapping[str, str]:
    """The confs that ``spark-submit`` was given; none if it did not start this process."""
    return read_submitted(jvm).confs if is_submitted() else {}


def add_to_class_path(jvm: Any, files: Iterable[Path]) -> None:
    """Make the running Java process find classes in jars, as ``spark-submit --jars`` does."""
    loader = jvm.java.lang.Thread.currentThread().getContextClassLoader()
    for file in files:
        loader.addURL(jvm.java.io.File(str(file)).toURI().toURL())


def _spark_defaults(jvm: Any, keys: Iterable[str], environ: Mapping[str, str]) -> dict[str, str]:
    """The values of *keys* in ``spark-defaults.conf``."""
    folder = environ.get("SPARK_CONF_DIR") or Path(environ.get("SPARK_HOME", ""), "conf")
    file = Path(folder, "spark-defaults.conf")
    if not file.is_file():
        return {}
    properties = jvm.java.util.Properties()
    reader = jvm.java.io.FileReader(str(file))
    try:
        properties.load(reader)
    finally:
        reader.close()
    found = {key: properties.getProperty(key) for key in keys}
    return {key: value.strip() for key, value in found.items() if value is not None}
