"""Commits that others come before: what is done again, and when it is given up."""

from __future__ import annotations

import pytest

from headrace.errors import PipelineError
from headrace.model.datasets import Flow, PythonQuery
from headrace.model.location import Location
from headrace.model.names import Naming, QualifiedName
from headrace.spark.delta.conflicts import Outdated, recompute_on_conflict

FLOW = Flow("feed", QualifiedName("users"), PythonQuery(lambda: None, Naming()), Location("project.py", 1))


def outdated(times):
    """Work that finds other rows than it was computed from, so often."""
    left = iter([Outdated] * times)

    def work():
        for error in left:
            raise error
        return "done"

    return work


def test_outdated_work_is_recomputed_after_a_check_of_the_fencing_token():
    asked = []

    done = recompute_on_conflict(outdated(2), lambda: asked.append("fence"), FLOW)

    assert (done, asked) == ("done", ["fence", "fence"])


def test_nothing_is_recomputed_after_another_update_takes_over():
    def taken_over():
        raise PermissionError

    with pytest.raises(PermissionError):
        recompute_on_conflict(outdated(1), taken_over, FLOW)


def test_repeated_write_conflicts_raise_an_error():
    with pytest.raises(PipelineError) as raised:
        recompute_on_conflict(outdated(99), lambda: None, FLOW)

    assert raised.value.code == "CDC.TARGET_CHANGED"
