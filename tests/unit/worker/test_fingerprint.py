"""A JVM is lent only to a verb that would start an equal one."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from headrace.spark.startup.lent_jvm import launch_fingerprint

PLACES = ("/project", "None")


@pytest.fixture
def jar(tmp_path: Path) -> Path:
    file = tmp_path / "udfs.jar"
    file.write_bytes(b"one")
    return file


def test_the_same_settings_are_equal(jar: Path) -> None:
    one = launch_fingerprint({"spark.jars": str(jar), "a": "b"}, PLACES, {"HOME": "/h"})

    assert one == launch_fingerprint({"a": "b", "spark.jars": str(jar)}, PLACES, {"HOME": "/h"})


@pytest.mark.parametrize(
    "key", ["spark.driver.memory", "spark.sql.shuffle.partitions", "spark.hadoop.fs.s3a.secret.key"]
)
def test_another_setting_is_another_jvm(key: str) -> None:
    assert launch_fingerprint({key: "1"}, PLACES, {}) != launch_fingerprint({key: "2"}, PLACES, {})


def test_another_folder_is_another_jvm() -> None:
    assert launch_fingerprint({}, ("/a", "None"), {}) != launch_fingerprint({}, ("/b", "None"), {})


@pytest.mark.parametrize("key", ["spark.jars", "spark.driver.extraClassPath"])
def test_a_jar_that_was_built_again_is_another_jvm(jar: Path, key: str) -> None:
    before = launch_fingerprint({key: str(jar)}, PLACES, {})

    jar.write_bytes(b"another")

    assert launch_fingerprint({key: str(jar)}, PLACES, {}) != before


@pytest.mark.parametrize("variable", ["SPARK_CONF_DIR", "HADOOP_CONF_DIR"])
def test_an_edited_file_of_spark_or_hadoop_is_another_jvm(tmp_path: Path, variable: str) -> None:
    (tmp_path / "core-site.xml").write_text("<configuration/>")
    before = launch_fingerprint({}, PLACES, {variable: str(tmp_path)})

    os.utime(tmp_path / "core-site.xml", (1, 1))

    assert launch_fingerprint({}, PLACES, {variable: str(tmp_path)}) != before


def test_other_credentials_of_the_user_are_another_jvm(tmp_path: Path) -> None:
    before = launch_fingerprint({}, PLACES, {"HOME": str(tmp_path)})
    (tmp_path / ".aws").mkdir()
    (tmp_path / ".aws" / "credentials").write_text("[default]")

    assert launch_fingerprint({}, PLACES, {"HOME": str(tmp_path)}) != before
