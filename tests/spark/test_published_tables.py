"""Tables of pipelines in a real Hive metastore: what others read there, and what happens when it is down."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.conftest import as_files
from tests.servers.hive import running_metastore

from headrace import Project
from headrace.catalogs.entry import Owner, TableFacts, entry_of
from headrace.catalogs.record import read_publications
from headrace.connectors.fetch import jars
from headrace.errors import Problems
from headrace.model.datasets import Kind
from headrace.model.outcome import UpdateState
from headrace.spark.metastore.hive_client import HiveMetastore
from headrace.testing.driver import write_project
from headrace.testing.warm import unchanged

pytestmark = pytest.mark.long(
    guard=(
        "tests/unit/project/test_publication.py::test_an_update_publishes_what_its_tables_say",
        "tests/unit/project/test_publication.py::test_a_name_of_another_pipeline_stops_the_update",
        "tests/unit/project/test_publication.py::test_a_metastore_that_is_down_stops_nothing_and_the_next_update_repairs_its_entries",
        "tests/unit/project/test_publication.py::test_a_renamed_dataset_has_one_entry_under_its_new_name",
    )
)
ORDERS = """
    @dp.table(comment="all orders", table_properties={"tier": "gold"})
    def orders():
        return spark.readStream.schema("id INT").json("{folder}/in")

    @dp.materialized_view(private=True)
    def hidden():
        return spark.range(2)
    """
# Another program, with a session of its own on the metastore.
PLAIN_SESSION = """
import json, sys
from pyspark.sql import SparkSession

uri, jars, projects, query = sys.argv[1:]
builder = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").config("spark.jars", jars)
builder = builder.config("spark.driver.extraClassPath", jars.replace(",", ":"))
builder = builder.config("spark.sql.extensions", "io.delta.sql.DeltaSparkSessionExtension")
delta_catalog = "org.apache.spark.sql.delta.catalog.DeltaCatalog"
builder = builder.config("spark.sql.catalog.spark_catalog", delta_catalog).config("spark.sql.shuffle.partitions", "1")
session = builder.config("spark.hadoop.hive.metastore.uris", uri).enableHiveSupport().getOrCreate()
found = {"plain": [row.asDict() for row in session.sql(query).collect()]}
for folder in filter(None, projects.split(",")):
    from headrace import Project
    project = Project.open(folder)
    project.validate()
    project.plan()
    outcome = project.run()
    found[folder] = [outcome.state.value, project.sql("SELECT id FROM copied").to_json()]
print("FOUND" + json.dumps(found))
"""


@pytest.fixture(scope="module")
def metastore(tmp_path_factory):
    with running_metastore(tmp_path_factory.mktemp("metastore")) as found:
        yield found


@pytest.fixture
def projects(metastore, headrace_session, tmp_path):
    """Opens projects in a folder, whose tables are published under a schema of the test."""
    with unchanged(headrace_session, tmp_path):

        def opened(name, text, *, schema=tmp_path.name, **settings):
            folder = tmp_path / name
            folder.mkdir(exist_ok=True)
            (folder / "pipeline.yml").unlink(missing_ok=True)
            # A machine with much to do may let the metastore wait.
            conf = {"hive.metastore.client.socket.timeout": "120s"}
            catalogs = {"lake": {"uri": metastore.uri, "conf": conf}}
            named = {"name": name, "catalog": "lake", "schema": schema, "catalogs": catalogs, **settings}
            write_project(folder, as_files(text.replace("{folder}", str(folder))), named)
            return Project.open(folder, environ=dict(os.environ))

        yield opened
    # The session's schema is that of the last project, and others save tables there.
    headrace_session.catalog.setCurrentDatabase("default")


def add_orders(folder, *ids):
    landing = folder / "in"
    landing.mkdir(exist_ok=True)
    number = len(list(landing.iterdir()))
    (landing / f"{number}.json").write_text("".join(json.dumps({"id": n}) + "\n" for n in ids), encoding="utf-8")


def entries(session, metastore, schema, *names):
    client = HiveMetastore(session, "lake", metastore.uri, {})
    try:
        return client.find(schema, names)
    finally:
        client.close()


def published(project):
    record = read_publications(project.settings.layout)
    return {one.table: one.state.value for one in record.publications}


def in_plain_session(metastore, query, *projects):
    locked = ",".join(str(jar) for jar in jars(environ=os.environ))
    words = [sys.executable, "-c", PLAIN_SESSION, metastore.uri, locked, ",".join(map(str, projects)), query]
    done = subprocess.run(words, capture_output=True, encoding="utf-8", check=False, env={**os.environ})
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.rpartition("FOUND")[2])


def test_other_sessions_read_published_tables_and_get_nothing_else(projects, metastore, headrace_session, tmp_path):
    project = projects("shop", ORDERS)
    add_orders(project.settings.root, 1, 2)
    schema = project.settings.schema

    assert "published as lake." in project.validate().describe()
    assert project.run().state is UpdateState.COMPLETED

    reader = f"""
        @dp.materialized_view
        def copied():
            return spark.read.table("{schema}.orders")

        @dp.table
        def orders():
            return spark.readStream.table("copied")
        """
    copy = tmp_path / "copy"
    # Its own dataset hides the table of the same name, if the schema is the same.
    write_project(copy, as_files(reader.replace("spark.readStream", "spark.read")), {"name": "copy", "schema": "aside"})
    found = in_plain_session(metastore, f"SELECT id FROM {schema}.orders ORDER BY id", copy)

    assert found["plain"] == [{"id": 1}, {"id": 2}]
    state, rows = found[str(copy)]
    assert (state, sorted(row["id"] for row in rows)) == ("COMPLETED", [1, 2])
    orders = entries(headrace_session, metastore, schema, "orders", "hidden")
    assert list(orders) == ["orders"]
    assert orders["orders"].parameters["comment"] == "all orders"
    # What a pipeline registers in a session with a metastore never gets there.
    assert entries(headrace_session, metastore, "aside", "orders", "copied") == {}
    assert entries(headrace_session, metastore, "default", "orders", "copied") == {}


def test_rows_are_written_while_the_metastore_is_down_and_entries_follow(projects, metastore, headrace_session):
    project = projects("shop", ORDERS)
    add_orders(project.settings.root, 1)
    metastore.stop()
    try:
        outcome = project.run()
    finally:
        metastore.start()

    assert outcome.state is UpdateState.COMPLETED
    assert "CATALOG.NOT_UP_TO_DATE" in {warning.code for warning in project.events().warnings(outcome.update_id)}
    assert published(project) == {"orders": "pending"}

    wider = ORDERS.replace("id INT", "id INT, name STRING").replace("all orders", "every order")
    assert projects("shop", wider).run().state is UpdateState.COMPLETED

    entry = entries(headrace_session, metastore, project.settings.schema, "orders")["orders"]
    names = [field["name"] for field in json.loads(entry.parameters["spark.sql.sources.schema"])["fields"]]
    assert (names, entry.parameters["comment"]) == (["id", "name"], "every order")
    assert published(project) == {"orders": "published"}


def test_renamed_and_removed_datasets_keep_their_entries(projects, metastore, headrace_session):
    project = projects(
        "shop", ORDERS + "\n    @dp.materialized_view\n    def totals():\n        return spark.range(1)\n"
    )
    add_orders(project.settings.root, 1)
    project.run()

    renames = {"datasets": {"orders": "sold"}}
    project = projects("shop", ORDERS.replace("def orders", "def sold"), renames=renames)
    assert project.run().state is UpdateState.COMPLETED

    schema = project.settings.schema
    found = entries(headrace_session, metastore, schema, "orders", "sold", "totals")
    assert {name: entry.is_removed for name, entry in found.items()} == {"sold": False, "totals": True}
    assert Path(found["sold"].location.removeprefix("file:")).name == "sold"
    assert published(project) == {"sold": "published", "totals": "removed"}


def test_of_two_that_create_an_entry_one_does(metastore, headrace_session):
    facts = TableFacts("raced", Kind.STREAMING_TABLE, "file:/nowhere/raced", '{"type":"struct","fields":[]}')
    raced = [entry_of(facts, "raced", "orders", Owner("id", name, f"/{name}"), "4.2.0") for name in ("a", "b")]
    client = HiveMetastore(headrace_session, "lake", metastore.uri, {})
    try:
        assert [client.create(entry) for entry in raced] == [True, False]
        assert client.find("raced", ["orders"])["orders"].belongs_to(Owner("id", "a", "/a"))
    finally:
        client.close()
    # The metastore never touches the place of the table.
    assert not Path("/nowhere").exists()


def test_a_name_that_another_pipeline_has_is_refused_before_anything_is_written(projects, metastore, headrace_session):
    shop, other = projects("shop", ORDERS), projects("other", ORDERS)
    for project in (shop, other):
        add_orders(project.settings.root, 1)
    shop.run()
    before = entries(headrace_session, metastore, other.settings.schema, "orders")

    for refused in (other.validate, other.plan, other.run):
        with pytest.raises(Problems, match="already has a table"):
            refused()

    assert not Path(other.settings.storage).exists()
    assert entries(headrace_session, metastore, other.settings.schema, "orders") == before


def test_tables_of_the_metastore_are_refused_by_name_as_inputs(projects):
    reader = """
        @dp.table
        def copied():
            return spark.readStream.table("lake.crm.orders")

        @dp.materialized_view
        def counted():
            return spark.sql("SELECT count(*) AS n FROM lake.crm.orders o WHERE o.id > 1")
        """

    with pytest.raises(Problems) as refused:
        projects("reader", reader, catalog="main").validate()

    assert [problem.code for problem in refused.value] == ["CATALOG.NOT_READ", "CATALOG.NOT_READ"]
