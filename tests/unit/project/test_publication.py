"""Publishing the tables of a pipeline in a metastore, through the port: whose names are taken, and who repairs what."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from headrace.catalogs.published_names import publication_problems, with_published_names
from headrace.catalogs.record import read_publications
from headrace.errors import PipelineError, Problems
from headrace.graph.resolved import ResolvedGraph
from headrace.model.datasets import PRIVATE_PROPERTY
from headrace.plan.steps import Decision, FlowStep, Plan, TableChange, TableStep
from headrace.project.publication.publication import PipelinePublication
from headrace.settings.load import load_settings

SETTINGS = """
name: {name}
catalog: lake
schema: sales
storage: {folder}/storage
catalogs:
  lake:
    uri: thrift://here:9083
"""


class Metastore:
    """A metastore in memory. It can be down, and somebody can be faster."""

    def __init__(self):
        self.entries = {}
        self.is_down = False
        self.before_create = None

    def connect(self, catalog):
        if self.is_down:
            raise PipelineError("CATALOG.UNAVAILABLE", catalog=catalog.name, uri=catalog.uri, reason="for hunter2")
        return self

    def find(self, schema, names):
        return {name: self.entries[schema, name] for name in names if (schema, name) in self.entries}

    def create(self, entry):
        if self.before_create:
            before, self.before_create = self.before_create, None
            before()
        return self.entries.setdefault((entry.schema, entry.name), entry) is entry

    def replace(self, name, entry):
        del self.entries[entry.schema, name]
        self.entries[entry.schema, entry.name] = entry

    def close(self):
        """Nothing is open."""


@pytest.fixture
def metastore():
    return Metastore()


@pytest.fixture
def pipeline(tmp_path, metastore, make):
    """A pipeline of tables with a name, whose storage has those that are stored."""

    def made(name="shop", tables=("orders",), *, stored=True, more="", **declared):
        folder = tmp_path / name
        (folder / "transformations").mkdir(parents=True, exist_ok=True)
        (folder / "transformations" / "a.py").touch()
        (folder / "pipeline.yml").write_text(SETTINGS.format(name=name, folder=folder) + more, encoding="utf-8")
        settings = load_settings(folder / "pipeline.yml", environ={})
        graph = make.graph(*map(make.flow, tables), **declared)
        datasets = [
            replace(one, path=settings.layout.table(settings.naming, one.name))
            for one in with_published_names(graph.datasets, settings.catalogs, settings.naming)
        ]
        graph = ResolvedGraph(tuple(datasets), graph.flows)
        for one in datasets if stored else ():
            rows = pa.table({"id": pa.array([1], pa.int32())})
            write_deltalake(one.path, rows, mode="overwrite", description="stored")
        steps = tuple(FlowStep(flow, Decision.START, "it is new") for flow in graph.stored_flows)
        publication = PipelinePublication(settings, metastore.connect, lambda text: text.replace("hunter2", "***"), "4")
        return publication, Plan(graph, (), steps)

    return made


def published(publication):
    record = read_publications(publication.settings.layout)
    return {one.name: one.state.value for one in record.publications}


def test_an_update_publishes_what_its_tables_say(pipeline, metastore):
    publication, plan = pipeline(comment="declared", stored=False)
    publication.claim(plan)
    assert metastore.entries["sales", "orders"].parameters["comment"] == "declared"

    publication, plan = pipeline(comment="declared")
    assert publication.publish(plan) == ()

    assert metastore.entries["sales", "orders"].parameters["comment"] == "stored"
    assert published(publication) == {"lake.sales.orders": "published"}


def test_an_update_that_changes_no_table_writes_nothing(pipeline, metastore):
    publication, plan = pipeline()
    publication.publish(plan)
    metastore.create = metastore.replace = lambda *_: pytest.fail("the metastore was written to")

    publication.check(plan)
    publication.claim(plan)

    assert publication.publish(plan) == ()


def test_a_removed_entry_that_somebody_drops_is_forgotten(pipeline, metastore):
    publication, plan = pipeline(tables=("orders", "customers"))
    publication.publish(plan)
    publication, plan = pipeline(tables=("orders",))
    publication.publish(plan)
    del metastore.entries["sales", "customers"]

    publication.publish(plan)

    assert published(publication) == {"lake.sales.orders": "published"}


def test_an_entry_that_somebody_drops_is_made_again(pipeline, metastore):
    publication, plan = pipeline()
    publication.publish(plan)
    metastore.entries.clear()

    publication.publish(plan)

    assert list(metastore.entries) == [("sales", "orders")]


def test_checking_changes_nothing(pipeline, metastore):
    publication, plan = pipeline()

    publication.check(plan)

    assert (metastore.entries, published(publication)) == ({}, {})


def test_a_table_that_no_flow_fills_yet_is_not_claimed(pipeline, metastore):
    publication, plan = pipeline(stored=False)

    publication.claim(replace(plan, flows=tuple(replace(step, decision=Decision.SKIP) for step in plan.flows)))

    assert metastore.entries == {}


def test_a_private_table_and_one_that_is_not_listed_are_not_published(pipeline, metastore):
    for declared in ({"properties": {PRIVATE_PROPERTY: "true"}}, {"more": "    publish: []\n"}):
        publication, plan = pipeline(**declared)
        publication.claim(plan)
        publication.publish(plan)

    assert metastore.entries == {}


def test_a_name_of_another_pipeline_stops_the_update(pipeline, metastore):
    first, plan = pipeline("shop")
    first.claim(plan)
    second, other_plan = pipeline("another")
    before = dict(metastore.entries)

    for step in (second.check, second.claim):
        with pytest.raises(Problems, match=r'already has a table "sales.orders"'):
            step(other_plan)

    assert metastore.entries == before


def test_of_two_pipelines_that_take_a_name_at_once_one_gets_it(pipeline, metastore):
    first, plan = pipeline("shop")
    second, other_plan = pipeline("another")
    metastore.before_create = lambda: second.claim(other_plan)

    with pytest.raises(Problems, match="already has a table"):
        first.claim(plan)

    assert metastore.entries["sales", "orders"].publisher.startswith('pipeline "another"')


def test_a_metastore_that_is_down_stops_nothing_and_the_next_update_repairs_its_entries(pipeline, metastore):
    publication, plan = pipeline()
    metastore.is_down = True
    publication.check(plan)
    publication.claim(plan)

    [problem] = publication.publish(plan)
    assert (problem.code, "hunter2" in str(problem.params)) == ("CATALOG.UNAVAILABLE", False)
    assert published(publication) == {"lake.sales.orders": "pending"}

    metastore.is_down = False
    assert publication.publish(plan) == ()
    assert published(publication) == {"lake.sales.orders": "published"}


def test_the_entry_of_a_dataset_that_is_gone_stays(pipeline, metastore):
    publication, plan = pipeline(tables=("orders", "customers"))
    publication.publish(plan)

    publication.publish(pipeline(tables=("orders",))[1])

    assert metastore.entries["sales", "customers"].is_removed
    assert published(publication) == {"lake.sales.orders": "published", "lake.sales.customers": "removed"}


def test_a_renamed_dataset_has_one_entry_under_its_new_name(pipeline, metastore):
    publication, plan = pipeline(tables=("orders",))
    publication.publish(plan)

    renamed, plan = pipeline(tables=("sales_orders",), more="renames:\n  datasets: {orders: sales_orders}\n")
    renamed.claim(plan)
    renamed.publish(plan)

    assert {name: entry.location for (_, name), entry in metastore.entries.items()} == {
        "sales_orders": f"file:{plan.graph.datasets[0].path}"
    }
    assert published(renamed) == {"lake.sales.sales_orders": "published"}


def test_a_table_that_cannot_be_read_does_not_stop_the_update(pipeline):
    publication, plan = pipeline(tables=("orders", "items"))
    publication.publish(plan)
    log = Path(plan.graph.datasets[0].path) / "_delta_log" / f"{0:020d}.json"
    log.write_text("{", encoding="utf-8")

    publication.claim(plan)

    assert publication.publish(plan) == ()
    assert published(publication) == {"lake.sales.orders": "published", "lake.sales.items": "published"}


def test_graph_and_plan_say_where_tables_are_published(pipeline):
    _, plan = pipeline()
    created = TableStep(plan.graph.datasets[0].name, TableChange.CREATE, "it is new")

    assert "  published as lake.sales.orders" in plan.graph.describe().splitlines()
    assert plan.graph.to_json()["datasets"][0]["published_as"] == "lake.sales.orders"
    assert "publish    orders: as lake.sales.orders" in replace(plan, tables=(created,)).describe()


def test_secrets_do_not_get_into_entries(pipeline, metastore):
    publication, plan = pipeline(stored=False, comment="with hunter2", properties={"note": "hunter2"})

    publication.claim(plan)

    assert "hunter2" not in str(metastore.entries)


@pytest.mark.parametrize(
    ("listed", "reason"),
    [
        ("order", "no such dataset"),
        ("hidden", "it is private"),
        ("main.sales.orders", "no such dataset"),
        ("a.b.c.d", "parts"),
    ],
)
def test_what_cannot_be_published_is_refused_by_name(pipeline, listed, reason):
    publication, plan = pipeline(more=f"    publish: [{listed}]\n")
    datasets = {one.name: one.dataset for one in plan.graph.datasets}
    [orders] = datasets.values()
    hidden = replace(orders, name=replace(orders.name, name="hidden"), properties={PRIVATE_PROPERTY: "true"})

    settings = publication.settings
    [problem] = publication_problems({**datasets, hidden.name: hidden}, settings.catalogs, settings.naming)

    assert (problem.code, reason in problem.message) == ("CATALOG.CANNOT_PUBLISH", True)
