"""Six points of the campaign and one zombie: real processes are hit, and nothing of it shows afterwards.

`make campaign` has hundreds of them, on other masters too.
"""

from __future__ import annotations

import os
import sys

import pytest
from campaign.arena import Arena
from campaign.kills import hit_all
from campaign.places import File, Moment, Pass, Shot, choose_shots, merge_choices
from campaign.strike import Who
from campaign.workload import SLICE, Scenario
from campaign.zombies import stop_all

from headrace.runtime.failpoints import Failpoint

# The faster tests let an update end at the same points without ending a process.
GUARDS = (
    "tests/spark/test_exactly_once.py::test_no_row_is_lost_or_duplicated_when_an_update_crashes_within_a_batch",
    "tests/spark/test_change_crashes.py::test_a_crash_changes_neither_rows_nor_counts",
    ("tests/spark/test_exactly_once.py::test_a_stateful_stream_continues_when_an_update_crashes_after_a_written_batch"),
    "tests/spark/test_fencing.py::test_a_lost_lease_is_reported_before_anything_is_written",
    "tests/e2e/test_stopping.py::test_an_interrupt_cancels_an_update_and_the_next_one_completes_its_work",
)
pytestmark = [pytest.mark.e2e, pytest.mark.spark, pytest.mark.timeout(1800), pytest.mark.long(guard=GUARDS)]

BRONZE = f"tables/default/bronze/_delta_log/{SLICE + 1:020d}.json"
COMMITS = f"checkpoints/default/silver/silver/0/commits/{SLICE}"


def shot(commit, moment, at, who, delay_ms=0, scenario=Scenario.NEXT):
    return Shot(scenario, commit, moment, at, delay_ms, who)


KILLS = [
    shot("native commit", Moment.DURING, File(BRONZE, drafts=True), Who.JVM),
    shot("target commit", Moment.DURING, Pass(Failpoint.BEFORE_WRITE.value, 2), Who.GROUP, delay_ms=120),
    shot("Spark's commits", Moment.DURING, File(COMMITS, drafts=True), Who.PYTHON),
]
STATES = shot(
    "Spark's commits",
    Moment.BEFORE,
    File("checkpoints/default/sessions/sessions/0/offsets/3"),
    Who.GROUP,
    50,
    Scenario.STATE,
)
SEED = 6
ZOMBIE = shot("target commit", Moment.BEFORE, Pass(Failpoint.BEFORE_WRITE.value, 1), Who.GROUP)


@pytest.fixture(scope="module")
def arena(headrace_session, tmp_path_factory):
    environ = {**os.environ, "SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": sys.executable}
    return Arena(
        tmp_path_factory.mktemp("campaign"), "local[2]", environ, [Scenario.NEXT, Scenario.CHANGES, Scenario.STATE]
    )


def test_the_next_update_recovers_from_a_killed_update(arena):
    verdicts = [verdict for verdict, _ in hit_all(arena, list(enumerate(KILLS, 1)))]

    assert {verdict.what: verdict.faults for verdict in verdicts if verdict.faults} == {}
    assert [verdict.what for verdict in verdicts if not verdict.struck] == []


def test_the_next_update_recovers_from_an_update_killed_while_it_merges_changes(arena):
    chosen = [shot for shot in choose_shots(SEED, 20, arena.spans, places=merge_choices) if not shot.delay_ms]
    shots = [next(shot for shot in chosen if shot.commit == commit) for commit in ("memory of events", "merge")]

    verdicts = [verdict for verdict, _ in hit_all(arena, list(enumerate(shots, 101)))]

    assert {verdict.what: verdict.faults for verdict in verdicts if verdict.faults} == {}
    assert [verdict.what for verdict in verdicts if not verdict.struck] == []


def test_stateful_streams_equal_a_batch_result_after_their_update_is_killed(arena):
    ((verdict, _),) = hit_all(arena, [(201, STATES)])

    assert (verdict.struck, verdict.faults) == (True, ())


def test_a_paused_lease_holder_commits_nothing_when_it_resumes_after_a_takeover(arena):
    ((verdict, _),) = stop_all(arena, [(1, ZOMBIE)])

    assert verdict.struck
    assert (verdict.code, verdict.faults) == (3, ())
