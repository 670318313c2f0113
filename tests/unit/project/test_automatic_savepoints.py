"""When updates make savepoints by themselves, and which of them they remove."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import SimpleNamespace

import pytest

from headrace.errors import PipelineError, Problems
from headrace.graph.select import Selection
from headrace.model.outcome import UpdateState
from headrace.model.savepoint_policy import DAY_S, SavepointPolicy
from headrace.project.savepoints.automatic import AutomaticSavepoints
from headrace.storage.savepoints.manifest import Savepoint, SavepointKind

NOW = 100 * DAY_S
COMPLETED = SimpleNamespace(state=UpdateState.COMPLETED)


def saved(days_ago, kind=SavepointKind.SCHEDULED, name=""):
    made_at = NOW - days_ago * DAY_S
    about = {"made_by": None, "pipeline": "shop", "made_with": {}, "code_digest": "", "has_code": False}
    return Savepoint(f"sp-{days_ago}", name, kind, made_at, **about, tables=(), flows=())


@dataclass
class Savepoints:
    """The savepoints of a pipeline, without a storage."""

    known: list = field(default_factory=list)
    changed: bool = True
    error: Exception | None = None

    def all(self):
        return tuple(sorted(self.known, key=lambda one: one.made_at))

    def plan(self, request):
        assert request.savepoint
        return SimpleNamespace(is_needed=self.changed)

    def create(self, request):
        if self.error is not None:
            raise self.error
        self.known.append(saved(0, request.kind))

    def drop(self, savepoint_id):
        self.known = [one for one in self.known if one.id != savepoint_id]


def automatic(savepoints, policy, events=None):
    return AutomaticSavepoints(savepoints, policy, lambda: NOW, ([] if events is None else events).append)


@pytest.mark.parametrize(
    ("policy", "known", "changed", "makes"),
    [
        (SavepointPolicy(), [], True, False),
        (SavepointPolicy(every_s=DAY_S), [], True, True),
        (SavepointPolicy(every_s=DAY_S), [saved(0.5, SavepointKind.MANUAL)], True, False),
        (SavepointPolicy(every_s=DAY_S), [saved(2)], True, True),
        (SavepointPolicy(every_s=0.0), [saved(2)], False, False),
    ],
    ids=["not asked for", "first", "not due", "due", "nothing new"],
)
def test_a_completed_update_makes_one_if_it_is_due_and_something_has_changed(policy, known, changed, makes):
    savepoints = Savepoints([*known], changed)

    automatic(savepoints, policy).after(COMPLETED)

    assert len(savepoints.known) - len(known) == makes


def test_old_ones_and_too_many_are_removed_and_those_of_people_stay():
    kept = saved(90, SavepointKind.MANUAL, "before-march")
    savepoints = Savepoints([kept, saved(9), saved(3), saved(2), saved(1)])

    automatic(savepoints, SavepointPolicy(every_s=0.0, most=3)).after(COMPLETED)

    assert {one.id for one in savepoints.known} == {kept.id, "sp-2", "sp-1", "sp-0"}


def test_an_update_that_clears_makes_one_before_and_a_failure_does_not_stop_it():
    events = []
    unfinished = Problems([PipelineError("SAVEPOINT.UNFINISHED", flow="orders", reason="why")])
    policy = SavepointPolicy(before_clearing=True)
    savepoints = Savepoints()

    automatic(savepoints, policy).before(Selection(refresh=("orders",)))
    automatic(savepoints, policy).before(Selection(full_refresh=("orders",)))
    automatic(Savepoints(error=unfinished), policy, events).before(Selection(full_refresh_all=True))
    automatic(Savepoints(error=OSError(28, "No space left on device")), policy, events).before(
        Selection(full_refresh_all=True)
    )
    automatic(Savepoints(error=PipelineError("SAVEPOINT.NOTHING")), policy, events).before(
        Selection(full_refresh_all=True)
    )

    assert [one.kind for one in savepoints.known] == [SavepointKind.BEFORE_UPDATE]
    assert [event.code for event in events] == ["SAVEPOINT.SKIPPED"] * 2
