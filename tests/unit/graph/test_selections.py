"""Selections: the grammar of a selector, what each finds in a graph, and what is left after exclusions."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.errors import PipelineError, Problems
from headrace.graph.analysis import Source, SourceKind
from headrace.graph.resolved import ResolvedGraph
from headrace.graph.resolved_flows import Mode
from headrace.graph.select import Selection, exact_selection, select
from headrace.graph.selectors import Method, Selector, is_plain_name, parse_selector
from headrace.model.datasets import Kind
from headrace.model.names import Naming, QualifiedName

NAMES = st.from_regex(r"\A[a-z]\w{0,8}(\.[a-z]\w{0,8}){0,2}\Z") | st.sampled_from(["`tag:x`", "`a+`", "main.`b-c`"])
VALUES = st.text(min_size=1, max_size=12)
SELECTORS = st.one_of(
    st.builds(Selector, st.just(Method.NAME), NAMES, st.booleans(), st.booleans()),
    st.builds(
        Selector, st.sampled_from([m for m in Method if m is not Method.NAME]), VALUES, st.booleans(), st.booleans()
    ),
)


@given(SELECTORS)
def test_a_selector_is_read_as_it_is_written(selector):
    assert parse_selector(f"  {selector} ") == selector
    assert is_plain_name(str(selector)) is selector.is_plain


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("+", "SELECTION.NO_VALUE"),
        ("tag:", "SELECTION.NO_VALUE"),
        ("tags:x", "SELECTION.UNKNOWN_METHOD"),
        (":x+", "SELECTION.UNKNOWN_METHOD"),
    ],
)
def test_a_text_that_is_no_selector_is_refused(text, code):
    with pytest.raises(PipelineError) as found:
        parse_selector(text)

    assert found.value.code == code


@pytest.fixture
def shop(make):
    """Two topics and a folder, a view over one of them, and what is computed from them."""
    kafka = Source(SourceKind.OTHER, "kafka Orders, returns")
    folder = Source(SourceKind.AUTO_LOADER, '{"path": "s3://lake/landing/customers/"}')
    flows = (
        make.flow("orders", mode=Mode.APPEND, sources=(kafka,), external=(kafka.name,)),
        make.flow("customers", mode=Mode.APPEND, sources=(folder,), external=(folder.name,)),
        make.flow("recent", "~orders", mode=Mode.VIEW),
        make.flow("clean", "~recent", mode=Mode.APPEND),
        make.flow("daily", "clean", "customers"),
        make.flow("once", "orders", mode=Mode.ONCE, external=("sales.rates of postgresql://host/shop",)),
    )
    tags = {"clean": "Nightly, finance", "daily": "nightly", "recent": " ,views"}
    graph = make.graph(*flows)
    datasets = (
        replace(found, dataset=replace(found.dataset, properties={"headrace.tags": tags.get(str(found.name), "")}))
        for found in graph.datasets
    )
    return ResolvedGraph(tuple(datasets), graph.flows)


def selected(graph, *refresh, modified=(), **more):
    found = select(graph, Selection(refresh, **more), Naming(), lambda: frozenset(map(QualifiedName, modified)))
    return " ".join(map(str, sorted(found.refresh))), " ".join(map(str, sorted(found.full_refresh)))


def refused(graph, selection):
    with pytest.raises(Problems) as found:
        select(graph, selection, Naming())
    return [problem.code for problem in found.value]


@pytest.mark.parametrize(
    ("selector", "found"),
    [
        ("orders", "orders"),
        ("LIVE.`Orders`+", "clean daily once orders"),
        ("+default.clean", "clean orders"),
        ("recent+", "clean daily"),
        ("+recent", "orders"),
        ("+once+", "once orders"),
        ("tag:NIGHTLY", "clean daily"),
        ("tag:finance+", "clean daily"),
        ("kind:streaming-table", "clean customers once orders"),
        ("kind:Materialized View", "daily"),
        ("kind:view+", "clean daily"),
        ("source:kafka", "orders"),
        ("source:orders", "orders"),
        ("source:ret*", "orders"),
        ("source:auto_loader", "customers"),
        ("source:s3://lake/landing", "customers"),
        ("source:landing/customers", "customers"),
        ("source:rates", "once"),
        ("source:*", "customers once orders"),
        ("state:modified", "customers"),
        ("state:modified+", "customers daily"),
    ],
)
def test_a_selector_finds_datasets(shop, selector, found):
    assert selected(shop, selector, modified=["customers"])[0] == found
    left, _ = selected(shop, exclude=(selector,), modified=["customers"])
    everything = {"customers", "daily", "once", "orders", "clean"}
    assert set(left.split()) == everything - set(found.split())


@pytest.mark.parametrize(
    ("selection", "codes"),
    [
        (
            Selection(("tag:x", "kind:stream", "source:x", "state:new", "a:b")),
            ["UNKNOWN_TAG", "UNKNOWN_KIND", "NO_MATCH", "UNKNOWN_STATE", "UNKNOWN_METHOD"],
        ),
        (Selection(exclude=("ordres", "kind:sink", "tag:nightli")), ["UNKNOWN", "NO_MATCH", "UNKNOWN_TAG"]),
        (Selection(("tag:views", "recent")), ["NO_MATCH", "VIEW"]),
        (Selection(("daily",), exclude=("kind:materialized_view",)), ["ALL_EXCLUDED"]),
        (Selection(full_refresh=("`orders+`",)), ["UNKNOWN"]),
        (Selection(reset_checkpoint=("daily+",)), ["NO_MATCH"]),
    ],
)
def test_a_selection_that_matches_nothing_is_refused(shop, selection, codes):
    assert refused(shop, selection) == sorted(f"SELECTION.{code}" for code in codes)


def test_a_full_refresh_wins_over_a_refresh_of_the_same_dataset_by_a_selector(shop):
    both = selected(shop, "+daily", full_refresh=("orders",), exclude=("customers",))

    assert both == ("clean daily orders", "orders")
    assert refused(shop, Selection(("orders",), ("orders",))) == ["SELECTION.OVERLAP"]


def test_a_protected_table_that_a_selector_finds_keeps_its_rows(make):
    graph = make.graph(make.flow("a"), properties={"pipelines.reset.allowed": "false"})

    found = select(graph, Selection(full_refresh=("a+",)), Naming())

    assert (list(map(str, found.refresh)), found.full_refresh) == (["a"], frozenset())
    assert refused(graph, Selection(full_refresh=("a",))) == ["SELECTION.NOT_RESETTABLE"]


def test_everything_can_be_cleared_except_what_is_excluded(shop):
    assert selected(shop, full_refresh_all=True, exclude=("orders+",)) == ("customers", "customers")


def test_the_checkpoints_of_a_selector_are_those_of_its_streams(shop):
    resets = ("source:kafka+=latest", "customers")

    found = select(shop, Selection(reset_checkpoint=resets), Naming())

    assert {flow: str(start) for flow, start in found.starts.items()} == {
        "orders": "latest",
        "clean": "latest",
        "customers": "earliest",
    }
    assert refused(shop, Selection(reset_checkpoint=("orders", "+orders=latest"))) == ["RESET.TWICE"]


def test_an_exact_selection_selects_the_same_in_any_later_graph(shop):
    for given_selection in (
        Selection(("tag:nightly",), ("orders+",), exclude=("once",)),
        Selection(full_refresh_all=True, exclude=("customers",)),
        Selection(reset_checkpoint=("source:kafka+=version:3",)),
        Selection(("state:modified+",)),
        Selection(exclude=("state:modified",)),
    ):
        found = select(shop, given_selection, Naming())
        exact = exact_selection(given_selection, found)
        assert exact.is_exact
        assert replace(select(shop, exact, Naming()), protected=frozenset()) == found


def test_nothing_is_selected_if_nothing_is_modified(shop):
    only = Selection(("state:modified+",))

    assert exact_selection(only, select(shop, only, Naming())).selects_nothing
    assert selected(shop, "state:modified", "daily") == ("daily", "")


def test_a_dataset_that_waits_for_an_unavailable_one_is_below_it(make):
    blocked = replace(make.unavailable("b", Kind.STREAMING_TABLE), reads=QualifiedName("a"))
    graph = make.graph(make.flow("c"), unavailable=(make.unavailable("a"), blocked))

    assert selected(graph, "a+")[0] == "a b"
