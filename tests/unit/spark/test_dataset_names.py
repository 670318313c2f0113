"""Every spelling of a dataset's name and path finds it, at a cost that does not depend on the number of datasets."""

from __future__ import annotations

import pytest
from tests.call_counts import calls_of

from headrace.errors import PipelineError
from headrace.model.names import Naming, QualifiedName
from headrace.settings.storage import StorageLayout
from headrace.spark.update.dataset_names import Names


def names_of(root, count, views=()):
    names = Names(StorageLayout(str(root)), Naming())
    names.add([QualifiedName(f"t{number}") for number in range(count)], [QualifiedName(view) for view in views])
    return names


def test_a_path_into_a_table_is_refused_and_another_one_is_not(tmp_path):
    names = names_of(tmp_path, 3)

    names.refuse_own_path(str(tmp_path / "tables" / "default" / "t11"))
    with pytest.raises(PipelineError) as raised:
        names.refuse_own_path(f"{tmp_path}/tables/default/t1/part-0")
    names.remove(QualifiedName("t1"))
    names.refuse_own_path(f"{tmp_path}/tables/default/t1/part-0")

    assert (raised.value.code, raised.value.params["name"]) == ("GRAPH.OWN_TABLE_BY_PATH", "t1")


def test_a_name_of_the_session_finds_its_dataset():
    names = names_of("/shop", 3, views=["t2"])

    found = [
        names.dataset_of(text) for text in ("t1", "`default`.`T1`", "spark_catalog.default.t1", "t2", "t9", "x.t1")
    ]

    assert [str(name) for name in found] == ["t1", "t1", "t1", "t2", "None", "None"]


def test_a_name_that_becomes_a_view_is_found_as_one():
    names = names_of("/shop", 2)
    names.add([QualifiedName("t1")], [QualifiedName("t1")])

    assert names.of(QualifiedName("t1")).database is None
    assert [str(names.dataset_of(text)) for text in ("t1", "default.t1")] == ["t1", "None"]


def test_the_cost_of_a_look_up_does_not_depend_on_the_number_of_datasets(tmp_path):
    def cost(count):
        names = names_of(tmp_path, count)
        names.refuse_own_path("/landing")
        return calls_of(lambda: (names.refuse_own_path("/landing"), names.dataset_of("default.t9")))

    assert cost(300) == cost(10)
