"""Maintenance: what was done, what is due by now, and what the settings say."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from headrace.events.reader import EventReader
from headrace.events.recorded import Recorded, recorded_rows
from headrace.events.upkeep import TableMaintained
from headrace.metrics import catalogue
from headrace.metrics.dataset_health import Health
from headrace.metrics.samples import Samples
from headrace.model.maintenance import DAY_S, OF_CHECKPOINTS, MaintenancePolicy, Task
from headrace.plan.maintenance import ActionState
from headrace.project.inspection.diagnosis.careful_reading import reading_carefully
from headrace.serve.formats import iso
from headrace.serve.pages.careful import unread_facts
from headrace.serve.pages.paging import part_of
from headrace.serve.pipelines import ServedPipeline
from headrace.serve.render import Page
from headrace.settings.storage import MonitoringFile

_EACH_PART = 20
_RECORDED = 300
_RUNS = 10
_ACTIONS = 50
_LEFT = 50
_MARKS = {
    ActionState.DONE.value: Health.OK.value,
    ActionState.PLANNED.value: "info",
    ActionState.SKIPPED.value: Health.WARN.value,
    ActionState.FAILED.value: Health.BAD.value,
}
_FREEING = frozenset(task.value for task in (Task.VACUUM, Task.RETENTION, *OF_CHECKPOINTS))


def maintenance_page(pipeline: ServedPipeline, number: int = 1) -> Page:
    """The page of the maintenance; *number* is the part of the tables whose due actions are shown."""
    view, settings = pipeline.view(), pipeline.settings

    def due_now() -> tuple[list[str], dict[str, Any], list[dict[str, Any]]]:
        chosen: list[tuple[Sequence[str], dict[str, Any]]] = []

        def choose(names: Sequence[str]) -> Sequence[str]:
            chosen.append(part_of(by_need(names, view.samples), number, _EACH_PART))
            return chosen[0][0]

        actions = pipeline.due_maintenance(choose)
        return [*chosen[0][0]], chosen[0][1], [action_facts(one.to_json()) for one in actions]

    operations = EventReader(settings.layout.monitoring(MonitoringFile.OPERATIONS))
    with reading_carefully(settings.layout) as reading:
        recorded = reading.read("the log of maintenance", lambda: _recorded(operations), [])
        nothing: tuple[list[str], dict[str, Any], list[dict[str, Any]]] = ([], part_of((), 1, _EACH_PART)[1], [])
        remembered = pipeline.remembered
        tables, paging, due = reading.read("what is due", lambda: remembered.of(("due", number), due_now), nothing)
    document = {
        "name": pipeline.name,
        "as_of": iso(view.as_of),
        "unread": unread_facts(reading.unread),
        "policy": policy_facts(settings.maintenance),
        "paging": paging,
        "tables": tables,
        "due": due,
        **done_facts(recorded),
        **left_facts(view.samples),
    }
    return Page("maintenance.html", f"Maintenance: {pipeline.name}", document)


def by_need(names: Iterable[str], samples: Samples) -> list[str]:
    """Datasets, those first that most probably need something: with bytes to free, then with many files."""
    files, unused = samples.of(catalogue.TABLE_FILES), samples.of(catalogue.UNREFERENCED)
    return sorted(names, key=lambda name: (-unused.get((name,), 0), -files.get((name,), 0), name))


def done_facts(recorded: Iterable[Recorded]) -> dict[str, Any]:
    """The newest maintenances with their sums, and the newest actions."""
    runs: dict[str, dict[str, Any]] = {}
    actions = []
    for one in recorded:
        if not isinstance(one.event, TableMaintained):
            continue
        event = one.event
        facts = action_facts({**_event_facts(event), "at": iso(one.at)})
        actions.append(facts)
        # Newest first: the first event of a run that is met is its last one.
        run = runs.setdefault(one.update_id, {"run": one.update_id, "ended_at": iso(one.at), **_NO_ACTIONS})
        run["started_at"] = iso(one.at)
        run[event.state.lower()] = run.get(event.state.lower(), 0) + 1
        run["freed_bytes"] += _freed(facts)
    newest = list(runs.values())[:_RUNS]
    for run in newest:
        run["mark"] = Health.BAD.value if run["failed"] else Health.OK.value
    return {"runs": newest, "actions": actions[:_ACTIONS]}


_NO_ACTIONS: Mapping[str, int] = {"done": 0, "skipped": 0, "failed": 0, "freed_bytes": 0}


def action_facts(action: Mapping[str, Any]) -> dict[str, Any]:
    """An action with its mark."""
    return {**action, "mark": _MARKS.get(action["state"], Health.UNKNOWN.value)}


def left_facts(samples: Samples) -> dict[str, Any]:
    """What maintenance can free beside the files of tables: old epochs, and what left the code."""
    epochs = [
        {"flow": labels[0], "epochs": int(number)}
        for labels, number in sorted(samples.of(catalogue.OLD_EPOCHS).items(), key=lambda one: -one[1])
        if number
    ]
    inactive = [
        {"dataset": dataset, "flow": flow or None, "bytes": size}
        for (dataset, flow), size in sorted(samples.of(catalogue.INACTIVE).items(), key=lambda one: -one[1])
    ]
    return {
        "unreferenced_bytes": sum(samples.of(catalogue.UNREFERENCED).values()),
        "free_bytes": samples.of(catalogue.FREE).get(()),
        "old_epochs": epochs[:_LEFT],
        "inactive": inactive[:_LEFT],
    }


def policy_facts(policy: MaintenancePolicy) -> dict[str, Any]:
    """What the settings say."""
    return {
        "window": None if policy.window is None else str(policy.window),
        "max_minutes": None if policy.most_s is None else policy.most_s / 60,
        "vacuum": policy.vacuum.value,
        "retain_days": policy.retain_s / DAY_S,
        "quarantine_days": policy.rows_retain_s / DAY_S,
        "open_quarantine_days": _days(policy.open_rows_retain_s),
        "log_days": policy.logs_retain_s / DAY_S,
        "epoch_days": _days(policy.epochs_retain_s),
        "inactive_days": _days(policy.inactive_retain_s),
    }


def _days(seconds: float | None) -> float | None:
    return None if seconds is None else seconds / DAY_S


def _recorded(reader: EventReader) -> list[Recorded]:
    if not reader.exists:
        return []
    return recorded_rows(reader, f"event_type = '{TableMaintained.event_type}'", f"id DESC LIMIT {_RECORDED}")


def _event_facts(event: TableMaintained) -> dict[str, Any]:
    return {
        "table": event.dataset,
        "path": event.path,
        "task": event.task,
        "state": event.state,
        "reason": event.reason,
        "files_before": event.files_before,
        "bytes_before": event.bytes_before,
        "files_after": event.files_after,
        "bytes_after": event.bytes_after,
        "rows": event.rows,
    }


def _freed(action: Mapping[str, Any]) -> int:
    """The bytes that an action has removed; a rewrite leaves the old files until they are vacuumed."""
    before, after = action["bytes_before"], action["bytes_after"]
    is_freeing = action["task"] in _FREEING and action["state"] == ActionState.DONE.value
    return before - after if is_freeing and before is not None and after is not None else 0
