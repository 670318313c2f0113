"""What the verbs use of a project's storage, without a session."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from headrace.stores.paths import StoragePath

# Verbs import what they use: all of this takes longer than `status`.
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from pathlib import Path

    from headrace.assistant.doctor.checklist import Checklist
    from headrace.assistant.doctor.diagnose import Diagnosis
    from headrace.errors import PipelineError
    from headrace.model.erasure import Erasure, ErasureRequest
    from headrace.model.lateness import Lateness
    from headrace.model.maintenance import MaintenanceRequest
    from headrace.model.outcome import FilesBacklog
    from headrace.model.rows import Rows
    from headrace.model.state_rows import StateRequest, StateRows
    from headrace.model.table_diff import DiffRequest, TableDiff
    from headrace.plan.maintenance import Action
    from headrace.plan.steps import Plan
    from headrace.project.clean import Cleaned, CleanRequest
    from headrace.project.inspection.flow_checkpoint import FlowCheckpoint
    from headrace.project.savepoints.create import SavepointRequest
    from headrace.project.savepoints.restore_plan import RestorePlan
    from headrace.project.savepoints.savepoints import Restored, RestoreRequest
    from headrace.storage.health import FlowHealth
    from headrace.storage.savepoints.manifest import Savepoint


class Erasures(Protocol):
    """Finds and erases rows of a pipeline's storage."""

    def find(self, request: ErasureRequest) -> Erasure:
        """What would be erased; nothing is written."""

    def erase(self, request: ErasureRequest) -> Erasure:
        """Erase rows from every place of the storage."""


class PipelineSavepoints(Protocol):
    """The savepoints of a pipeline."""

    def all(self) -> Sequence[Savepoint]:
        """All savepoints that can be read."""

    def problems(self) -> Sequence[PipelineError]:
        """Why others cannot be read."""

    def find(self, name: str) -> Savepoint:
        """The savepoint with an id or a name."""

    def create(self, request: SavepointRequest) -> Savepoint:
        """Make a savepoint."""

    def plan(self, request: RestoreRequest) -> RestorePlan:
        """What a restore would do."""

    def verify(self, name: str) -> Sequence[PipelineError]:
        """Why a savepoint cannot be restored, or not completely."""

    def restore(self, request: RestoreRequest) -> Restored:
        """Restore a savepoint."""

    def drop(self, name: str) -> Savepoint:
        """Remove a savepoint."""

    def write_code(self, savepoint: Savepoint, folder: Path) -> int:
        """Write the code of a savepoint into a new folder; returns the number of files."""


class TableDiffs(Protocol):
    """Compares versions of tables."""

    def compare(self, request: DiffRequest) -> TableDiff:
        """How two versions of a table differ."""


class Checkpoints(Protocol):
    """The checkpoints of a pipeline."""

    def health(self) -> tuple[FlowHealth, ...]:
        """Every flow of the storage, and the problem that stops it, if there is one."""

    def show(self, name: str) -> FlowCheckpoint:
        """The checkpoint of a flow."""

    def state(self, request: StateRequest, session: Callable[[], Any]) -> StateRows:
        """The rows of a flow's state."""

    def repair(self, name: str) -> tuple[StoragePath, ...]:
        """Move away damaged files that a flow does not need."""

    def clean(self, request: CleanRequest, plan: Callable[[], Plan]) -> Cleaned:
        """Remove checkpoints of old epochs, and what left the code."""


class Doctor(Protocol):
    """Examines a pipeline."""

    def diagnose(self, name: str | None = None) -> Diagnosis:
        """What is wrong with the pipeline, or with a flow or dataset of it."""

    def check(self) -> Checklist:
        """Whether the pipeline meets the success criteria."""


class StoredProject(Protocol):
    """The part of a project that reads its storage without a session."""

    def doctor(self) -> Doctor:
        """Examines the pipeline."""

    def quarantine_list(self) -> Sequence[tuple[str, int, Mapping[str, int]]]:
        """Per dataset: its name, its quarantined rows, and the number of rows per violated rule."""

    def lateness(self, name: str, column: str, *, commits: int, dropped_share: float) -> Lateness:
        """How late the rows of a table arrived."""

    def files(self, name: str) -> Rows:
        """The files that Auto Loader has seen for a dataset."""

    def files_to_read(self, name: str) -> Iterable[FilesBacklog]:
        """Per flow of a dataset, the files that Auto Loader has found and not read yet."""

    def checkpoints(self) -> Checkpoints:
        """The checkpoints of the pipeline."""

    def quarantine_show(self, name: str, rows: int) -> Rows:
        """Quarantined rows."""

    def maintain(self, request: MaintenanceRequest, plan: Callable[[], Plan]) -> Sequence[Action]:
        """Maintain the storage; returns what was done, skipped or planned."""


class SessionProject(StoredProject, Protocol):
    """The part of a project that needs a session, and not the project's code."""

    @property
    def erasures(self) -> Erasures:
        """Finds and erases rows."""

    @property
    def savepoints(self) -> PipelineSavepoints:
        """Makes, checks and restores savepoints."""

    @property
    def diffs(self) -> TableDiffs:
        """Compares versions of tables."""
