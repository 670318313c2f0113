"""Streams below a rebuilt table: which fail, which command starts them again, and what counts as modified."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from headrace.delta_log.table_layout import TableLayout
from headrace.graph.resolved import ResolvedGraph
from headrace.graph.resolved_flows import Mode
from headrace.model.names import QualifiedName
from headrace.plan.branches import failing_below, start_over_command
from headrace.plan.modified import modified_datasets
from headrace.plan.steps import Decision, FlowStep, TableChange, TableStep

RUN = "headrace run --full-refresh "


def protected(graph, *names):
    """The same graph with tables that do not allow a full refresh."""
    never = {"pipelines.reset.allowed": "false"}
    datasets = (
        replace(found, dataset=replace(found.dataset, properties=never)) if str(found.name) in names else found
        for found in graph.datasets
    )
    return ResolvedGraph(tuple(datasets), graph.flows)


@pytest.fixture
def chain(make):
    """Streams below ``a``, through a view, with a materialized view at the end."""
    return (
        make.flow("a", mode=Mode.APPEND),
        make.flow("v", "~a", mode=Mode.VIEW),
        make.flow("b c", "~v", mode=Mode.APPEND),
        make.flow("d", "~b c", mode=Mode.APPEND),
        make.flow("m", "d"),
    )


def notices(graph, *cleared, ran=None):
    names = set(map(QualifiedName, cleared))
    tables = {name: TableStep(name, TableChange.RESET, "full refresh") for name in names}
    steps = [
        FlowStep(flow, Decision.START if flow.target in names else Decision.EXCLUDE, "", reset=flow.target in names)
        for flow in graph.stored_flows
    ]
    return failing_below(graph, tables, steps, lambda flow: ran is None or flow.name in ran)


@pytest.mark.parametrize(("flow", "command"), [("a", "a+"), ("b c", "'b c+'"), ("d", "d")])
def test_one_plus_selects_the_branch_below_a_stream(make, chain, flow, command):
    graph = make.graph(*chain)

    assert start_over_command(graph, graph.by_flow[flow]) == RUN + command


def test_the_command_has_names_if_a_plus_would_clear_more_or_be_refused(make, chain):
    filled_once = make.graph(*chain, make.flow("once", "a", mode=Mode.ONCE))
    kept = protected(make.graph(*chain), "d")

    assert start_over_command(filled_once, filled_once.by_flow["a"]) == f"{RUN}'a,b c,d'"
    assert start_over_command(kept, kept.by_flow["b c"]) == f"{RUN}'b c'"
    assert start_over_command(kept, kept.by_flow["d"]).startswith("headrace run --reset-checkpoint d=")


def test_all_streams_that_fail_next_are_named_with_the_selection_that_includes_them(make, chain):
    graph = make.graph(*chain, make.flow("e", "~a", mode=Mode.APPEND))

    (notice,) = notices(graph, "a")

    assert notice.message == (
        '"a" is rebuilt, so streams below will fail at their next start: "b c", "e"; '
        f"to rebuild them too, run instead: {RUN}a+"
    )
    assert notice.to_json()["flows"] == ["b c", "e"]


def test_nothing_is_said_of_streams_that_start_over_or_have_not_run(make, chain):
    graph = make.graph(*chain)

    assert notices(graph, "a", "b c", "d") == ()
    assert notices(graph, "a", ran=()) == ()
    assert notices(graph, "d") == ()
    assert notices(graph, "a", "b c")[0].facts["command"] == f"{RUN}a+"


def test_a_stream_whose_table_may_not_be_cleared_gets_a_command_of_its_own(make, chain):
    graph = protected(make.graph(*chain), "b c")

    (notice,) = notices(graph, "a")

    assert notice.message.endswith(
        f'run instead: {RUN}a; the table of "b c" does not allow a full refresh: '
        "headrace run --reset-checkpoint 'b c=latest'"
    )


@dataclass
class Deployed:
    """Tables of the storage, and flows that last ran with other code."""

    tables: dict[str, Any]
    edited: set[str] = field(default_factory=set)

    def table(self, name):
        return self.tables.get(str(name))

    def layout(self, _name):
        return TableLayout()

    def is_modified(self, flow):
        return flow.name in self.edited


def test_new_edited_and_redeclared_datasets_are_modified(make, chain, past):
    graph = make.graph(*chain, comment="new")
    same, other = (make.table(make.schema("id integer"), comment=comment) for comment in ("new", "old"))
    deployed = Deployed({"a": same, "b c": other, "d": same}, edited={"d", "v"})

    assert sorted(map(str, modified_datasets(graph, deployed, past()))) == ["b c", "d", "m"]
    unchanged = Deployed(dict.fromkeys(("a", "b c", "d", "m"), same))
    assert modified_datasets(graph, unchanged, past()) == frozenset()
