"""Streams that keep state: when their query fits what their checkpoint was made with."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headrace.cdc.feed import ChangeFeed
from headrace.cdc.merge_keys import MergeKeys
from headrace.cdc.scd_spec import ScdSpec, ScdType
from headrace.graph.analysis import CHANGES, StatefulOperator
from headrace.graph.resolved_flows import Mode, StateSignature
from headrace.graph.select import Selected
from headrace.graph.starts import EARLIEST
from headrace.model.names import QualifiedName
from headrace.plan.state_compatibility import changed_states, table_mismatches
from headrace.storage.flow_record import FlowRecord, read_record, write_record

COUNTED = StatefulOperator("aggregate", "1", "aggregate by a: count(*)", "a string")
SUMMED = StatefulOperator("aggregate", "2", "aggregate by a: sum(b)", "a string")
RETYPED = StatefulOperator("aggregate", "3", "aggregate by a: count(*)", "a int")
S = frozenset({QualifiedName("s")})


@dataclass
class Made:
    """The part of the storage that counts here."""

    made: StateSignature | None

    def state_signature(self, _flow):
        return self.made


@dataclass
class Merged(Made):
    """A table that changes were merged into, or not."""

    there: object
    rows: MergeKeys | None

    def table(self, _name):
        return self.there

    def merge_keys(self, _name):
        return self.rows


@pytest.fixture
def problems(make):
    def find(before, now, *, full=False):
        graph = make.graph(make.flow("s", mode=now.mode, operators=now.operators))
        return changed_states(graph, Made(before), Selected(S, S if full else frozenset()))

    return find


@pytest.mark.parametrize(
    ("before", "now", "said"),
    [
        ((COUNTED,), (SUMMED,), '"aggregate by a: count(*)" is now "aggregate by a: sum(b)"'),
        ((COUNTED,), (RETYPED,), '"aggregate by a: count(*) (a string)" is now "aggregate by a: count(*) (a int)"'),
        ((), (COUNTED,), '"aggregate by a: count(*)" was added and has no state'),
        ((COUNTED, SUMMED), (SUMMED,), '"aggregate by a: count(*)" was removed'),
        (
            (COUNTED, SUMMED),
            (SUMMED, COUNTED),
            (
                'the order of its operators was "aggregate by a: count(*)", "aggregate by a: sum(b)", '
                'and is now "aggregate by a: sum(b)", "aggregate by a: count(*)"'
            ),
        ),
    ],
)
def test_state_changes_are_reported_operator_by_operator(problems, before, now, said):
    (problem,) = problems(StateSignature(Mode.APPEND, before), StateSignature(Mode.APPEND, now))

    assert (problem.code, problem.params["changes"]) == ("FLOW.STATE_CHANGED", said)


def test_a_change_from_complete_to_append_mode_is_refused(problems):
    before, now = StateSignature(Mode.COMPLETE, (COUNTED,)), StateSignature(Mode.APPEND, (COUNTED,))

    (problem,) = problems(before, now)

    assert problem.params["changes"] == (
        "the old query replaces the table in each batch, the new query adds rows to the table"
    )


def test_only_an_append_flow_can_restart_with_empty_state(problems):
    (adds,) = problems(StateSignature(Mode.APPEND, (COUNTED,)), StateSignature(Mode.APPEND, (SUMMED,)))
    (replaces,) = problems(StateSignature(Mode.COMPLETE, (COUNTED,)), StateSignature(Mode.COMPLETE, (SUMMED,)))

    assert adds.hint.endswith("start with empty state: headrace run --reset-checkpoint s")
    assert replaces.hint.endswith("rebuild the table from its sources: headrace run --full-refresh s")


def test_state_is_not_compared_if_it_is_unknown_or_cleared(problems):
    now = StateSignature(Mode.APPEND, (COUNTED,))

    assert problems(None, now) == []
    assert problems(StateSignature(Mode.APPEND), now, full=True) == []


BY_ID = ChangeFeed(
    ScdSpec(("id",), ("id", "city")), "v", '"integer"', "{}", derivable_from_rows=True, derivable_in_merge=True
)
ROWS = MergeKeys.of(BY_ID)
VERSIONS = replace(BY_ID, spec=replace(BY_ID.spec, scd_type=ScdType.TWO))


@pytest.mark.parametrize("reset", [False, True])
@pytest.mark.parametrize(
    ("mode", "feed", "columns", "rows", "code"),
    [
        (Mode.MERGE, BY_ID, "id integer, city string", ROWS, None),
        (Mode.MERGE, BY_ID, "id integer, city string", None, None),
        (Mode.MERGE, replace(BY_ID, spec=replace(BY_ID.spec, keys=("ID",))), "id integer", ROWS, None),
        (Mode.MERGE, replace(BY_ID, spec=replace(BY_ID.spec, keys=("city",))), "id integer", ROWS, "CDC.OTHER_KEYS"),
        (Mode.SNAPSHOT, replace(BY_ID, spec=ScdSpec(("id", "a"), ("id",))), "id integer", ROWS, "CDC.OTHER_KEYS"),
        (Mode.ONCE, replace(BY_ID, spec=ScdSpec(("a",), ("id",))), "id integer", ROWS, "CDC.OTHER_KEYS"),
        (Mode.MERGE, VERSIONS, "id integer", ROWS, "CDC.OTHER_TABLE"),
        (Mode.APPEND, None, "id integer", ROWS, "CDC.ROWS_WERE_MERGED"),
        (Mode.ONCE, None, "id integer", ROWS, "CDC.ROWS_WERE_MERGED"),
        (Mode.APPEND, None, "id integer", None, None),
    ],
)
def test_a_flow_that_does_not_match_the_merge_keys_of_its_table_is_refused(
    make, reset, mode, feed, columns, rows, code
):
    flow = make.flow("new", target="s", mode=mode, feed=feed)
    # A flow that is known is told by its own record, unless its progress is dropped.
    state = Merged(StateSignature(mode) if reset else None, make.table(make.schema(columns)), rows)
    starts = {"new": EARLIEST} if reset else {}

    found = table_mismatches(make.graph(flow), state, Selected(S, frozenset(), starts=starts))

    assert [problem.code for problem in found] == ([code] if code else [])
    assert table_mismatches(make.graph(flow), state, Selected(S, S, starts=starts)) == []


def test_the_order_of_cdc_keys_does_not_change_the_state(make):
    by = [replace(BY_ID, spec=ScdSpec(keys, ("a", "b"))) for keys in (("a", "b"), ("b", "a"))]
    # As version 0.1 has noted it.
    was = StatefulOperator(
        CHANGES, "type 1 by (b, a) in the order of v", "type 1 by (b, a) in the order of v", '"integer"'
    )
    now = make.flow("s", mode=Mode.MERGE, feed=by[0])
    selected = Selected(S, frozenset())

    assert changed_states(make.graph(now), Made(StateSignature(Mode.MERGE, (was,))), selected) == []
    other = make.flow("s", mode=Mode.MERGE, feed=BY_ID)
    assert len(changed_states(make.graph(other), Made(StateSignature(Mode.MERGE, (was,))), selected)) == 1


operators = st.lists(st.sampled_from([COUNTED, SUMMED, RETYPED])).map(tuple)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(operators, operators)
def test_state_is_kept_only_if_the_operators_and_their_order_are_unchanged(problems, before, now):
    assert (problems(StateSignature(Mode.APPEND, before), StateSignature(Mode.APPEND, now)) == []) == (before == now)


def test_a_flow_record_stores_the_state_signature(tmp_path):
    record = FlowRecord(state_signature=StateSignature(Mode.COMPLETE, (COUNTED, RETYPED)))

    write_record(tmp_path / "flow.json", record)

    assert read_record(tmp_path / "flow.json") == record
