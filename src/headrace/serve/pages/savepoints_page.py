"""Savepoints: what each has, what has changed since, and the command that says what a restore would do."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from headrace.errors import PipelineError
from headrace.metrics import catalogue
from headrace.metrics.samples import Samples
from headrace.model.names import QUARANTINE_SUFFIX
from headrace.options.nearest import did_you_mean
from headrace.project.inspection.diagnosis.careful_reading import CarefulReading, reading_carefully
from headrace.serve.formats import iso, plural
from headrace.serve.pages.careful import unread_facts
from headrace.serve.pages.facts import value_of
from headrace.serve.pages.paging import part_of
from headrace.serve.pipelines import ServedPipeline
from headrace.serve.render import Page
from headrace.storage.flow_stores import QUARANTINE
from headrace.storage.savepoints.manifest import SavedFlow, SavedTable, Savepoint
from headrace.storage.savepoints.stored import Savepoints

_EACH_PART = 10
_ROWS = 200
_RESTORE = ["headrace", "savepoint", "restore"]


@dataclass(frozen=True)
class Since:
    """How the tables of a savepoint differ from those of now, as far as that is known."""

    changed: int
    same: int
    unknown: int
    commits: int
    replaced: int

    @property
    def sentence(self) -> str:
        """In words."""
        if not (self.changed or self.replaced):
            return "Nothing is known of its tables now." if self.unknown else "No table has changed since."
        parts = []
        if self.changed:
            parts.append(f"{plural(self.changed, 'table')} changed, by {plural(self.commits, 'commit')}")
        if self.replaced:
            parts.append(f"{plural(self.replaced, 'table')} went back or was replaced")
        return f"{' and '.join(parts)} since."


def savepoints_page(pipeline: ServedPipeline, number: int = 1, chosen: str = "") -> Page:
    """The page of the savepoints, or of one of them.

    Args:
        pipeline: the pipeline.
        number: the part of the list that is shown.
        chosen: the id or the name of a savepoint, whose tables and flows are shown; empty for the list.

    Raises:
        PipelineError: SERVE.NO_PAGE if the chosen one is unknown.
    """
    view, stored = pipeline.view(), Savepoints(pipeline.settings.layout)
    with reading_carefully(pipeline.settings.layout) as reading:
        ids = reading.read("the savepoints", stored.ids, ())
        part, paging = part_of(_chosen(ids, stored, reading, chosen) if chosen else ids, number, _EACH_PART)
        found = [one for savepoint in part if (one := _read(reading, stored, savepoint)) is not None]
        restoring = reading.read("an interrupted restore", partial(_restoring, stored), None)
    if chosen and not found and not reading.unread:
        raise PipelineError("SERVE.NO_PAGE", what=f'savepoint "{chosen}"', suggestion=did_you_mean(chosen, [*ids]))
    document = {
        "name": pipeline.name,
        "as_of": iso(view.as_of),
        "unread": unread_facts(reading.unread),
        "restoring": restoring,
        "chosen": chosen or None,
        "paging": paging,
        "savepoints": [savepoint_facts(one, view.samples) for one in found],
        **(one_facts(found[0], view.samples) if chosen and found else {"tables": [], "flows": []}),
    }
    return Page("savepoints.html", f"Savepoints: {pipeline.name}", document)


def savepoint_facts(savepoint: Savepoint, samples: Samples) -> dict[str, Any]:
    """A savepoint of the list, with what has changed since."""
    since = since_of(savepoint.tables, samples)
    pinned = sum(table.pinned for table in savepoint.tables)
    return {
        "id": savepoint.id,
        "name": savepoint.name or None,
        "kind": savepoint.kind.value,
        "made_at": iso(savepoint.made_at),
        "made_by": savepoint.made_by,
        "made_with": dict(sorted(savepoint.made_with.items())),
        "plan_id": savepoint.plan_id or None,
        "has_code": savepoint.has_code,
        "table_count": len(savepoint.tables),
        "flow_count": len(savepoint.flows),
        "rows": _sum(table.rows for table in savepoint.tables),
        "bytes": savepoint.size_bytes,
        "pinned": pinned,
        "held": len(savepoint.tables) - pinned,
        "changed_tables": since.changed + since.replaced,
        "since": since.sentence,
        "mark": "unknown" if since.unknown and not since.changed else "ok",
        "dry_run": [*_RESTORE, savepoint.name or savepoint.id, "--dry-run"],
        "verify": ["headrace", "savepoint", "verify", savepoint.name or savepoint.id],
    }


def one_facts(savepoint: Savepoint, samples: Samples) -> dict[str, Any]:
    """The tables and flows of a savepoint, those first that have changed most since."""
    tables = sorted((_table(table, samples) for table in savepoint.tables), key=lambda one: -(one["commits"] or 0))
    return {"tables": tables[:_ROWS], "flows": [_flow(flow) for flow in savepoint.flows[:_ROWS]]}


def since_of(tables: Iterable[SavedTable], samples: Samples) -> Since:
    """How tables differ from those of now."""
    changed = same = unknown = commits = replaced = 0
    for table in tables:
        now = value_of(samples, catalogue.TABLE_VERSION, _measured_name(table))
        if now is None:
            unknown += 1
        elif now < table.version:
            replaced += 1
        elif now > table.version:
            changed += 1
            commits += int(now) - table.version
        else:
            same += 1
    return Since(changed, same, unknown, commits, replaced)


def _table(table: SavedTable, samples: Samples) -> dict[str, Any]:
    version = value_of(samples, catalogue.TABLE_VERSION, _measured_name(table))
    return {
        "table": table.name,
        "dataset": table.dataset,
        "version": table.version,
        "version_now": None if version is None else int(version),
        "commits": None if version is None or version < table.version else int(version) - table.version,
        "rows": table.rows,
        "rows_now": value_of(samples, catalogue.TABLE_ROWS, _measured_name(table)),
        "bytes": table.size_bytes,
        "files": table.files,
        "is_pinned": table.pinned,
    }


def _measured_name(table: SavedTable) -> str:
    """The name under which the metrics have a table."""
    return table.dataset + QUARANTINE_SUFFIX if table.role == QUARANTINE else table.name


def _flow(flow: SavedFlow) -> dict[str, Any]:
    return {
        "flow": flow.name,
        "dataset": flow.dataset,
        "epoch": flow.epoch,
        "batch": flow.batch,
        "bytes": flow.size_bytes,
        "is_sink": flow.is_sink,
    }


def _chosen(ids: Sequence[str], stored: Savepoints, reading: CarefulReading, chosen: str) -> Sequence[str]:
    if chosen in ids:
        return [chosen]
    # A name is in the file of its savepoint alone.
    return [one.id for one in reading.read("the savepoints", stored.all, ()) if one.name == chosen]


def _read(reading: CarefulReading, stored: Savepoints, savepoint: str) -> Savepoint | None:
    return reading.read(f"savepoint {savepoint}", partial(stored.read, savepoint), None)


def _restoring(stored: Savepoints) -> dict[str, Any] | None:
    """The restore that was interrupted; None without one."""
    try:
        document = json.loads(stored.restoring_file.read_text(encoding="utf-8"))
    except (FileNotFoundError, NotADirectoryError):
        return None
    return {"savepoint": str(document["savepoint"]), "datasets": [str(name) for name in document["datasets"]]}


def _sum(values: Iterable[int | None]) -> int | None:
    known = [value for value in values if value is not None]
    return sum(known) if known else None
