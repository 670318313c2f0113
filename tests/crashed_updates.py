"""Updates of one project that crash one after the other; in the long tier, each crash in a project of its own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import pytest

from headrace.testing import Crashed, Failpoint

# A point, or a point and how often an update passes it before it dies there.
Death: TypeAlias = Failpoint | tuple[Failpoint, int]


def die_in_turn(verb: Callable[[], Any], pipeline: Any, *deaths: Death) -> Any:
    """Call *verb* once for each death, each time as a new process; returns the pipeline, restarted."""
    for death in deaths:
        point, skip = death if isinstance(death, tuple) else (death, 0)
        pipeline.crash_at(point, skip=skip)
        with pytest.raises(Crashed):
            verb()
        pipeline.restart()
    return pipeline


def in_turn_or_alone(long: pytest.MarkDecorator, *deaths: Death, alone: tuple[Death, ...] = ()) -> list[Any]:
    """Parameters of a test: all deaths one after the other; in the long tier, also each one alone.

    Args:
        long: the mark of those that only the long tier has.
        deaths: they follow each other.
        alone: what is tried alone, where that differs from what follows each other.
    """
    return [
        pytest.param(deaths, id="in turn"),
        *(pytest.param((death,), marks=long, id=_name(death)) for death in alone or deaths),
    ]


def _name(death: Death) -> str:
    return death.value if isinstance(death, Failpoint) else f"{death[0].value} {death[1]}"
