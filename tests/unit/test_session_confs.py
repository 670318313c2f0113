"""What a new session is given of a project's own confs."""

from __future__ import annotations

import os

from headrace.spark.confs import static_confs, with_own


def test_jars_and_extensions_of_a_project_are_added_to_those_that_are_needed() -> None:
    needed = {**static_confs("local[1]", "/w"), "spark.jars": "delta.jar", "spark.driver.extraClassPath": "delta.jar"}
    own = {
        "spark.jars": "mine.jar,other.jar",
        "spark.driver.extraClassPath": "mine.jar",
        "spark.sql.extensions": "org.mine.Extension",
        "spark.jars.packages": "org.mine:mine:1.0",
        "spark.driver.memory": "3g",
    }

    confs = with_own(needed, own)

    assert confs["spark.jars"] == "delta.jar,mine.jar,other.jar"
    assert confs["spark.driver.extraClassPath"] == f"delta.jar{os.pathsep}mine.jar"
    assert confs["spark.sql.extensions"] == "io.delta.sql.DeltaSparkSessionExtension,org.mine.Extension"
    assert (confs["spark.jars.packages"], confs["spark.driver.memory"]) == ("org.mine:mine:1.0", "3g")


def test_an_empty_list_of_a_project_takes_nothing_away() -> None:
    assert with_own({"spark.jars": "delta.jar"}, {"spark.jars": ""}) == {"spark.jars": "delta.jar"}
