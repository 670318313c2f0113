"""The law of a flow's stores: positions never go backwards, and transactions never run ahead of them unnoticed."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.tiers import examples

from headrace.plan.agreement import NONE, SOURCE, KnownBatches, KnownTable, find_disagreement

# What a batch does, in this order; an update may die after each of them.
STEPS = ("plan", "commit", "log", "end")
STORES = ("ends", "done", "table", "logged")


@dataclass
class Stores:
    """A stream that copies the numbers of its source, a few a batch, and what each store knows of it."""

    # Of each planned batch the last number that it has read.
    ends: dict[int, int] = field(default_factory=dict)
    done: int = NONE
    # The newest transaction, and the rows.
    table: tuple[int, tuple[int, ...]] = (NONE, ())
    logged: int = NONE

    @property
    def planned(self):
        return max(self.ends, default=NONE)

    def step(self, name, source):
        """One step of the newest batch; *source* is the last number there."""
        number = self.planned
        if name == "plan":
            self.ends[number + 1] = source
        elif name == "commit" and self.table[0] < number:
            # As Delta does: a batch whose number is there is passed over.
            first = self.ends.get(number - 1, 0) + 1
            self.table = (number, (*self.table[1], *range(first, self.ends[number] + 1)))
        elif name == "log":
            self.logged = number
        elif name == "end":
            self.done = number

    def go_on(self, source):
        """What the next update does: the batch that is not done, then one with what is new."""
        if self.done < self.planned:
            for name in STEPS[1:]:
                self.step(name, source)
        for name in STEPS:
            self.step(name, source)

    def find_disagreement(self):
        return find_disagreement(
            KnownBatches(0, 0, self.planned, max(self.done, self.planned - 1), self.table[0], {"the log": self.logged}),
        )


def lived(steps):
    """The states that stores have gone through in so many steps, the last one being that of now; and the source."""
    stores, source = Stores(), 0
    states = [deepcopy(stores)]
    for number in range(steps):
        if number % len(STEPS) == 0:
            source += 3
        stores.step(STEPS[number % len(STEPS)], source)
        states.append(deepcopy(stores))
    return states, source


@given(steps=st.integers(0, 24))
@settings(max_examples=examples(few=25, many=25))
def test_stores_agree_wherever_an_update_crashes(steps):
    states, source = lived(steps)
    stores = states[-1]

    assert stores.find_disagreement() is None
    stores.go_on(source + 3)
    assert stores.table[1] == tuple(range(1, source + 4))


@given(
    steps=st.integers(1, 24),
    restored=st.dictionaries(st.sampled_from(STORES), st.integers(0, 24), min_size=1),
    more=st.integers(0, 2),
)
@settings(max_examples=examples(few=300, many=3000))
def test_restored_store_is_detected_or_harmless(steps, restored, more):
    states, source = lived(steps)
    stores = states[-1]
    for store, back in restored.items():
        setattr(stores, store, deepcopy(getattr(states[min(back, steps)], store)))

    if stores.find_disagreement() is None:
        stores.go_on(source + more)
        assert stores.table[1] == tuple(range(1, source + more + 1))


@pytest.mark.parametrize(
    ("batches", "code"),
    [
        (KnownBatches(committed=0), "FLOW.CHECKPOINT_OLD"),
        (KnownBatches(planned=4, done=4, committed=5), "FLOW.CHECKPOINT_OLD"),
        (KnownBatches(planned=4, done=5, committed=4), "FLOW.CHECKPOINT_OLD"),
        (KnownBatches(planned=4, done=4, committed=None, reported={'the note of sink "s"': 5}), "FLOW.CHECKPOINT_OLD"),
        (KnownBatches(planned=4, done=4, committed=3), "FLOW.TABLE_OLD"),
        (KnownBatches(planned=4, done=3, committed=2), "FLOW.TABLE_OLD"),
        (KnownBatches(epoch=1, newest_epoch=2), "FLOW.RECORD_OLD"),
    ],
)
def test_outdated_store_is_identified(batches, code):
    assert find_disagreement(batches).code == code


@pytest.mark.parametrize(
    ("name", "now", "code"),
    [("table", 6, "FLOW.TABLE_OLD"), ("quarantine", NONE, "FLOW.TABLE_OLD"), (SOURCE, 6, "FLOW.SOURCE_OLD")],
)
def test_table_older_than_the_version_a_flow_has_seen_is_detected(name, now, code):
    assert find_disagreement(KnownBatches(), [KnownTable(name, "/t", 7, now)]).code == code
    assert find_disagreement(KnownBatches(), [KnownTable(name, "/t", 7, 7)]) is None
