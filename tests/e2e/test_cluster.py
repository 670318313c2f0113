"""A project on a cluster, whose executors are processes of their own."""

from __future__ import annotations

import json
import subprocess
import time

import psutil
import pytest
from deltalake import DeltaTable
from tests.command_line import PROGRAM, in_own_process

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.long(
        guard=(
            "tests/unit/spark/test_cluster.py::test_an_executor_that_sees_the_storage_and_imports_all_modules_has_no_problem",
            "tests/unit/spark/test_cluster.py::test_a_module_that_cannot_be_imported_is_reported_with_the_reason",
            "tests/unit/spark/test_cluster.py::test_an_update_waits_for_the_first_executor_but_not_forever",
            "tests/unit/spark/test_cluster.py::test_an_application_that_a_cluster_does_not_start_is_reported_with_the_log",
        )
    ),
]

CODE = """\
from headrace import pipelines as dp
from pyspark.sql import functions as F
from shop.places import place_of_package


@dp.table
@dp.expect_or_drop("known", "id IS NOT NULL")
def orders():
    return spark.readStream.format("cloudFiles").option("cloudFiles.format", "json").load("landing")


@dp.materialized_view
def places():
    return spark.read.table("orders").select("id", F.udf(place_of_package)("id").alias("place"))


@dp.materialized_view
def by_city():
    return spark.read.table("orders").groupBy("city").count()
"""
SHOP = """\
def place_of_package(_):
    import headrace

    return headrace.__file__
"""


@pytest.fixture
def project(tmp_path):
    for path, text in {
        "pipeline.yml": "name: shop\nmaster: local-cluster[2,1,1024]\n",
        "transformations/orders.py": CODE,
        "shop/places.py": SHOP,
        "landing/a.json": "".join(json.dumps({"id": n, "city": "Oslo" if n % 2 else "Rome"}) + "\n" for n in range(40)),
    }.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    return tmp_path


def test_executors_run_the_package_of_the_driver_and_write_the_shared_storage(project):
    done = in_own_process(project, "run")
    again = in_own_process(project, "run")

    tables = {name: DeltaTable(project / f"storage/tables/default/{name}") for name in ("orders", "places", "by_city")}
    rows = {name: table.to_pyarrow_table().to_pylist() for name, table in tables.items()}
    assert (done.returncode, again.returncode) == (0, 0), done.stdout + again.stdout
    assert {row["city"]: row["count"] for row in rows["by_city"]} == {"Oslo": 20, "Rome": 20}
    assert all("/headrace-package-" in row["place"] for row in rows["places"])
    assert len(rows["places"]) == len(rows["orders"]) == 40
    assert not list((project / "storage").glob(".headrace-preflight-*"))


def test_an_executor_without_python_is_reported_before_anything_is_written(project):
    done = in_own_process(project, "--output", "json", "run", environ={"PYSPARK_PYTHON": "/nowhere/python3"})

    (problem,) = json.loads(done.stdout)["problems"]
    assert (done.returncode, problem["code"]) == (1, "CLUSTER.PYTHON")
    assert "/nowhere/python3" in problem["message"]
    assert not (project / "storage" / "tables").exists()


def test_a_master_that_is_not_reached_is_reported(project):
    (project / "pipeline.yml").write_text("name: shop\nmaster: spark://127.0.0.1:1\n")

    done = in_own_process(project, "--output", "json", "validate")

    assert (done.returncode, json.loads(done.stdout)["error"]["code"]) == (1, "CLUSTER.NOT_STARTED"), done.stdout


def test_the_cluster_ends_with_the_command(project):
    started = set()
    with subprocess.Popen([PROGRAM, "run"], cwd=project, stdout=subprocess.DEVNULL) as command:
        while command.poll() is None:
            time.sleep(0.2)
            started |= {process for process in psutil.Process(command.pid).children(recursive=True) if is_java(process)}

    # The driver, and two executors.
    assert len(started) >= 3
    assert psutil.wait_procs(started, timeout=30)[1] == []


def is_java(process):
    try:
        return process.name() == "java"
    except psutil.NoSuchProcess:
        return False
