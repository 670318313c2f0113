"""What a new session is given of a project's own confs."""

from __future__ import annotations

import os

import pytest

from headrace.errors import PipelineError
from headrace.spark.session.default_confs import (
    is_single_process,
    local_disk_confs,
    merge_confs,
    session_confs,
    static_confs,
)
from headrace.spark.session.submitted_confs import Submitted, check_folder, refuse_connect


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


def submitted(confs, defaults=None, folder="/shop"):
    properties = {"spark.master": "local[*]", "spark.app.name": "main.py", **(defaults or {}), **confs}
    return Submitted.of(properties, defaults or {}, folder, "main.py")


def test_the_command_line_of_spark_submit_wins_over_the_project_and_the_project_over_spark_defaults():
    defaults = {"spark.executor.cores": "1", "spark.executor.memory": "1g", "spark.my.default": "kept"}
    given = submitted({"spark.executor.memory": "2g", "spark.sql.shuffle.partitions": "7"}, defaults)
    needed = {**static_confs("spark://m:7077", "/w"), **session_confs(8), "spark.app.name": "headrace shop"}

    confs = given.merged(needed, {"spark.executor.memory": "4g", "spark.executor.cores": "3"})

    chosen = ("spark.executor.memory", "spark.executor.cores", "spark.sql.shuffle.partitions", "spark.app.name")
    assert [confs[key] for key in chosen] == ["2g", "3", "7", "headrace shop"]
    assert "spark.my.default" not in confs


def test_submitted_jars_and_extensions_are_added_to_the_others():
    given = submitted({"spark.jars": "file:///delta.jar,theirs.jar", "spark.sql.extensions": "org.theirs.Extension"})
    needed = {**static_confs("local[2]", "/w"), "spark.jars": "/delta.jar"}

    confs = given.merged(needed, {"spark.jars": "mine.jar"})

    assert confs["spark.jars"] == "/delta.jar,mine.jar,theirs.jar"
    assert confs["spark.sql.extensions"] == "io.delta.sql.DeltaSparkSessionExtension,org.theirs.Extension"


def test_a_submitted_master_wins_but_a_missing_one_does_not_replace_a_cluster():
    assert submitted({"spark.master": "spark://m:7077"}).master("local[*]") == "spark://m:7077"
    assert submitted({}).master("local[*]") == "local[*]"
    assert submitted({}, {"spark.master": "yarn"}).master("spark://m:7077") == "yarn"
    with pytest.raises(PipelineError) as raised:
        submitted({}).master("spark://m:7077")
    assert raised.value.code == "SESSION.OTHER_MASTER"


@pytest.mark.parametrize(
    ("given", "own", "code"),
    [
        ({"spark.sql.catalog.spark_catalog": "org.mine.Catalog"}, {}, "SESSION.CONFLICTING_CONF"),
        ({}, {"spark.driver.memory": "4g"}, "SESSION.NEEDS_SUBMIT_OPTION"),
    ],
)
def test_confs_that_cannot_be_honoured_are_refused(given, own, code):
    with pytest.raises(PipelineError) as raised:
        submitted(given).merged(static_confs("spark://m:7077", "/w"), own)

    assert raised.value.code == code


def test_driver_memory_is_the_one_that_java_was_started_with():
    given = submitted({"spark.driver.memory": "6g"})

    confs = given.merged(static_confs("spark://m:7077", "/w"), {"spark.driver.memory": "4g"})

    assert confs["spark.driver.memory"] == "6g"


def test_relative_paths_need_the_folder_of_the_project():
    check_folder("/shop", "/shop")
    with pytest.raises(PipelineError) as raised:
        check_folder("/home", "/shop")
    assert raised.value.code == "SESSION.OTHER_FOLDER"


@pytest.mark.parametrize(
    ("environ", "confs"), [({"SPARK_REMOTE": "sc://host"}, {}), ({}, {"spark.remote": "sc://host"})]
)
def test_spark_connect_is_refused(environ, confs):
    refuse_connect({}, {})
    with pytest.raises(PipelineError) as raised:
        refuse_connect(environ, confs)
    assert raised.value.code == "SESSION.CONNECT"
