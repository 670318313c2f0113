"""What `make demo` runs: a year of flights lands in three instalments, an update follows each, and some are mended.

    python examples/flights/demo.py [--until 2013-03-31]

The project is copied to .demo/flights, new each time, and stays there to be looked at. Everything that is counted is
counted twice, and the exit code is 1 when the two do not agree.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import time
from collections.abc import Sequence
from datetime import date
from pathlib import Path

import report
from landing import DEFAULT_SEED, NEW_YEARS_EVE, Landed, land
from ledger import Entry, entries_of, entries_of_repair, entries_of_tables
from oracle import COMPARED, Oracle
from rich.console import Console
from stored import rows_of

from headrace import Project
from headrace.cli.failures import show
from headrace.cli.live_display import Display, Lines, LiveTable
from headrace.errors import PipelineError, Problems, problems_of
from headrace.model.outcome import Outcome, UpdateState
from headrace.plan.backfills import ReplayRequest

EXAMPLE = Path(__file__).resolve().parent
SCRATCH = EXAMPLE.parents[1] / ".demo" / "flights"
INSTALMENTS = 3
REPAIR = ReplayRequest(
    "flights",
    rules=("no_time_travel",),
    # Whose clock was a day behind is known by now; what else breaks the rule stays as it is.
    changes=("arr_delay=if(arr_delay - dep_delay <= -12 * 60, arr_delay + 24 * 60, arr_delay)",),
)
"""The rows of quarantine that arrived half a day before they could, and what to do with them."""
FORGETFUL = ("unique_flights", "departures_by_hour")
"""Tables of what Spark remembers for two days: rows that come back after months are late there."""


def main() -> int:
    """Play the demo; 0 when every update completed and every count adds up."""
    options = _options()
    console = Console(highlight=False)
    report.opening(console, options.folder)
    try:
        held = play(options.folder, options.until, options.seed, console)
    except (PipelineError, Problems) as error:
        for problem in problems_of(error):
            show(problem)
        return 1
    return 0 if held else 1


def play(folder: Path, until: date, seed: int, console: Console) -> bool:
    """Land and update, instalment by instalment, then show what came of it; true when everything adds up."""
    _fresh_copy(folder)
    project = Project.open(folder)
    landed: list[Landed] = []
    outcomes: list[Outcome] = []
    entries: list[Entry] = []
    for instalment in range(1, INSTALMENTS + 1):
        began = time.monotonic()
        landed.append(land(folder / "landing", instalment, INSTALMENTS, seed, until=until))
        report.landed(console, landed[-1], INSTALMENTS, time.monotonic() - began)
        outcomes.append(_update(project, console))
        if outcomes[-1].state is not UpdateState.COMPLETED:
            report.failure(console, outcomes[-1])
            return False
        entries += entries_of(landed[-1], outcomes[-1])
        report.ledger(console, entries_of(landed[-1], outcomes[-1]))
    report.rules(console, outcomes)
    report.repair(console, REPAIR, FORGETFUL)
    for update in (_replay, lambda *both: _update(*both, FORGETFUL), _update):
        outcomes.append(update(project, console))
        if outcomes[-1].state is not UpdateState.COMPLETED:
            report.failure(console, outcomes[-1])
            return False
    repair = entries_of_repair(landed, outcomes[INSTALMENTS], waiting(folder), replayed(folder))
    entries += repair
    report.ledger(console, repair)
    rows = report.tables(console, project)
    report.gold(console, project)
    totals = entries_of_tables(landed, outcomes[:INSTALMENTS], rows, waiting(folder))
    held = all(entry.holds for entry in [*entries, *totals])
    agreed = report.verdict(console, totals, landed, disagreements(folder), held=held)
    report.what_next(console, folder)
    return held and agreed


def disagreements(folder: Path) -> dict[str, tuple[int, int]]:
    """For each table that is compared its rows, and how many are not what DuckDB makes of the same files."""
    found = {}
    with Oracle(folder / "landing", repaired=True) as oracle:
        for table in COMPARED:
            actual = rows_of(folder, table)
            difference = oracle.compare(table, actual)
            found[table] = (actual.num_rows, len(difference.missing) + len(difference.unexpected))
    return found


def waiting(folder: Path) -> int:
    """How many rows are in the quarantine of flights and have not been replayed."""
    return _statuses(folder).count("open")


def replayed(folder: Path) -> int:
    """How many rows of the quarantine of flights were replayed."""
    return _statuses(folder).count("replayed")


def _statuses(folder: Path) -> list[str]:
    found: list[str] = rows_of(folder, "flights_quarantine").column("status").to_pylist()
    return found


def _update(project: Project, console: Console, full_refresh: Sequence[str] = ()) -> Outcome:
    display = _display(console)
    with display.shown():
        return project.run(full_refresh=full_refresh, on_event=display.on_event)


def _replay(project: Project, console: Console) -> Outcome:
    display = _display(console)
    with display.shown():
        return project.replay(REPAIR, on_event=display.on_event)


def _display(console: Console) -> Display:
    def say(line: str) -> None:
        console.print(line, markup=False, soft_wrap=True)

    return LiveTable(console, time.monotonic) if console.is_terminal else Lines(say)


def _fresh_copy(folder: Path) -> None:
    if folder.exists():
        shutil.rmtree(folder)
    folder.mkdir(parents=True)
    shutil.copy2(EXAMPLE / "pipeline.yml", folder)
    shutil.copytree(
        EXAMPLE / "transformations", folder / "transformations", ignore=shutil.ignore_patterns("__pycache__")
    )


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Play the demo of Headrace on a year of real flights.")
    parser.add_argument("--folder", type=Path, default=SCRATCH, help="where to play; replaced (default: %(default)s)")
    parser.add_argument("--until", type=date.fromisoformat, default=NEW_YEARS_EVE, metavar="YYYY-MM-DD")
    parser.add_argument("--seed", type=int, default=DEFAULT_SEED, help="of what goes wrong in the feed")
    options = parser.parse_args()
    folder: Path = options.folder
    if folder.exists() and any(folder.iterdir()) and not (folder / "pipeline.yml").exists():
        parser.error(f"{folder} is not a copy of this project; it would be replaced")
    return options


if __name__ == "__main__":
    sys.exit(main())
