"""Updates that ``spark-submit`` starts, on a standalone cluster."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pyspark
import pytest
from deltalake import DeltaTable
from tests.command_line import PROGRAM
from tests.servers.standalone import standalone_cluster

import headrace

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.long(
        guard=(
            "tests/unit/test_session_confs.py::test_the_command_line_of_spark_submit_wins_over_the_project_and_the_project_over_spark_defaults",
            "tests/unit/test_session_confs.py::test_a_submitted_master_wins_but_a_missing_one_does_not_replace_a_cluster",
            "tests/unit/project/test_submission.py::test_the_command_for_each_kind_of_cluster",
            "tests/unit/project/test_submission.py::test_the_exit_code_of_the_driver_comes_back",
        )
    ),
]

CONFS = """\
from headrace import pipelines as dp

KEYS = ("spark.master", "spark.executor.memory", "spark.executor.cores", "spark.sql.shuffle.partitions")


@dp.materialized_view
def confs():
    values = tuple(spark.conf.get(key) for key in KEYS)
    return spark.createDataFrame([values], "master string, a string, b string, c string")
"""
ORDERS = """\


@dp.table
def orders():
    return spark.readStream.format("cloudFiles").option("cloudFiles.format", "json").load("landing")


@dp.materialized_view
def by_city():
    return spark.read.table("orders").groupBy("city").count()
"""
SPARK_CONF = "spark_conf:\n  spark.executor.memory: 900m\n  spark.executor.cores: 1\n"
SPARK_SUBMIT = Path(pyspark.__file__).parent / "bin" / "spark-submit"
ENTRY = Path(headrace.__file__).with_name("__main__.py")
_ENDS_WITHIN_S = 1200


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    with standalone_cluster(tmp_path_factory.mktemp("cluster")) as url:
        yield url


@pytest.fixture
def project(tmp_path):
    for path, text in {
        "pipeline.yml": f"name: shop\n{SPARK_CONF}",
        "transformations/orders.py": CONFS + ORDERS,
        "landing/a.json": "".join(json.dumps({"id": n, "city": "Oslo" if n % 2 else "Rome"}) + "\n" for n in range(40)),
    }.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    return tmp_path


def rows(project, name):
    return DeltaTable(project / f"storage/tables/default/{name}").to_pyarrow_table().to_pylist()


def test_a_submitted_update_has_the_given_master_and_confs_and_ends_in_order_by_sigterm(project, cluster):
    given = ("--conf", "spark.executor.memory=600m", "--conf", "spark.sql.shuffle.partitions=3")
    words = [PROGRAM, "--output", "json", "submit", "--master", cluster, *given, "--", "run", "--continuous"]
    with (
        (project / "log").open("w") as log,
        subprocess.Popen(words, cwd=project, stdout=subprocess.PIPE, stderr=log, encoding="utf-8") as command,
    ):
        wait_for(
            lambda: all(
                DeltaTable.is_deltatable(str(project / f"storage/tables/default/{name}"))
                for name in ("by_city", "confs")
            ),
            command,
        )
        wait_for(lambda: len(rows(project, "by_city")) == 2 and len(rows(project, "confs")) == 1, command)
        command.terminate()
        printed, _ = command.communicate()

    assert command.returncode == 0, (project / "log").read_text()[-5000:]
    assert json.loads(printed)["state"] == "COMPLETED"
    assert {row["city"]: row["count"] for row in rows(project, "by_city")} == {"Oslo": 20, "Rome": 20}
    assert rows(project, "confs") == [{"master": cluster, "a": "600m", "b": "1", "c": "3"}]


def test_a_local_master_is_used_and_a_missing_one_does_not_replace_a_cluster(project):
    (project / "transformations" / "orders.py").write_text(CONFS)
    done = submitted(project, "--master", "local[2]", "--conf", "spark.sql.shuffle.partitions=3")

    assert done.returncode == 0, done.stdout + done.stderr[-5000:]
    assert rows(project, "confs") == [{"master": "local[2]", "a": "900m", "b": "1", "c": "3"}]

    (project / "pipeline.yml").write_text("name: shop\nmaster: spark://nowhere:7077\n")
    refused = submitted(project)

    assert (refused.returncode, json.loads(refused.stdout)["error"]["code"]) == (2, "SESSION.OTHER_MASTER")


def submitted(project, *options):
    """An update that spark-submit starts, as its user writes it."""
    python = f"spark.pyspark.driver.python={sys.executable}"
    words = [SPARK_SUBMIT, *options, "--conf", python, ENTRY, "--output", "json", "-q", "run"]
    environ = {**os.environ, "SPARK_HOME": str(SPARK_SUBMIT.parents[1])}
    return subprocess.run(words, cwd=project, capture_output=True, encoding="utf-8", check=False, env=environ)


def wait_for(condition, command):
    end = time.monotonic() + _ENDS_WITHIN_S
    while not condition():
        assert command.poll() is None
        assert time.monotonic() < end
        time.sleep(0.5)
