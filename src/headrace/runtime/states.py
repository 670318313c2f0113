"""The state machine of a flow within an update, as data.

QUEUED ---> STARTING ---> RUNNING ---> COMPLETED
  |            |             |
  |            |             +---> IDLE | FAILED | RETRYING | CANCELED
  |            +---> IDLE | UP_TO_DATE | COMPLETED | FAILED | RETRYING | CANCELED
  +---> SKIPPED | UP_TO_DATE | EXCLUDED | FAILED | CANCELED
IDLE ---> RUNNING | COMPLETED | FAILED | RETRYING | CANCELED
RETRYING ---> STARTING | CANCELED

IDLE is a view of a continuous update until it is checked again.
No flow moves to LOST: readers of the event log use it for a flow whose process is gone.
"""

from __future__ import annotations

from collections.abc import Mapping

from headrace.model.outcome import FlowState

_ENDED = frozenset({FlowState.COMPLETED, FlowState.FAILED, FlowState.RETRYING, FlowState.CANCELED})

NEXT: Mapping[FlowState, frozenset[FlowState]] = {
    FlowState.QUEUED: frozenset(
        {
            *(FlowState.STARTING, FlowState.SKIPPED, FlowState.UP_TO_DATE, FlowState.EXCLUDED),
            *(FlowState.FAILED, FlowState.CANCELED),
        }
    ),
    FlowState.STARTING: _ENDED | {FlowState.RUNNING, FlowState.UP_TO_DATE, FlowState.IDLE},
    FlowState.RUNNING: _ENDED | {FlowState.IDLE},
    FlowState.IDLE: _ENDED | {FlowState.RUNNING},
    FlowState.RETRYING: frozenset({FlowState.STARTING, FlowState.CANCELED}),
    FlowState.COMPLETED: frozenset(),
    FlowState.FAILED: frozenset(),
    FlowState.SKIPPED: frozenset(),
    FlowState.UP_TO_DATE: frozenset(),
    FlowState.CANCELED: frozenset(),
    FlowState.EXCLUDED: frozenset(),
    FlowState.LOST: frozenset(),
}

# Flows downstream of these may start: the tables are as current as they will be in this update.
CURRENT = frozenset({FlowState.COMPLETED, FlowState.UP_TO_DATE, FlowState.EXCLUDED})
# Flows downstream of these are skipped.
BLOCKING = frozenset({FlowState.FAILED, FlowState.SKIPPED, FlowState.CANCELED, FlowState.LOST})
ACTIVE = frozenset({FlowState.STARTING, FlowState.RUNNING})


def is_final(state: FlowState) -> bool:
    """True when a flow in this state cannot change in this update."""
    return not NEXT[state]
