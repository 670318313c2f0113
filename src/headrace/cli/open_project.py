"""The project interface that the verbs use, with a session and without.

``status`` and ``events`` work without Spark (D13), so nothing here imports it before a verb needs a session.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from headrace.cli.stored_project import SessionProject
from headrace.cli.stored_stages import PipelineStages
from headrace.errors import PipelineError

# Verbs import what they use: all of this takes longer than `status`.
if TYPE_CHECKING:
    from headrace.events.types import Event
    from headrace.graph.select import Selection
    from headrace.model.outcome import Outcome, UpdateCause
    from headrace.model.preview import Preview
    from headrace.model.replay_preview import ReplayPreview
    from headrace.model.rows import Rows
    from headrace.plan.backfills import BackfillRequest, ReplayRequest
    from headrace.plan.code_diff import CodeDiff
    from headrace.plan.plan_file import PlanFile
    from headrace.plan.steps import Plan
    from headrace.project.adoption.adoption_plan import AdoptionPlan, AdoptRequest
    from headrace.project.adoption.release_plan import ReleasePlan, ReleaseRequest
    from headrace.project.adoption.spark_pipelines import Found
    from headrace.settings.settings import Settings
    from headrace.storage.adopted_tables import Consent, TableRecord


class Described(Protocol):
    """A value that can be shown as text and as JSON."""

    def describe(self) -> str:
        """Stable text."""

    def to_json(self) -> Any:
        """The same as JSON."""


class DescribedGraph(Described, Protocol):
    """A graph, which can also be shown as Mermaid."""

    def to_mermaid(self) -> str:
        """A Mermaid flowchart."""


class Changes(Protocol):
    """Plans of a pipeline as files."""

    def diff(self, plan: Plan) -> CodeDiff:
        """The code of changed flows, as they last ran, against the code of now."""

    def file_of(self, plan: Plan, selection: Selection, made_by: str | None = None) -> PlanFile:
        """A plan as a file that can be approved and applied."""

    def preview_replay(self, request: ReplayRequest) -> ReplayPreview:
        """How many quarantined rows a replay would write."""

    def apply(
        self,
        plan_file: PlanFile,
        name: str,
        *,
        on_event: Callable[[Event], None] | None = None,
        savepoint: bool = True,
    ) -> Outcome:
        """One update, if its plan is still that of the file."""


class Releases(Protocol):
    """The tables that leave a pipeline."""

    def plan(self, request: ReleaseRequest) -> ReleasePlan:
        """What a release would do."""

    def release(self, request: ReleaseRequest) -> ReleasePlan:
        """Release a table."""

    def forget(self, name: str) -> TableRecord:
        """Forget that a table was released."""


class Adoptions(Protocol):
    """The tables that come into a pipeline, and leave it."""

    def plan(self, requests: Sequence[AdoptRequest]) -> Sequence[AdoptionPlan]:
        """What adoptions would do."""

    def find_spark_pipeline(self, folder: str, warehouse: str = "", only: str = "") -> Found:
        """What Spark's own declarative pipelines have left of the project."""

    def adopt(self, requests: Sequence[AdoptRequest]) -> Sequence[AdoptionPlan]:
        """Adopt tables."""

    def allow(self, name: str, consents: frozenset[Consent], *, revoke: bool = False) -> TableRecord:
        """Allow things to be done with an adopted table, or no longer."""

    def claim(self, name: str) -> TableRecord:
        """Make this storage the one whose pipeline writes to a table."""

    def undo(self, name: str) -> TableRecord | None:
        """Undo an adoption that a crash has interrupted."""

    @property
    def releases(self) -> Releases:
        """Lets tables leave the pipeline."""


class OpenProject(SessionProject, Protocol):
    """The part of ``headrace.Project`` that the command line uses; errors are PipelineError and Problems."""

    @property
    def redact(self) -> Callable[[str], str]:
        """Removes the secrets resolved so far from a text."""

    @property
    def changes(self) -> Changes:
        """Plans as files."""

    @property
    def stages(self) -> PipelineStages:
        """Builds stages, compares them and swaps them in."""

    @property
    def adoptions(self) -> Adoptions:
        """Takes tables in, and gives them back."""

    @property
    def continuous(self) -> bool:
        """True if the settings make an update run until it is stopped."""

    def validate(self) -> DescribedGraph:
        """Everything short of writing."""

    def plan(self, selection: Selection) -> Plan:
        """The plan of a run."""

    def run(
        self,
        refresh: Sequence[str] = (),
        full_refresh: Sequence[str] = (),
        *,
        full_refresh_all: bool = False,
        exclude: Sequence[str] = (),
        reset_checkpoint: Sequence[str] = (),
        accept_data_loss: bool = False,
        continuous: bool | None = None,
        cause: UpdateCause = ...,
        request_id: str | None = None,
        on_event: Callable[[Event], None] | None = None,
    ) -> Outcome:
        """One update."""

    def backfill(self, wanted: BackfillRequest, *, on_event: Callable[[Event], None] | None = None) -> Outcome:
        """An update that runs one stream's query as a batch over a range of its input."""

    def replay(self, wanted: ReplayRequest, *, on_event: Callable[[Event], None] | None = None) -> Outcome:
        """An update that checks quarantined rows again with the current rules."""

    def graph(self) -> DescribedGraph:
        """The datasets, the flows and their inputs."""

    def sql(
        self,
        query: str,
        *,
        write: bool = False,
        private: bool = False,
        also: Sequence[str] = (),
        limit: int | None = None,
    ) -> Rows:
        """A query over the pipeline's tables and persisted views."""

    def session(self) -> Any:
        """The Spark session of the project."""

    def preview(self, name: str, rows: int = 20) -> Preview:
        """One dataset computed on real input; nothing is written."""

    def explain(self, name: str) -> Described:
        """The explanation of a dataset."""


class Opener(Protocol):
    """Opens the project of a folder."""

    def __call__(self, directory: Path | None, *, profile: str | None, configuration: Mapping[str, str]) -> OpenProject:
        """The project of the nearest settings file at or above *directory* (default: the working directory)."""


def open_project(directory: Path | None, *, profile: str | None, configuration: Mapping[str, str]) -> OpenProject:
    """The project; its session opens when a verb needs it.

    Raises:
        PipelineError, Problems: the folder or the settings are missing or wrong.
    """
    _check_folder(directory)
    # Imported by name, so that verbs without a session start without Spark.
    project = import_module("headrace.project.open").Project
    opened: OpenProject = project.open(directory, profile=profile, configuration=configuration)
    return opened


@dataclass(frozen=True)
class ProjectLocation:
    """The location of the project, as the options name it; reads settings and the event log without a session."""

    directory: Path | None
    profile: str | None

    def settings(self) -> Settings:
        """The project's settings; read once.

        Raises:
            PipelineError, Problems: they are missing or wrong.
        """
        return self._settings

    @cached_property
    def _settings(self) -> Settings:
        _check_folder(self.directory)
        directory = self.directory or Path.cwd()
        # Imported by name, so that the help starts without it.
        nearest = import_module("headrace.settings.load").nearest_settings
        found: Settings = nearest(directory, profile=self.profile, overrides={}, environ=os.environ)
        return found

    def logs(self) -> Path | None:
        """The folder of log files; None if there is no project, or its storage is not on this machine."""
        try:
            logs = self.settings().layout.logs
        except Exception:  # noqa: BLE001 - called while another error is reported, which this one must not hide
            return None
        return None if "://" in logs else Path(logs)


def _check_folder(directory: Path | None) -> None:
    if directory is not None and not directory.is_dir():
        raise PipelineError("CLI.NO_FOLDER", folder=directory)
