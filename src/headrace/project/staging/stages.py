"""The stages of a pipeline: what programs and the command line call."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from headrace.delta_log.tables import table_exists
from headrace.errors import PipelineError, Problems
from headrace.events.types import Event
from headrace.model.outcome import Outcome
from headrace.model.table_diff import DiffRequest
from headrace.project.inspection.table_diffs import TableDiffs
from headrace.project.staging.build import CodeProject, StageRequest, begin_flows, new_stage
from headrace.project.staging.compare import StagedTable, compare_stage
from headrace.project.staging.progress import SourceProgress, StagedRows, source_progress, staged_rows
from headrace.project.staging.stage_storage import health, stage_lease, stage_settings
from headrace.project.staging.swaps import StageSwaps
from headrace.project.update.code_version import code_digest
from headrace.settings.settings import Settings
from headrace.storage.stages.manifest import Stage
from headrace.storage.stages.stored import Stages


class PipelineStages:
    """The stages of a pipeline.

    ``swaps`` swaps them in.

    Args:
        settings: the pipeline's.
        environ: the process environment.
        swaps: the pipeline's.
        diffs: compares tables.
        open_project: opens the project of settings, to build a stage.
    """

    def __init__(
        self,
        settings: Settings,
        environ: Mapping[str, str],
        swaps: StageSwaps,
        diffs: TableDiffs,
        open_project: Callable[[Settings], CodeProject],
    ) -> None:
        self.swaps = swaps
        self._settings, self._environ = settings, environ
        self._diffs, self._open_project = diffs, open_project
        self._stored = Stages(settings.layout)

    def all(self) -> tuple[Stage, ...]:
        """All stages that can be read, by name."""
        return self._stored.all()

    def problems(self) -> tuple[PipelineError, ...]:
        """Why other stages cannot be read."""
        return self._stored.problems()

    def find(self, name: str) -> Stage:
        """The stage with a name.

        Raises:
            PipelineError: STAGE.UNKNOWN, STAGE.UNREADABLE.
        """
        return self._stored.find(name)

    def create(
        self, request: StageRequest, *, on_event: Callable[[Event], None] | None = None
    ) -> tuple[Stage, Outcome]:
        """Make a stage and build its datasets from the beginning of their inputs. Production is only read.

        Args:
            request: what to stage.
            on_event: receives every event of the update as it happens.

        Raises:
            PipelineError: STAGE.NAME, STAGE.NAME_TAKEN, STAGE.NOTHING.
            Problems: STAGE.NOT_DEPLOYED, STAGE.UNSUPPORTED; all problems of the project; rows that cannot be read
                again.
        """
        stage = self._new(request)
        self._stored.check_new(stage.name)
        # What a crash has left of another one.
        self._stored.drop(stage.name)
        self._stored.create(stage)
        try:
            return stage, self._build(stage, on_event)
        except (PipelineError, Problems):
            self._stored.drop(stage.name)
            raise

    def run(self, name: str, *, on_event: Callable[[Event], None] | None = None) -> tuple[Stage, Outcome]:
        """Read new data into a stage. If the code has changed, it is built again from the beginning.

        Args:
            name: of the stage.
            on_event: receives every event of the update as it happens.

        Raises:
            PipelineError, Problems: as :meth:`create`; STAGE.UNKNOWN, STAGE.SWAPPING; LEASE.HELD if another process
                builds it.
        """
        self._stored.check_no_swap()
        stage = self._stored.find(name)
        if code_digest(self._settings) != stage.code_digest:
            before = stage
            stage = self._new(StageRequest(before.datasets, name=name, accept_data_loss=before.accept_data_loss))
            self._drop(before)
            self._stored.create(stage)
        return stage, self._build(stage, on_event)

    def rows(self, name: str) -> tuple[StagedRows, ...]:
        """The rows of the tables of a stage, next to those of production.

        Raises:
            PipelineError: STAGE.UNKNOWN, STAGE.UNREADABLE.
        """
        return tuple(staged_rows(self._settings, stage_settings(self._settings, self._stored.find(name))))

    def progress(self, name: str) -> tuple[SourceProgress, ...]:
        """How far the flows of a stage are, next to those of production.

        Raises:
            PipelineError: STAGE.UNKNOWN, STAGE.UNREADABLE.
        """
        stage = self._stored.find(name)
        staged = stage_settings(self._settings, stage)
        return tuple(source_progress(stage, self._settings, staged, health(self._settings), health(staged)))

    def compare(self, name: str, key: tuple[str, ...] = (), examples: int = 0) -> Iterator[StagedTable]:
        """How the tables of a stage differ from those of production, one after the other.

        Args:
            name: of the stage.
            key: the columns that identify a row; those of change data capture if empty.
            examples: the maximum number of examples of a table.

        Raises:
            PipelineError: STAGE.UNKNOWN, STAGE.UNREADABLE, STAGE.NOT_BUILT, STAGE.NOT_DEPLOYED; DIFF.*.
        """
        stage = self._stored.find(name)
        staged = stage_settings(self._settings, stage)
        names = sorted(staged.staged)
        for dataset in names:
            for one, code in ((staged, "STAGE.NOT_BUILT"), (self._settings, "STAGE.NOT_DEPLOYED")):
                if not table_exists(one.layout.table(one.naming, dataset)):
                    raise PipelineError(code, stage=name, name=dataset)
        request = DiffRequest("", key=key, examples=examples)
        return compare_stage(self._settings, staged, names, request, self._diffs.compare_with)

    def drop(self, name: str) -> Stage:
        """Remove a stage; returns what it was.

        Raises:
            PipelineError: STAGE.UNKNOWN, STAGE.UNREADABLE; STAGE.SWAPPING; LEASE.HELD if another process builds it.
        """
        self._stored.check_no_swap()
        stage = self._stored.find(name)
        self._drop(stage)
        return stage

    def _new(self, request: StageRequest) -> Stage:
        return new_stage(self._open_project(self._settings), self._settings, self._environ, request)

    def _build(self, stage: Stage, on_event: Callable[[Event], None] | None) -> Outcome:
        staged = stage_settings(self._settings, stage)
        begin_flows(stage, self._settings, staged)
        return self._open_project(staged).run(stage.datasets, on_event=on_event)

    def _drop(self, stage: Stage) -> None:
        with stage_lease(stage_settings(self._settings, stage), self._environ):
            # Nothing builds it; whoever begins to now has to make it again.
            self._stored.drop(stage.name)
