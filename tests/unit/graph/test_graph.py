"""From definitions to a resolved graph, with queries that say themselves what they read."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.call_counts import calls_of

from headrace.errors import PipelineError, Problems, problems_of
from headrace.graph.analysis import Analysis, Input
from headrace.graph.build import build
from headrace.graph.resolve import MissingInput, resolve
from headrace.graph.resolved_flows import Mode
from headrace.graph.select import Selection, dataset_name, select
from headrace.model.datasets import Dataset, Definitions, Flow, Kind, PythonQuery
from headrace.model.expectations import Action, Expectation
from headrace.model.location import Location
from headrace.model.names import Naming, QualifiedName
from headrace.model.schema import Column, Schema
from headrace.options.nearest import did_you_mean

ID = Schema((Column("id", '"integer"'),))


@dataclass
class Queries:
    """Fills the analyzer's port: for each flow what it reads and returns."""

    reads: dict[str, tuple[str, ...]] = field(default_factory=dict)
    declared: dict[str, Schema] = field(default_factory=dict)
    returns: dict[str, Schema] = field(default_factory=dict)
    streaming: frozenset[str] = frozenset()
    complete: frozenset[str] = frozenset()
    raising: dict[str, Exception] = field(default_factory=dict)
    published: list[str] = field(default_factory=list)

    def declared_schema(self, dataset):
        return self.declared.get(str(dataset.name))

    def analyze(self, flow):
        if flow.name in self.raising:
            raise self.raising[flow.name]
        for name in self.reads.get(flow.name, ()):
            if name not in self.published:
                raise MissingInput(QualifiedName(name), name)
        return Analysis(
            schema=self.returns.get(flow.name, ID),
            streaming=flow.name in self.streaming,
            inputs=tuple(Input(QualifiedName(name), streaming=False) for name in self.reads.get(flow.name, ())),
            complete=flow.name in self.complete,
        )

    def publish(self, dataset, _schema, _flow):
        self.published.append(str(dataset.name))

    def check_expectations(self, dataset, _schema):
        wrong = [e for e in dataset.expectations if e.predicate == "wrong"]
        return tuple(
            PipelineError("EXPECTATION.NOT_SQL", name=e.name, dataset=dataset.name, predicate="wrong", reason="it is")
            for e in wrong
        )


def dataset(name, kind=Kind.MATERIALIZED_VIEW, line=1, **more):
    return Dataset(QualifiedName(name), kind, Location("a.py", line), **more)


VIEW = Kind.TEMPORARY_VIEW


def in_schema(name, schema, catalog=None, kind=Kind.MATERIALIZED_VIEW):
    return Dataset(QualifiedName(name, schema, catalog), kind, Location("a.py", 2))


def flow(name, target=None, line=1, **more):
    query = PythonQuery(lambda: None, Naming())
    return Flow(name, QualifiedName(target or name), query, Location("a.py", line), **more)


def own(*datasets):
    flows = (Flow(str(d.name), d.name, PythonQuery(lambda: None, Naming()), d.location) for d in datasets)
    return Definitions(datasets, tuple(flows))


def codes(definitions):
    return [error.code for error in build(definitions, Naming())[1]]


def resolved(definitions, queries=None, **options):
    graph, problems = build(definitions, Naming())
    return resolve(graph, queries or Queries(), lambda name: f"/{name}", problems=problems, **options)


def problems(definitions, queries=None):
    with pytest.raises(Problems) as found:
        resolved(definitions, queries)
    return [error.code for error in found.value]


def rule(name, action=Action.WARN, predicate="id > 0"):
    return Expectation(name, action, predicate, Location("a.py", 1))


@pytest.mark.parametrize(
    ("definitions", "code"),
    [
        (Definitions(), "GRAPH.EMPTY"),
        (own(dataset("a"), dataset("A", line=2)), "GRAPH.DUPLICATE_DATASET"),
        (Definitions((dataset("a", Kind.STREAMING_TABLE),), (flow("f", "a"), flow("F", "a"))), "GRAPH.DUPLICATE_FLOW"),
        (own(dataset("a_quarantine")), "GRAPH.RESERVED_NAME"),
        (Definitions((dataset("a"),), (flow("a"), flow("f", "b"))), "FLOW.UNKNOWN_TARGET"),
        (Definitions((dataset("a"),), (flow("a", append=True),)), "FLOW.TARGET_NOT_STREAMING"),
        (Definitions((dataset("a", Kind.STREAMING_TABLE),)), "GRAPH.NO_FLOW"),
        (own(dataset("a", expectations=(rule("r"), rule("r")))), "EXPECTATION.DUPLICATE"),
        (
            own(dataset("v", Kind.TEMPORARY_VIEW, expectations=(rule("r", Action.QUARANTINE),))),
            "EXPECTATION.VIEW_QUARANTINE",
        ),
        (own(dataset("a", partition_by=("id",), cluster_by=("id",))), "DATASET.PARTITION_AND_CLUSTER"),
        (own(in_schema("t", "b", "a"), in_schema("T", "a__b")), "GRAPH.NAMES_MEET"),
        (own(in_schema("t", "b", "a"), in_schema("t", "a__B", kind=Kind.STREAMING_TABLE)), "GRAPH.NAMES_MEET"),
        (own(in_schema("b", "a", kind=VIEW), dataset("a__b", VIEW)), "GRAPH.NAMES_MEET"),
        (own(in_schema("b", "a", kind=VIEW), dataset("a__b")), "GRAPH.NAMES_MEET"),
        (own(in_schema("c", "b", "a"), in_schema("b", "a")), "GRAPH.NESTED_TABLES"),
        (own(dataset("t"), in_schema("c", "T", "default")), "GRAPH.NESTED_TABLES"),
    ],
)
def test_invalid_definitions_are_reported_before_any_query_is_called(definitions, code):
    assert codes(definitions) == [code]


def test_similar_names_of_views_and_tables_do_not_conflict():
    beside = (in_schema("t", "a", "b"), in_schema("t2", "a"), in_schema("v", "t", kind=VIEW), in_schema("v", "t__v"))

    assert codes(own(dataset("t"), *beside)) == []


def test_datasets_are_ordered_after_their_inputs():
    graph = resolved(own(dataset("a"), dataset("b"), dataset("c")), Queries({"a": ("b",), "b": ("c",)}))

    assert [str(d.name) for d in graph.datasets] == ["c", "b", "a"]


def test_the_cost_of_a_graph_grows_linearly_with_the_number_of_datasets():
    def cost(datasets):
        names = [f"t{number}" for number in range(datasets)]
        reads = {name: (before,) for before, name in pairwise(names)}
        return calls_of(lambda: resolved(own(*map(dataset, names)), Queries(reads)))

    assert cost(80) < 2.3 * cost(40)


def test_only_requested_datasets_and_their_inputs_are_resolved():
    queries = Queries({"a": ("b",)}, raising={"c": PipelineError("GRAPH.EMPTY")})

    graph = resolved(own(dataset("a"), dataset("b"), dataset("c")), queries, only=[QualifiedName("a")])

    assert [str(d.name) for d in graph.datasets] == ["b", "a"]


def test_cycle_is_reported_once():
    queries = Queries({"a": ("b",), "b": ("c",), "c": ("a",)})

    with pytest.raises(Problems) as found:
        resolved(own(dataset("c"), dataset("a"), dataset("b")), queries)

    assert [error.message for error in found.value if error.code == "GRAPH.CYCLE"] == [
        next(error.message for error in found.value)
    ]


def test_readers_of_a_failed_dataset_are_not_reported():
    queries = Queries({"b": ("a",), "c": ("b",)}, raising={"a": PipelineError("GRAPH.EMPTY")})

    assert problems(own(dataset("c"), dataset("b"), dataset("a")), queries) == ["GRAPH.EMPTY"]


def test_unknown_input_is_reported_with_a_suggestion():
    with pytest.raises(Problems) as found:
        resolved(own(dataset("orders"), dataset("sums")), Queries({"sums": ("order",)}))

    assert [(error.code, error.params["suggestion"]) for error in found.value] == [
        ("GRAPH.UNKNOWN_TABLE", 'Did you mean "orders"?')
    ]


@pytest.mark.parametrize(
    ("kind", "streaming", "decided"),
    [
        (Kind.TABLE, True, Kind.STREAMING_TABLE),
        (Kind.TABLE, False, Kind.MATERIALIZED_VIEW),
        (Kind.TEMPORARY_VIEW, True, Kind.TEMPORARY_VIEW),
    ],
)
def test_query_decides_whether_a_table_is_streaming_or_materialized(kind, streaming, decided):
    queries = Queries(streaming=frozenset({"a"}) if streaming else frozenset())

    assert resolved(own(dataset("a", kind)), queries).datasets[0].kind is decided


def test_flow_mode_follows_from_dataset_kind_and_query():
    definitions = Definitions(
        (dataset("s", Kind.STREAMING_TABLE), dataset("c", Kind.STREAMING_TABLE), dataset("m")),
        (flow("s"), flow("o", "s", once=True, append=True), flow("c"), flow("m")),
    )
    graph = resolved(definitions, Queries(streaming=frozenset({"s", "c"}), complete=frozenset({"c"})))

    modes = {f.name: f.mode for f in graph.flows}
    assert modes == {"s": Mode.APPEND, "o": Mode.ONCE, "c": Mode.COMPLETE, "m": Mode.REPLACE}


TWO = (flow("a"), flow("b", "a", append=True))


@pytest.mark.parametrize(
    ("kind", "flows", "streaming", "complete", "code"),
    [
        (Kind.MATERIALIZED_VIEW, (flow("a"),), {"a"}, (), "FLOW.STREAM_FOR_MATERIALIZED_VIEW"),
        (Kind.STREAMING_TABLE, (flow("a", once=True),), {"a"}, (), "FLOW.STREAM_FOR_ONCE"),
        (Kind.STREAMING_TABLE, (flow("a"),), (), (), "FLOW.BATCH_FOR_STREAMING_TABLE"),
        (Kind.STREAMING_TABLE, TWO, {"a", "b"}, {"a"}, "FLOW.COMPLETE_NOT_ALONE"),
    ],
)
def test_flow_that_does_not_fit_its_target_is_rejected(kind, flows, streaming, complete, code):
    queries = Queries(streaming=frozenset(streaming), complete=frozenset(complete))

    assert set(problems(Definitions((dataset("a", kind),), flows), queries)) == {code}


def schema(**columns):
    return Schema(tuple(Column(name, f'"{kind}"') for name, kind in columns.items()))


def test_table_has_the_columns_of_all_its_flows():
    both = Definitions((dataset("a", Kind.STREAMING_TABLE),), TWO)
    queries = Queries(returns={"b": schema(id="integer", more="string")}, streaming=frozenset({"a", "b"}))

    assert resolved(both, queries).datasets[0].schema.names == ("id", "more")
    conflict = replace(queries, returns={"b": schema(id="string")}, published=[])
    assert problems(both, conflict) == ["DATASET.SCHEMA_CONFLICT"]


def test_declared_schema_is_used_and_must_match_the_query():
    declared = schema(id="integer", later="string")

    assert resolved(own(dataset("a")), Queries(declared={"a": declared})).datasets[0].schema == declared
    for wrong in (schema(id="string"), schema(other="integer")):
        assert problems(own(dataset("a")), Queries(declared={"a": wrong})) == ["DATASET.DECLARED_SCHEMA"]


@pytest.mark.parametrize("kind", [Kind.MATERIALIZED_VIEW, Kind.STREAMING_TABLE])
def test_declared_not_null_is_kept_for_materialized_views_and_streaming_tables(kind):
    queries = Queries(declared={"a": Schema((Column("id", '"integer"', nullable=False),))})
    queries = replace(queries, streaming=frozenset({"a"} if kind is Kind.STREAMING_TABLE else ()), published=[])

    assert resolved(own(dataset("a", kind)), queries).datasets[0].schema.columns[0].nullable is False


def test_invalid_expectations_and_tables_without_columns_are_reported():
    assert problems(own(dataset("a", expectations=(rule("r", predicate="wrong"),)))) == ["EXPECTATION.NOT_SQL"]
    assert problems(own(dataset("a")), Queries(returns={"a": Schema()})) == ["DATASET.NO_COLUMNS"]


NAMES = ["a", "b", "c", "d", "e"]


@given(st.permutations(NAMES), st.sets(st.tuples(st.sampled_from(NAMES), st.sampled_from(NAMES))))
def test_order_of_declarations_does_not_change_the_graph(order, pairs):
    reads = {name: tuple(sorted(low for high, low in pairs if high == name and low < high)) for name in NAMES}

    first = resolved(own(*map(dataset, NAMES)), Queries(reads))
    second = resolved(own(*map(dataset, order)), Queries(reads))

    assert sorted(first.describe().split("\n")) == sorted(second.describe().split("\n"))
    assert {d.name for d in first.datasets} == {d.name for d in second.datasets}


def test_table_is_a_streaming_input_if_any_path_reads_it_as_a_stream(make):
    graph = make.graph(
        make.flow("t"),
        make.flow("v", "~t", mode=Mode.VIEW),
        make.flow("w", "v", mode=Mode.VIEW),
        make.flow("s", "t", "w", mode=Mode.APPEND),
    )

    flow = graph.by_flow["s"]
    assert graph.stored_inputs(flow) == (Input(QualifiedName("t"), streaming=True),)
    assert [view.name for view in graph.view_flows_read_by(flow)] == ["v", "w"]


def test_graph_is_shown_as_text_mermaid_and_json(make):
    graph = make.graph(
        make.flow("t", external=("files",)), make.flow("f", "~t", target="s", mode=Mode.APPEND), make.flow('q"')
    )

    assert graph.describe().splitlines() == [
        "t  (materialized view)",
        "  <- files",
        "s  (streaming table)",
        "  <- flow f: t (stream)",
        'q"  (materialized view)',
        "  <- nothing",
    ]
    assert "  d0 --> d1" in graph.to_mermaid()
    assert "&quot;" in graph.to_mermaid()
    assert graph.to_json()["flows"][1] == {"name": "f", "target": "s", "inputs": ["t"]}


def test_selection_contains_the_named_datasets(make):
    graph = make.graph(make.flow("a"), make.flow("b", "a"), make.flow("v", mode=Mode.VIEW))

    everything = select(graph, Selection(), Naming())
    named = select(graph, Selection(("LIVE.B",), ("a",)), Naming())

    assert sorted(map(str, everything.refresh)) == ["a", "b"]
    assert (sorted(map(str, named.refresh)), sorted(map(str, named.full_refresh))) == (["a", "b"], ["a"])
    assert sorted(map(str, named.without(frozenset({QualifiedName("a")})).refresh)) == ["b"]


@pytest.mark.parametrize(
    ("selection", "found"),
    [
        (Selection(("nope", "v", "no/name")), ["SELECTION.UNKNOWN", "SELECTION.UNKNOWN", "SELECTION.VIEW"]),
        (Selection(("a",), ("a",)), ["SELECTION.OVERLAP"]),
        (Selection(("a",), full_refresh_all=True), ["SELECTION.CONFLICT"]),
        (Selection(full_refresh=("a",), full_refresh_all=True), ["SELECTION.CONFLICT"]),
    ],
)
def test_invalid_selection_is_rejected(make, selection, found):
    graph = make.graph(make.flow("a"), make.flow("v", mode=Mode.VIEW))

    with pytest.raises(Problems) as error:
        select(graph, selection, Naming())

    assert [problem.code for problem in error.value] == found


def test_protected_table_is_not_reset(make):
    graph = make.graph(make.flow("a"), properties={"pipelines.reset.allowed": "FALSE"})

    with pytest.raises(Problems):
        select(graph, Selection(full_refresh=("a",)), Naming())
    everything = select(graph, Selection(full_refresh_all=True), Naming())
    assert (sorted(map(str, everything.protected)), everything.full_refresh) == (["a"], frozenset())


def test_similar_name_is_suggested_or_known_names_are_listed():
    assert did_you_mean("ordes", ["orders", "x"]) == 'Did you mean "orders"?'
    assert did_you_mean("zzz", [f"n{number}" for number in range(9)]).endswith("and more.")
    assert not did_you_mean("zzz", [])


DOWN = PipelineError("JDBC.UNREACHABLE", database="shop", reason="it is down")


def left_out(definitions, queries, **options):
    graph = resolved(definitions, queries, skip_unavailable=True, **options)
    assert {str(d.name) for d in graph.datasets}.isdisjoint(str(a.target) for a in graph.unavailable) or options
    return graph, {unavailable.name: unavailable.blocked for unavailable in graph.unavailable}


def test_unavailable_source_excludes_only_the_flows_that_need_it():
    queries = Queries({"b": ("a",), "c": ("b",), "e": ("d",)}, raising={"a": DOWN})

    graph, unavailable = left_out(own(dataset("c"), dataset("b"), dataset("a"), dataset("e"), dataset("d")), queries)

    assert [flow.name for flow in graph.flows] == ["d", "e"]
    assert unavailable == {"a": None, "b": 'input "a" was not updated', "c": 'input "b" was not updated'}
    assert {unavailable.error for unavailable in graph.unavailable} == {DOWN}


def test_reader_of_a_view_fails_like_the_view_if_its_source_is_unavailable():
    queries = Queries({"t": ("v",)}, raising={"v": DOWN})

    _, unavailable = left_out(own(dataset("v", VIEW), dataset("t")), queries)

    assert unavailable == {"v": None, "t": None}


def test_project_errors_are_reported_even_if_a_source_is_unavailable():
    queries = Queries(raising={"a": DOWN, "b": PipelineError("DATASET.NO_COLUMNS", name="b")})
    definitions = own(dataset("a"), dataset("b"))

    with pytest.raises(Problems) as found:
        resolved(definitions, queries, skip_unavailable=True)

    assert [error.code for error in found.value] == ["DATASET.NO_COLUMNS", "JDBC.UNREACHABLE"]
    assert sorted(problems(definitions, queries)) == ["DATASET.NO_COLUMNS", "JDBC.UNREACHABLE"]


@pytest.mark.parametrize(
    ("kept", "running"),
    [(Schema((*ID.columns, Column("more", '"string"'))), ["kafka"]), (None, [])],
)
def test_unavailable_source_stops_only_its_flow_if_the_target_table_keeps_its_rows(kept, running):
    queries = Queries(streaming=frozenset({"kafka"}), raising={"shop": DOWN})
    flows = (flow("kafka", "t", append=True), flow("shop", "t", append=True))
    definitions = Definitions((dataset("t", Kind.STREAMING_TABLE),), flows)

    graph, unavailable = left_out(definitions, queries, stored_schema=lambda *_: kept)

    assert [flow.name for flow in graph.flows] == running
    assert [d.schema for d in graph.datasets] == ([kept] if kept else [])
    assert unavailable["shop"] is None
    assert len(unavailable) == 2 - len(running)


def test_dataset_with_unavailable_source_can_be_selected_but_not_cleared_or_reset():
    graph, _ = left_out(own(dataset("a"), dataset("b")), Queries(raising={"a": DOWN}))

    assert sorted(map(str, select(graph, Selection(("a",)), Naming()).refresh)) == ["a"]
    assert sorted(map(str, select(graph, Selection(), Naming()).refresh)) == ["a", "b"]
    selections = (
        Selection(full_refresh=("a",)),
        Selection(full_refresh_all=True),
        Selection(reset_checkpoint=("a=latest",)),
        Selection(reset_checkpoint=("LIVE.A",)),
    )
    for selection in selections:
        with pytest.raises(Problems) as found:
            select(graph, selection, Naming())
        assert list(found.value) == [DOWN]


def test_unavailable_source_that_blocks_clearing_several_tables_is_reported_once(make):
    again = PipelineError(DOWN.code, **DOWN.params)
    graph = make.graph(
        unavailable=(make.unavailable("a"), make.unavailable("b", blocked='input "a" was not updated', error=again))
    )

    with pytest.raises(Problems) as found:
        select(graph, Selection(full_refresh_all=True), Naming())

    assert [problem.code for problem in found.value] == ["JDBC.UNREACHABLE"]


def test_full_refresh_all_allows_unavailable_datasets_with_nothing_to_clear(make):
    protected = make.unavailable("kept", properties={"pipelines.reset.allowed": "false"})
    unavailable = (protected, make.unavailable("v", Kind.PERSISTED_VIEW), make.unavailable("passing", VIEW))

    found = select(make.graph(make.flow("a"), unavailable=unavailable), Selection(full_refresh_all=True), Naming())

    assert sorted(map(str, found.full_refresh)) == ["a"]
    assert sorted(map(str, found.protected)) == ["kept"]
    assert sorted(map(str, found.refresh)) == ["a", "kept", "v"]


def test_persisted_but_not_temporary_view_with_unavailable_source_can_be_selected():
    definitions = own(dataset("v", Kind.PERSISTED_VIEW), dataset("passing", VIEW))
    graph, _ = left_out(definitions, Queries(raising={"v": DOWN, "passing": DOWN}))

    for selection in (Selection(), Selection(("LIVE.V",)), Selection(full_refresh=("v",))):
        found = select(graph, selection, Naming())
        assert ([str(name) for name in found.refresh], found.full_refresh) == (["v"], frozenset())
    with pytest.raises(Problems) as raised:
        select(graph, Selection(("passing",)), Naming())
    assert [problem.code for problem in raised.value] == ["SELECTION.VIEW"]


def test_name_of_a_dataset_with_unavailable_source_is_suggested(make):
    graph = make.graph(
        make.flow("customers"), unavailable=(make.unavailable("orders"), make.unavailable("passing", VIEW))
    )

    hints = []
    for ask in (
        lambda: dataset_name(graph, "ordres", Naming()),
        lambda: select(graph, Selection(("ordres",)), Naming()),
        lambda: select(graph, Selection(reset_checkpoint=("ordres",)), Naming()),
    ):
        with pytest.raises((PipelineError, Problems)) as raised:
            ask()
        hints += [problem.hint for problem in problems_of(raised.value)]

    assert len(hints) == 3
    assert all('Did you mean "orders"?' in hint for hint in hints)
    assert dataset_name(graph, "LIVE.passing", Naming()) == QualifiedName("passing")
