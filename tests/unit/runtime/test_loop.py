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


def test_a_reader_of_a_view_waits_for_what_the_view_reads(play, make):
    view = make.flow("v", "a", mode=Mode.VIEW)
    graph = make.graph(make.flow("a"), view, make.flow("b", "v"))
    plan = Plan(graph, (), tuple(FlowStep(flow, Decision.START, "") for flow in graph.stored_flows))
    board = Board.for_plan(plan)

    assert board.ready(0, 4) == ("a",)


def test_what_reads_a_failed_flow_is_skipped_down_to_the_last(play, make):
    flows = (make.flow("a"), make.flow("b", "a"), make.flow("c", "b"), make.flow("d"))

    board, _, _ = play(*flows, a=[fails("a", passing=False)])

    assert states(board) == {"a": "FAILED", "b": "SKIPPED", "c": "SKIPPED", "d": "COMPLETED"}
    assert board.statuses["c"].reason == 'input "b" was not updated'
    assert (state_of(board), first_error(board)["code"]) == (UpdateState.FAILED, "GRAPH.EMPTY")


def test_flows_whose_source_is_away_fail_and_what_reads_their_tables_is_skipped_while_others_run(play, make):
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


def test_an_update_of_which_every_source_is_away_ends(play, make):
    board, starter, _ = play(unavailable=(UnavailableStep(make.unavailable("shop"), Decision.FAIL),))

    assert (states(board), starter.begun) == ({"shop": "FAILED"}, [])


def test_a_flow_that_was_to_be_tried_again_fails_when_its_source_has_gone_away_meanwhile(make, clock):
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


def test_a_flow_is_tried_again_after_longer_and_longer_waits(play, make):
    board, starter, moves = play(make.flow("a"), a=[fails("a", passing=True)] * 2)

    assert starter.begun == [("a", 1, 0.0), ("a", 2, 1.0), ("a", 3, 3.0)]
    assert board.statuses["a"].attempts == 3
    assert board.statuses["a"].duration_s == 3
    assert [move.state.value for move in moves].count("RETRYING") == 2


def test_a_flow_is_given_up_when_it_failed_too_often(play, make):
    board, starter, _ = play(make.flow("a"), max_retries=1, a=[fails("a", passing=True)] * 9)

    assert (states(board), len(starter.begun)) == ({"a": "FAILED"}, 2)


def test_others_go_on_while_a_flow_waits_for_its_next_attempt(play, make):
    _, starter, _ = play(make.flow("a"), make.flow("b"), make.flow("c", "b"), a=[fails("a", passing=True)])

    assert [name for name, _, _ in starter.begun] == ["a", "b", "c", "a"]


def test_no_more_flows_run_at_a_time_than_allowed(play, make):
    _, starter, _ = play(*(make.flow(name) for name in "abcdef"), limit=2)

    assert (starter.most_at_once, len(starter.begun)) == (2, 6)


def test_flows_that_the_plan_leaves_alone_are_not_started(play, make):
    flows = (make.flow("a"), make.flow("b"), make.flow("c", "a", "b"))

    board, starter, _ = play(*flows, decisions={"a": Decision.UP_TO_DATE, "b": Decision.EXCLUDE})

    assert states(board) == {"a": "UP_TO_DATE", "b": "EXCLUDED", "c": "COMPLETED"}
    assert [name for name, _, _ in starter.begun] == ["c"]


def test_a_flow_without_news_is_up_to_date_and_was_not_attempted(play, make):
    board, _, _ = play(make.flow("a"), make.flow("b", "a"), a=[NothingNew("a", "no news")])

    assert states(board) == {"a": "UP_TO_DATE", "b": "COMPLETED"}
    assert (board.statuses["a"].attempts, board.statuses["a"].reason) == (0, "no news")


def test_a_stop_cancels_what_waits_and_what_runs(play, make):
    flows = (make.flow("a"), make.flow("b"), make.flow("c", "a"))

    board, starter, _ = play(*flows, a=[stops_with(Completed("a"))])

    assert states(board) == {"a": "COMPLETED", "b": "CANCELED", "c": "CANCELED"}
    assert (starter.stops, state_of(board)) == (1, UpdateState.CANCELED)


def test_a_failure_is_not_tried_again_when_the_update_is_stopped(play, make):
    passing, _, _ = play(make.flow("a"), a=[stops_with(fails("a", passing=True))])
    lasting, _, _ = play(make.flow("a"), a=[stops_with(fails("a", passing=False))])

    assert (states(passing), states(lasting)) == ({"a": "CANCELED"}, {"a": "FAILED"})


def test_a_plan_without_flows_is_done(play):
    assert state_of(play()[0]) is UpdateState.COMPLETED


def test_every_move_is_an_event(play, make):
    _, _, moves = play(make.flow("a"))

    assert [move.state.value for move in moves] == ["STARTING", "RUNNING", "COMPLETED"]
    assert [move.duration_s for move in moves] == [None, None, 0.0]


def test_an_illegal_move_is_a_defect(make):
    step = FlowStep(make.flow("a"), Decision.START, "")
    board = Board.for_plan(Plan(make.graph(step.flow), (), (step,)))

    with pytest.raises(InternalError):
        board.with_state("a", FlowState.COMPLETED, lambda _event: None)


def test_a_continuous_update_tries_again_without_end_and_sooner_after_progress(play, make):
    again = [fails("a", passing=True)] * 4
    progressed = replace(fails("a", passing=True), progressed=True)

    _, starter, _ = play(make.flow("a"), max_retries=None, continuous=True, a=[*again, progressed])

    waits = [after - before for (_, _, before), (_, _, after) in pairwise(starter.begun)]
    assert waits == [1.0, 2.0, 4.0, 8.0, 1.0]


def test_a_continuous_update_counts_failures_without_a_batch_between_them_where_their_number_is_said(play, make):
    again = fails("a", passing=True)
    progressed = replace(again, progressed=True)

    board, starter, _ = play(make.flow("a"), max_retries=1, continuous=True, a=[*[progressed] * 3, again])

    assert (len(starter.begun), states(board)) == (4, {"a": "FAILED"})


def test_what_reads_a_table_starts_once_the_table_is_current(play, make):
    stream = make.flow("a", mode=Mode.APPEND)

    board, starter, moves = play(
        stream, make.flow("b", "a"), continuous=True, a=[[Started("a"), Current("a"), Completed("a")]]
    )

    assert [name for name, _, _ in starter.begun] == ["a", "b"]
    begun_b = next(i for i, m in enumerate(moves) if (m.flow, m.state) == ("b", FlowState.STARTING))
    ended_a = next(i for i, m in enumerate(moves) if (m.flow, m.state) == ("a", FlowState.COMPLETED))
    assert begun_b < ended_a
    assert states(board) == {"a": "COMPLETED", "b": "COMPLETED"}


def test_a_view_that_waits_for_changes_is_idle_and_says_so_once(play, make):
    looks = [Started("a"), Current("a"), Idle("a"), Idle("a"), Started("a"), Idle("a"), Completed("a")]

    _, _, moves = play(make.flow("a"), continuous=True, a=[looks])

    assert [m.state.value for m in moves] == [
        "STARTING", "RUNNING", "IDLE", "RUNNING", "IDLE", "COMPLETED",
    ]  # fmt: skip


def test_a_continuous_update_that_was_stopped_is_complete_and_one_that_was_interrupted_is_canceled(play, make):
    board, _, _ = play(make.flow("a"), make.flow("b", "a"), continuous=True, a=[stops_with(Completed("a"))])

    assert states(board) == {"a": "COMPLETED", "b": "CANCELED"}
    assert state_of(board, interrupted=False) is UpdateState.COMPLETED
    assert state_of(board, interrupted=True) is UpdateState.CANCELED


def test_the_loop_waits_for_a_report_while_a_retry_is_due_and_no_room_is_left(play, make):
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


def test_where_a_schema_has_grown_the_loop_ends_with_nothing_running_and_nothing_skipped(play, make):
    flows = (make.flow("a"), make.flow("b", "a"), make.flow("c"))

    board, starter, moves = play(*flows, a=[grows("a")])

    assert states(board) == {"a": "RETRYING", "b": "QUEUED", "c": "COMPLETED"}
    assert [name for name, _, _ in starter.begun] == ["a", "c"]
    assert [move.code for move in moves if hasattr(move, "code")] == ["AUTO_LOADER.SCHEMA_GREW"]


def test_a_loop_goes_on_from_the_board_that_another_has_left(play, make, clock):
    flows = (make.flow("a"), make.flow("b", "a"), make.flow("c"))
    before, _, _ = play(*flows, a=[grows("a")])

    board = run(before.plan, Starter(clock), clock, lambda _: None, limit=4, max_retries=2, before=before)

    assert states(board) == {"a": "COMPLETED", "b": "COMPLETED", "c": "COMPLETED"}
    assert (board.statuses["a"].attempts, board.statuses["c"].attempts) == (2, 1)


def test_a_continuous_update_ends_its_streams_to_be_resolved_again_and_starts_them_all(play, make, clock):
    before, starter, _ = play(make.flow("a"), make.flow("b"), continuous=True, a=[grows("a")])

    board = run(before.plan, Starter(clock), clock, lambda _: None, limit=4, max_retries=2, before=before)

    assert starter.stops == 1
    assert not before.is_finished
    assert states(board) == {"a": "COMPLETED", "b": "COMPLETED"}


def test_a_source_whose_schema_never_stops_growing_fails(play, make, clock):
    board, _, _ = play(make.flow("a"), a=[grows("a")])
    for _ in range(MAX_SCHEMA_EVOLUTIONS):
        starter = Starter(clock, a=[grows("a")] * (MAX_SCHEMA_EVOLUTIONS + 2))
        board = run(board.plan, starter, clock, lambda _: None, limit=1, max_retries=2, before=board)

    assert states(board) == {"a": "FAILED"}


def test_what_is_left_of_an_update_clears_nothing_twice(make):
    flows = (make.flow("a"), make.flow("b"), make.flow("c"))
    steps = tuple(FlowStep(flow, Decision.START, "", reset=flow.name != "c") for flow in flows)
    board = Board.for_plan(Plan(make.graph(*flows), (), steps))
    begun = board.with_state("a", FlowState.STARTING, lambda _: None, attempts=1)
    asked = Selection(full_refresh=("a", "b"), refresh=("c",), reset_checkpoint=("c=latest",), accept_data_loss=True)

    assert remaining_selection(asked, begun) == Selection(
        ("a", "c"), ("b",), reset_checkpoint=("c=latest",), accept_data_loss=True
    )
    assert remaining_selection(Selection(), Board.for_plan(replace(begun.plan, flows=steps[2:]))) == Selection()


def test_what_is_left_a_second_time_is_taken_from_what_was_left(make):
    flows = (make.flow("a"), make.flow("b", "a"))
    steps = tuple(FlowStep(flow, Decision.START, "", reset=True) for flow in flows)
    first = Board.for_plan(Plan(make.graph(*flows), (), steps)).with_state(
        "a", FlowState.STARTING, lambda _: None, attempts=1
    )
    left = remaining_selection(Selection(full_refresh_all=True), first)
    again = Board.for_plan(Plan(make.graph(*flows), (), tuple(replace(step, reset=False) for step in steps)))

    assert left == Selection(("a",), ("b",))
    assert remaining_selection(left, again).full_refresh_all is False
