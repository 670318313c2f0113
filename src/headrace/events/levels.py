"""The level of an event, and how stable its format is."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Any, TypeAlias

Json: TypeAlias = "Mapping[str, Any]"


class Level(str, Enum):
    """The level of an event; METRICS is for frequent numbers."""

    INFO = "INFO"
    WARN = "WARN"
    ERROR = "ERROR"
    METRICS = "METRICS"


class Maturity(str, Enum):
    """How stable the format of an event's details is."""

    STABLE = "STABLE"
    EVOLVING = "EVOLVING"
