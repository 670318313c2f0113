"""What the verbs use of a project's stages."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

# Verbs import what they use: all of this takes longer than `status`.
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from headrace.errors import PipelineError
    from headrace.events.types import Event
    from headrace.model.outcome import Outcome
    from headrace.plan.plan_file import PlanFile
    from headrace.project.staging.build import StageRequest
    from headrace.project.staging.compare import StagedTable
    from headrace.project.staging.progress import SourceProgress, StagedRows
    from headrace.project.staging.swap_plan import SwapPlan
    from headrace.project.staging.swaps import Swapped, SwapRequest
    from headrace.storage.stages.manifest import Stage


class StageSwaps(Protocol):
    """Swaps stages in."""

    def plan(self, name: str) -> SwapPlan:
        """What a swap would do."""

    def plan_file(self, name: str, *, accept_data_loss: bool = False) -> PlanFile:
        """A swap as a plan that can be approved and applied."""

    def swap(self, request: SwapRequest) -> Swapped:
        """Swap a stage in."""


class PipelineStages(Protocol):
    """The stages of a pipeline."""

    @property
    def swaps(self) -> StageSwaps:
        """Swaps stages in."""

    def all(self) -> Sequence[Stage]:
        """All stages that can be read."""

    def problems(self) -> Sequence[PipelineError]:
        """Why others cannot be read."""

    def find(self, name: str) -> Stage:
        """The stage with a name."""

    def create(
        self, request: StageRequest, *, on_event: Callable[[Event], None] | None = None
    ) -> tuple[Stage, Outcome]:
        """Make a stage and build its datasets."""

    def run(self, name: str, *, on_event: Callable[[Event], None] | None = None) -> tuple[Stage, Outcome]:
        """Read new data into a stage."""

    def rows(self, name: str) -> Sequence[StagedRows]:
        """The rows of the tables of a stage."""

    def progress(self, name: str) -> Sequence[SourceProgress]:
        """How far the flows of a stage are."""

    def compare(self, name: str, key: tuple[str, ...] = (), examples: int = 0) -> Iterable[StagedTable]:
        """How the tables of a stage differ from those of production."""

    def drop(self, name: str) -> Stage:
        """Remove a stage."""
