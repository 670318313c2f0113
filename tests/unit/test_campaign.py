"""The campaign's arithmetic: seeded choices, pictures that are compared, pages that are written."""

from __future__ import annotations

from dataclasses import fields, replace
from datetime import datetime, timedelta
from itertools import pairwise

import pytest
from campaign.__main__ import SECTIONS
from campaign.changes import MERGED
from campaign.kills import Verdict
from campaign.oracle import Snapshot, differences
from campaign.places import (
    DataFile,
    File,
    Moment,
    Pass,
    Span,
    choose_shots,
    merge_choices,
    small_choices,
    state_choices,
)
from campaign.report import VerdictStore, entry, page, stored
from campaign.soak import Sample, growing_measures, read_samples
from campaign.soak import page as soak_page
from campaign.soak import stored as stored_sample
from campaign.state import EVENTS, STATEFUL_FLOWS, differing, rows_of_slice
from campaign.strike import Who
from campaign.victim import Order, Trap
from campaign.workload import STREAMS, Scenario

from headrace.model.outcome import FlowCounts
from headrace.project.lease_holders import LeaseTiming
from headrace.runtime.failpoints import Failpoint
from headrace.testing.rows import SortedRows

COMMITS = {"system/events": range(20, 40), "tables/default/kept": range(3, 5), "system/cdc/default/kept": range(1, 2)}
SPAN = Span(dict.fromkeys(Failpoint, 7), dict.fromkeys((*STREAMS, *MERGED, *STATEFUL_FLOWS), range(2, 4)), COMMITS)
SPANS = dict.fromkeys(Scenario, SPAN)


def test_a_seed_gives_the_same_crash_points_for_any_count():
    assert choose_shots(7, 60, SPANS)[:40] == choose_shots(7, 40, SPANS)
    assert choose_shots(7, 40, SPANS) != choose_shots(8, 40, SPANS)


def test_crash_points_cover_every_kind_of_commit_every_moment_and_every_process():
    shots = choose_shots(1, SECTIONS["kill"], SPANS)

    assert {shot.who for shot in shots} == set(Who)
    assert {shot.scenario for shot in shots} == set(Scenario) - {Scenario.CHANGES, Scenario.STATE}
    commits = {shot.commit for shot in shots}
    assert {"native commit", "target commit", "quarantine commit", "event log commit", "flow record"} < commits
    whole = {commit for commit in commits if {s.moment for s in shots if s.commit == commit} == set(Moment)}
    assert commits - whole <= {"flow record"}


def test_crash_points_of_merges_cover_merges_retained_events_and_random_times():
    shots = choose_shots(1, SECTIONS["changes"], {Scenario.CHANGES: SPAN}, places=merge_choices)

    hits = {(shot.commit, shot.moment) for shot in shots}
    assert {(commit, moment) for commit in ("merge", "memory of events") for moment in Moment} < hits
    assert ("any time", Moment.DURING) in hits
    assert {shot.at.path.split("/")[0] for shot in shots if isinstance(shot.at, File)} == {
        "checkpoints",
        "lease.json",
        "system",
        "tables",
    }


def test_crash_points_of_stateful_streams_cover_batch_logs_and_random_times():
    shots = choose_shots(1, SECTIONS["state"], {Scenario.STATE: SPAN}, places=state_choices)

    hits = {(shot.commit, shot.moment) for shot in shots}
    assert {(f"Spark's {log}", moment) for log in ("offsets", "commits") for moment in Moment} < hits
    assert ("any time", Moment.DURING) in hits


def test_crash_points_of_small_batches_hit_each_table_at_its_data_file_and_at_its_commit():
    shots = choose_shots(1, SECTIONS["small"], {Scenario.NEXT: SPAN}, places=small_choices)

    hits = {(shot.moment, type(shot.at)) for shot in shots}
    assert hits == {(Moment.BEFORE, DataFile), (Moment.DURING, File), (Moment.AFTER, File)}
    assert {shot.who for shot in shots} == set(Who)
    # The event log and retained events have commits of another kind.
    assert {getattr(shot.at, "table", "tables") for shot in shots} == {"tables/default/kept", "tables"}


def test_a_data_file_counts_once_it_is_there(tmp_path):
    happened = DataFile("tables/kept", 2).watch(tmp_path)
    folder = tmp_path / "tables" / "kept" / "_delta_log"
    folder.mkdir(parents=True)
    seen = []
    for name in ("_delta_log/1.checkpoint.parquet", "part-0.parquet", "part-1.parquet"):
        (folder.parent / name).touch()
        seen.append(happened())

    assert seen == [False, False, True]


def test_events_of_stateful_streams_are_never_late():
    slices = [[row["at"] for row in rows_of_slice(number)] for number in range(4)]

    assert [len(times) for times in slices] == [EVENTS] * 4
    for before, times in pairwise(slices):
        behind = datetime.fromisoformat(max(before)) - datetime.fromisoformat(min(times))
        assert timedelta() < behind < timedelta(minutes=10)


def test_a_table_that_differs_from_its_batch_result_is_reported():
    rows = [{"user": "a", "n": 1}]
    tables = {name: rows for kept in STATEFUL_FLOWS for name in (kept, f"{kept}_by_batch")}
    open_ones = {"user": "end", "n": 9}

    assert list(differing({**tables, "sums_by_batch": [{"user": "a", "n": 1}, open_ones]}.__getitem__)) == []
    ((name, found, expected),) = differing({**tables, "visits": []}.__getitem__)
    assert (name, found, expected) == ("visits", [], [{"user": "a", "n": 1}])


def test_a_trap_fires_once_at_the_requested_pass():
    hits = []
    trap = Trap(Pass("written", 3), 0, lambda: hits.append(1))

    for point in [Failpoint.WRITTEN, Failpoint.COUNTED, Failpoint.WRITTEN]:
        trap(point)
    assert hits == []

    trap(Failpoint.WRITTEN)
    trap(Failpoint.WRITTEN)
    assert hits == [1]


def test_an_order_is_unchanged_by_a_json_round_trip():
    order = Order("/p", ["run"], Pass("written", 3), 5, Who.JVM, "SIGSTOP", LeaseTiming(1.0, 2.0))

    assert Order.from_json(order.to_json()) == order


@pytest.mark.parametrize("drafts", [False, True])
def test_a_file_is_detected_when_it_appears_but_not_if_it_already_exists(tmp_path, drafts):
    file = File("log/1", drafts=drafts)
    (tmp_path / "log").mkdir()
    happened = file.watch(tmp_path)
    assert not happened()

    (tmp_path / "log" / ".1.abc.tmp").touch()
    assert happened() is drafts

    (tmp_path / "log" / "1").write_text("")
    assert happened()
    (tmp_path / "log" / ".1.abc.tmp").unlink()
    assert not file.watch(tmp_path)()


PICTURE = Snapshot({"t": SortedRows([{"id": 1}])}, {"f": FlowCounts(1)}, ())


@pytest.mark.parametrize(
    ("found", "said"),
    [
        (Snapshot({"t": SortedRows([{"id": 1}, {"id": 1}])}, PICTURE.counts, ()), "table t: rows differ"),
        (Snapshot({}, PICTURE.counts, ()), "table t: rows differ"),
        (Snapshot(PICTURE.tables, {"f": FlowCounts(2)}, ()), "counts of f"),
        (Snapshot(PICTURE.tables, {}, ()), "counts of f"),
        (Snapshot(PICTURE.tables, PICTURE.counts, ("batch 1 of f in epoch 0",)), "recorded twice"),
    ],
)
def test_every_difference_between_snapshots_is_reported(found, said):
    (text,) = differences(found, PICTURE)

    assert text.startswith(said)
    assert differences(PICTURE, PICTURE) == []


def joined(**more):
    """What is found of a flow with two batches, the second of which may be joined with the first."""
    rows = {"kept": SortedRows([{"id": 1}]), "kept, remembered": SortedRows([{"id": 1, "batch_id": 0}])}
    aside = {"kept_quarantine": SortedRows([{"row": 1, "batch_id": 0}])}
    given = {"tables": {**rows, **aside}, "counts": {"kept": FlowCounts(4, rows_upserted=2)}, "counted_twice": ()}
    return Snapshot(**{**given, "batches": {"kept": frozenset({0, 1})}, **more})


def test_a_combined_batch_may_differ_in_its_boundaries_but_not_in_its_rows():
    tables = {"kept": SortedRows([{"id": 1}]), "kept_quarantine": SortedRows([{"row": 1, "batch_id": 1}])}
    counts = {"kept": FlowCounts(4, rows_upserted=3)}
    one = frozenset({0})

    assert differences(joined(tables=tables, counts=counts, batches={"kept": one}), joined()) == []
    assert len(differences(joined(tables=tables, counts=counts), joined())) == 3
    other = {**tables, "kept": SortedRows([{"id": 2}])}
    assert len(differences(joined(tables=other, counts=counts, batches={"kept": one}), joined())) == 1
    less = {"kept": FlowCounts(3, rows_upserted=3)}
    assert len(differences(joined(tables=tables, counts=less, batches={"kept": one}), joined())) == 1


def test_the_page_shows_seeds_failures_and_the_command_to_repeat_them(tmp_path):
    shots = choose_shots(7, 2, SPANS)
    verdicts = [
        Verdict(1, shots[0].describe(), struck=True, code=-9, seconds=3.0, shot=shots[0]),
        Verdict(2, shots[1].describe(), struck=True, code=-9, seconds=4.0, faults=("table t: lost",), shot=shots[1]),
    ]
    said = [verdict.to_json() for verdict in verdicts]
    results = stored(tmp_path / "results.json", entry("kill", "local[2]", 7, said, "2026-01-01T"), {"cores": "2"})
    again = stored(tmp_path / "results.json", entry("term", "local[2]", 8, said[:1], "2026-01-01T"), {"cores": "2"})

    assert set(again["entries"]) == {"kill local[2]", "term local[2]"}
    text = page(results)
    assert "| kill | `local[2]` | 7 | 2 | 2 | 1 |" in text
    assert "FAILED: table t: lost" in text
    assert "--only kill --seed 7 --master local[2]" in text


def test_a_smaller_campaign_does_not_overwrite_the_results_of_a_larger_one(tmp_path):
    verdict = Verdict(1, "who and where", struck=True, code=-9, seconds=3.0).to_json()
    file = tmp_path / "results.json"
    stored(file, entry("kill", "local[2]", 7, [verdict, verdict], "2026-01-01T"), {})

    results = stored(file, entry("kill", "local[2]", 8, [verdict], "2026-01-02T"), {})

    assert results["entries"]["kill local[2]"]["seed"] == 7


def test_a_resumed_campaign_keeps_earlier_verdicts_and_a_new_one_starts_empty(tmp_path):
    file = tmp_path / "kill.jsonl"
    first, second = (Verdict(number, "who and where", struck=True, code=-9, seconds=3.0) for number in (2, 1))
    VerdictStore(file, resume=False).add(first)

    goes_on = VerdictStore(file, resume=True)
    goes_on.add(second)

    assert [verdict["number"] for verdict in VerdictStore(file, resume=True).verdicts] == [1, 2]
    assert VerdictStore(file, resume=False).numbers == frozenset()


def soaked(**of_last):
    """Samples of a flat run, but for what its last quarter has."""
    flat = {field.name: 100 for field in fields(Sample)}
    samples = [Sample(**{**flat, "minute": number, "cpu_s": number, "batches": number}) for number in range(16)]
    return [replace(sample, **of_last) if number >= 11 else sample for number, sample in enumerate(samples)]


@pytest.mark.parametrize(
    ("of_last", "expected"),
    [
        ({}, set()),
        ({"heap_mb": 110, "python_threads": 105}, set()),
        ({"heap_mb": 111}, {"heap_mb"}),
        ({"java_threads": 116, "python_files": 111, "python_mb": 120}, {"java_threads", "python_files", "python_mb"}),
    ],
)
def test_a_long_run_is_flat_if_its_last_quarter_is_close_to_its_second_quarter(of_last, expected) -> None:
    assert set(growing_measures(soaked(**of_last))) == expected


def test_rising_cpu_time_per_batch_is_reported_as_growth() -> None:
    samples = [replace(sample, cpu_s=float(number**2)) for number, sample in enumerate(soaked())]

    assert set(growing_measures(samples)) == {"cpu_s_per_batch"}
    assert "| cpu s per batch |" in soak_page(samples, 1, 2)


def test_the_page_of_a_long_run_shows_its_duration_from_stored_samples(tmp_path) -> None:
    file = tmp_path / "soak.jsonl"
    file.write_text("".join(map(stored_sample, soaked())), encoding="utf-8")

    page = soak_page(read_samples(file), 12.5, 2)

    assert read_samples(file) == soaked()
    assert "A file of 200 rows comes every 12.5 s" in page
    assert "**15 minutes**" in page
    assert "A whole run takes 120." in page
