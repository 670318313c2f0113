"""Quarantined rows by dataset and rule: how many, since when, where they come from, and how they come back.

The page of one dataset has its newest rows, for roles that may see rows: they may be personal data.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

from headrace.errors import PipelineError
from headrace.metrics import catalogue
from headrace.model.names import QUARANTINE_SUFFIX
from headrace.options.nearest import did_you_mean
from headrace.project.inspection.diagnosis.careful_reading import reading_carefully
from headrace.project.inspection.pipeline_view import PipelineView
from headrace.project.inspection.quarantine_counts import OPEN, QuarantineCounts, RuleCounts, quarantine_counts
from headrace.serve.charts import day_bars
from headrace.serve.formats import iso
from headrace.serve.pages.careful import unread_facts
from headrace.serve.pages.paging import part_of
from headrace.serve.pages.waiting_facts import shown_rows
from headrace.serve.pipelines import ServedPipeline
from headrace.serve.render import Page
from headrace.serve.roles import Role

_EACH_PART = 8
_DAYS = 30
_RULES = 50
_QUARANTINE = ["headrace", "quarantine"]


def quarantine_page(pipeline: ServedPipeline, number: int = 1, chosen: str = "", role: Role = Role.VIEWER) -> Page:
    """The page of the quarantines.

    Args:
        pipeline: the pipeline.
        number: the part of the list that is shown.
        chosen: show only this dataset, with its newest waiting rows; empty for all.
        role: of whoever looks.

    Raises:
        PipelineError: SERVE.NO_PAGE if the chosen dataset has no quarantined rows.
    """
    view = pipeline.view()
    rows = open_rows(view)
    if chosen and chosen not in rows:
        what = f'quarantined rows of dataset "{chosen}"'
        raise PipelineError("SERVE.NO_PAGE", what=what, suggestion=did_you_mean(chosen, [*rows]))
    part, paging = part_of([chosen] if chosen else [*rows], number, _EACH_PART)
    counts: dict[str, QuarantineCounts | None] = {}
    with reading_carefully(pipeline.settings.layout) as reading:
        for name in part:
            counts[name] = reading.read(f'the quarantine of "{name}"', partial(_counts, pipeline, name), None)
        waiting = shown_rows(pipeline, reading, chosen, "", role) if chosen else None
    unread = [one for one in view.unread if one.part == "the metrics"]
    datasets = [dataset_facts(name, rows[name], counts[name]) for name in part]
    today = datetime.fromtimestamp(view.as_of, UTC)
    document = {
        "name": pipeline.name,
        "as_of": iso(view.as_of),
        "unread": unread_facts([*unread, *reading.unread]),
        "chosen": chosen or None,
        "rows": sum(number or 0 for number in rows.values()),
        "not_counted": sum(number is None for number in rows.values()),
        "dataset_count": len(rows),
        "days": _DAYS,
        "paging": paging,
        "datasets": datasets,
        "waiting": waiting,
    }
    return Page("quarantine.html", f"Quarantine: {pipeline.name}", document, pictures_of(datasets, today))


def _counts(pipeline: ServedPipeline, name: str) -> QuarantineCounts:
    settings = pipeline.settings
    read = partial(quarantine_counts, settings.layout, settings.naming, name)
    return pipeline.remembered.of(("quarantine", name), read)


def open_rows(view: PipelineView) -> dict[str, int | None]:
    """The open rows of each dataset that has any, the most first; None for a quarantine that was not counted."""
    known = view.samples.of(catalogue.QUARANTINED)
    tables = view.samples.of(catalogue.TABLE_ROWS)
    # If one quarantine cannot be read, none is in the metrics.
    stored = {name.removesuffix(QUARANTINE_SUFFIX) for (name,) in tables if name.endswith(QUARANTINE_SUFFIX)}
    found: dict[str, int | None] = dict.fromkeys(sorted(stored - {name for (name,) in known}))
    found |= {name: int(rows) for (name,), rows in known.items() if rows}
    return dict(sorted(found.items(), key=lambda one: (one[1] is not None, -(one[1] or 0), one[0])))


def dataset_facts(name: str, rows: int | None, counts: QuarantineCounts | None) -> dict[str, Any]:
    """The quarantine of a dataset; None if it cannot be read."""
    known = counts or QuarantineCounts()
    rules = sorted(known.rules.items(), key=lambda one: (-one[1].open, one[0]))
    return {
        "dataset": name,
        # Read a moment later than the metrics; each row counts once.
        "open": known.statuses[OPEN] if counts is not None else rows,
        "is_known": counts is not None,
        "statuses": {status: number for status, number in sorted(known.statuses.items()) if status != OPEN},
        "flows": [{"flow": flow, "open": number} for flow, number in known.flows.most_common(_RULES)],
        "newest_at": _time(known.newest_at),
        "rules": [_rule(name, rule, found) for rule, found in rules[:_RULES]],
        "rule_count": len(rules),
        "origins": [dict(zip(("kind", "name", "open"), one, strict=True)) for one in known.origins_shown],
        "conditions": [{"code": code, "open": number} for code, number in known.conditions.most_common(_RULES)],
        "show": [*_QUARANTINE, "show", name],
        "replay": [*_QUARANTINE, "replay", name],
        "release": [*_QUARANTINE, "replay", name, "--release"],
    }


def _rule(dataset: str, rule: str, counts: RuleCounts) -> dict[str, Any]:
    return {
        "rule": rule,
        "open": counts.open,
        "done": counts.done,
        "days": dict(sorted(counts.days.items())[-_DAYS:]),
        "mend": [*_QUARANTINE, "replay", dataset, "--rule", rule, "--set", "COLUMN=EXPRESSION"],
    }


def pictures_of(datasets: Sequence[Mapping[str, Any]], today: datetime) -> dict[str, Any]:
    """A bar for each of the last days, by dataset and rule."""
    days = [(today - timedelta(days=back)).date().isoformat() for back in reversed(range(_DAYS))]
    return {
        "days": [
            [day_bars([rule["days"].get(day, 0) for day in days]) for rule in dataset["rules"]] for dataset in datasets
        ]
    }


def _time(text: str | None) -> str | None:
    """A time as delta-rs writes it, in ISO 8601; None for something else."""
    if text is None:
        return None
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        return None
    return iso(found if found.tzinfo else found.replace(tzinfo=UTC))
