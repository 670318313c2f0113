"""Shows an update while it runs: as a live table on a terminal, as plain lines elsewhere."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Protocol

from rich.cells import cell_len
from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from headrace.cli.invocation import Invocation, Verbosity, error_console, print_folded
from headrace.cli.printable import printable
from headrace.cli.terminal import shortened
from headrace.events.outcome import OutcomeBuilder
from headrace.events.types import (
    BatchDone,
    BatchRunning,
    Event,
    FlowStateChanged,
    StreamProgress,
    UpdateCreated,
    UpdateStateChanged,
    Warned,
)
from headrace.model.outcome import NOT_SELECTED, FlowOutcome, FlowState, unselected_text

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
_NUMBERS = ("rows", "rows/s", "dropped", "quarantined", "seconds", "lag", "last batch")
# Shown below the table if names would be shorter than this.
_OPTIONAL = ("dropped", "quarantined")
_READABLE_NAME = 24
_SHORTEST_NAME = 8
# A rate is shown for so long after the last batch, and tasks after their last report.
_CURRENT_S = 20
# Between two columns.
_GAP = 2
# The header, and the line with the cursor.
_OTHER_LINES = 2
# On a small screen, the flows that are shown first.
_ATTENTION = {
    state: number
    for number, state in enumerate(
        (FlowState.FAILED, FlowState.RETRYING, FlowState.RUNNING, FlowState.STARTING, FlowState.IDLE)
    )
}
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
            print_folded(self.console, f"warning: {printable(event.message)}")

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
            case FlowStateChanged(state=FlowState.EXCLUDED, reason=reason) if reason in (None, NOT_SELECTED):
                # The result counts them.
                return None
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

    The last column is the seconds that it took; in a continuous update its lag, its last batch and the age of that.
    Below the rows: long batches with their tasks, and how many flows were not selected.
    """

    def __init__(self, console: Console, clock: Callable[[], float]) -> None:
        self._console = console
        self._clock = clock
        self._builder = OutcomeBuilder("")
        self._began: dict[str, float] = {}
        self._ended: dict[str, float] = {}
        self._last_batch: dict[str, tuple[int, float]] = {}
        self._rates: dict[str, float | None] = {}
        # When the tasks of a batch were last reported.
        self._reported: dict[str, float] = {}
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
                case BatchDone(flow=flow, batch_id=batch_id):
                    self._last_batch[flow] = batch_id, self._clock()
                case BatchRunning(flow=flow):
                    self._reported[flow] = self._clock()
                case StreamProgress(flow=flow, progress=progress):
                    self._rates[flow] = progress.processed_rows_per_second
                case _:
                    pass
        if isinstance(event, Warned):
            print_folded(self._console, f"warning: {printable(event.message)}", "yellow")

    def shown(self) -> AbstractContextManager[object]:
        """Redraw until the block ends; then remove the table, because the result has the same rows."""
        return Live(
            get_renderable=self.table,
            console=self._console,
            refresh_per_second=REDRAWS_PER_S,
            vertical_overflow="visible",
            transient=True,
        )

    def table(self) -> Group:
        """The current table. Columns of dropped and quarantined rows are there once a flow has such rows."""
        with self._lock:
            outcome = self._builder.outcome()
            flows = [flow for flow in (outcome.flows if outcome else ()) if not flow.is_unselected]
            unselected = len(outcome.flows) - len(flows) if outcome else 0
            rows = {flow.flow: self._row(flow) for flow in flows}
            notes = [note for flow in flows if (note := self._batch_note(flow))]
        columns = self._columns(list(rows.values()), [printable(flow.flow) for flow in flows])
        for flow in flows:
            counts = [f"{rows[flow.flow][name]} {name}" for name in _OPTIONAL if name in rows[flow.flow]]
            if counts and not any(name in columns for name in _OPTIONAL):
                notes.append(self._note(flow, ", ".join(counts)))
        notes += [Text(unselected_text(unselected), "dim")] if unselected else []
        visible = _visible(flows, self._console.height - len(notes) - _OTHER_LINES)
        if len(visible) < len(flows):
            notes.append(_hidden_note([flow for flow in flows if flow not in visible]))
        return Group(self._grid(visible, rows, columns), *notes)

    def _columns(self, rows: Sequence[Mapping[str, str]], names: Sequence[str]) -> dict[str, int]:
        """The columns and their widths; those of dropped and quarantined rows only if names remain readable."""
        found = [name for name in _NUMBERS if any(name in row for row in rows)]
        for columns in (found, [name for name in found if name not in _OPTIONAL]):
            widths = {
                name: max(len(name), *(len(row.get(name, "")) for row in rows), 0) for name in ("state", *columns)
            }
            free = self._console.width - sum(width + _GAP for width in widths.values())
            if free >= min(max(map(cell_len, names), default=0), _READABLE_NAME):
                break
        return {"flow": max(free, _SHORTEST_NAME), **widths}

    def _grid(
        self, flows: Sequence[FlowOutcome], rows: Mapping[str, Mapping[str, str]], columns: Mapping[str, int]
    ) -> Table:
        table = Table(box=None, pad_edge=False, header_style="dim")
        for name in columns:
            table.add_column(name, justify="right" if name in _NUMBERS else "left", no_wrap=True)
        for flow in flows:
            row = rows[flow.flow]
            name = shortened(printable(flow.flow), columns["flow"])
            cells = [Text(row.get(column, "")) for column in columns if column in _NUMBERS]
            table.add_row(Text(name), Text(row["state"], _STYLES.get(flow.state, "")), *cells)
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
            row |= {} if flow.flow in self._last_batch else {"rows": ""}
            return {**row, "lag": _lag(flow), "last batch": self._age(flow.flow)}
        return {**row, "seconds": f"{seconds:.1f}" if seconds is not None else ""}

    def _batch_note(self, flow: FlowOutcome) -> Text | None:
        """The progress of a long batch; None without one, or if it is no longer reported."""
        since_s = self._clock() - self._reported.get(flow.flow, float("-inf"))
        if flow.batch is None or since_s > _CURRENT_S:
            return None
        batch = replace(flow.batch, elapsed_s=flow.batch.elapsed_s + int(since_s))
        return self._note(flow, batch.describe())

    def _note(self, flow: FlowOutcome, text: str) -> Text:
        """A line about a flow below the table."""
        room = self._console.width - _GAP - len(text)
        return Text.assemble((shortened(printable(flow.flow), max(room, _SHORTEST_NAME)), "cyan"), f"  {text}")

    def _rate(self, flow: str) -> float | None:
        """The rate of a stream in its latest report; None if that is old."""
        _, last_at = self._last_batch.get(flow, (0, float("-inf")))
        return self._rates.get(flow) if self._clock() - last_at <= _CURRENT_S else None

    def _age(self, flow: str) -> str:
        """The last batch and how long ago it was; empty before it."""
        if flow not in self._last_batch:
            return ""
        batch_id, last_at = self._last_batch[flow]
        seconds = self._clock() - last_at
        size, unit = next(((size, unit) for size, unit in _AGES if seconds >= size), _AGES[-1])
        return f"#{batch_id}, {seconds / size:.0f} {unit} ago"

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


def _visible(flows: Sequence[FlowOutcome], room: int) -> list[FlowOutcome]:
    """The flows that fit on the screen, in their order: first those that run or have a problem."""
    if len(flows) <= room:
        return list(flows)
    chosen = sorted(flows, key=lambda flow: _ATTENTION.get(flow.state, len(_ATTENTION)))[: max(room - 1, 1)]
    return [flow for flow in flows if flow in chosen]


def _hidden_note(flows: Sequence[FlowOutcome]) -> Text:
    states = Counter(flow.state.value for flow in flows)
    counted = ", ".join(f"{number} {state}" for state, number in states.items())
    return Text(f"{len(flows)} more: {counted}", "dim")


def _lag(flow: FlowOutcome) -> str:
    """What a stream has not read, in the unit of its source; empty if that is unknown."""
    records = sum(partition.behind for partition in flow.lag)
    files = sum(source.files for source in flow.backlog)
    commits = sum(table.commits for table in flow.table_lag)
    found = ((records, "record"), (files, "file"), (commits, "commit"))
    behind = ", ".join(f"{number:,} {unit}{'' if number == 1 else 's'}" for number, unit in found if number)
    return behind or ("none" if flow.lag or flow.backlog or flow.table_lag else "")


def _tally(flow: FlowOutcome) -> str:
    counts = flow.counts
    parts = [f"{counts.rows_written} rows written"]
    parts += [f"{counts.rows_dropped} dropped"] if counts.rows_dropped else []
    parts += [f"{counts.rows_quarantined} quarantined"] if counts.rows_quarantined else []
    parts += [f"{counts.rows_rescued} with rescued data"] if counts.rows_rescued else []
    return f"{', '.join(parts)}, {flow.duration_s:.1f} s"
