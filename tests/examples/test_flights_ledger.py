"""The book-keeping of the flights example, and the second opinion that it asks."""

from __future__ import annotations

import sys
from dataclasses import replace
from datetime import UTC, date, datetime
from importlib import import_module
from pathlib import Path

import pytest

from headrace.model.outcome import FlowCounts, FlowOutcome, FlowState, Outcome, UpdateState

sys.path.insert(0, str(Path(__file__).parents[2] / "examples" / "flights"))

changes = import_module("changes")
faults = import_module("faults")
landing = import_module("landing")
ledger = import_module("ledger")
oracle = import_module("oracle")
Fault = faults.Fault

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
FAULTS = {**dict.fromkeys(Fault, 0), Fault.DUPLICATE: 2, Fault.JUNK: 3, Fault.NO_CARRIER: 1}
TOLD = {"planes": changes.Told(5, 1, 1), "airlines": changes.Told(2)}
LANDED = landing.Landed(1, date(2013, 1, 1), date(2013, 1, 1), files=1, records=20, faults=FAULTS, changes=TOLD)


def update(bronze=20, silver=(16, 1, 3), unique=14, merged=5):
    counts = {
        "flights_raw": FlowCounts(bronze),
        "flights": FlowCounts(*silver),
        "unique_flights": FlowCounts(unique),
        "plane_history": FlowCounts(merged),
        "airline_history": FlowCounts(2),
    }
    flows = tuple(FlowOutcome(name, name, FlowState.COMPLETED, counts=count) for name, count in counts.items())
    return Outcome("u", UpdateState.COMPLETED, "test", NOON, NOON, flows)


def test_all_counts_reconcile_when_no_row_is_lost():
    assert all(entry.holds for entry in ledger.entries_of(LANDED, update()))


@pytest.mark.parametrize(
    "lossy",
    [update(bronze=19), update(silver=(15, 1, 3)), update(silver=(16, 1, 2)), update(unique=13), update(merged=4)],
    ids=[
        "a line not in bronze",
        "a row not in silver",
        "a row not in quarantine",
        "a flight not in unique_flights",
        "a change not merged",
    ],
)
def test_a_lost_row_fails_the_reconciliation(lossy):
    assert not all(entry.holds for entry in ledger.entries_of(LANDED, lossy))


def test_tables_are_reconciled_with_all_instalments():
    rows = {"flights_raw": 40, "flights": 32, "flights_quarantine": 6, "unique_flights": 28}
    both = ([LANDED, replace(LANDED, instalment=2)], [update(), update()])
    assert all(entry.holds for entry in ledger.entries_of_tables(*both, rows, waiting=6))
    assert not all(entry.holds for entry in ledger.entries_of_tables(*both, rows, waiting=5))
    assert not all(entry.holds for entry in ledger.entries_of_tables(*both, {**rows, "flights": 31}, waiting=6))


@pytest.mark.parametrize(("silver", "waiting"), [((2, 0, 1), 5), ((1, 0, 2), 6)], ids=["held", "held with less"])
def test_a_repair_is_reconciled_with_the_quarantined_rows(silver, waiting):
    outcome, faulty = update(silver=silver), [replace(LANDED, faults={**FAULTS, Fault.TIME_TRAVEL: 4})]

    assert all(entry.holds for entry in ledger.entries_of_repair(faulty, outcome, waiting, early=3))
    assert not all(entry.holds for entry in ledger.entries_of_repair(faulty, outcome, waiting, early=4))
    assert not all(entry.holds for entry in ledger.entries_of_repair(faulty, outcome, waiting - 1, early=3))


@pytest.fixture(scope="module")
def feed(tmp_path_factory):
    folder = tmp_path_factory.mktemp("feed")
    shares = {fault: 10 * share for fault, share in faults.SHARES.items()}
    day = {"since": date(2013, 7, 4), "until": date(2013, 7, 6), "shares": shares}
    return folder, [landing.land(folder, instalment, **day) for instalment in (1, 2, 3)]


@pytest.fixture(scope="module")
def answers(feed):
    with oracle.Oracle(feed[0]) as answers:
        yield answers


def test_the_oracle_finds_the_faults_in_the_feed(feed, answers):
    _, landed = feed
    fates, unique = answers.fates(), answers.unique_flights()
    nobodys = sum(part.faults[Fault.NO_CARRIER] for part in landed)
    wrong = sum(part.malformed + part.impossible for part in landed)
    assert (fates["dropped"], fates["quarantined"]) == (nobodys, wrong - nobodys)
    assert fates["written"] == unique + sum(part.faults[Fault.DUPLICATE] for part in landed)


def test_the_oracle_ignores_carriers_after_the_landed_days(answers):
    # From November on it was Delta's.
    assert answers._rows("SELECT DISTINCT carrier FROM plane_history WHERE tailnum = 'N977AT'") == (("FL",),)


@pytest.mark.parametrize("table", oracle.COMPARED)
def test_the_oracle_detects_one_missing_row(answers, table):
    rows = answers._duck.table(table).to_arrow_table()
    assert not answers.compare(table, rows)
    assert len(answers.compare(table, rows.slice(1)).missing) == 1
