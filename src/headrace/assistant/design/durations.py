"""Durations as text: for people, and for code."""

from __future__ import annotations

from math import ceil

from headrace.model.lateness import duration

_UNITS = ((86400, "day"), (3600, "hour"), (60, "minute"), (1, "second"))


def spoken(seconds: float) -> str:
    """A duration for people: ``200 ms``, ``10 seconds``, ``1 day``."""
    return f"{seconds * 1000:g} ms" if 0 < seconds < 1 else duration(seconds)


def interval(seconds: float) -> str:
    """A duration as code writes it: one number and one unit, such as ``90 minutes``."""
    for unit_s, unit in _UNITS:
        if seconds >= unit_s and seconds % unit_s == 0:
            number = int(seconds // unit_s)
            return f"{number} {unit}{'' if number == 1 else 's'}"
    return f"{ceil(seconds * 1000)} milliseconds"
