"""What is in force at a place in a SQL file: parameters, configuration and current schema."""

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
    """Where declarations and problems go; the registry of the project's files is one."""

    naming: Naming
    problems: list[PipelineError]

    def add_dataset(self, dataset: Dataset, function: Callable[[], Any] | None) -> None:
        """Declare a dataset."""

    def add_flow(self, flow: Flow) -> None:
        """Declare a flow."""


@dataclass
class FileState:
    """One SQL file, or the SQL cells of a notebook, while it loads. SET and USE change it for what follows.

    ``values`` are those of ``${name}``, ``parameters`` those of ``:name``.
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
        """Where problems go."""
        return self.declarations.problems

    def name(self, text: str, location: Location, *, used: bool = True) -> QualifiedName:
        """The canonical name behind *text*; what USE has put in force counts unless *used* is false.

        Raises:
            PipelineError: NAME.INVALID.
        """
        try:
            return (self.naming if used else self.declarations.naming).canonical(text)
        except InvalidName as invalid:
            raise PipelineError("NAME.INVALID", location=location, name=text, reason=invalid) from invalid
