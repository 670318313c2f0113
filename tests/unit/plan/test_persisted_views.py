"""Stored definitions of persisted views, and tables that are private."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.errors import PipelineError
from headrace.graph.build import build
from headrace.graph.resolved import ResolvedDataset, ResolvedGraph
from headrace.graph.resolved_flows import Mode
from headrace.graph.select import Selected, Selection, select
from headrace.model.datasets import PRIVATE_PROPERTY, Dataset, Definitions, Flow, Kind, SqlQuery
from headrace.model.expectations import Action, Expectation
from headrace.model.location import Location
from headrace.model.names import Naming, QualifiedName
from headrace.model.schema import Schema
from headrace.model.views import ViewDefinition
from headrace.plan.persisted_views import view_steps
from headrace.plan.steps import ViewChange, ViewStep
from headrace.plan.table_kinds import changed_kinds
from headrace.plan.tables import table_steps
from headrace.plan.unfinished_clears import PendingClears
from headrace.settings.storage import StorageLayout
from headrace.storage.change_detection import StoredState
from headrace.storage.history import StoredHistory
from headrace.storage.view_definitions import apply_view_step, stored_view, stored_views

HERE = Location("transformations/a.sql", 1)
V = QualifiedName("v")
NOTHING = PendingClears(frozenset(), frozenset(), frozenset())
DEFINED = ViewDefinition(V, "SELECT 1", None, "default")


@pytest.fixture
def graph(make):
    """A graph with one dataset *v*: a persisted view with the query, or a table."""

    def made(query="SELECT 1", kind=Kind.PERSISTED_VIEW, confs=None, **declared):
        dataset = Dataset(V, kind, HERE, **declared)
        mode = Mode.VIEW if kind.is_view else Mode.REPLACE
        flow = replace(
            make.flow("v", mode=mode), flow=Flow("v", V, SqlQuery(query, Naming()), HERE, spark_conf=confs or {})
        )
        return ResolvedGraph((ResolvedDataset(dataset, make.schema("id integer"), None),), (flow,))

    return made


class Stored:
    """What is deployed: the definition of a view, or a table with properties."""

    # ruff: noqa: ARG002

    def __init__(self, view=None, **properties):
        self._view = view
        self.properties = properties
        self.comment, self.partition_by, self.cluster_by = None, (), None

    @property
    def schema(self):
        return Schema()

    def view(self, name):
        return self._view

    def table(self, name):
        return self

    def layout(self, name):
        return self

    def satisfies(self, key, value):
        return None


@pytest.mark.parametrize(
    ("kind", "stored", "expected"),
    [
        (Kind.PERSISTED_VIEW, None, ViewChange.CREATE),
        (Kind.PERSISTED_VIEW, DEFINED, None),
        (Kind.PERSISTED_VIEW, replace(DEFINED, query="SELECT 2"), ViewChange.REPLACE),
        (Kind.PERSISTED_VIEW, replace(DEFINED, schema="other"), ViewChange.REPLACE),
        (Kind.MATERIALIZED_VIEW, DEFINED, ViewChange.REMOVE),
        (Kind.MATERIALIZED_VIEW, None, None),
        (Kind.TEMPORARY_VIEW, DEFINED, ViewChange.REMOVE),
    ],
)
def test_view_definition_is_stored_if_changed_and_removed_if_its_name_is_reused(graph, kind, stored, expected):
    steps = view_steps(graph(kind=kind), Stored(stored), Selected(frozenset({V}), frozenset()))

    assert [step.change for step in steps] == ([expected] if expected else [])


def test_spark_confs_in_effect_are_part_of_the_view_definition(graph):
    confs = {"spark.sql.ansi.enabled": "false", "pipelines.trigger.interval": "1 minute"}
    chosen = Selected(frozenset({V}), frozenset())

    (step,) = view_steps(graph(confs=confs), Stored(DEFINED), chosen)

    assert (step.change, step.definition.confs) == (ViewChange.REPLACE, {"spark.sql.ansi.enabled": "false"})


def test_view_that_would_hide_a_table_is_rejected(graph, past):
    chosen = Selected(frozenset({V}), frozenset())
    known = past(held={"v": (2, 0)}, kinds={"v": Kind.STREAMING_TABLE})

    (problem,) = changed_kinds(graph(), known, chosen)[0]
    (unknown,) = changed_kinds(graph(), past(held={"v": (1, 0)}), chosen)[0]

    assert (problem.code, problem.params["kind"], problem.params["rows"]) == (
        "VIEW.OVER_TABLE",
        "streaming table",
        "2 rows",
    )
    assert unknown.params["kind"] == "table"
    assert changed_kinds(graph(), past(), chosen)[0] == []


def test_view_removed_from_the_code_is_inactive_and_names_the_file_to_delete(graph, tmp_path):
    layout, gone = StorageLayout(str(tmp_path)), QualifiedName("gone", "sales")
    for name in (V, gone):
        apply_view_step(ViewStep(name, ViewChange.CREATE, "", replace(DEFINED, name=name)), layout, Naming())
    past = StoredHistory(layout, Naming(), StoredState(layout, Naming(), "p", lambda: 0.0, lambda _f, _d: None))

    (left,) = past.inactive(graph())

    assert (left.dataset, left.view, left.to_json()["path"]) == ("sales.gone", True, layout.view(Naming(), gone))
    assert f"until you delete the file {left.path}" in left.message


def test_view_with_unavailable_source_is_active_and_keeps_its_definition(make, tmp_path):
    layout = StorageLayout(str(tmp_path))
    apply_view_step(ViewStep(V, ViewChange.CREATE, "", DEFINED), layout, Naming())
    past = StoredHistory(layout, Naming(), StoredState(layout, Naming(), "p", lambda: 0.0, lambda _f, _d: None))
    everything = Selected(frozenset({V}), frozenset())

    for kind in (Kind.PERSISTED_VIEW, Kind.TEMPORARY_VIEW):
        graph = make.graph(unavailable=(make.unavailable("v", kind),))
        assert past.inactive(graph) == ()
        assert view_steps(graph, past, everything) == ()


def test_table_replaced_by_a_view_is_inactive_even_if_its_source_is_unavailable(make, tmp_path):
    layout = StorageLayout(str(tmp_path))
    log = Path(layout.table(Naming(), V)) / "_delta_log"
    log.mkdir(parents=True)
    (log / f"{0:020d}.json").touch()
    past = StoredHistory(layout, Naming(), StoredState(layout, Naming(), "p", lambda: 0.0, lambda _f, _d: None))

    (left,) = past.inactive(make.graph(unavailable=(make.unavailable("v", Kind.PERSISTED_VIEW),)))

    assert (left.dataset, left.view) == ("v", False)
    assert past.inactive(make.graph(unavailable=(make.unavailable("v"),))) == ()


def test_only_selected_views_are_stored_and_the_default_selection_has_all(graph):
    made = graph()

    assert view_steps(made, Stored(), Selected(frozenset(), frozenset())) == ()
    # Nobody can select a temporary view.
    hidden = view_steps(graph(kind=Kind.TEMPORARY_VIEW), Stored(DEFINED), Selected(frozenset(), frozenset()))
    assert [step.change for step in hidden] == [ViewChange.REMOVE]
    assert select(made, Selection(), Naming()).refresh == {V}
    assert select(made, Selection(full_refresh=("v",)), Naming()) == select(made, Selection(refresh=("v",)), Naming())


@pytest.mark.parametrize(
    ("declared", "deployed", "reason", "value"),
    [
        ({PRIVATE_PROPERTY: "true"}, {}, "becomes private", "true"),
        ({}, {PRIVATE_PROPERTY: "true"}, "becomes public", "false"),
        ({PRIVATE_PROPERTY: "true"}, {PRIVATE_PROPERTY: "false"}, "becomes private", "true"),
        ({}, {PRIVATE_PROPERTY: "false"}, None, None),
        ({PRIVATE_PROPERTY: "true"}, {PRIVATE_PROPERTY: "true"}, None, None),
    ],
)
def test_table_evolves_when_it_becomes_private_or_public(graph, declared, deployed, reason, value):
    made = graph(kind=Kind.MATERIALIZED_VIEW, properties=declared)

    steps, problems = table_steps(made, Stored(**deployed), Selected(frozenset({V}), frozenset()), NOTHING)

    assert problems == []
    assert [(s.reason, dict(s.properties)) for s in steps.values()] == (
        [(reason, {PRIVATE_PROPERTY: value})] if reason else []
    )


def test_expectation_on_a_persisted_view_is_rejected():
    rule = Expectation("n", Action.WARN, "a > 1", HERE)
    dataset = Dataset(V, Kind.PERSISTED_VIEW, HERE, expectations=(rule,))
    flow = Flow("v", V, SqlQuery("SELECT 1", Naming()), HERE)

    _, problems = build(Definitions((dataset,), (flow,)), Naming())

    assert [problem.code for problem in problems] == ["EXPECTATION.PERSISTED_VIEW"]


TEXTS = st.text(st.characters(exclude_categories=["Cs"]))


@given(TEXTS, TEXTS, st.dictionaries(TEXTS, TEXTS), st.sampled_from(["v", "sales.v", "main.sales.the view"]))
def test_view_definition_survives_a_round_trip(tmp_path_factory, query, comment, texts, name):
    layout = StorageLayout(str(tmp_path_factory.mktemp("storage")))
    naming = Naming()
    canonical = naming.canonical(name.replace("the view", "`the view`"))
    view = ViewDefinition(canonical, query, None, "s", comment, texts, confs=texts)

    apply_view_step(ViewStep(view.name, ViewChange.CREATE, "", view), layout, naming)

    assert list(stored_views(layout, naming)) == [view]
    assert stored_view(layout, naming, view.name) == view
    apply_view_step(ViewStep(view.name, ViewChange.REMOVE, ""), layout, naming)
    apply_view_step(ViewStep(view.name, ViewChange.REMOVE, ""), layout, naming)
    assert list(stored_views(layout, naming)) == []


def test_corrupt_view_file_is_reported_by_path_and_temporary_files_are_ignored(tmp_path):
    layout = StorageLayout(str(tmp_path))
    folder = tmp_path / "system" / "views" / "default"
    folder.mkdir(parents=True)
    (folder / ".v.json.123").write_text("{")

    assert list(stored_views(layout, Naming())) == []
    (folder / "v.json").write_text("{")
    with pytest.raises(PipelineError) as raised:
        list(stored_views(layout, Naming()))
    assert (raised.value.code, raised.value.params["path"]) == ("STORAGE.VIEW_UNREADABLE", str(folder / "v.json"))
