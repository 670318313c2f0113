"""Where flows deliver rows to that are not tables of the pipeline, as declared by the user."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from headrace.model.names import Naming, QualifiedName

_EMPTY: Mapping[str, str] = MappingProxyType({})
# The formats of sinks that are declared otherwise than by ``create_sink``: a function of the user's that gets each
# batch, and several sinks that get the same rows.
FOREACH_BATCH = "foreachBatch"
FAN_OUT = "fan_out"


@dataclass(frozen=True)
class SinkDefinition:
    """What a sink is made of.

    Attributes:
        format: its kind, as it was spelled.
        naming: what names of tables in the options are read in.
        options: by their names as they were spelled; they may hold secrets, and are shown by nothing.
        function: of the user's, which takes each batch and its number.
        members: the sinks that get the rows of this one.
    """

    format: str
    naming: Naming
    options: Mapping[str, str] = field(default_factory=lambda: _EMPTY, repr=False)
    function: Callable[[Any, int], Any] | None = None
    members: tuple[QualifiedName, ...] = ()
