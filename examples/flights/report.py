"""What the demo shows: the ledger, the tables, the rules and the answers, for a person at a terminal."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from faults import Fault
from landing import Landed
from ledger import HISTORIES, Entry, counts_by_flow
from oracle import GOLD
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from headrace import Project
from headrace.cli.summary import outcome_text
from headrace.model.expectations import Action
from headrace.model.outcome import Outcome
from headrace.plan.backfills import ReplayRequest

TABLES: Mapping[str, Sequence[str]] = {
    "bronze": ("flights_raw", "airlines", "airports", "planes", "weather"),
    "silver": ("flights", "flights_quarantine", "unique_flights", *HISTORIES),
    "gold": GOLD,
}
_HOLDS = Text("✓", "bold green")
_DOES_NOT_HOLD = Text("✗ does not add up", "bold red")
_ACTION_STYLES = {Action.WARN: "yellow", Action.DROP: "magenta", Action.QUARANTINE: "cyan", Action.FAIL: "red"}
_BAR_WIDTH = 24


def opening(console: Console, folder: Path) -> None:
    """What is about to happen."""
    console.rule("[bold]Headrace: every flight that left New York in 2013", align="left")
    console.print(
        "A JSON file lands for every hour of the year, in three instalments. Some records are late, some land twice, "
        "some lines are no JSON, and some flights cannot have happened. Two registries tell what changes with planes "
        "and airlines, late and twice as well. After each instalment one update takes in what is new. The project "
        f"is in [bold]{escape(str(folder))}[/].\n"
    )


def landed(console: Console, instalment: Landed, of: int, seconds: float) -> None:
    """What an instalment brought."""
    first, last = (f"{day.day} {day:%B}" for day in (instalment.first_day, instalment.last_day))
    console.rule(f"[bold]Instalment {instalment.instalment} of {of}: {first} to {last}", align="left")
    console.print(
        f"[bold]{instalment.records:,}[/] lines landed in {instalment.files:,} files in {seconds:.1f} s: "
        f"{instalment.faults[Fault.LATE]:,} late, {instalment.faults[Fault.DUPLICATE]:,} a second time, "
        f"{instalment.malformed:,} malformed, {instalment.impossible:,} impossible; {_changes(instalment)}\n"
    )


def _changes(instalment: Landed) -> str:
    told = instalment.changes.values()
    events, late, repeated = (sum(getattr(one, name) for one in told) for name in ("events", "late", "repeated"))
    return f"with them [bold]{events:,}[/] changes of planes and airlines: {late:,} late, {repeated:,} a second time"


def ledger(console: Console, entries: Iterable[Entry]) -> None:
    """Each amount with its parts, and whether they add up."""
    table = _plain_table()
    for justify in ("left", "right", "left", "left"):
        table.add_column(justify=justify)
    for entry in entries:
        parts = " + ".join(f"{count:,} {escape(name)}" for name, count in entry.parts.items())
        table.add_row(escape(entry.what), f"[bold]{entry.amount:,}[/]", f"= {parts}", _verdict(holds=entry.holds))
    console.print()
    console.print(table)
    console.print()


def failure(console: Console, outcome: Outcome) -> None:
    """Why an update did not complete."""
    console.print(outcome_text(outcome), markup=False, soft_wrap=True)


def tables(console: Console, project: Project) -> dict[str, int]:
    """Every table with its rows, which are also returned."""
    names = [name for layer in TABLES.values() for name in layer]
    counts = " UNION ALL ".join(f"SELECT '{name}' AS name, count(*) AS rows FROM {name}" for name in names)  # noqa: S608
    rows = {str(name): int(count) for name, count in project.sql(counts).rows}
    table = _table("layer", "table", ">rows")
    for layer, members in TABLES.items():
        for name in members:
            table.add_row(layer if name == members[0] else "", name, f"{rows[name]:,}", end_section=name == members[-1])
    console.rule("[bold]The tables", align="left")
    console.print(table)
    return rows


def rules(console: Console, outcomes: Sequence[Outcome]) -> None:
    """What became of the rows that violated an expectation of silver."""
    silver = counts_by_flow(outcomes)["flights"]
    table = _table("rule", "action", ">violations", ">of all")
    for count in sorted(silver.expectations, key=lambda count: list(Action).index(count.action), reverse=True):
        share = count.failed / max(count.passed + count.failed, 1)
        action = Text(count.action.value, _ACTION_STYLES[count.action])
        table.add_row(Text(count.name), action, f"{count.failed:,}", f"{share:.2%}")
    console.rule("[bold]What was dropped or quarantined, and why", align="left")
    console.print(table)
    console.print(
        f"[magenta]{silver.rows_dropped:,} dropped[/], [cyan]{silver.rows_quarantined:,} quarantined[/], "
        f"{silver.rows_written:,} written. A row that breaks several rules counts for each, and meets the strictest.\n"
    )


def repair(console: Console, wanted: ReplayRequest, forgetful: Sequence[str]) -> None:
    """What is done with rows of quarantine, and why tables are computed anew."""
    (rule,), (change,) = wanted.rules, wanted.changes
    console.rule("[bold]The repair", align="left")
    console.print(
        "Flights that arrived half a day before they could: a clock was a day behind. They get their day back and go "
        "through all rules again; each is in the table once, however often this is tried. Tables that remember two "
        "days would take flights of last spring for late, and are computed anew.\n\n"
        f'[bold cyan]headrace quarantine replay {wanted.name} --rule {rule} --set "{escape(change)}"[/]\n'
        f"[bold cyan]headrace run {' '.join(f'--full-refresh {name}' for name in forgetful)}[/]\n"
        "[bold cyan]headrace run[/]\n",
        soft_wrap=True,
    )


def gold(console: Console, project: Project) -> None:
    """The first answers of each gold table."""
    console.rule("[bold]The answers", align="left")
    _query(
        console,
        project,
        "The busiest routes",
        "SELECT place, origin, destination, flights, carriers FROM busiest_routes ORDER BY place, origin, dest LIMIT 5",
    )
    _query(
        console,
        project,
        "Better not: carrier and hour with the longest delays, of those with 500 flights or more",
        "SELECT airline, hour, flights, delayed, avg_dep_delay FROM delay_by_carrier_hour "
        "WHERE flights >= 500 ORDER BY avg_dep_delay DESC, airline, hour LIMIT 5",
    )
    _visibility(console, project)
    _query(
        console,
        project,
        "Away from home: delay of planes at the airport that they left from most in that week, and at another one",
        "SELECT airline, sum(flights) AS flights, sum(if(origin <> plane_home, flights, 0)) AS away, "
        "round(sum(minutes_late) FILTER (WHERE origin = plane_home) "
        "/ sum(flights) FILTER (WHERE origin = plane_home), 1) AS delay_at_home, "
        "round(sum(minutes_late) FILTER (WHERE origin <> plane_home) "
        "/ sum(flights) FILTER (WHERE origin <> plane_home), 1) AS delay_away "
        "FROM delay_away_from_home GROUP BY airline HAVING away >= 500 "
        "ORDER BY delay_away - delay_at_home DESC, airline LIMIT 5",
    )
    _query(
        console,
        project,
        "A plane that changed hands, as change events told it",
        "SELECT tailnum AS plane, model, name AS airline, p.airport, date_format(p.__START_AT, 'd MMM') AS since, "
        "coalesce(date_format(p.__END_AT, 'd MMM'), 'now') AS until "
        "FROM plane_history AS p JOIN airlines USING (carrier) WHERE tailnum = ("
        "SELECT min_by(tailnum, struct(versions, tailnum)) FROM (SELECT tailnum, count(*) AS versions "
        "FROM plane_history GROUP BY tailnum HAVING count(DISTINCT carrier) > 1)) ORDER BY p.__START_AT LIMIT 6",
    )
    _query(
        console,
        project,
        "The last hours that are closed",
        "SELECT date_format(hour_start, 'd MMM HH:mm') AS hour, origin, scheduled, departed FROM departures_by_hour "
        "ORDER BY hour_start DESC, origin LIMIT 3",
    )


def verdict(
    console: Console,
    totals: Iterable[Entry],
    instalments: Iterable[Landed],
    compared: Mapping[str, tuple[int, int]],
    *,
    held: bool,
) -> bool:
    """The last word: whether the tables add up, and whether DuckDB has the same rows, which is returned.

    Args:
        console: where to.
        totals: the entries between the tables.
        instalments: everything that landed.
        compared: for each table its rows, and how many of them DuckDB has otherwise.
        held: whether every entry of the demo held.
    """
    console.rule("[bold]Does it add up?", align="left")
    ledger(console, totals)
    if held:
        late = sum(instalment.faults[Fault.LATE] for instalment in instalments)
        console.print(f"[bold]{late:,}[/] records came late, up to a day, and none of them is missing.\n")
    table = _plain_table()
    for name, (rows, different) in compared.items():
        said = f"{different:,} differ in DuckDB" if different else "the same in DuckDB, from the same files"
        table.add_row(name, f"[bold]{rows:,}[/] rows", said, _verdict(holds=not different))
    console.print(table)
    return not any(different for _, different in compared.values())


def what_next(console: Console, folder: Path) -> None:
    """Commands that work now."""
    console.print()
    console.rule("[bold]What to try next", align="left")
    activate = Path(sys.prefix, "bin", "activate")
    table = _plain_table()
    table.add_column(no_wrap=True)
    for command, effect in (
        (f". {_from_here(activate)}", ""),
        (f"cd {_from_here(folder)}", ""),
        ("headrace status", "the last update, from the event log"),
        ("headrace graph", "what reads what"),
        ("headrace quarantine show flights", "quarantined rows, and why"),
        ('headrace sql "SELECT * FROM airline_history ORDER BY ALL"', "what changed, and when"),
        ("headrace explain flights", "all there is to know about a table"),
        ('headrace sql "SELECT * FROM busiest_routes LIMIT 5"', "any question, in SQL"),
        ("headrace run", "nothing is new, so next to nothing is done"),
    ):
        table.add_row(Text(command, "bold cyan"), Text(effect))
    console.print(table)
    console.print()


def _visibility(console: Console, project: Project) -> None:
    rows = project.sql(
        "SELECT visibility_miles, flights, cancelled, avg_dep_delay FROM delay_by_visibility "
        "WHERE visibility_miles IS NOT NULL AND avg_dep_delay IS NOT NULL ORDER BY visibility_miles"
    ).rows
    table = _table(
        ">miles one can see", ">flights", ">cancelled", ">delay", "", title="Fog: minutes of delay on average"
    )
    longest = max((delay for *_, delay in rows), default=0.0) or 1.0
    for miles, flights, cancelled, delay in rows:
        bar = Text("█" * round(_BAR_WIDTH * delay / longest), "cyan")
        table.add_row(str(miles), f"{flights:,}", f"{cancelled / flights:.1%}", f"{delay:.1f}", bar)
    console.print(table)


def _query(console: Console, project: Project, title: str, query: str) -> None:
    result = project.sql(query)
    if not result.rows:
        return
    texts = [any(isinstance(value, str) for value in values) for values in zip(*result.rows, strict=True)]
    names = [column if text else f">{column}" for column, text in zip(result.columns, texts, strict=True)]
    table = _table(*names, title=title)
    for row in result.rows:
        table.add_row(*map(_cell, row))
    console.print(table)


def _table(*columns: str, title: str | None = None) -> Table:
    table = Table(box=SIMPLE_HEAD, title=title, title_justify="left", title_style="italic", header_style="dim")
    for column in columns:
        table.add_column(column.removeprefix(">"), justify="right" if column.startswith(">") else "left")
    return table


def _plain_table() -> Table:
    return Table(box=None, show_header=False, pad_edge=False, padding=(0, 1))


def _from_here(path: Path) -> Path:
    return path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path


def _cell(value: Any) -> Text:
    return Text(f"{value:,}" if isinstance(value, (int, float)) else str(value))


def _verdict(*, holds: bool) -> Text:
    return _HOLDS if holds else _DOES_NOT_HOLD
