"""The loop of an update, with flows that end as the test says, on a clock that the test moves."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from itertools import pairwise

import pytest

from headrace.errors import InternalError, PipelineError
from headrace.graph.resolved_flows import Mode
from headrace.graph.select import Selection
from headrace.model.outcome import FlowState, UpdateState
from headrace.plan.steps import Decision, FlowStep, Plan, UnavailableStep
from headrace.runtime.board import Board, remaining_selection
from headrace.runtime.loop import MAX_SCHEMA_EVOLUTIONS, first_error, run, state_of
from headrace.runtime.ports import Canceled, Completed, Current, Failed, Idle, NothingNew, SchemaEvolution, Started

ERROR = PipelineError("GRAPH.EMPTY")


class Starter:
    """Starts nothing; each attempt of a flow ends as its script says, by default well."""

    def __init__(self, clock, **scripts):
        self.begun = []
        self.most_at_once = 0
        self.is_stopping = False
        self.stops = 0
        self._clock = clock
        self._scripts = scripts
        self._waiting = []

    def start(self, step, _table, attempt):
        name = step.flow.name
        self.begun.append((name, attempt, self._clock.seconds))
        script = self._scripts.get(name, [])
        end = script[attempt - 1] if attempt <= len(script) else Completed(name)
        if isinstance(end, list):
            self._waiting += [[report] for report in end]
        else:
            self._waiting.append([end] if isinstance(end, NothingNew) else [Started(name), end])
        self.most_at_once = max(self.most_at_once, len(self._waiting))

    def wait(self, timeout_s):
        if not self._waiting:
            self._clock.seconds += timeout_s
            return []
        reports = self._waiting.pop(0)
        if callable(reports[-1]):
            reports[-1] = reports[-1](self)
        return reports

    def stop(self):
        self.stops += 1
        self._waiting = [[reports[0], Canceled(reports[0].flow)] for reports in self._waiting]


def fails(name, *, passing):
    return Failed(name, ERROR, transient=passing)


def grows(name, version=1):
    return Failed(
        name,
        ERROR,
        schema_evolution=SchemaEvolution(
            "AUTO_LOADER.SCHEMA_GREW", f"version {version} of the schema of its files has extra"
        ),
    )


def stops_with(report):
    def ends(starter):
        starter.is_stopping = True
        return report

    return ends


@pytest.fixture
def play(make, clock):
    def played(
        *flows, decisions=(), limit=4, max_retries=2, continuous=False, starter=Starter, unavailable=(), **scripts
    ):
        decided = defaultdict(lambda: Decision.START, decisions)
        steps = tuple(FlowStep(f, decided[f.name], "why") for f in flows)
        plan = Plan(make.graph(*flows), (), steps, continuous, unavailable=unavailable)
        starter = starter(clock, **scripts)
        moves = []
        board = run(plan, starter, clock, moves.append, limit=limit, max_retries=max_retries)
        return board, starter, moves

    return played


def states(board):
    return {name: status.state.value for name, status in board.statuses.items()}


def test_a_flow_starts_once_its_inputs_are_current(play, make):
    board, starter, _ = play(make.flow("a"), make.flow("b", "a"), make.flow("c", "b"), make.flow("d"))

    assert [name for name, _, _ in starter.begun] == ["a", "d", "b", "c"]
    assert state_of(board) is UpdateState.COMPLETED
    assert first_error(board) is None


def test_a_flow_that_reads_a_view_waits_for_the_inputs_of_the_view(play, make):
    view = make.flow("v", "a", mode=Mode.VIEW)
    graph = make.graph(make.flow("a"), view, make.flow("b", "v"))
    plan = Plan(graph, (), tuple(FlowStep(flow, Decision.START, "") for flow in graph.stored_flows))
    board = Board.for_plan(plan)

    assert board.ready(0, 4) == ("a",)


def test_all_flows_downstream_of_a_failed_flow_are_skipped(play, make):
    flows = (make.flow("a"), make.flow("b", "a"), make.flow("c", "b"), make.flow("d"))

    board, _, _ = play(*flows, a=[fails("a", passing=False)])

    assert states(board) == {"a": "FAILED", "b": "SKIPPED", "c": "SKIPPED", "d": "COMPLETED"}
    assert board.statuses["c"].reason == 'input "b" was not updated'
    assert (state_of(board), first_error(board)["code"]) == (UpdateState.FAILED, "GRAPH.EMPTY")


def test_an_unavailable_source_fails_only_its_flows_and_skips_their_readers(play, make):
    shop, reader, other = make.unavailable("shop", target="t"), make.unavailable("reader"), make.unavailable("other")
    unavailable = tuple(map(UnavailableStep, (shop, reader, other), (Decision.FAIL, Decision.SKIP, Decision.EXCLUDE)))
    kafka, below = make.flow("kafka", target="t"), make.flow("below", "t")

    board, starter, moves = play(kafka, below, make.flow("apart"), unavailable=unavailable)

    assert [name for name, _, _ in starter.begun] == ["kafka", "apart"]
    ends = {"shop": "FAILED", "reader": "SKIPPED", "other": "EXCLUDED"}
    assert board.statuses["other"].reason == "not selected"
    assert states(board) == {"kafka": "COMPLETED", "apart": "COMPLETED", "below": "SKIPPED", **ends}
    assert (state_of(board), first_error(board)["code"]) == (UpdateState.FAILED, "JDBC.UNREACHABLE")
    (failed,) = (move for move in moves if move.flow == "shop")
    assert (failed.reason, failed.attempt) == (shop.error.message, 0)


def test_an_update_ends_when_every_source_is_unavailable(play, make):
    board, starter, _ = play(unavailable=(UnavailableStep(make.unavailable("shop"), Decision.FAIL),))

    assert (states(board), starter.begun) == ({"shop": "FAILED"}, [])


def test_a_flow_that_waits_for_a_retry_fails_when_its_source_becomes_unavailable(make, clock):
    flow, done = make.flow("a"), make.flow("b")
    graph = make.graph(flow, done)
    before = run(
        Plan(graph, (), (FlowStep(done, Decision.START, ""), FlowStep(flow, Decision.START, ""))),
        Starter(clock, a=[grows("a")]),
        clock,
        lambda _: None,
        limit=1,
        max_retries=0,
    )
    now = Plan(
        make.graph(done),
        (),
        (FlowStep(done, Decision.START, ""),),
        unavailable=(UnavailableStep(make.unavailable("a"), Decision.FAIL),),
    )

    board = run(now, Starter(clock), clock, lambda _: None, limit=1, max_retries=0, before=before)

    assert states(board) == {"b": "COMPLETED", "a": "FAILED"}


def test_a_flow_is_retried_with_increasing_delays(play, make):
    board, starter, moves = play(make.flow("a"), a=[fails("a", passing=True)] * 2)

    assert starter.begun == [("a", 1, 0.0), ("a", 2, 1.0), ("a", 3, 3.0)]
    assert board.statuses["a"].attempts == 3
    assert board.statuses["a"].duration_s == 3
    assert [move.state.value for move in moves].count("RETRYING") == 2


def test_a_flow_fails_after_its_last_retry(play, make):
    board, starter, _ = play(make.flow("a"), max_retries=1, a=[fails("a", passing=True)] * 9)

    assert (states(board), len(starter.begun)) == ({"a": "FAILED"}, 2)


def test_other_flows_continue_while_a_flow_waits_for_its_retry(play, make):
    _, starter, _ = play(make.flow("a"), make.flow("b"), make.flow("c", "b"), a=[fails("a", passing=True)])

    assert [name for name, _, _ in starter.begun] == ["a", "b", "c", "a"]


def test_the_number_of_parallel_flows_stays_within_the_limit(play, make):
    _, starter, _ = play(*(make.flow(name) for name in "abcdef"), limit=2)

    assert (starter.most_at_once, len(starter.begun)) == (2, 6)


def test_up_to_date_and_excluded_flows_are_not_started(play, make):
    flows = (make.flow("a"), make.flow("b"), make.flow("c", "a", "b"))

    board, starter, _ = play(*flows, decisions={"a": Decision.UP_TO_DATE, "b": Decision.EXCLUDE})

    assert states(board) == {"a": "UP_TO_DATE", "b": "EXCLUDED", "c": "COMPLETED"}
    assert [name for name, _, _ in starter.begun] == ["c"]


def test_a_flow_without_new_input_is_up_to_date_and_counts_no_attempt(play, make):
    board, _, _ = play(make.flow("a"), make.flow("b", "a"), a=[NothingNew("a", "no news")])

    assert states(board) == {"a": "UP_TO_DATE", "b": "COMPLETED"}
    assert (board.statuses["a"].attempts, board.statuses["a"].reason) == (0, "no news")


def test_a_stop_cancels_queued_and_running_flows(play, make):
    flows = (make.flow("a"), make.flow("b"), make.flow("c", "a"))

    board, starter, _ = play(*flows, a=[stops_with(Completed("a"))])

    assert states(board) == {"a": "COMPLETED", "b": "CANCELED", "c": "CANCELED"}
    assert (starter.stops, state_of(board)) == (1, UpdateState.CANCELED)


def test_a_failed_flow_is_not_retried_after_a_stop(play, make):
    passing, _, _ = play(make.flow("a"), a=[stops_with(fails("a", passing=True))])
    lasting, _, _ = play(make.flow("a"), a=[stops_with(fails("a", passing=False))])

    assert (states(passing), states(lasting)) == ({"a": "CANCELED"}, {"a": "FAILED"})


def test_a_plan_without_flows_completes(play):
    assert state_of(play()[0]) is UpdateState.COMPLETED


def test_every_state_transition_emits_an_event(play, make):
    _, _, moves = play(make.flow("a"))

    assert [move.state.value for move in moves] == ["STARTING", "RUNNING", "COMPLETED"]
    assert [move.duration_s for move in moves] == [None, None, 0.0]


def test_an_illegal_state_transition_raises_an_internal_error(make):
    step = FlowStep(make.flow("a"), Decision.START, "")
    board = Board.for_plan(Plan(make.graph(step.flow), (), (step,)))

    with pytest.raises(InternalError):
        board.with_state("a", FlowState.COMPLETED, lambda _event: None)


def test_a_continuous_update_retries_forever_and_resets_the_delay_after_progress(play, make):
    again = [fails("a", passing=True)] * 4
    progressed = replace(fails("a", passing=True), progressed=True)

    _, starter, _ = play(make.flow("a"), max_retries=None, continuous=True, a=[*again, progressed])

    waits = [after - before for (_, _, before), (_, _, after) in pairwise(starter.begun)]
    assert waits == [1.0, 2.0, 4.0, 8.0, 1.0]


def test_a_continuous_update_counts_only_consecutive_failures_against_max_retries(play, make):
    again = fails("a", passing=True)
    progressed = replace(again, progressed=True)

    board, starter, _ = play(make.flow("a"), max_retries=1, continuous=True, a=[*[progressed] * 3, again])

    assert (len(starter.begun), states(board)) == (4, {"a": "FAILED"})


def test_a_reader_starts_once_its_input_is_current_while_the_input_still_runs(play, make):
    stream = make.flow("a", mode=Mode.APPEND)

    board, starter, moves = play(
        stream, make.flow("b", "a"), continuous=True, a=[[Started("a"), Current("a"), Completed("a")]]
    )

    assert [name for name, _, _ in starter.begun] == ["a", "b"]
    begun_b = next(i for i, m in enumerate(moves) if (m.flow, m.state) == ("b", FlowState.STARTING))
    ended_a = next(i for i, m in enumerate(moves) if (m.flow, m.state) == ("a", FlowState.COMPLETED))
    assert begun_b < ended_a
    assert states(board) == {"a": "COMPLETED", "b": "COMPLETED"}


def test_a_view_that_waits_for_changes_reports_idle_only_once(play, make):
    looks = [Started("a"), Current("a"), Idle("a"), Idle("a"), Started("a"), Idle("a"), Completed("a")]

    _, _, moves = play(make.flow("a"), continuous=True, a=[looks])

    assert [m.state.value for m in moves] == [
        "STARTING", "RUNNING", "IDLE", "RUNNING", "IDLE", "COMPLETED",
    ]  # fmt: skip


def test_a_stopped_continuous_update_is_completed_and_an_interrupted_one_is_canceled(play, make):
    board, _, _ = play(make.flow("a"), make.flow("b", "a"), continuous=True, a=[stops_with(Completed("a"))])

    assert states(board) == {"a": "COMPLETED", "b": "CANCELED"}
    assert state_of(board, interrupted=False) is UpdateState.COMPLETED
    assert state_of(board, interrupted=True) is UpdateState.CANCELED


def test_the_loop_does_not_spin_while_a_due_retry_waits_for_a_free_slot(play, make):
    waits = []

    class Slow(Starter):
        """What began second reports nothing for five seconds."""

        def wait(self, timeout_s):
            if len(self.begun) == 2 and self._clock.seconds < 5:
                waits.append(timeout_s)
                assert len(waits) < 50, "the loop spins"
                self._clock.seconds += 5 if timeout_s is None else timeout_s
                return []
            return super().wait(timeout_s)

    board, starter, _ = play(make.flow("a"), make.flow("b"), limit=1, starter=Slow, a=[fails("a", passing=True)])

    assert waits == [None]
    assert [name for name, _, _ in starter.begun] == ["a", "b", "a"]
    assert set(states(board).values()) == {"COMPLETED"}


def test_schema_evolution_ends_the_loop_with_no_flow_running_or_skipped(play, make):
    flows = (make.flow("a"), make.flow("b", "a"), make.flow("c"))

    board, starter, moves = play(*flows, a=[grows("a")])

    assert states(board) == {"a": "RETRYING", "b": "QUEUED", "c": "COMPLETED"}
    assert [name for name, _, _ in starter.begun] == ["a", "c"]
    assert [move.code for move in moves if hasattr(move, "code")] == ["AUTO_LOADER.SCHEMA_GREW"]


def test_a_loop_continues_from_the_board_of_a_previous_loop(play, make, clock):
    flows = (make.flow("a"), make.flow("b", "a"), make.flow("c"))
    before, _, _ = play(*flows, a=[grows("a")])

    board = run(before.plan, Starter(clock), clock, lambda _: None, limit=4, max_retries=2, before=before)

    assert states(board) == {"a": "COMPLETED", "b": "COMPLETED", "c": "COMPLETED"}
    assert (board.statuses["a"].attempts, board.statuses["c"].attempts) == (2, 1)


def test_schema_evolution_in_a_continuous_update_restarts_all_streams(play, make, clock):
    before, starter, _ = play(make.flow("a"), make.flow("b"), continuous=True, a=[grows("a")])

    board = run(before.plan, Starter(clock), clock, lambda _: None, limit=4, max_retries=2, before=before)

    assert starter.stops == 1
    assert not before.is_finished
    assert states(board) == {"a": "COMPLETED", "b": "COMPLETED"}


def test_a_flow_fails_when_its_source_schema_never_stops_evolving(play, make, clock):
    board, _, _ = play(make.flow("a"), a=[grows("a")])
    for _ in range(MAX_SCHEMA_EVOLUTIONS):
        starter = Starter(clock, a=[grows("a")] * (MAX_SCHEMA_EVOLUTIONS + 2))
        board = run(board.plan, starter, clock, lambda _: None, limit=1, max_retries=2, before=board)

    assert states(board) == {"a": "FAILED"}


def test_the_remaining_selection_does_not_clear_a_table_twice(make):
    flows = (make.flow("a"), make.flow("b"), make.flow("c"))
    steps = tuple(FlowStep(flow, Decision.START, "", reset=flow.name != "c") for flow in flows)
    board = Board.for_plan(Plan(make.graph(*flows), (), steps))
    begun = board.with_state("a", FlowState.STARTING, lambda _: None, attempts=1)
    asked = Selection(full_refresh=("a", "b"), refresh=("c",), reset_checkpoint=("c=latest",), accept_data_loss=True)

    assert remaining_selection(asked, begun) == Selection(
        ("a", "c"), ("b",), reset_checkpoint=("c=latest",), accept_data_loss=True
    )
    assert remaining_selection(Selection(), Board.for_plan(replace(begun.plan, flows=steps[2:]))) == Selection()


def test_a_second_remaining_selection_is_derived_from_the_first(make):
    flows = (make.flow("a"), make.flow("b", "a"))
    steps = tuple(FlowStep(flow, Decision.START, "", reset=True) for flow in flows)
    first = Board.for_plan(Plan(make.graph(*flows), (), steps)).with_state(
        "a", FlowState.STARTING, lambda _: None, attempts=1
    )
    left = remaining_selection(Selection(full_refresh_all=True), first)
    again = Board.for_plan(Plan(make.graph(*flows), (), tuple(replace(step, reset=False) for step in steps)))

    assert left == Selection(("a",), ("b",))
    assert remaining_selection(left, again).full_refresh_all is False
