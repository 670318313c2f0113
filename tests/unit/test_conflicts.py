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


def test_what_was_computed_from_other_rows_is_computed_again_after_the_fence_was_asked():
    asked = []

    done = recompute_on_conflict(outdated(2), lambda: asked.append("fence"), FLOW)

    assert (done, asked) == ("done", ["fence", "fence"])


def test_nothing_is_computed_again_once_another_update_has_taken_over():
    def taken_over():
        raise PermissionError

    with pytest.raises(PermissionError):
        recompute_on_conflict(outdated(1), taken_over, FLOW)


def test_it_is_given_up_when_others_write_each_time():
    with pytest.raises(PipelineError) as raised:
        recompute_on_conflict(outdated(99), lambda: None, FLOW)

    assert raised.value.code == "CDC.TARGET_CHANGED"
