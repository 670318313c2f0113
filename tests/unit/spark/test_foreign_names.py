"""Names of tables that a metastore has, in the code of a pipeline."""

from __future__ import annotations

import pytest

from headrace.errors import PipelineError
from headrace.model.names import Naming, QualifiedName
from headrace.settings.storage import StorageLayout
from headrace.spark.update.dataset_names import Names

NAMING = Naming("sales", "lake")


@pytest.fixture
def names(tmp_path):
    found = Names(StorageLayout(str(tmp_path)), NAMING)
    found.add([QualifiedName("orders")], [])

    def refuse(name):
        if name.catalog == "lake":
            raise PipelineError("CATALOG.NOT_READ", table=name, catalog=name.catalog)

    found.refuse_foreign = refuse
    return found


@pytest.mark.parametrize("text", ["SELECT * FROM lake.crm.people p", "SELECT 1 FROM orders JOIN `lake`.crm.people"])
def test_a_table_of_a_metastore_in_a_query_is_refused_by_name(names, text):
    with pytest.raises(PipelineError, match="people"):
        names.to_session_query(text, NAMING)
    with pytest.raises(PipelineError, match="people"):
        names.to_session_name("lake.crm.people", NAMING)


@pytest.mark.parametrize("name", ["orders", "lake.sales.orders", "sales.orders"])
def test_datasets_of_the_pipeline_are_found_under_every_spelling(names, name):
    assert names.to_session_query(f"SELECT o.id FROM {name} o", NAMING) == "SELECT o.id FROM `sales`.`orders` o"
    assert names.to_session_name(name, NAMING) == "`sales`.`orders`"


@pytest.mark.parametrize("text", ["SELECT a.b.c FROM t", "SELECT * FROM main.crm.people", "SELECT x.y FROM x"])
def test_other_names_stay_as_they_are(names, text):
    assert names.to_session_query(text, NAMING) == text
