"""The state at a position in a SQL file: parameters, configuration and current schema."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Protocol

from headrace.errors import PipelineError
from headrace.model.datasets import Dataset, Flow
from headrace.model.location import Location
from headrace.model.names import InvalidName, Naming, QualifiedName

_NONE: Mapping[str, str] = MappingProxyType({})


class Declarations(Protocol):
    """Receives declarations and problems; the registry of the project's files implements it."""

    naming: Naming
    problems: list[PipelineError]

    def add_dataset(self, dataset: Dataset, function: Callable[[], Any] | None) -> None:
        """Declare a dataset."""

    def add_flow(self, flow: Flow) -> None:
        """Declare a flow."""


@dataclass
class FileState:
    """The state of a SQL file, or of a notebook's SQL cells, during loading. SET and USE change it.

    ``values`` are the values of ``${name}``, ``parameters`` those of ``:name``.
    """

    file: str
    declarations: Declarations
    values: dict[str, str]
    naming: Naming
    conf: dict[str, str] = field(default_factory=dict)
    parameters: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def at_start(
        cls,
        file: str,
        declarations: Declarations,
        configuration: Mapping[str, str],
        parameters: Mapping[str, str] = _NONE,
    ) -> FileState:
        """The state before the first statement."""
        return cls(file, declarations, dict(configuration), declarations.naming, parameters=parameters)

    @property
    def problems(self) -> list[PipelineError]:
        """The list that collects problems."""
        return self.declarations.problems

    def name(self, text: str, location: Location, *, used: bool = True) -> QualifiedName:
        """The canonical name for *text*; USE applies unless *used* is false.

        Raises:
            PipelineError: NAME.INVALID.
        """
        try:
            return (self.naming if used else self.declarations.naming).canonical(text)
        except InvalidName as invalid:
            raise PipelineError("NAME.INVALID", location=location, name=text, reason=invalid) from invalid
