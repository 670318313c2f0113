"""The result of an update as text: for the end of ``run`` and for ``status``."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from rich.cells import cell_len

from headrace.cli.failures import error_from_json
from headrace.cli.printable import printable
from headrace.cli.tables import text_table
from headrace.cli.terminal import folded
from headrace.model.expectations import Action
from headrace.model.outcome import (
    ChangeCounts,
    FilesBacklog,
    FlowCounts,
    FlowOutcome,
    FlowState,
    Outcome,
    UpdateState,
    unselected_text,
)

# A failed update is one screen (D17).
FAILURE_LINES = 25
_ACTION_RESULTS = {
    Action.WARN: "kept",
    Action.DROP: "dropped",
    Action.QUARANTINE: "quarantined",
    Action.FAIL: "failed the flow",
}
# From this share of NULL overwrites on, the events may be partial.
_MANY_BLANKS = 0.1
# From this share of single-column changes on, that column may be noise.
_MANY_LONE = 0.5
_COLUMNS = ("state", "written", "dropped", "quarantined", "seconds")
_OPTIONAL = ("dropped", "quarantined")
# The states that matter most in a failed update.
_URGENCY = (FlowState.FAILED, FlowState.SKIPPED, FlowState.CANCELED)


def log_of(outcome: Outcome, folder: Path | None) -> Path | None:
    """The log file of a failed update, or the folder of logs; None if there is neither, or it did not fail."""
    if outcome.state is not UpdateState.FAILED or folder is None or not folder.is_dir():
        return None
    own = folder / f"{outcome.update_id}.log"
    return own if own.is_file() else folder


def outcome_text(outcome: Outcome, *, log: Path | None = None, width: int | None = None) -> str:
    """The update, its flows, and dropped and quarantined rows; for a failed update the error first, on one screen.

    Flows outside of the selection are one line. *width* is that of the terminal, None for lines of any length.
    """
    if outcome.state is UpdateState.FAILED:
        return "\n".join(_failure(outcome, log, width))
    lines = _headline(outcome, width)
    flows = _selected(outcome)
    if flows:
        lines.append(_table(flows, width))
    notes = (*_unselected_line(outcome), *_batch_lines(outcome), *_lag_lines(outcome))
    notes += (*_violation_lines(outcome), *_reasons(outcome))
    return "\n".join([*lines, *(folded(note, width) for note in notes)])


def _failure(outcome: Outcome, log: Path | None, width: int | None) -> Iterator[str]:
    error: dict[str, Any] = outcome.error or {"code": "UPDATE", "message": "the update failed"}
    where = folded(f"log: {log}", width).split("\n") if log else []
    lines = error_from_json(error, limit=FAILURE_LINES // 2, width=width) + where + _headline(outcome, width)
    yield from lines
    room = FAILURE_LINES - len(lines)
    # The table has two header lines, and maybe a line with the number of omitted flows.
    flows = sorted(_selected(outcome), key=_urgency)
    shown = flows if len(flows) + 2 <= room else flows[: max(room - 3, 0)]
    if shown:
        yield _table(shown, width)
    if len(shown) < len(flows):
        yield f"({len(flows) - len(shown)} more flows, see `headrace status --output json`)"
        return
    notes = (*_unselected_line(outcome), *_violation_lines(outcome), *_reasons(outcome))
    yield from [line for note in notes for line in folded(note, width).split("\n")][: max(room - len(shown) - 2, 0)]


def _selected(outcome: Outcome) -> list[FlowOutcome]:
    return [flow for flow in outcome.flows if not flow.is_unselected]


def _unselected_line(outcome: Outcome) -> list[str]:
    number = sum(flow.is_unselected for flow in outcome.flows)
    return [unselected_text(number)] if number else []


def _batch_lines(outcome: Outcome) -> Iterator[str]:
    """The long batches that run now."""
    for flow in outcome.flows:
        if flow.batch is not None:
            yield f"{printable(flow.flow)}  {flow.batch.describe()}"


def _headline(outcome: Outcome, width: int | None) -> list[str]:
    start = outcome.started_at.strftime("%Y-%m-%d %H:%M:%S %Z").strip()
    result = f"update {outcome.update_id} {outcome.state.value}"
    if outcome.ended_at is not None and outcome.state is not UpdateState.LOST:
        result += f" in {(outcome.ended_at - outcome.started_at).total_seconds():.1f} s"
    lines = [result, f"started {start} ({printable(outcome.cause)})"]
    if outcome.state is UpdateState.LOST:
        lines.append("Its process ended without a result. `headrace run` continues where it stopped.")
    return folded("\n".join(lines), width).split("\n")


def _table(flows: Sequence[FlowOutcome], width: int | None) -> str:
    """The flows; with their datasets only if a name differs, so that the table fits on most terminals."""
    names = ["flow", "dataset"] if any(flow.dataset != flow.flow for flow in flows) else ["flow"]
    rows = [{"flow": flow.flow, "dataset": flow.dataset, **_row(flow)} for flow in flows]
    columns = [*names, *_COLUMNS]
    text = text_table(columns, [[row[name] for name in columns] for row in rows])
    if width is None or max(map(cell_len, text.split("\n"))) <= width:
        return text
    # Long names need the room of counts that are all zero.
    columns = [*names, *(name for name in _COLUMNS if name not in _OPTIONAL or any(row[name] for row in rows))]
    return text_table(columns, [[row[name] for name in columns] for row in rows], width=width)


def _row(flow: FlowOutcome) -> dict[str, Any]:
    counts = flow.counts
    return {
        "state": flow.state.value,
        "written": counts.rows_written,
        "dropped": counts.rows_dropped,
        "quarantined": counts.rows_quarantined,
        "seconds": round(flow.duration_s, 1),
    }


def _lag_lines(outcome: Outcome) -> Iterator[str]:
    """The partitions and files that a flow had not fully read when its lag was last measured."""
    for flow in outcome.flows:
        late = [partition for partition in flow.lag if partition.behind]
        if late:
            total = sum(partition.behind for partition in late)
            partitions = ", ".join(f"{one.topic} {one.partition}: {one.behind}" for one in late)
            yield printable(f"{flow.flow} is {total} offset{'' if total == 1 else 's'} behind ({partitions})")
        yield from (f"{printable(flow.flow)}: {line}" for line in backlog_lines(flow.backlog))
        for table in flow.table_lag:
            if table.commits:
                rows = "" if table.rows is None else f", {table.rows} row{'' if table.rows == 1 else 's'}"
                commits = f"{table.commits} commit{'' if table.commits == 1 else 's'}"
                yield printable(f"{flow.flow} is {commits} of {table.source} behind{rows}")
        for source in flow.source_lag:
            known = ", ".join(f"{value:g} {name}" for name, value in source.behind.items() if value)
            if known:
                yield printable(f"{flow.flow} is behind {source.source}: {known}")


def backlog_lines(backlog: Iterable[FilesBacklog]) -> Iterator[str]:
    """For each source with unread files, their number."""
    for one in backlog:
        if one.files:
            files = f"{one.files} file{'' if one.files == 1 else 's'}"
            yield printable(f"{one.source} has {files} to read ({one.size} bytes)")


def _violation_lines(outcome: Outcome) -> Iterator[str]:
    for flow in outcome.flows:
        for count in flow.counts.expectations:
            if count.failed:
                rows = "1 row" if count.failed == 1 else f"{count.failed} rows"
                result = _ACTION_RESULTS[count.action]
                yield printable(f'{flow.dataset}: {rows} violated "{count.name}" ({result})')
        if flow.counts.rows_rescued:
            share = flow.counts.rows_rescued / max(flow.counts.rows_written, 1)
            rows = f"{flow.counts.rows_rescued} of {flow.counts.rows_written} rows ({share:.1%})"
            yield printable(f"{flow.dataset}: {rows} have rescued data")
        removed = sum(operator.duplicates_removed for operator in flow.operators)
        if removed:
            yield printable(f"{flow.dataset}: {removed} duplicate{'' if removed == 1 else 's'} removed")
        for line in _change_lines(flow.counts):
            yield printable(f"{flow.dataset}: {line}")
    if any(flow.counts.rows_quarantined for flow in outcome.flows):
        yield "to list quarantined rows: `headrace quarantine list`"


def _change_lines(counts: FlowCounts) -> Iterator[str]:
    changes = counts.changes or ChangeCounts()
    if changes.tied:
        events = "1 event" if changes.tied == 1 else f"{changes.tied} events"
        yield f"{events} lost a tie on key and sequence (see headrace.cdc.on_tie)"
    if changes.late:
        events = "1 event" if changes.late == 1 else f"{changes.late} events"
        yield f"{events} may have arrived after their tombstones expired"
    blanks = changes.null_overwrites or 0
    if blanks and blanks >= _MANY_BLANKS * counts.rows_written:
        yield f"{blanks} of {counts.rows_written} events overwrote a value with NULL"
        yield "for partial events, set ignore_null_updates or columns_to_update"
    lone, new = changes.lone_changes or 0, changes.new_versions or 0
    if changes.lone_column is not None and _MANY_LONE * new <= lone <= new:
        yield f'{lone} of {new} new versions change only one column, most often "{changes.lone_column}"'
        yield "to ignore changes of that column, set track_history_column_list"


def _reasons(outcome: Outcome) -> Iterator[str]:
    for flow in outcome.flows:
        if flow.reason and flow.state in _URGENCY:
            yield printable(f"{flow.flow}  {flow.state.value.lower()}  {flow.reason}")


def _urgency(flow: FlowOutcome) -> int:
    return _URGENCY.index(flow.state) if flow.state in _URGENCY else len(_URGENCY)
