"""The diagram of a flow's life says what the table says."""

from __future__ import annotations

import re

from headrace.model.outcome import FlowState
from headrace.runtime import states

NAMES = "|".join(state.value for state in FlowState)


def arrows(diagram):
    """From each state the states that the diagram leads to; a branch begins below the column of its state."""
    found = {}
    columns = {}
    for line in diagram.splitlines():
        words = [(match.start(), match.group()) for match in re.finditer(NAMES, line)]
        if line.startswith(tuple(NAMES.split("|"))):
            chain = [word for _, word in words if "|" not in line]
            chain = chain or [word for _, word in words]
            begin, *rest = chain
            alternatives = " | " in line
            for before, after in [(begin, word) for word in rest] if alternatives else zip(chain, rest, strict=False):
                found.setdefault(before, set()).add(after)
            if not alternatives and begin == "QUEUED":
                columns = dict(words)
        elif "+---> " in line:
            place = line.index("+")
            owner = max((start for start in columns if start <= place), default=None)
            found.setdefault(columns[owner], set()).update(word for _, word in words)
    return found


def test_the_state_diagram_matches_the_transition_table():
    drawn = arrows(states.__doc__.split("\n\n", 1)[1])

    assert drawn == {
        state.value: {target.value for target in targets} for state, targets in states.NEXT.items() if targets
    }


def test_every_flow_state_is_in_the_transition_table():
    assert set(states.NEXT) == set(FlowState)


def test_a_state_is_final_when_it_has_no_outgoing_transition():
    moving = {FlowState.QUEUED, FlowState.STARTING, FlowState.RUNNING, FlowState.IDLE, FlowState.RETRYING}

    assert {state for state in FlowState if not states.is_final(state)} == moving


def test_every_final_state_either_starts_or_blocks_the_readers():
    settled = {state for state in FlowState if states.is_final(state)}

    assert settled == states.CURRENT | states.BLOCKING
    assert not states.CURRENT & states.BLOCKING
