"""What only a look at the whole storage finds: unused files, and checkpoints that flows cannot continue on.

It lists folders and reads each checkpoint, so its results are stored, and used for an hour.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from headrace.atomic_write import replace_file
from headrace.delta_log.table_files import live_files, stored_files
from headrace.delta_log.tables import table_state
from headrace.errors import PipelineError
from headrace.events.storage_errors import STORAGE_ERRORS
from headrace.metrics import catalogue
from headrace.metrics.fold import EventFold
from headrace.metrics.samples import Samples
from headrace.plan.inactive import Inactive
from headrace.settings.settings import Settings
from headrace.settings.storage import MonitoringFile
from headrace.storage.health import health_of_flows
from headrace.storage.inactive_parts import inactive_parts
from headrace.storage.inventory import stored_flows, stored_tables

_FORMAT = 1
_USED_FOR_S = 3600.0
_UNREADABLE: tuple[type[Exception], ...] = (PipelineError, ValueError, LookupError, TypeError, *STORAGE_ERRORS)


@dataclass(frozen=True)
class Survey:
    """What the storage had at a time.

    Attributes:
        at: the time in seconds since 1970.
        lease_number: the number of the newest update at that time; -1 for none.
        unreferenced: bytes of old files that the current versions of tables do not have, by table.
        inactive: bytes of what left the code, by dataset and flow; the flow is empty for a whole dataset.
        problems: by flow, the code of what keeps it from continuing.
    """

    at: float
    lease_number: int = -1
    unreferenced: Mapping[str, int] = field(default_factory=dict)
    inactive: Mapping[tuple[str, str], int] = field(default_factory=dict)
    problems: Mapping[str, str] = field(default_factory=dict)

    def is_current(self, now: float, lease_number: int, *, is_held: bool) -> bool:
        """Whether it still holds. Problems are looked for between updates, and again as long as there are any."""
        is_verified = is_held or (lease_number == self.lease_number and not self.problems)
        return is_verified and 0 <= now - self.at < _USED_FOR_S

    def add_to(self, samples: Samples) -> None:
        """Add the metrics."""
        for table, size in self.unreferenced.items():
            samples.set(catalogue.UNREFERENCED, size, table)
        for (dataset, flow), size in self.inactive.items():
            samples.set(catalogue.INACTIVE, size, dataset, flow)
        for flow, code in self.problems.items():
            samples.set(catalogue.CHECKPOINT_PROBLEM, 1, flow, code)


def current_survey(settings: Settings, fold: EventFold, lease_number: int, now: float, *, is_held: bool) -> Survey:
    """The stored survey if it still holds, else a new one, which is stored if this process may write there.

    Args:
        settings: the pipeline's.
        fold: the metrics of its events, read before the lease.
        lease_number: of the newest update; -1 for none.
        now: the time in seconds since 1970.
        is_held: an update is running.
    """
    file = Path(settings.layout.monitoring(MonitoringFile.SURVEY))
    stored = _stored(file)
    if stored is not None and stored.is_current(now, lease_number, is_held=is_held):
        # The running update has verified its checkpoints itself.
        return Survey(stored.at, lease_number, stored.unreferenced, stored.inactive) if is_held else stored
    found = Survey(
        now,
        lease_number if not is_held else -1,
        dict(_unreferenced(settings, now)),
        _inactive(settings, fold),
        {} if is_held else _problems(settings, fold),
    )
    with suppress(OSError):
        replace_file(file, json.dumps(_json_of(found)))
    return found


def _unreferenced(settings: Settings, now: float) -> Mapping[str, int]:
    found: dict[str, int] = {}
    oldest_s = now - settings.maintenance.retain_s
    for name, path in stored_tables(settings.layout, settings.naming):
        with suppress(*_UNREADABLE):
            state = table_state(path)
            if state is None:
                continue
            live = {file.path for file in live_files(path, state.version)}
            # Deletion vectors are small, and only the log knows which are in use.
            stored = (file for file in stored_files(path, state.partition_by) if file.path.endswith(".parquet"))
            old = (file for file in stored if file.modified_s < oldest_s and file.path not in live)
            found[str(name)] = sum(file.size for file in old)
    return found


def _inactive(settings: Settings, fold: EventFold) -> Mapping[tuple[str, str], int]:
    layout, naming = settings.layout, settings.naming
    found: dict[tuple[str, str], int] = {}
    flows = {(str(flow.dataset), flow.name): str(flow.file.parent) for flow in stored_flows(layout, naming)}
    for dataset, flow in sorted(fold.definitions.inactive):
        with suppress(*_UNREADABLE):
            path = flows.get((dataset, flow)) if flow else layout.table(naming, naming.canonical(dataset))
            if path is not None:
                parts = inactive_parts(Inactive(dataset, path, flow or None), layout, naming, frozenset())
                found[dataset, flow] = sum(part.size.size_bytes for part in parts)
    return {key: size for key, size in found.items() if size}


def _problems(settings: Settings, fold: EventFold) -> Mapping[str, str]:
    layout, naming = settings.layout, settings.naming
    names = [(flow.name, str(flow.dataset)) for flow in stored_flows(layout, naming)]
    logged = {key: batch for key in names if (batch := fold.newest_batches.of(*key)) is not None}
    try:
        health = health_of_flows(layout, naming, settings.id, logged)
    except _UNREADABLE:
        # A table that cannot be read is reported by the flows that use it.
        return {}
    known = fold.definitions.flows
    return {one.stored.name: one.problem.code for one in health if one.problem is not None and one.stored.name in known}


def _json_of(survey: Survey) -> dict[str, Any]:
    inactive = [[dataset, flow, size] for (dataset, flow), size in survey.inactive.items()]
    return {"format": _FORMAT, **vars(survey), "inactive": inactive}


def _stored(file: Path) -> Survey | None:
    """The stored survey; None without one, and for a file that is damaged or of another version."""
    try:
        document = json.loads(file.read_bytes())
        if document["format"] != _FORMAT:
            return None
        return Survey(
            float(document["at"]),
            int(document["lease_number"]),
            {str(table): int(size) for table, size in document["unreferenced"].items()},
            {(str(dataset), str(flow)): int(size) for dataset, flow, size in document["inactive"]},
            {str(flow): str(code) for flow, code in document["problems"].items()},
        )
    except (OSError, ValueError, LookupError, TypeError, AttributeError):
        return None
