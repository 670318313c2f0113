"""The states of updates and flows by their events."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from headrace.events.types import TERMINAL_UPDATE_STATES, FlowStateChanged, UpdateCreated, UpdateStateChanged
from headrace.model.liveness import Liveness
from headrace.model.outcome import UpdateState


def flow_states(states: Iterable[Mapping[str, Any]]) -> dict[tuple[str, str], Mapping[str, Any]]:
    """The body of the newest event about the state of each flow in each update."""
    newest = {
        (row["update_id"], row["flow"]): row["details"]
        for row in states
        if row["event_type"] == FlowStateChanged.event_type
    }
    return {flow: json.loads(details)[FlowStateChanged.event_type] for flow, details in newest.items()}


def update_states(states: Iterable[Mapping[str, Any]], liveness: Liveness) -> dict[str, str]:
    """The state of each update whose begin is in the log; LOST if it has no end, and nobody may run it."""
    created: dict[str, str] = {}
    newest: dict[str, str] = {}
    for row in states:
        if row["event_type"] == UpdateCreated.event_type:
            created.setdefault(row["update_id"], row["id"])
        elif row["event_type"] == UpdateStateChanged.event_type:
            newest[row["update_id"]] = json.loads(row["details"])[UpdateStateChanged.event_type]["state"]
    latest = max(created.values(), default="")
    ended = {state.value for state in TERMINAL_UPDATE_STATES}
    found = {}
    for update_id, first in created.items():
        state = newest.get(update_id, "")
        # An older version of Headrace does not record which update its lease is for.
        may_run = liveness.may_run(update_id) and (liveness.update_id is not None or first == latest)
        may_run = may_run or (liveness.checked_after is not None and first > liveness.checked_after)
        running = UpdateState.RUNNING.value if may_run else UpdateState.LOST.value
        found[update_id] = state if state in ended else running
    return found
