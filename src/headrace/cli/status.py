"""The verbs that read only the event log: status and events. They start no JVM."""

from __future__ import annotations

import json
import os
import sys
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Any

import typer

from headrace.catalogs.record import read_publications
from headrace.cli.failures import DONE, FAILED
from headrace.cli.invocation import Invocation, invocation_of
from headrace.cli.printable import json_text, printable
from headrace.cli.summary import log_of, outcome_text
from headrace.cli.terminal import folded
from headrace.events.levels import Level
from headrace.events.reader import EventReader
from headrace.events.types import TERMINAL_UPDATE_STATES, UpdateCreated, UpdateStateChanged
from headrace.model.outcome import UpdateState
from headrace.plan.inactive import INACTIVE
from headrace.project.lease_holders import host_name, latest_outcome

POLL_S = 0.5
_ENDS = frozenset(state.value for state in TERMINAL_UPDATE_STATES)

Row = Mapping[str, Any]


@dataclass(frozen=True)
class EventSelection:
    """Which events are shown: those of the levels (if there are any), of the flow and of the type."""

    levels: frozenset[Level] = frozenset()
    flow: str | None = None
    event_type: str | None = None

    def selects(self, row: Row) -> bool:
        """Whether a row of the event log is shown."""
        return (
            (not self.levels or Level(row["level"]) in self.levels)
            and self.flow in (None, row["origin"]["flow_name"])
            and self.event_type in (None, row["event_type"])
        )


_ALL_EVENTS = EventSelection()


def status(context: typer.Context) -> None:
    """Show the last update, its flows and quarantined rows.

    Also shows inactive tables, and where tables are published. Exits with 1 if the update failed or was lost.
    """
    invocation = invocation_of(context)
    layout = invocation.location.settings().layout
    reader, lease = EventReader(layout.events), layout.lease
    outcome = latest_outcome(reader.outcome, lease, host_name(os.environ), time.time)
    if outcome is None:
        invocation.result("no update yet", None)
        return
    text = outcome_text(outcome, log=log_of(outcome, invocation.location.logs()), width=invocation.width)
    inactive = [warning.message for warning in reader.warnings(outcome.update_id) if warning.code in INACTIVE]
    record = read_publications(layout)
    lines = [text, *(f"inactive: {printable(message)}" for message in inactive), *map(printable, record.describe())]
    published = {"published": record.to_json()} if record.publications else {}
    invocation.result("\n".join(lines), {**outcome.to_json(), "inactive": inactive, **published})
    raise typer.Exit(FAILED if outcome.state in (UpdateState.FAILED, UpdateState.LOST) else DONE)


def events(
    context: typer.Context,
    follow: Annotated[bool, typer.Option("--follow", help="Show new events until the update ends.")] = False,  # noqa: FBT002 - an option of the command line
    limit: Annotated[int | None, typer.Option("--limit", min=0, help="The number of newest events to show.")] = None,
    levels: Annotated[
        list[Level] | None, typer.Option("--level", help="Only events of this level. Can be repeated.")
    ] = None,
    flow: Annotated[str | None, typer.Option("--flow", metavar="FLOW", help="Only events of this flow.")] = None,
    kind: Annotated[str | None, typer.Option("--type", metavar="TYPE", help="Only events of this type.")] = None,
) -> None:
    """Show the event log, oldest first. With --follow, prints one JSON object per line."""
    invocation = invocation_of(context)
    reader = EventReader(invocation.location.settings().layout.events)
    selection = EventSelection(frozenset(levels or ()), flow, kind)
    rows: Iterable[Row]
    if follow:
        rows = followed(reader, time.sleep, limit=limit, selection=selection)
    elif selection == _ALL_EVENTS:
        rows = reader.events(newest=limit)
    else:
        rows = _newest(filter(selection.selects, reader.events()), limit)
    if invocation.as_json and not follow:
        # One document with one event per line.
        sys.stdout.write(f"[{','.join(f'{chr(10)}{json_line(row)}' for row in rows)}\n]\n")
        return
    width = invocation.width
    for row in rows:
        sys.stdout.write((json_line(row) if follow else folded(_text_line(row), width)) + "\n")
        if follow:
            sys.stdout.flush()
    _say_when_empty(invocation, reader, follow=follow)


def followed(
    reader: EventReader,
    sleep: Callable[[float], None],
    *,
    limit: int | None = None,
    selection: EventSelection = _ALL_EVENTS,
) -> Iterator[Row]:
    """Yield the events of the latest update as they are stored, from the first (or the newest *limit*) to its end.

    Only those of the selection. Waits for the first update if none has started yet. After a killed update, continues
    with the next one.
    """
    while (update_id := reader.latest_update_id()) is None:
        sleep(POLL_S)
    rows = list(reader.events(update_id=update_id))
    running = _running_after(rows, running=True)
    yield from _newest(filter(selection.selects, rows), limit)
    last = rows[-1]["sequence"] if rows else None
    while running:
        sleep(POLL_S)
        for row in reader.events(after=last):
            if selection.selects(row):
                yield row
            last = row["sequence"]
            running = _running_after([row], running=running)


def json_line(row: Row) -> str:
    """A row as one JSON object: with parsed details, times in ISO 8601, and only the set fields of the origin."""
    origin = {name: value for name, value in row["origin"].items() if value is not None}
    shaped = {**row, "origin": origin, "details": json.loads(row["details"]), "timestamp": row["timestamp"].isoformat()}
    return json_text(shaped)


def _text_line(row: Row) -> str:
    moment = row["timestamp"].strftime("%Y-%m-%d %H:%M:%S.%f")[:-3]
    return f"{moment}  {row['level']:<7}  {printable(row['message'])}"


def _newest(rows: Iterable[Row], limit: int | None) -> Iterable[Row]:
    return rows if limit is None else deque(rows, maxlen=limit)


def _running_after(rows: Iterable[Row], *, running: bool) -> bool:
    for row in rows:
        if row["event_type"] == UpdateCreated.event_type:
            running = True
        elif row["event_type"] == UpdateStateChanged.event_type:
            running = json.loads(row["details"])[UpdateStateChanged.event_type]["state"] not in _ENDS
    return running


def _say_when_empty(invocation: Invocation, reader: EventReader, *, follow: bool) -> None:
    if not follow and not invocation.as_json and not reader.exists:
        invocation.say("no update yet")
