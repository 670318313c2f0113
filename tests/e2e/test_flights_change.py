"""A change of the flights example through the command line: planned, approved, applied, rolled back, and run on."""

from __future__ import annotations

import json
import shutil
import sys
from datetime import date
from importlib import import_module
from pathlib import Path

import pytest
from tests.command_line import in_process

EXAMPLE = Path(__file__).parents[2] / "examples" / "flights"
sys.path.insert(0, str(EXAMPLE))

landing = import_module("landing")
oracle = import_module("oracle")
stored = import_module("stored")

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.timeout(1200),
    pytest.mark.long(
        guard=(
            "tests/spark/test_plan_files.py::test_a_change_is_planned_approved_and_applied",
            "tests/spark/test_savepoints.py::test_an_interrupted_restore_is_finished_by_the_next_update",
        )
    ),
]
SINCE, UNTIL = date(2013, 3, 12), date(2013, 3, 13)
READ = 'dlt.read_stream("flights_raw")\n'
ADDED = """        .where("origin <> 'LGA'")\n"""
POLICY = "\napproval:\n  mode: await\n  required: [destructive, rebuild]\n"
NEEDED, DRIFTED = 4, 5


@pytest.fixture
def flights(headrace_session, tmp_path):
    """The example with the flights of one day, after an update; changes of it need an approval."""
    folder = tmp_path / "flights"
    shutil.copytree(EXAMPLE / "transformations", folder / "transformations")
    settings = (EXAMPLE / "pipeline.yml").read_text(encoding="utf-8")
    (folder / "pipeline.yml").write_text(settings + POLICY, encoding="utf-8")
    land(folder, 1)
    run(folder, "run")
    return folder


def land(folder, instalment):
    landing.land(folder / "landing", instalment, of=2, since=SINCE, until=UNTIL)


def run(folder, *words, code=0):
    """What a command prints, which has to end with a code."""
    done = in_process(folder, *words)
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout + done.stderr


def tables(folder):
    """The rows of all tables and quarantines, each in the same order whatever the files are."""
    found = (folder / "storage" / "tables" / "default").iterdir()
    return {path.name: sorted(map(repr, stored.rows_of(folder, path.name).to_pylist())) for path in found}


def edit(file, old, new):
    text = file.read_text(encoding="utf-8")
    assert text.count(old) == 1
    file.write_text(text.replace(old, new), encoding="utf-8")


def test_a_change_is_planned_approved_applied_and_rolled_back(flights):
    before, plan = tables(flights), str(flights / "change.plan.json")
    silver, gold = flights / "transformations" / "silver.py", flights / "transformations" / "gold.sql"
    edit(silver, READ, READ + ADDED)

    shown = run(flights, "plan", "--diff", "--full-refresh", "flights+", "--out", plan)
    changes = json.loads(Path(plan).read_text(encoding="utf-8"))["changes"]

    assert f"+{ADDED}" in shown
    assert ("rebuild", "flights") in [(one["class"], one["dataset"]) for one in changes]
    assert {"unique_flights", "delay_by_carrier_hour"} <= set(changes[0]["downstream"])
    assert changes[0]["rows_cleared"] == len(before["flights"]) + len(before["flights_quarantine"])

    # Without an approval, neither way writes anything; with it, other code than the approved one does not either.
    assert "PLAN.NEEDS_APPROVAL" in run(flights, "run", "--full-refresh", "flights+", code=NEEDED)
    assert "PLAN.NOT_APPROVED" in run(flights, "apply", plan, code=NEEDED)
    assert "approved by bob" in run(flights, "approve", plan, "--as", "bob")
    edit(gold, "-- Gold: answers.", "-- Gold.")
    assert "The code changed: transformations/gold.sql" in run(flights, "apply", plan, code=DRIFTED)
    edit(gold, "-- Gold.", "-- Gold: answers.")
    assert tables(flights) == before

    run(flights, "apply", plan)
    applied = tables(flights)
    assert {row["origin"] for row in stored.rows_of(flights, "flights").to_pylist()} == {"EWR", "JFK"}
    assert 0 < len(applied["unique_flights"]) < len(before["unique_flights"])
    assert applied["flights_raw"] == before["flights_raw"]

    # What is applied cannot be applied again: the epochs of its flows are others.
    assert "PLAN.DRIFTED" in run(flights, "apply", plan, code=DRIFTED)
    then = flights.parent / "then"
    assert "restored" in run(flights, "rollback", "--with-code", str(then))
    assert tables(flights) == before
    # The code of then is that of the last update before the plan.
    assert READ + ADDED not in (then / "transformations" / "silver.py").read_text(encoding="utf-8")

    shutil.copy(then / "transformations" / "silver.py", silver)
    land(flights, 2)
    run(flights, "run")
    with oracle.Oracle(flights / "landing") as answers:
        found = {name: answers.compare(name, stored.rows_of(flights, name)) for name in oracle.COMPARED}
    assert not any(found.values()), found
