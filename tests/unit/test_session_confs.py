"""What a new session is given of a project's own confs."""

from __future__ import annotations

import os

import pytest

from headrace.errors import PipelineError
from headrace.spark.session.default_confs import (
    check_submitted,
    is_single_process,
    local_disk_confs,
    merge_confs,
    static_confs,
)


def test_project_jars_and_extensions_are_added_to_the_required_ones() -> None:
    needed = {**static_confs("local[1]", "/w"), "spark.jars": "delta.jar", "spark.driver.extraClassPath": "delta.jar"}
    own = {
        "spark.jars": "mine.jar,other.jar",
        "spark.driver.extraClassPath": "mine.jar",
        "spark.sql.extensions": "org.mine.Extension",
        "spark.jars.packages": "org.mine:mine:1.0",
        "spark.driver.memory": "3g",
    }

    confs = merge_confs(needed, own)

    assert confs["spark.jars"] == "delta.jar,mine.jar,other.jar"
    assert confs["spark.driver.extraClassPath"] == f"delta.jar{os.pathsep}mine.jar"
    assert confs["spark.sql.extensions"] == "io.delta.sql.DeltaSparkSessionExtension,org.mine.Extension"
    assert (confs["spark.jars.packages"], confs["spark.driver.memory"]) == ("org.mine:mine:1.0", "3g")


def test_an_empty_list_in_the_project_removes_nothing() -> None:
    assert merge_confs({"spark.jars": "delta.jar"}, {"spark.jars": ""}) == {"spark.jars": "delta.jar"}


@pytest.mark.parametrize(
    "own",
    [
        {"spark.delta.logStore.file.impl": "org.mine.Store"},
        {"spark.hadoop.fs.file.impl": "org.mine.Files"},
        {"spark.hadoop.fs.file.impl": "org.mine.Files", "spark.delta.logStore.file.impl": "org.mine.Store"},
    ],
)
def test_a_project_log_store_or_file_system_replaces_the_default(own: dict[str, str]) -> None:
    confs = merge_confs(local_disk_confs(own), own)

    assert confs == {**local_disk_confs({}), **own}


def test_a_log_store_for_all_schemes_suppresses_the_default_one() -> None:
    assert "spark.delta.logStore.file.impl" not in local_disk_confs({"spark.delta.logStore.class": "org.mine.Store"})


@pytest.mark.parametrize("master", ["local", "local[*]", "local[2]", "local[4, 3]"])
def test_local_masters_run_tasks_in_the_session_process(master: str) -> None:
    assert is_single_process(master)


@pytest.mark.parametrize("master", ["local-cluster[2,1,1024]", "spark://host:7077", "k8s://https://host", "yarn"])
def test_cluster_masters_run_tasks_in_other_processes(master: str) -> None:
    assert not is_single_process(master)


@pytest.mark.parametrize("submitted", [None, "local[2]", "LOCAL[2]"])
def test_spark_submit_with_the_configured_master_is_accepted(submitted):
    check_submitted("local[2]", submitted)


def test_spark_submit_with_another_master_is_refused():
    with pytest.raises(PipelineError) as raised:
        check_submitted("local[*]", "spark://host:7077")

    assert raised.value.code == "SESSION.OTHER_MASTER"
    assert "HEADRACE_MASTER=spark://host:7077 spark-submit" in str(raised.value.hint)
