"""A copy of a learner's project, which a check runs and measures."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from headrace.assistant.practice.exercise_data import data_of
from headrace.errors import PipelineError, Problems, problems_of
from headrace.events.types import BatchDone, Event
from headrace.model.names import QualifiedName
from headrace.model.outcome import UpdateState
from headrace.model.state_rows import StateRequest
from headrace.practice.exercise_files import replace_data, write_data
from headrace.practice.task_times import TaskTimer, TaskTimes
from headrace.testing import Pipeline, Result

_MOST_STATE_ROWS = 10_000


class CheckFailed(Exception):
    """The project does not run; ``reason`` says why."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class CheckedProject:
    """A copy of a project with the data of its exercise as it is at the start, and with a storage of its own.

    Args:
        number: of the exercise.
        folder: the learner's project.
        scratch: an empty folder for the copy.

    Raises:
        PipelineError, Problems: the project's settings are missing or wrong.
    """

    def __init__(self, number: int, folder: Path, scratch: Path) -> None:
        self._number = number
        self.pipeline = Pipeline.nearest(folder, scratch)
        self._timer: TaskTimer | None = None
        replace_data(number, self.pipeline.folder)

    def land(self, stage: int) -> None:
        """Add the data of a later stage."""
        write_data(self.pipeline.folder, (data for data in data_of(self._number) if data.stage == stage))

    def update(self) -> Result:
        """Run an update.

        Raises:
            CheckFailed: it does not complete.
        """
        try:
            result = self.pipeline.run(on_event=self._on_event)
        except (PipelineError, Problems) as error:
            reasons = (f"{problem.message}: {problem.detail}" for problem in problems_of(error))
            raise CheckFailed("; ".join(reason.rstrip(": ") for reason in reasons)) from error
        if result.state is not UpdateState.COMPLETED:
            ended = result.outcome.error or {"message": "the update ended early", "code": result.state.value}
            raise CheckFailed(f"{ended['message']} ({ended['code']})")
        return result

    def timed_update(self) -> tuple[Result, TaskTimes]:
        """Run an update, and measure the tasks that it runs."""
        self._timer = TaskTimer(self.pipeline.project.session())
        result = self.update()
        self._timer.observe()
        return result, self._timer.times()

    def rows(self, table: str, columns: Sequence[str]) -> list[tuple[Any, ...]]:
        """The sorted rows of a table, reduced to some columns; a missing column is None."""
        return sorted((tuple(row.get(name) for name in columns) for row in self.pipeline.rows(table)), key=repr)

    def columns(self, table: str) -> list[str]:
        """The columns of a table that has rows."""
        return list(next(iter(self.pipeline.rows(table)), {}))

    def kind(self, table: str) -> str:
        """The kind of a dataset, in words."""
        return next(
            (
                str(dataset.kind.value).replace("_", " ")
                for dataset in self.pipeline.project.graph().datasets
                if str(dataset.name) == table
            ),
            "no dataset",
        )

    def state_rows(self, flow: str) -> int:
        """The rows in the state of a flow; 0 without state."""
        project = self.pipeline.project
        try:
            found = project.checkpoints().state(StateRequest(flow, rows=_MOST_STATE_ROWS), project.session)
        except PipelineError:
            return 0
        return len(found.rows.rows)

    def checkpoint(self, flow: str) -> Path:
        """The checkpoint of a flow that has the name of its table, before any reset."""
        settings = self.pipeline.settings
        dataset: QualifiedName = settings.naming.canonical(flow)
        return Path(settings.layout.checkpoint(settings.naming, dataset, flow, 0))

    def _on_event(self, event: Event) -> None:
        if self._timer is not None and isinstance(event, BatchDone):
            self._timer.observe()
