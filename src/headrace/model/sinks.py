"""Sinks, as declared by the user: targets of flows that are not tables of the pipeline."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from headrace.model.names import Naming, QualifiedName

_EMPTY: Mapping[str, str] = MappingProxyType({})
# The formats of sinks that are not declared by ``create_sink``: a user function that receives each batch, and several
# sinks that receive the same rows.
FOREACH_BATCH = "foreachBatch"
FAN_OUT = "fan_out"


@dataclass(frozen=True)
class SinkDefinition:
    """The definition of a sink.

    Attributes:
        format: the format, as the user spelled it.
        naming: resolves names of tables in the options.
        options: options by name, as the user spelled them; they may contain secrets and are never shown.
        function: the user function that receives each batch and its number.
        members: the sinks that receive the rows of this one.
    """

    format: str
    naming: Naming
    options: Mapping[str, str] = field(default_factory=lambda: _EMPTY, repr=False)
    function: Callable[[Any, int], Any] | None = None
    members: tuple[QualifiedName, ...] = ()
