"""The folder that Spark is started from, made of links."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pyspark
import pytest

from headrace.connectors.spark_home import spark_home


@pytest.fixture
def environ(tmp_path: Path) -> Mapping[str, str]:
    return {"HEADRACE_CACHE": str(tmp_path / "cache")}


def test_the_spark_home_has_the_scripts_and_jars_to_start_spark(environ: Mapping[str, str]) -> None:
    home = spark_home(environ)
    assert home is not None
    assert os.access(home / "bin" / "spark-submit", os.X_OK)
    assert (home / "jars").samefile(Path(pyspark.__file__).with_name("jars"))


def test_the_spark_home_uses_the_installed_python_modules(environ: Mapping[str, str]) -> None:
    home = spark_home(environ)
    assert home is not None
    archives = [str(place) for place in (home / "python" / "lib").iterdir()]
    code = "import pyspark, py4j; print(pyspark.__cached__); print(py4j.__cached__)"
    said = subprocess.run(
        (sys.executable, "-c", code),
        env={"PYTHONPATH": os.pathsep.join(archives)},
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split()
    assert [Path(cached).is_file() for cached in said] == [True, True]
    assert all(Path(cached).is_relative_to(home) for cached in said)


def test_the_spark_home_is_created_once(environ: Mapping[str, str]) -> None:
    first = spark_home(environ)
    assert first is not None
    made_ns = first.stat().st_ctime_ns
    assert spark_home(environ) == first
    assert first.stat().st_ctime_ns == made_ns
    assert list(first.parent.iterdir()) == [first]


def test_an_explicitly_set_spark_home_is_kept(environ: Mapping[str, str]) -> None:
    assert spark_home({**environ, "SPARK_HOME": "/opt/spark"}) is None


def test_the_installed_spark_is_used_if_the_cache_is_not_writable(tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("a file, where a folder should be")
    assert spark_home({"HEADRACE_CACHE": str(tmp_path / "cache")}) is None
