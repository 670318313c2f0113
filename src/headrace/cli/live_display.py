"""Shows an update while it runs: as a live table on a terminal, as plain lines elsewhere."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Protocol

from rich.console import Console
from rich.live import Live
from rich.table import Table
from rich.text import Text

from headrace.cli.invocation import Invocation, Verbosity, error_console
from headrace.cli.printable import printable
from headrace.events.outcome import OutcomeBuilder
from headrace.events.types import (
    BatchDone,
    Event,
    FlowStateChanged,
    StreamProgress,
    UpdateCreated,
    UpdateStateChanged,
    Warned,
)
from headrace.model.outcome import FlowOutcome, FlowState

REDRAWS_PER_S = 5
_STYLES = {
    FlowState.RUNNING: "cyan",
    FlowState.STARTING: "cyan",
    FlowState.IDLE: "dim",
    FlowState.RETRYING: "yellow",
    FlowState.COMPLETED: "green",
    FlowState.FAILED: "bold red",
    FlowState.SKIPPED: "yellow",
    FlowState.CANCELED: "yellow",
}
_NUMBERS = ("rows", "rows/s", "dropped", "quarantined", "seconds", "lag", "age")
# A rate is shown for so long after the last batch.
_CURRENT_S = 20
# Between two columns.
_GAP = 2
_SHORTEST_NAME = 8
# Seconds of a unit, largest first.
_AGES = ((86_400, "d"), (3600, "h"), (60, "min"), (1, "s"))
_ACTIVE = (FlowState.STARTING, FlowState.RUNNING, FlowState.IDLE)


class Display(Protocol):
    """Shows events as they occur, from any thread."""

    def on_event(self, event: Event) -> None:
        """Receive an event; returns at once."""

    def shown(self) -> AbstractContextManager[object]:
        """Show events while the block runs; the last output stays."""


def display_for(invocation: Invocation, clock: Callable[[], float]) -> Display:
    """The display that suits the output; *clock* counts seconds."""
    console = invocation.console
    if invocation.verbosity is Verbosity.QUIET:
        return Silence()
    if console.is_terminal and not invocation.as_json:
        return LiveTable(console, clock)
    if invocation.as_json or invocation.verbosity is Verbosity.VERBOSE:
        return Lines(invocation.say, verbose=invocation.verbosity is Verbosity.VERBOSE)
    return Warnings(error_console())


class Silence:
    """Shows nothing."""

    def on_event(self, event: Event) -> None:
        """Nothing."""

    def shown(self) -> AbstractContextManager[object]:
        """Nothing."""
        return nullcontext()


@dataclass(frozen=True)
class Warnings:
    """Prints only warnings: in a file, the result shows the rest."""

    console: Console

    def on_event(self, event: Event) -> None:
        """Print a warning."""
        if isinstance(event, Warned):
            self.console.print(f"warning: {printable(event.message)}", markup=False)

    def shown(self) -> AbstractContextManager[object]:
        """Warnings need no live display."""
        return nullcontext()


@dataclass
class Lines:
    """Prints one line per state change of the update or a flow; with *verbose* also one per batch."""

    say: Callable[[str], None]
    verbose: bool = False
    _builder: OutcomeBuilder = field(default_factory=lambda: OutcomeBuilder(""))
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def on_event(self, event: Event) -> None:
        """Print the event if it is a state change."""
        with self._lock:
            self._builder.apply(event, datetime.now(UTC))
            line = self._line(event)
        if line:
            self.say(printable(line))

    def shown(self) -> AbstractContextManager[object]:
        """Lines need no live display."""
        return nullcontext()

    def _line(self, event: Event) -> str | None:
        match event:
            case FlowStateChanged(flow=flow, state=FlowState.COMPLETED):
                return f"{flow}  completed  {_tally(self._builder.flow(flow))}"
            case FlowStateChanged(flow=flow, state=state):
                why = event.reason or (event.error or {}).get("message") or ""
                return f"{flow}  {state.value.lower().replace('_', ' ')}  {why}".rstrip()
            case UpdateStateChanged():
                return event.message
            case Warned():
                return f"warning: {event.message}"
            case _:
                return event.message if self.verbose else None


class LiveTable:
    """One row per flow with state, rows, rows per second, dropped and quarantined rows; redrawn in place.

    The last column is the seconds that it took; in a continuous update its lag, and the age of its last batch.
    """

    def __init__(self, console: Console, clock: Callable[[], float]) -> None:
        self._console = console
        self._clock = clock
        self._builder = OutcomeBuilder("")
        self._began: dict[str, float] = {}
        self._ended: dict[str, float] = {}
        self._last_batch: dict[str, float] = {}
        self._rates: dict[str, float | None] = {}
        self._is_continuous = False
        self._lock = threading.Lock()

    def on_event(self, event: Event) -> None:
        """Receive an event; the next redraw shows it. Warnings are printed above the table."""
        with self._lock:
            self._builder.apply(event, datetime.now(UTC))
            if isinstance(event, (FlowStateChanged, BatchDone)):
                self._keep_time(event.flow)
            match event:
                case UpdateCreated(settings=settings):
                    self._is_continuous = bool(settings.get("continuous"))
                case BatchDone(flow=flow):
                    self._last_batch[flow] = self._clock()
                case StreamProgress(flow=flow, progress=progress):
                    self._rates[flow] = progress.processed_rows_per_second
                case _:
                    pass
        if isinstance(event, Warned):
            self._console.print(Text(f"warning: {printable(event.message)}", "yellow"))

    def shown(self) -> AbstractContextManager[object]:
        """Redraw until the block ends; then remove the table, because the result has the same rows."""
        return Live(
            get_renderable=self.table,
            console=self._console,
            refresh_per_second=REDRAWS_PER_S,
            vertical_overflow="visible",
            transient=True,
        )

    def table(self) -> Table:
        """The current table. Columns of dropped and quarantined rows are there once a flow has such rows."""
        with self._lock:
            outcome = self._builder.outcome()
            flows = outcome.flows if outcome else ()
            rows = [self._row(flow) for flow in flows]
        names = [name for name in _NUMBERS if any(name in row for row in rows)]
        widths = {name: max(len(name), *(len(row.get(name, "")) for row in rows)) for name in ("state", *names) if rows}
        table = Table(box=None, pad_edge=False, header_style="dim")
        # Only names of flows are shortened on a narrow terminal.
        free = self._console.width - sum(width + _GAP for width in widths.values())
        table.add_column("flow", overflow="ellipsis", no_wrap=True, max_width=max(free, _SHORTEST_NAME))
        table.add_column("state", no_wrap=True)
        for name in names:
            table.add_column(name, justify="right", no_wrap=True)
        for flow, row in zip(flows, rows, strict=True):
            state = Text(row["state"], _STYLES.get(flow.state, ""))
            table.add_row(Text(printable(flow.flow)), state, *(Text(row.get(name, "")) for name in names))
        return table

    def _row(self, flow: FlowOutcome) -> dict[str, str]:
        """The cells of a flow by their columns, without columns that do not apply to it."""
        counts, seconds = flow.counts, self._seconds(flow.flow)
        rate = self._rate(flow.flow) if self._is_continuous else counts.rows_written / (seconds or 1)
        row = {
            "state": flow.state.value,
            "rows": f"{counts.rows_written:,}",
            "rows/s": f"{rate:,.0f}" if rate and seconds else "",
        }
        row |= {"dropped": f"{counts.rows_dropped:,}"} if counts.rows_dropped else {}
        row |= {"quarantined": f"{counts.rows_quarantined:,}"} if counts.rows_quarantined else {}
        if self._is_continuous:
            return {**row, "lag": _lag(flow), "age": self._age(flow.flow)}
        return {**row, "seconds": f"{seconds:.1f}" if seconds is not None else ""}

    def _rate(self, flow: str) -> float | None:
        """The rate of a stream in its latest report; None if that is old."""
        is_current = self._clock() - self._last_batch.get(flow, float("-inf")) <= _CURRENT_S
        return self._rates.get(flow) if is_current else None

    def _age(self, flow: str) -> str:
        """How long ago its last batch was; empty before it."""
        if flow not in self._last_batch:
            return ""
        seconds = self._clock() - self._last_batch[flow]
        size, unit = next(((size, unit) for size, unit in _AGES if seconds >= size), _AGES[-1])
        return f"{seconds / size:.0f} {unit}"

    def _seconds(self, flow: str) -> float | None:
        if flow not in self._began:
            return None
        return self._ended.get(flow, self._clock()) - self._began[flow]

    def _keep_time(self, flow: str) -> None:
        if self._builder.flow(flow).state in _ACTIVE:
            self._began.setdefault(flow, self._clock())
            self._ended.pop(flow, None)
        elif flow in self._began:
            self._ended.setdefault(flow, self._clock())


def _lag(flow: FlowOutcome) -> str:
    """What a stream has not read, in the unit of its source; empty if it has read all, or its lag is unknown."""
    records = sum(partition.behind for partition in flow.lag)
    files = sum(source.files for source in flow.backlog)
    commits = sum(table.commits for table in flow.table_lag)
    found = ((records, "record"), (files, "file"), (commits, "commit"))
    return ", ".join(f"{number:,} {unit}{'' if number == 1 else 's'}" for number, unit in found if number)


def _tally(flow: FlowOutcome) -> str:
    counts = flow.counts
    parts = [f"{counts.rows_written} rows written"]
    parts += [f"{counts.rows_dropped} dropped"] if counts.rows_dropped else []
    parts += [f"{counts.rows_quarantined} quarantined"] if counts.rows_quarantined else []
    parts += [f"{counts.rows_rescued} with rescued data"] if counts.rows_rescued else []
    return f"{', '.join(parts)}, {flow.duration_s:.1f} s"
