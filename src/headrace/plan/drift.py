"""What has changed since a plan was made, so that it no longer says what an update would do.

Data may arrive meanwhile: versions of tables, new input and the reasons of steps are not compared.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from typing import Any, TypeAlias

from headrace.plan.plan_file import PlanFile

Json: TypeAlias = Mapping[str, Any]

# What is compared of each dataset and flow that is deployed.
DATASET_FACTS = ("table_id", "schema_digest", "properties_digest")
FLOW_FACTS = ("epoch", "fingerprint", "made_with")
# What is compared of each step. Whether a flow starts depends on its input.
_STEP_FACTS: Mapping[str, tuple[str, ...]] = {
    "tables": (
        *("dataset", "change", "columns", "widened", "relaxed", "properties"),
        *("comment", "column_comments", "cluster_by", "loses_rows"),
    ),
    "views": ("dataset", "change"),
    "flows": ("flow", "dataset", "reset"),
    "renames": ("what", "from", "to"),
    "inactive": ("dataset", "flow", "view"),
    "away": ("flow", "dataset", "decision"),
}
_MOVES_WITH_DATA = ("start", "up to date")
_WORDS = {
    "table_id": "is another table",
    "schema_digest": "has other columns",
    "properties_digest": "has other properties",
    "epoch": "is in another epoch",
    "fingerprint": "has run with other code",
    "made_with": "has another state",
}


def early_differences(plan: PlanFile, now: Json, at: datetime) -> tuple[str, ...]:
    """The differences that show before anything is resolved: expiry, pipeline, code, settings and packages.

    Args:
        plan: the plan.
        now: the same facts of now.
        at: the time.
    """
    return tuple(_early(plan.document, now, plan, at))


def differences(plan: PlanFile, now: Json, at: datetime) -> tuple[str, ...]:
    """All differences between a plan and the one that an update would make now, in words; empty if there are none.

    Args:
        plan: the plan.
        now: the document of the plan of now.
        at: the time.
    """
    return (*_early(plan.document, now, plan, at), *_later(plan.document, now), *_rows(plan, now))


def _early(before: Json, now: Json, plan: PlanFile, at: datetime) -> Iterator[str]:
    if at >= plan.expires_at:
        yield f"the plan expired at {before['expires_at']}"
    if before["pipeline_id"] != now["pipeline_id"]:
        yield f"it is the plan of another pipeline, with id {before['pipeline_id']}"
    if before["code"]["digest"] != now["code"]["digest"]:
        changed = sorted(_changed(before["code"]["files"], now["code"]["files"]))
        yield f"the code changed: {', '.join(changed) or 'its files'}"
    if before["settings"]["digest"] != now["settings"]["digest"]:
        profiles = before["settings"]["profile"], now["settings"]["profile"]
        of_profile = f" (profile {profiles[0] or 'none'} then, {profiles[1] or 'none'} now)"
        yield f"the settings differ{of_profile if profiles[0] != profiles[1] else ''}"
    for name in sorted(_changed(before["packages"], now["packages"])):
        yield f"{name} is {now['packages'].get(name, 'missing')} and was {before['packages'].get(name, 'missing')}"


def _later(before: Json, now: Json) -> Iterator[str]:
    if before["selection"] != now["selection"]:
        yield "the selection differs"
    for kind, what, facts in (("datasets", "table", DATASET_FACTS), ("flows", "flow", FLOW_FACTS)):
        old, new = before["base"][kind], now["base"][kind]
        for name in sorted(old.keys() | new.keys()):
            if name not in new or name not in old:
                yield f'{what} "{name}" {"is new" if name in new else "no longer exists"}'
                continue
            yield from (f'{what} "{name}" {_WORDS[fact]}' for fact in facts if old[name][fact] != new[name][fact])
    yield from _set_differences("change", _changes(before), _changes(now))
    yield from _set_differences("step", _steps(before), _steps(now))


def _rows(plan: PlanFile, now: Json) -> Iterator[str]:
    rows = rows_cleared(now)
    if rows > plan.rows_limit:
        yield f"it clears {rows} rows, and the plan allows {plan.rows_limit}"


def rows_cleared(document: Json) -> int:
    """The rows that a plan clears."""
    return sum(int(change["rows_cleared"]) for change in document["changes"])


def _changes(document: Json) -> set[str]:
    found = set()
    for change in document["changes"]:
        flow = f" (flow {change['flow']})" if change["flow"] else ""
        found.add(f"{change['class']} of {change['dataset']}{flow}")
    return {change for change in found if not change.startswith("data ")}


def _steps(document: Json) -> set[str]:
    found = set()
    for kind, facts in _STEP_FACTS.items():
        for step in document["steps"][kind]:
            known = {fact: step[fact] for fact in facts}
            if kind == "flows":
                known["decision"] = "run" if step["decision"] in _MOVES_WITH_DATA else step["decision"]
                known["restart"] = (step["restart"] or {}).get("start")
            found.add(f"{kind} {json.dumps(known, sort_keys=True)}")
    return found


def _set_differences(what: str, before: set[str], now: set[str]) -> Iterator[str]:
    yield from (f"{what} that is no longer planned: {one}" for one in sorted(before - now))
    yield from (f"{what} that was not planned: {one}" for one in sorted(now - before))


def _changed(before: Json, now: Json) -> Iterable[str]:
    return {name for name in before.keys() | now.keys() if before.get(name) != now.get(name)}
